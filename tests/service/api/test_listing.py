"""List everything that a model has learned, in pages and in its current state."""

from datetime import datetime, timedelta

import pytest

from hinged import Client
from tests.helpers.http_client import Asking, refusal
from tests.helpers.questions import LINE, asked, label, line_model, offered
from tests.helpers.server import RunningServer, eventually


def page(model, **params):
    answer = model.ask("GET", f"{model.path}/examples", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def pages(model, **params):
    """Return all pages. Each page after the first starts at the cursor of the page before it."""
    found = [page(model, **params)]
    while found[-1]["next"] is not None:
        found.append(page(model, **params, cursor=found[-1]["next"]))
    return found


def ids(*found):
    return [example["id"] for one in found for example in one["examples"]]


@pytest.fixture(scope="module")
def stream(ask):
    """A model with seven examples. One example is forgotten and one is corrected."""
    model = ask.new_model()
    model.learn({"id": "a", "x": [0, 0], "y": "u"}, {"id": "b", "x": [1, 0], "y": "v"}, {"x": [0, 1], "y": "u"})
    model.learn({"id": "d", "x": [1, 1], "y": "v"})
    model.learn({"id": "e", "x": [2, 1], "y": "v"}, {"id": "f", "x": [3, 1], "y": 1})
    model.learn({"id": "g", "x": [4, 0], "y": "u"})
    ask("DELETE", f"{model.path}/examples/d")
    ask("PUT", f"{model.path}/examples/e", json={"y": "u"})
    eventually(lambda: model.figures()["jobs"] == [])
    return model


def test_examples_are_listed_in_order_with_prediction_and_current_label(stream):
    found = page(stream)
    assert (found["missing"], found["next"]) == (0, None)
    assert [(e["id"], e["number"], e["label"], e["corrected"]) for e in found["examples"]] == [
        ("a", 1, "u", False), ("b", 2, "v", False), ("@3", 3, "u", False),
        ("e", 5, "u", True), ("f", 6, 1, False), ("g", 7, "u", False),
    ]  # fmt: skip
    assert [e["prediction"] for e in found["examples"]][:2] == [None, "u"]
    assert {e["source"] for e in found["examples"]} == {"streamed"}
    assert all(e["answers"] == [] for e in found["examples"])
    times = [datetime.fromisoformat(e["at"]) for e in found["examples"]]
    assert times == sorted(times)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_pages_of_any_size_give_the_same_list(stream, n):
    found = pages(stream, n=n)
    assert all(len(one["examples"]) <= n for one in found)
    assert ids(*found) == ids(page(stream))


def test_a_batch_is_listed_in_parts_however_large_it_is(ask):
    model = ask.new_model(solver="bsgd", budget=5)
    model.learn(*({"id": f"e{k}", "x": [k % 7, k % 3], "y": k % 2} for k in range(2500)))
    assert ids(*pages(model, n=1000)) == [f"e{k}" for k in range(2500)]
    found = pages(model, n=700, label="1")
    assert ids(*found) == [f"e{k}" for k in range(1, 2500, 2)]


def test_examples_forgotten_or_learned_while_paging_do_not_disturb_it(ask):
    model = ask.new_model()
    model.learn(*({"id": f"e{k}", "x": [k, 0], "y": k % 2} for k in range(4)))
    first = page(model, n=2)
    ask("DELETE", f"{model.path}/examples/e2")
    model.learn({"id": "late", "x": [9, 9], "y": 1})
    assert ids(*pages(model, cursor=first["next"])) == ["e3", "late"]


def test_a_filter_finds_the_current_label(stream):
    assert ids(page(stream, label="u")) == ["a", "@3", "e", "g"]
    assert ids(page(stream, label="v")) == ["b"]
    assert ids(page(stream, label="1")) == ["f"]
    assert ids(page(stream, label='"1"')) == []


def test_a_filter_finds_a_range_of_time(stream):
    times = {e["id"]: e["at"] for e in page(stream)["examples"]}
    assert ids(page(stream, **{"from": times["e"]})) == ["e", "f", "g"]
    assert ids(page(stream, to=times["e"])) == ["a", "b", "@3"]
    later = datetime.fromisoformat(times["g"]) + timedelta(seconds=1)
    assert ids(page(stream, **{"from": later.isoformat()})) == []


@pytest.mark.parametrize(
    "params", [{"n": 0}, {"n": 1001}, {"cursor": "x"}, {"cursor": "1.2.3"}, {"from": "noon"}, {"annotator": ""}]
)
def test_invalid_requests_are_refused(stream, params):
    refusal(stream.ask("GET", f"{stream.path}/examples", params=params), 422, "invalid")


def test_a_cursor_beyond_the_end_finds_nothing(stream):
    assert page(stream, cursor="999999.0")["examples"] == []


def test_examples_undone_by_a_rollback_are_not_listed(ask):
    model = ask.new_model()
    model.learn({"id": "a", "x": [0, 0], "y": "u"})
    position = model.figures()["position"]
    model.learn({"id": "b", "x": [1, 0], "y": "v"})
    assert ask("POST", f"{model.path}/rollback", json={"position": position}).status_code == 200
    model.learn({"id": "c", "x": [2, 0], "y": "w"})
    assert [(e["id"], e["number"], e["label"]) for e in page(model)["examples"]] == [("a", 1, "u"), ("c", 2, "w")]


@pytest.fixture(scope="module")
def voted(ask):
    """A model with three candidates that have two labels each. The labels of the first candidate differ."""
    model = line_model(ask)
    model.ask("PATCH", model.path, json={"labels": {"overlap": 2, "tie_breakers": 0}})
    offered(model, LINE[:3])
    for annotator, labels in (("ann", ["left", "left", "right"]), ("bob", ["right", "left", "right"])):
        for question in sorted(asked(model, annotator, n=3), key=lambda q: q["id"]):
            given = labels[int(question["id"][1:])]
            assert label(model, {"id": question["id"], "y": given, "lease": question["lease"]}).status_code == 200
    return model


def test_the_answers_of_several_annotators_are_listed_with_their_example(voted):
    found = {e["id"]: e for e in page(voted, annotator="bob")["examples"]}
    assert sorted(found) == ["c0", "c1", "c2"]
    assert {(a["annotator"], a["label"]) for a in found["c0"]["answers"]} == {("ann", "left"), ("bob", "right")}
    assert found["c0"]["label"] == "left"
    assert {e["source"] for e in found.values()} == {"queried"}
    assert ids(page(voted, annotator="carl")) == []


def test_annotators_are_compared_with_each_other_and_with_the_current_label(voted):
    def answers():
        return voted.ask("GET", f"{voted.path}/answers").json()

    found = answers()
    assert found["agreement"] == [{"annotators": ["ann", "bob"], "examples": 3, "same": 2, "kappa": pytest.approx(0.4)}]
    kappas = {name: (t["shared"], t["kappa"]) for name, t in found["annotators"].items()}
    assert kappas == {"ann": (3, 1.0), "bob": (3, pytest.approx(0.4))}
    voted.ask("PUT", f"{voted.path}/examples/c0", json={"y": "right"})
    kappas = {name: t["kappa"] for name, t in answers()["annotators"].items()}
    assert kappas == {"ann": pytest.approx(0.4), "bob": 1.0}


def test_the_list_is_the_same_after_a_crash_and_in_an_imported_copy(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = line_model(ask)
        offered(model, LINE)
        (question,) = asked(model)
        label(model, {"id": question["id"], "y": "left", "lease": question["lease"]})
        before = page(model)
        server.kill()
        server.start()
        assert page(model) == before
        with Client(server.url) as client:
            client.import_model("copy", client.export_model(model.name))
            client.learn("copy", [{"id": "new", "x": [1, 1], "y": "left"}])
            found = list(client.every_example("copy"))
        # Imported examples have no times. The annotators of imported examples are known only for the newest answers.
        untold = {"source": None, "at": None}
        assert found[:-1] == [example | untold for example in before["examples"]]
        assert (found[-1]["id"], found[-1]["source"]) == ("new", "streamed")


def test_examples_unknown_to_both_log_and_model_are_counted(tmp_path):
    with RunningServer(tmp_path / "data", log_kept=0, answers_kept=3) as server, Asking(server.url) as ask:
        model = ask.new_model()
        for k in range(9):
            model.learn({"id": f"e{k}", "x": [k, 0], "y": k % 2})
            ask("POST", f"{model.path}/snapshot")
        model.learn({"id": "e9", "x": [9, 0], "y": 1})
        eventually(lambda: page(model)["missing"] > 0)
        found = pages(model, n=2)
        listed = ids(*found)
        assert listed == [f"e{k}" for k in range(10 - len(listed), 10)]
        assert {one["missing"] for one in found} == {10 - len(listed)}
        refusal(ask("GET", f"{model.path}/examples", params={"cursor": "2.0"}), 409, "conflict")
