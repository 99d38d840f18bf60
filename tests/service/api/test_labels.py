"""Asking for labels over the real server: pool, questions, leases, several annotators, late labels, ranking."""

import math
import random
import time

import pytest
from asking import BASE, AskedModel, example, refusal


def offered(model, xs, **more):
    """Offer candidates c0, c1, ... at these points."""
    examples = [{"id": f"c{k}", "x": x, **more} for k, x in enumerate(xs)]
    return model.ask("POST", f"{model.path}/pool", json={"examples": examples}).json()


def asked(model, annotator="ann", n=1, **more):
    answer = model.ask("POST", f"{model.path}/queries", json={"annotator": annotator, "n": n, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["queries"]


def peeked(model, **params):
    return model.ask("GET", f"{model.path}/queries", params=params).json()


def label(model, *examples):
    return model.ask("POST", f"{model.path}/learn", json={"examples": list(examples)})


LINEAR = {"type": "linear"}


def taught(ask, **changes):
    """A model that knows that x[0] > 0 is "right"."""
    model = ask.new_model(C=100, **changes)
    model.learn(*(example([s * (1 + k / 10), 0], "right" if s > 0 else "left") for k in range(5) for s in (-1, 1)))
    return model


@pytest.fixture
def model(ask):
    """Its score is x[0]; it asks nothing at random."""
    return taught(ask, kernel=LINEAR, labels={"explore": 0})


LINE = [[k / 10 - 2, 0.0] for k in range(41)]  # c20 is on the boundary


def test_the_pool_takes_a_candidate_once_and_no_other_x_under_its_id(model):
    assert offered(model, LINE) == {
        "model": model.name, "position": model.figures()["position"], "added": 41, "size": 41, "dropped": 0
    }  # fmt: skip
    before = model.figures()
    assert offered(model, LINE)["added"] == 0
    bad = {"examples": [{"id": "new", "x": [1, 1]}, {"id": "c3", "x": [1, 1]}]}
    error = refusal(model.ask("POST", f"{model.path}/pool", json=bad), 409, "conflict")
    assert error["details"] == {"index": 1, "id": "c3"}
    assert model.figures() == before
    for body, where in (
        ({"examples": [{"x": [1, 1]}]}, "examples[0].id"),
        ({"examples": [{"id": "@7", "x": [1, 1]}]}, "examples[0].id"),
        ({"examples": [{"id": "c", "x": [1]}]}, "examples[0].x"),
        ({"examples": []}, "examples"),
    ):
        assert where in refusal(model.ask("POST", f"{model.path}/pool", json=body), 422, "invalid")["message"]


def test_what_is_learned_is_no_candidate(model):
    model.learn(example([0.5, 0.5], "right", "known"))
    body = {"examples": [{"id": "known", "x": [0.5, 0.5]}]}
    assert model.ask("POST", f"{model.path}/pool", json=body).json()["added"] == 0
    offered(model, LINE)
    label(model, {"id": "c20", "y": "left"})
    assert model.figures()["pool"]["size"] == 40


def test_the_oldest_idle_candidates_make_room(ask):
    model = ask.new_model(labels={"pool_max": 3})
    assert offered(model, LINE[:3])["dropped"] == 0
    (held,) = asked(model)
    more = {"examples": [{"id": f"d{k}", "x": [5, k]} for k in range(2)]}
    answer = model.ask("POST", f"{model.path}/pool", json=more).json()
    assert (answer["added"], answer["size"], answer["dropped"]) == (2, 3, 2)
    assert label(model, {"id": held["id"], "y": "a", "lease": held["lease"]}).status_code == 200


def test_the_candidate_nearest_to_the_boundary_is_asked_first_and_the_answer_is_learned(model):
    offered(model, LINE)
    (question,) = asked(model)
    assert question["id"] == "c20"
    assert question["x"] == [0.0, 0.0]
    assert question["reason"] == "active"
    assert question["score"] == pytest.approx(0, abs=0.01)
    (result,) = label(model, {"id": "c20", "y": "left", "lease": question["lease"]}).json()["results"]
    assert not result["duplicate"]
    # The next question uses the model that has learned it: the boundary has moved to the right.
    (following,) = asked(model)
    assert following["x"][0] > 0
    assert model.figures()["metrics"]["sources"]["queried"]["predicted"] == 1


def test_peeking_tells_what_would_be_asked_and_changes_nothing(model):
    offered(model, LINE)
    before = model.figures()
    seen = peeked(model, n=3)
    assert peeked(model, n=3) == seen
    assert model.figures() == before
    assert [q["id"] for q in asked(model, n=3)] == [q["id"] for q in seen["next"]]
    assert len(peeked(model)["leased"]) == 3
    assert "lease" not in peeked(model)["leased"][0]
    refusal(model.ask("GET", f"{model.path}/queries", params={"n": 0}), 422, "invalid")
    refusal(model.ask("GET", f"{model.path}/queries", params={"strategy": "best"}), 422, "invalid")


def test_two_annotators_never_hold_the_same_candidate(model):
    offered(model, LINE)
    held = {name: {q["id"] for q in asked(model, name, n=15)} for name in ("ann", "bob")}
    assert len(held["ann"]) == len(held["bob"]) == 15
    assert not held["ann"] & held["bob"]
    assert len(asked(model, "eve", n=15)) == 11


def test_an_annotators_open_leases_come_back_first(model):
    offered(model, LINE)
    first = asked(model, n=2)
    again = asked(model, n=3)
    assert again[:2] == first
    assert len({q["id"] for q in again}) == 3
    label(model, {"id": first[0]["id"], "y": "left", "lease": first[0]["lease"]})
    assert first[0]["id"] not in {q["id"] for q in asked(model, n=3)}


def test_the_same_request_gets_the_same_answer_and_another_under_its_id_is_refused(model):
    offered(model, LINE)
    first = asked(model, n=2, request_id="r1")
    asked(model, n=5)
    position = model.figures()["position"]
    assert asked(model, n=2, request_id="r1") == first
    assert model.figures()["position"] == position
    answer = model.ask("POST", f"{model.path}/queries", json={"annotator": "ann", "n": 3, "request_id": "r1"})
    refusal(answer, 409, "conflict")
    assert asked(model, "bob", n=2, request_id="r1") != first


def test_a_lease_ends_by_itself_and_a_heartbeat_keeps_it(model):
    offered(model, LINE[18:23])
    kept, lost = asked(model, n=2, lease_s=0.5)
    answer = model.ask("POST", f"{model.path}/queries/{kept['lease']}/heartbeat", json={"lease_s": 60})
    assert answer.json()["id"] == kept["id"]
    assert answer.json()["expires_at"] > kept["expires_at"]
    time.sleep(0.6)
    assert [entry["id"] for entry in peeked(model)["leased"]] == [kept["id"]]
    refusal(model.ask("POST", f"{model.path}/queries/{lost['lease']}/heartbeat"), 404, "not_found")
    assert lost["id"] in {q["id"] for q in asked(model, "bob", n=4)}


def test_after_leasing_anew_the_first_label_wins_and_the_other_is_a_duplicate(model):
    offered(model, LINE[20:21])
    (early,) = asked(model, "ann", lease_s=0.2)
    time.sleep(0.3)
    (late,) = asked(model, "bob")
    assert late["id"] == early["id"]
    (first,) = label(model, {"id": "c0", "y": "left", "lease": early["lease"]}).json()["results"]
    (second,) = label(model, {"id": "c0", "y": "right", "lease": late["lease"]}).json()["results"]
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert model.figures()["examples"] == 11
    refusal(label(model, {"id": "c0", "y": "right"}), 409, "conflict")  # without a lease it is a contradiction


def test_a_lease_given_back_is_asked_again_but_not_of_who_skipped_it(model):
    offered(model, LINE[20:22])
    (question,) = asked(model)
    path = f"{model.path}/queries/{question['lease']}"
    assert model.ask("POST", f"{path}/release").json()["released"] is True
    refusal(model.ask("POST", f"{path}/release"), 404, "not_found")
    (again,) = asked(model)
    assert again["id"] == question["id"]
    model.ask("POST", f"{model.path}/queries/{again['lease']}/skip", json={"for": "me"})
    assert [q["id"] for q in asked(model, n=2)] == ["c1"]
    (others,) = (q for q in asked(model, "bob", n=2) if q["id"] == again["id"])
    model.ask("POST", f"{model.path}/queries/{others['lease']}/skip", json={"for": "all"})
    assert asked(model, "eve", n=2) == []
    refusal(model.ask("POST", f"{path}/skip", json={"for": "you"}), 422, "invalid")


def test_with_overlap_the_majority_is_learned_at_the_last_label(ask):
    model = ask.new_model(labels={"overlap": 3, "explore": 0})
    offered(model, [[0, 0], [1, 1]])
    leases = {name: {q["id"]: q["lease"] for q in asked(model, name, n=2)} for name in ("ann", "bob", "eve")}
    assert all(set(held) == {"c0", "c1"} for held in leases.values())
    assert asked(model, "dan", n=2) == []

    def vote(name, given, y):
        (result,) = label(model, {"id": given, "y": y, "lease": leases[name][given]}).json()["results"]
        return result

    first = vote("ann", "c0", "ham")
    assert (first["collected"], first["needed"], first["duplicate"]) == (1, 3, False)
    assert vote("ann", "c0", "ham")["duplicate"]
    assert vote("bob", "c0", "spam")["collected"] == 2
    assert model.figures()["examples"] == 0
    last = vote("eve", "c0", "spam")
    assert last["votes"] == [{"label": "spam", "count": 2}, {"label": "ham", "count": 1}]
    assert model.figures()["classes"] == ["spam"]
    for name in ("ann", "bob", "eve"):
        vote(name, "c1", "ham")
    figures = model.figures()
    assert figures["examples"] == 2
    assert figures["pool"] == {
        "size": 0, "size_max": 10_000, "leased": 0, "votes": 0, "answered": 2, "disagreement": 0.5
    }  # fmt: skip


def test_all_votes_may_come_in_one_request(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    ann, bob = (asked(model, name)[0]["lease"] for name in ("ann", "bob"))
    results = label(model, {"id": "c0", "y": 1, "lease": ann}, {"id": "c0", "y": 1, "lease": bob}).json()["results"]
    assert [r["collected"] for r in results] == [1, 2]
    assert model.figures()["examples"] == 1


def test_who_has_labelled_a_candidate_is_not_shown_it_again_under_a_later_lease(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    (early,) = asked(model, lease_s=0.2)
    time.sleep(0.3)
    (late,) = asked(model)
    assert late["lease"] != early["lease"]
    (result,) = label(model, {"id": "c0", "y": 1, "lease": early["lease"]}).json()["results"]
    assert result["collected"] == 1
    assert asked(model) == []
    refusal(model.ask("POST", f"{model.path}/queries/{late['lease']}/heartbeat"), 404, "not_found")


def test_a_lease_of_another_candidate_or_of_nobody_is_not_found(model):
    offered(model, LINE)
    (question,) = asked(model)
    refusal(label(model, {"id": "c1", "y": "left", "lease": question["lease"]}), 404, "not_found")
    refusal(label(model, {"id": "c1", "y": "left", "lease": "nothing"}), 404, "not_found")
    refusal(label(model, {"id": "nobody", "y": "left"}), 404, "not_found")


def test_a_batch_of_questions_is_not_copies_of_one(model):
    twins = [[0.0, 0.0]] * 30 + [[0.05, 1.0], [0.05, -1.0], [-0.05, 2.0]]
    offered(model, twins)
    xs = [tuple(q["x"]) for q in asked(model, n=4)]
    assert len(set(xs)) == 4


def test_the_strategies_ask_for_what_they_say(ask):
    model = taught(ask, labels={"explore": 0})
    examples = [{"id": f"c{k}", "x": x, "y": "left"} for k, x in enumerate(LINE)]
    examples.append({"id": "unlabelled", "x": [1.0, 0.1]})
    model.ask("POST", f"{model.path}/pool", json={"examples": examples})
    (worst,) = asked(model, "a", strategy="gradient")
    assert worst["x"][0] > 0.5
    assert worst["reason"] == "gradient"
    (auto,) = asked(model, "b", strategy="autoactive")
    assert abs(auto["score"]) < 1
    drawn = asked(model, "c", n=20, strategy="random")
    assert {q["reason"] for q in drawn} == {"random"}
    assert max(q["score"] for q in drawn) > 0.9
    refusal(model.ask("POST", f"{model.path}/queries", json={"annotator": "a", "strategy": "best"}), 422, "invalid")


def test_a_share_of_the_questions_is_drawn_at_random_and_counted_apart(ask):
    model = taught(ask, labels={"explore": 0.3})
    rng = random.Random(3)
    offered(model, [[rng.uniform(-2, 2), rng.uniform(-2, 2)] for _ in range(300)])
    questions = asked(model, n=200)
    explored = [q for q in questions if q["reason"] == "explore"]
    assert 35 < len(explored) < 85
    answers = [{"id": q["id"], "y": "right" if q["x"][0] > 0 else "left", "lease": q["lease"]} for q in questions]
    label(model, *answers)
    sources = model.figures()["metrics"]["sources"]
    assert sources["random"]["predicted"] == len(explored)
    assert sources["queried"]["predicted"] == 200 - len(explored)


def test_before_there_are_two_classes_questions_are_random_without_a_score(ask):
    model = ask.new_model()
    assert asked(model) == []
    offered(model, LINE)
    (question,) = asked(model)
    assert (question["score"], question["reason"]) == (None, "random")


# -- late labels ----------------------------------------------------------------------------------------------------


def test_a_label_that_comes_later_is_learned_and_the_prediction_made_then_counts(ask):
    model = taught(ask)
    predicted = model.ask("POST", f"{model.path}/predict", json={"id": "late", "x": [0.2, 0]}).json()["results"][0]
    assert predicted["prediction"] == "right"
    model.learn(*(example([0.2 + k / 100, 0], "left") for k in range(8)))
    assert model.predict([0.2, 0])[0]["prediction"] == "left"
    before = model.figures()["metrics"]
    (result,) = label(model, {"id": "late", "y": "left"}).json()["results"]
    assert result["prediction"] == "right"
    assert result["score"] == predicted["scores"]["right"]
    after = model.figures()["metrics"]
    assert after["predicted"] == before["predicted"] + 1
    assert after["accuracy"] < before["accuracy"]  # as it was then: wrong
    (again,) = label(model, {"id": "late", "y": "left"}).json()["results"]
    assert again["duplicate"]
    refusal(label(model, {"id": "late", "y": "right"}), 409, "conflict")


def test_a_label_that_comes_by_id_alone_is_that_of_the_newest_x(model):
    for x in ([1.0, 0.0], [1.5, 0.5]):
        model.ask("POST", f"{model.path}/predict", json={"id": "moved", "x": x})
        if x[1] == 0:
            model.learn(example([2, 0], "right"))  # what waits is logged first
    label(model, {"id": "moved", "y": "right"})
    (result,) = model.learn(example([1.5, 0.5], "right", "moved"))
    assert result["duplicate"]


def test_predictions_wait_in_bounded_number_and_for_a_bounded_time(ask):
    model = ask.new_model(labels={"pending_max": 5, "pending_s": 1.0})
    body = {"examples": [{"id": f"p{k}", "x": [k, 0]} for k in range(8)]}
    model.ask("POST", f"{model.path}/predict", json=body)
    refusal(label(model, {"id": "p2", "y": 1}), 404, "not_found")
    assert label(model, {"id": "p3", "y": 1}).status_code == 200
    time.sleep(1.2)
    model.learn(example([1, 1], 0))
    refusal(label(model, {"id": "p7", "y": 1}), 404, "not_found")
    assert model.figures()["pending"] == 0


def test_a_model_may_keep_no_predictions_or_keep_them_durably(ask):
    none = ask.new_model(labels={"pending_max": 0})
    none.ask("POST", f"{none.path}/predict", json={"id": "p", "x": [1, 0]})
    refusal(label(none, {"id": "p", "y": 1}), 404, "not_found")
    durable = ask.new_model(labels={"pending_durable": True})
    position = durable.figures()["position"]
    durable.ask("POST", f"{durable.path}/predict", json={"id": "p", "x": [1, 0]})
    assert durable.figures()["position"] == position + 1
    assert label(durable, {"id": "p", "y": 1}).status_code == 200


def test_labels_are_wanted_inside_the_margin_and_within_the_budget(ask):
    model = taught(ask, kernel=LINEAR, labels={"budget": 0.2, "explore": 0.1})
    rng = random.Random(7)
    xs = [[rng.uniform(-2, 2), rng.uniform(-1, 1)] for _ in range(3000)]
    results = [r for b in range(0, 3000, 500) for r in model.predict(*xs[b : b + 500])]
    wishes = [r["label"] for r in results]
    assert 0.15 < sum(w["wanted"] for w in wishes[1000:]) / 2000 < 0.25
    assert {w["reason"] for w in wishes} == {None, "active", "explore"}
    assert all(w["wanted"] == (w["reason"] is not None) for w in wishes)
    doubtful = [w for r, w in zip(results, wishes, strict=True) if abs(r["scores"]["right"]) < 0.99]
    sure = [w for r, w in zip(results, wishes, strict=True) if abs(r["scores"]["right"]) > 1.01]
    assert {w["probability"] for w in sure} == {0.1 * 0.2}
    assert min(w["probability"] for w in doubtful) > 0.1
    # What came with an id and was wanted counts by its reason.
    ids = [{"id": f"w{k}", "x": x} for k, x in enumerate(xs[:200])]
    wanted = model.ask("POST", f"{model.path}/predict", json={"examples": ids}).json()["results"]
    chosen = [r for r in wanted if r["label"]["reason"] == "active"]
    label(model, *({"id": r["id"], "y": "right"} for r in chosen))
    assert model.figures()["metrics"]["sources"]["queried"]["predicted"] == len(chosen)


# -- ranking, explaining, suspecting --------------------------------------------------------------------------------


def test_ranking_orders_by_what_is_least_certain_and_changes_nothing(model):
    before = model.figures()
    body = {"examples": [{"id": "far", "x": [2, 0]}, {"id": "near", "x": [0.1, 0]}, {"x": [-0.6, 0]}], "n": 2}
    answer = model.ask("POST", f"{model.path}/rank", json=body).json()
    assert list(answer) == ["model", "position", "ranking"]
    assert [entry["id"] for entry in answer["ranking"]] == ["near", None]
    assert answer["ranking"][0]["score"] < answer["ranking"][1]["score"]
    labelled = {"examples": [{"id": "a", "x": [2, 0], "y": "left"}, {"id": "b", "x": [2, 0], "y": "right"}]}
    worst = model.ask("POST", f"{model.path}/rank", json={**labelled, "strategy": "gradient"}).json()["ranking"]
    assert [entry["id"] for entry in worst] == ["a", "b"]
    refusal(model.ask("POST", f"{model.path}/rank", json={**body, "strategy": "gradient"}), 422, "invalid")
    assert model.figures() == before


def test_a_prediction_is_explained_by_the_points_that_carry_it(ask):
    model = taught(ask)
    model.learn(example([3, 3], "right", "mine"))
    model.finish()
    body = {"x": [2.9, 3], "explain": 3}
    result = model.ask("POST", f"{model.path}/predict", json=body).json()["results"][0]
    parts = result["support_vectors"]
    assert parts[0]["id"] == "mine"
    assert parts[0]["label"] == "right"
    assert parts[0]["contribution"] > 0
    assert abs(parts[0]["contribution"]) >= abs(parts[-1]["contribution"])
    whole = model.ask("POST", f"{model.path}/predict", json={**body, "explain": 1000}).json()["results"][0]
    bias = whole["scores"]["right"] - sum(p["contribution"] for p in whole["support_vectors"])
    assert abs(bias) < 2
    assert len(whole["support_vectors"]) == model.figures()["support_vectors"]
    kernel = {"type": "rbf", "gamma": 1.0}
    body_of_fogd = {"solver": "fogd", "kernel": kernel, "features": {"type": "dense", "dim": 2}}
    model.ask("PUT", f"{model.path}-fogd", json=body_of_fogd)
    fogd = AskedModel(model.ask, f"{model.name}-fogd")
    fogd.learn(example([1, 1], "a"), example([0, 1], "b"))
    refusal(fogd.ask("POST", f"{fogd.path}/predict", json=body), 422, "invalid")


def test_a_wrong_label_is_suspected(ask):
    model = ask.new_model(C=1)
    rng = random.Random(1)
    examples = [
        example([s * 2 + rng.gauss(0, 0.3), rng.gauss(0, 0.3)], "right" if s > 0 else "left")
        for _ in range(60)
        for s in (-1, 1)
    ]
    model.learn(*examples, example([2, 0], "left", "wrong"))
    model.finish()
    found = model.ask("GET", f"{model.path}/suspects", params={"n": 5}).json()["suspects"]
    assert found[0]["id"] == "wrong"
    assert (found[0]["label"], found[0]["prediction"], found[0]["reason"]) == ("left", "right", "contradicts")
    assert found[0]["margin"] < 0


def test_what_the_ramp_set_aside_is_suspected_and_counted(ask):
    model = ask.new_model(solver="lasvm-nc", C=10, ramp_start=5, ramp_s=-0.5)
    rng = random.Random(2)
    stream = [(s, [s + rng.gauss(0, 0.3), rng.gauss(0, 0.3)]) for _ in range(200) for s in (-1, 1)]
    model.learn(*(example(x, s if k % 20 else -s) for k, (s, x) in enumerate(stream)))
    discards = model.figures()["discards"]
    assert set(discards) == {"-1", "1"}
    assert sum(d["wrong"] for d in discards.values()) > 3
    found = model.ask("GET", f"{model.path}/suspects", params={"n": 50}).json()["suspects"]
    assert {s["reason"] for s in found} <= {"contradicts", "set aside"}
    assert any(s["reason"] == "set aside" for s in found)


# -- further epochs -------------------------------------------------------------------------------------------------


def test_finishing_may_go_over_the_log_again(ask):
    rng = random.Random(4)
    examples = [example([x := rng.gauss(0, 1), rng.gauss(0, 1)], int(x > 0) ^ (rng.random() < 0.1)) for _ in range(300)]
    plain, further = (ask.new_model(solver="bsca", budget=30) for _ in range(2))
    for model in (plain, further):
        for begin in range(0, 300, 50):
            model.learn(*examples[begin : begin + 50])
    plain.finish()
    answer = further.ask("POST", f"{further.path}/finish", json={"epochs": 2})
    assert answer.status_code == 200
    a, b = plain.figures(), further.figures()
    assert a["examples"] == b["examples"] == 300
    assert b["certificate"]["steps"] > a["certificate"]["steps"]
    assert b["metrics"] == a["metrics"]
    refusal(further.ask("POST", f"{further.path}/finish", json={"epochs": -1}), 422, "invalid")


def test_scores_that_tell_nothing_apart_are_still_numbers(model):
    offered(model, [[math.pi * k, 0.0] for k in range(10)])
    assert all(math.isfinite(q["score"]) for q in asked(model, n=10))


# -- what once stopped a model, or was wrong ------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "full", "lasvm", "exact", "tracking-cached", "ogd"])
def test_a_further_epoch_over_what_is_held_needs_no_room(ask, solver):
    body = {key: value for key, value in BASE.items() if key != "C"} | {"solver": solver, "points_max": 30}
    assert ask("PUT", f"/models/epoch-{solver}", json=body).status_code == 201
    model = AskedModel(ask, f"epoch-{solver}")
    rng = random.Random(1)
    model.learn(*(example([rng.gauss(0, 1), rng.gauss(0, 1)], k % 2) for k in range(20)))
    answer = ask("POST", f"{model.path}/finish", json={"epochs": 2})
    assert answer.status_code == 200, answer.text
    assert answer.json()["points"] <= 30


def named_model(ask, name, **changes):
    body = {"kernel": {"type": "rbf", "gamma": "auto"}, "features": {"type": "named", "warmup": 20}, "C": 1}
    answer = ask("PUT", f"/models/{name}", json=body | changes)
    assert answer.status_code == 201, answer.text
    return AskedModel(ask, name)


def test_a_warm_up_in_a_small_model_is_refused_when_it_is_full_and_goes_on(ask):
    model = named_model(ask, "small", points_max=20)
    records = [example({"a": k / 10, "b": str(k % 3)}, k % 2) for k in range(40)]
    model.learn(*records[:10])
    refusal(model.try_learn(*records[10:30]), 507, "model_full")
    model.learn(*records[10:20])
    assert model.figures()["examples"] == 20
    assert model.predict({"a": 1.0})[0]["prediction"] in (0, 1)


def test_a_named_record_never_has_too_large_a_kernel_value(ask):
    body = {"features": {"type": "named", "warmup": 2}, "kernel": {"type": "polynomial", "gamma": 1e13, "degree": 3}}
    assert "gamma at most" in refusal(ask("PUT", "/models/steep", json=body), 422, "invalid")["message"]
    model = named_model(
        ask, "wide", kernel={"type": "polynomial", "gamma": "auto", "degree": 16}, labels={"explore": 0}
    )
    model.learn(*(example({"a": "v"} if k == 3 else {}, k % 2) for k in range(20)))
    wild = {f"n{k}": 1e100 for k in range(900)}
    model.learn(example(wild, 1))
    assert model.ask("POST", f"{model.path}/pool", json={"examples": [{"id": "w", "x": wild}]}).status_code == 200
    assert asked(model)[0]["x"] == wild
    assert math.isfinite(model.predict(wild)[0]["scores"]["1"])


def test_without_a_warm_up_named_examples_are_learned_from_the_first(ask):
    kernel = {"type": "rbf", "gamma": 1.0}
    model = named_model(ask, "cold", features={"type": "named", "warmup": 0}, kernel=kernel, classes=["p", "q"])
    results = model.learn(*(example({"a": float(k % 2)}, "pq"[k % 2]) for k in range(50)))
    assert results[0]["prediction"] is None
    assert model.figures()["points"] > 1
    assert [r["prediction"] for r in model.predict({"a": 0.0}, {"a": 1.0})] == ["p", "q"]


def test_the_newest_x_of_an_id_is_the_one_that_its_label_is_for(ask):
    model = taught(ask)
    for x in ([1, 1], [2, 2]):
        model.ask("POST", f"{model.path}/predict", json={"id": "k", "x": x})
        time.sleep(1.3)  # the first one is written meanwhile
    label(model, {"id": "k", "y": "right"})
    assert label(model, {"id": "k", "x": [2, 2], "y": "right"}).json()["results"][0]["score"] is not None
    refusal(label(model, {"id": "k", "x": [1, 1], "y": "right"}), 409, "conflict")


def test_a_prediction_is_too_old_also_where_nothing_else_happens(ask):
    model = ask.new_model(labels={"pending_s": 0.3})
    model.ask("POST", f"{model.path}/predict", json={"id": "k", "x": [1, 1]})
    time.sleep(1.5)
    refusal(label(model, {"id": "k", "y": 1}), 404, "not_found")


def test_a_refused_prediction_does_not_wait_for_its_label(ask):
    body = {"solver": "fogd", "kernel": {"type": "rbf", "gamma": 1.0}, "features": {"type": "dense", "dim": 2}}
    ask("PUT", "/models/unexplained", json=body)
    model = AskedModel(ask, "unexplained")
    model.learn(example([0, 1], "a"), example([1, 0], "b"))
    answer = ask("POST", f"{model.path}/predict", json={"id": "k", "x": [1, 1], "explain": 2})
    refusal(answer, 422, "invalid")
    refusal(label(model, {"id": "k", "y": "a"}), 404, "not_found")


def test_an_open_lease_is_known_however_many_others_came_and_went(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    (held,) = asked(model, "ann")
    for _ in range(105):
        (given,) = asked(model, "bob")
        model.ask("POST", f"{model.path}/queries/{given['lease']}/release")
    assert label(model, {"id": "c0", "y": 1, "lease": held["lease"]}).status_code == 200


def test_a_heartbeat_without_a_body_lasts_as_long_as_the_lease_was_given_for(model):
    offered(model, LINE)
    (question,) = asked(model, lease_s=3600)
    answer = model.ask("POST", f"{model.path}/queries/{question['lease']}/heartbeat").json()
    assert answer["expires_at"] >= question["expires_at"]


def test_many_named_examples_are_explained_at_once(ask):
    model = named_model(ask, "explained")
    model.learn(*(example({"a": k / 10, "b": str(k % 3)}, k % 2) for k in range(40)))
    body = {"examples": [{"x": {"a": k / 7}} for k in range(500)], "explain": 2}
    results = model.ask("POST", f"{model.path}/predict", json=body).json()["results"]
    assert len(results) == 500
    assert all(len(r["support_vectors"]) == 2 for r in results)


def test_who_asks_must_say_his_name(model):
    error = refusal(model.ask("POST", f"{model.path}/queries", json={"n": 1}), 422, "invalid")
    assert "annotator" in error["message"]
