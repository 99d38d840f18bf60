"""Answers and their figures: annotators change them, they survive a crash, and forgetting an example removes them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hinged.service.edge.keys import create_key
from tests.helpers.http_client import BASE, AskedModel, Asking, bearer, refusal
from tests.helpers.questions import LINE, asked, label, line_model, offered
from tests.helpers.server import RunningServer, eventually

COUNTS = ("labelled", "skipped", "changed", "predicted", "as_predicted", "compared", "agreed", "shared")
ZERO = dict.fromkeys(COUNTS, 0) | {"kappa": None, "reliability": None}


@pytest.fixture
def model(ask):
    found = line_model(ask)
    offered(found, LINE)
    return found


def answered(model, annotator="ann", y="right", **more):
    """Ask a question and answer it; return its id."""
    (question,) = asked(model, annotator, **more)
    answer = label(model, {"id": question["id"], "y": y, "lease": question["lease"]})
    assert answer.status_code == 200, answer.text
    return question["id"]


def answers(model, **params):
    return model.ask("GET", f"{model.path}/answers", params=params).json()


def change(model, given, y, annotator="ann"):
    return model.ask("PUT", f"{model.path}/answers/{given}", json={"annotator": annotator, "y": y})


def test_answers_are_listed_newest_first_with_the_models_predictions(model):
    first, second = answered(model), answered(model, "bob", "left")
    found = answers(model)
    assert [(a["id"], a["annotator"], a["label"], a["learned"]) for a in found["answers"]] == [
        (second, "bob", "left", True),
        (first, "ann", "right", True),
    ]
    assert all(a["prediction"] in ("left", "right") for a in found["answers"])
    assert [a["id"] for a in answers(model, annotator="ann")["answers"]] == [first]
    assert len(answers(model, n=1)["answers"]) == 1
    as_predicted = sum(a["prediction"] == a["label"] for a in found["answers"])
    tallies = found["annotators"]
    assert {t["labelled"] for t in tallies.values()} == {t["predicted"] for t in tallies.values()} == {1}
    assert sum(t["as_predicted"] for t in tallies.values()) == as_predicted
    assert found["answered"] == 2


def test_streamed_examples_are_not_listed_as_answers(model):
    model.learn({"id": "s", "x": [0.5, 0], "y": "right"}, {"id": "c7", "y": "left"})
    assert answers(model)["answers"] == []
    refusal(change(model, "s", "left"), 404, "not_found")


def test_only_the_annotator_who_gave_an_answer_may_change_it(model):
    given = answered(model)
    refusal(change(model, given, "left", "bob"), 404, "not_found")
    refusal(change(model, "nothing", "left"), 404, "not_found")
    refusal(change(model, given, ["left"]), 422, "invalid")
    assert change(model, given, "left").status_code == 202
    eventually(lambda: model.figures()["jobs"] == [])
    assert model.ask("GET", f"{model.path}/examples/{given}").json()["label"] == "left"
    found = answers(model)
    assert [(a["id"], a["label"]) for a in found["answers"]] == [(given, "left")]
    assert found["annotators"]["ann"]["changed"] == 1


def test_changing_an_answer_to_the_same_label_teaches_nothing(model):
    given = answered(model)
    before = model.figures()
    assert change(model, given, "right").status_code == 200
    after = model.figures()
    assert after["jobs"] == []
    assert after["certificate"] == before["certificate"]


def test_a_vote_may_be_changed_while_more_votes_are_wanted(ask):
    model = line_model(ask)
    model.ask("PATCH", model.path, json={"labels": {"overlap": 2}})
    offered(model, LINE[:1])
    assert answered(model) == "c0"
    assert [a["learned"] for a in answers(model)["answers"]] == [False]
    for _ in range(2):
        assert change(model, "c0", "left").status_code == 200
    position = model.figures()["position"]
    assert change(model, "c0", "left").json()["position"] == position  # the label does not change
    assert answered(model, "bob", "left") == "c0"
    found = answers(model)
    assert {name: (t["compared"], t["agreed"]) for name, t in found["annotators"].items()} == {
        "ann": (1, 1),
        "bob": (1, 1),
    }
    assert found["disagreement"] == 0
    assert model.ask("GET", f"{model.path}/examples/c0").json()["label"] == "left"


def test_skips_are_counted(model):
    (question,) = asked(model, "carl")
    model.ask("POST", f"{model.path}/queries/{question['lease']}/skip")
    assert answers(model)["annotators"] == {"carl": ZERO | {"skipped": 1}}


def test_a_forgotten_example_is_no_longer_listed_as_an_answer(model):
    given = answered(model)
    assert model.ask("DELETE", f"{model.path}/examples/{given}").status_code in (200, 202)
    assert answers(model)["answers"] == []
    refusal(change(model, given, "left"), 410, "gone")
    refusal(model.ask("GET", f"{model.path}/examples/{given}"), 410, "gone")


def forget(model, given, annotator="ann", **request):
    return model.ask("DELETE", f"{model.path}/answers/{given}", params={"annotator": annotator}, **request)


def test_an_annotator_may_forget_an_example_that_nobody_else_answered(model):
    given = answered(model)
    refusal(forget(model, given, "bob"), 404, "not_found")
    refusal(model.ask("DELETE", f"{model.path}/answers/{given}"), 422, "invalid")
    assert forget(model, given).status_code in (200, 202)
    assert forget(model, given).status_code in (200, 202)  # a repetition changes nothing
    assert answers(model)["answers"] == []
    refusal(model.ask("GET", f"{model.path}/examples/{given}"), 410, "gone")


def test_an_annotator_may_not_forget_an_example_that_others_answered_or_will_answer(ask):
    model = line_model(ask)
    model.ask("PATCH", model.path, json={"labels": {"overlap": 2}})
    offered(model, LINE[:1])
    answered(model)
    refusal(forget(model, "c0"), 409, "conflict")
    answered(model, "bob", "left")
    refusal(forget(model, "c0"), 409, "conflict")
    assert len(answers(model)["answers"]) == 2


@pytest.mark.long
def test_an_annotators_key_forgets_only_answers_under_its_name(tmp_path):
    keys = tmp_path / "keys.json"
    texts = {name: create_key(keys, name, role) for name, role in (("ann", "annotator"), ("me", "admin"))}
    headers = {name: bearer(text) for name, text in texts.items()}
    with RunningServer(tmp_path / "data", keys_file=keys) as server, Asking(server.url) as plain:

        def ask(method, path, **request):
            return plain(method, path, **{"headers": headers["me"]} | request)

        model = AskedModel(ask, "m")
        ask("PUT", model.path, json=BASE | {"solver": "exact"})
        model.learn({"x": [1, 0], "y": "right"}, {"x": [-1, 0], "y": "left"})
        offered(model, LINE)
        own, others = answered(model), answered(model, "bob")
        error = refusal(forget(model, others, "bob", headers=headers["ann"]), 403, "forbidden")
        assert "writer" in error["message"]
        assert forget(model, own, headers=headers["ann"]).status_code == 200
        assert forget(model, others, "bob").status_code == 200
        assert answers(model)["answers"] == []


def test_answers_and_annotators_are_the_same_after_a_crash(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = line_model(ask)
        offered(model, LINE)
        first, _ = answered(model), answered(model, "bob", "left")
        change(model, first, "left")
        eventually(lambda: model.figures()["jobs"] == [])
        answered(model)
        before, curve = answers(model), ask("GET", f"{model.path}/history").json()
        server.kill()
        server.start()
        assert answers(model) == before
        assert ask("GET", f"{model.path}/history").json() == curve


@pytest.mark.parametrize(
    "features",
    [
        {"type": "dense", "dim": 2},
        {"type": "sparse", "dim": 2},
        {"type": "dense", "dim": 2, "scale": "auto", "warmup": 2},
    ],
)
def test_an_example_is_shown_as_it_was_sent_both_in_the_pool_and_learned(ask, features):
    model = ask.new_model(features=features)
    x = [0.1, 0.2] if features["type"] == "dense" else {"indices": [1], "values": [0.25]}
    model.learn({"id": "a", "x": x, "y": "u"}, {"x": x, "y": "v"})
    offered(model, [x])

    def shown(given):
        found = ask("GET", f"{model.path}/examples/{given}").json()
        return found["number"], found["label"], found["x"]

    assert shown("a") == (1, "u", x)
    assert shown("@2") == (2, "v", x)
    assert shown("c0") == (None, None, x)
    refusal(ask("GET", f"{model.path}/examples/nothing"), 404, "not_found")


def test_a_named_x_is_read_from_the_log(ask):
    answer = ask("PUT", "/models/shown-names", json={
        "kernel": {"type": "rbf", "gamma": "auto"}, "features": {"type": "named", "warmup": 2}, "C": 1})  # fmt: skip
    assert answer.status_code == 201
    examples = [{"id": f"a/{k}", "x": {"n": k, "s": "t" * k}, "y": "uv"[k % 2]} for k in range(4)]
    ask("POST", "/models/shown-names/learn", json={"examples": examples})
    found = ask("GET", "/models/shown-names/examples/a%2F3").json()
    assert (found["x"], found["label"], found["number"]) == ({"n": 3.0, "s": "ttt"}, "v", 4)


def test_the_pools_predictions_equal_those_of_predict(model):
    found = model.ask("GET", f"{model.path}/pool", params={"n": 5}).json()
    assert found["size"] == len(LINE)
    assert [c["id"] for c in found["candidates"]] == [f"c{k}" for k in range(5)]
    said = model.predict(*LINE[:5])
    assert [c["prediction"] for c in found["candidates"]] == [s["prediction"] for s in said]
    assert [c["score"] for c in found["candidates"]] == pytest.approx([max(s["scores"].values()) for s in said])


def test_an_untaught_model_predicts_nothing_for_its_pool(ask):
    model = ask.new_model()
    assert ask("GET", f"{model.path}/pool").json()["candidates"] == []
    offered(model, [[0, 0]])
    assert ask("GET", f"{model.path}/pool").json()["candidates"] == [{"id": "c0", "prediction": None, "score": None}]


def test_the_overview_lists_a_model_whose_solver_is_being_compiled(tmp_path):
    def create():
        with Asking(server.url) as one:
            return one("PUT", "/models/compiled", json=BASE | {"solver": "exact"}).status_code

    seen = []
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask, ThreadPoolExecutor(1) as pool:
        created = pool.submit(create)
        while not created.done():
            seen += [m for m in ask("GET", "/overview").json()["models"] if m["model"] == "compiled"]
        assert created.result() == 201
        assert {"model": "compiled", "state": "compiling"} in seen
        eventually(lambda: [m["state"] for m in ask("GET", "/overview").json()["models"]] == ["serving"])


def test_the_overview_has_figures_of_every_model(ask):
    model = line_model(ask)
    offered(model, LINE[:3])
    (found,) = [m for m in ask("GET", "/overview").json()["models"] if m["model"] == model.name]
    figures = model.figures()
    assert found["accuracy"] == figures["metrics"]["accuracy_window"]
    assert found["curve"][-1] == found["accuracy"]
    assert (found["examples"], found["points"], found["pool"]) == (10, figures["points"], 3)
    assert (found["state"], found["queue"], found["jobs"]) == ("serving", 0, 0)
    assert not any((found["drifted"], found["alarmed"], found["conflicts"]))
    assert found["queue_max"] > 0


def test_the_part_show_is_changed_without_retraining(ask):
    model = ask.new_model(features={"type": "dense", "dim": 6})
    model.learn({"x": [1] * 6, "y": "a"})
    assert ask("PATCH", model.path, json={"show": {"image": [2, 3]}}).status_code == 200
    assert ask("PATCH", model.path, json={"show": {"origins": ["https://a.example"]}}).status_code == 200
    assert model.figures()["configuration"]["show"] == {"image": [2, 3], "origins": ["https://a.example"]}
    for wrong in ({"image": [2, 2]}, {"image": [6]}, {"image": [0, 6]}, {"origins": ["javascript:x"]}, {"other": 1}):
        error = refusal(ask("PATCH", model.path, json={"show": wrong}), 422, "invalid")
        assert "show" in error["message"]


def test_a_client_can_see_the_rights_of_its_key(ask):
    assert ask("GET", "/key").json() == {"name": "everyone", "role": "admin", "models": ["*"]}
