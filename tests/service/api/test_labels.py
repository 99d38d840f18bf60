"""Asking for labels on a real server: the pool, questions, leases, and several annotators."""

import math
import random

import pytest

from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.questions import LINE, asked, label, line_model, offered, peeked, taught, until_over
from tests.helpers.server import RunningServer


@pytest.fixture
def model(ask):
    return line_model(ask)


def test_the_pool_takes_a_candidate_once_and_refuses_another_x_with_its_id(model):
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


def test_a_learned_example_is_not_a_candidate(model):
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
    # The model has learned before the next question is chosen: the boundary has moved to the right.
    (following,) = asked(model)
    assert following["x"][0] > 0
    assert model.figures()["metrics"]["sources"]["queried"]["predicted"] == 1


def test_peeking_shows_the_next_questions_and_changes_nothing(model):
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


def test_a_client_that_lists_its_held_leases_gets_only_those_back(model):
    offered(model, LINE)
    here = asked(model, n=2, held=[])
    there = asked(model, n=2, held=[])
    assert not {q["id"] for q in here} & {q["id"] for q in there}
    again = asked(model, n=3, held=[here[1]["lease"], "of nobody"])
    assert again[0] == here[1]
    assert not {q["id"] for q in again[1:]} & {q["id"] for q in here + there}
    assert len(asked(model, n=20)) == 20  # a request without `held` gets all open leases first
    assert {q["id"] for q in asked(model, n=6)} == {q["id"] for q in here + there + again}
    (bobs,) = asked(model, "bob", held=[here[0]["lease"]])
    assert bobs["id"] != here[0]["id"]
    first = asked(model, n=1, request_id="r", held=[])
    assert asked(model, n=1, request_id="r", held=[]) == first
    body = {"annotator": "ann", "n": 1, "request_id": "r", "held": [first[0]["lease"]]}
    refusal(model.ask("POST", f"{model.path}/queries", json=body), 409, "conflict")
    for wrong in ("x", [1], ["x"] * 1001):
        answer = model.ask("POST", f"{model.path}/queries", json={"annotator": "ann", "held": wrong})
        refusal(answer, 422, "invalid")


def test_a_repeated_request_gets_the_same_answer_and_another_with_its_id_is_refused(model):
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
    until_over(lost)
    assert [entry["id"] for entry in peeked(model)["leased"]] == [kept["id"]]
    refusal(model.ask("POST", f"{model.path}/queries/{lost['lease']}/heartbeat"), 404, "not_found")
    assert lost["id"] in {q["id"] for q in asked(model, "bob", n=4)}


def test_after_a_second_lease_the_first_label_wins_and_the_other_is_a_duplicate(model):
    offered(model, LINE[20:21])
    (early,) = asked(model, "ann", lease_s=0.1)
    until_over(early)
    (late,) = asked(model, "bob")
    assert late["id"] == early["id"]
    (first,) = label(model, {"id": "c0", "y": "left", "lease": early["lease"]}).json()["results"]
    (second,) = label(model, {"id": "c0", "y": "right", "lease": late["lease"]}).json()["results"]
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert model.figures()["examples"] == 11
    refusal(label(model, {"id": "c0", "y": "right"}), 409, "conflict")  # the labels contradict each other


def test_a_released_candidate_is_asked_again_but_not_of_an_annotator_who_skipped_it(model):
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


def unskipped(model, lease):
    return model.ask("DELETE", f"{model.path}/queries/{lease}/skip")


def skipped(model, question, whom="me"):
    answer = model.ask("POST", f"{model.path}/queries/{question['lease']}/skip", json={"for": whom})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("whom", ["me", "all"])
def test_a_skip_is_taken_back_under_the_same_lease(model, whom):
    offered(model, LINE[20:21])
    (question,) = asked(model)
    skipped(model, question, whom)
    assert asked(model) == []
    answer = unskipped(model, question["lease"]).json()
    assert (answer["id"], answer["lease"]) == (question["id"], question["lease"])
    assert answer["expires_at"] > question["expires_at"]
    position = model.figures()["position"]
    assert unskipped(model, question["lease"]).json() == answer  # a repetition changes nothing
    assert model.figures()["position"] == position
    assert [q["lease"] for q in asked(model)] == [question["lease"]]
    assert asked(model, "bob") == []
    assert label(model, {"id": "c0", "y": "left", "lease": question["lease"]}).status_code == 200
    refusal(unskipped(model, question["lease"]), 404, "not_found")


def test_a_skip_by_another_annotator_is_not_taken_back(model):
    offered(model, LINE[20:21])
    (question,) = asked(model)
    skipped(model, question)
    (bobs,) = asked(model, "bob")
    refusal(unskipped(model, question["lease"]), 409, "conflict")
    skipped(model, bobs, "all")
    refusal(unskipped(model, question["lease"]), 409, "conflict")
    assert unskipped(model, bobs["lease"]).status_code == 200
    model.ask("POST", f"{model.path}/queries/{bobs['lease']}/release")
    refusal(unskipped(model, bobs["lease"]), 404, "not_found")  # the lease was released, not skipped
    assert unskipped(model, question["lease"]).status_code == 200


def test_a_skip_that_was_taken_back_stays_so_after_a_crash(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        model = line_model(ask)
        offered(model, LINE[20:23])
        back, mine, nobodys = asked(model, n=3)
        for question, whom in ((back, "all"), (mine, "me"), (nobodys, "all")):
            skipped(model, question, whom)
        model.ask("POST", f"{model.path}/snapshot")
        unskipped(model, back["lease"])
        before = model.ask("GET", f"{model.path}/answers").json()
        assert before["annotators"]["ann"]["skipped"] == 2
        server.kill()
        server.start()
        assert model.ask("GET", f"{model.path}/answers").json() == before
        assert [q["lease"] for q in asked(model, n=3)] == [back["lease"]]
        assert unskipped(model, mine["lease"]).status_code == unskipped(model, nobodys["lease"]).status_code == 200


def test_a_lease_on_another_candidate_or_an_unknown_lease_is_not_found(model):
    offered(model, LINE)
    (question,) = asked(model)
    refusal(label(model, {"id": "c1", "y": "left", "lease": question["lease"]}), 404, "not_found")
    refusal(label(model, {"id": "c1", "y": "left", "lease": "nothing"}), 404, "not_found")
    refusal(label(model, {"id": "nobody", "y": "left"}), 404, "not_found")


def test_a_batch_of_questions_is_diverse(model):
    twins = [[0.0, 0.0]] * 30 + [[0.05, 1.0], [0.05, -1.0], [-0.05, 2.0]]
    offered(model, twins)
    xs = [tuple(q["x"]) for q in asked(model, n=4)]
    assert len(set(xs)) == 4


def test_each_strategy_asks_for_the_right_candidates(ask):
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


def test_a_share_of_the_questions_is_drawn_at_random_and_counted_separately(ask):
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


def test_scores_that_do_not_separate_classes_are_still_numbers(model):
    offered(model, [[math.pi * k, 0.0] for k in range(10)])
    assert all(math.isfinite(q["score"]) for q in asked(model, n=10))


# -- earlier faults ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_open_lease_is_kept_however_many_other_leases_ended(ask):
    model = ask.new_model(labels={"overlap": 2})
    offered(model, [[0, 0]])
    (held,) = asked(model, "ann")
    for _ in range(105):
        (given,) = asked(model, "bob")
        model.ask("POST", f"{model.path}/queries/{given['lease']}/release")
    assert label(model, {"id": "c0", "y": 1, "lease": held["lease"]}).status_code == 200


def test_a_heartbeat_without_a_body_extends_a_lease_by_its_original_length(model):
    offered(model, LINE)
    (question,) = asked(model, lease_s=3600)
    answer = model.ask("POST", f"{model.path}/queries/{question['lease']}/heartbeat").json()
    assert answer["expires_at"] >= question["expires_at"]


def test_a_request_for_labels_must_name_the_annotator(model):
    error = refusal(model.ask("POST", f"{model.path}/queries", json={"n": 1}), 422, "invalid")
    assert "annotator" in error["message"]
