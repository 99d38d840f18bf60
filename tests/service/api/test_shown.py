"""A candidate's `show` is stored with the candidate, returned with its question, and removed with it. It is never a
feature.
"""

import pytest

from hinged.service.data.examples import SHOW_BYTES_MAX
from tests.helpers.changes import NEEDLE, found_in, until_ended
from tests.helpers.http_client import Asking, refusal
from tests.helpers.questions import LINE as XS
from tests.helpers.questions import asked, label, line_model
from tests.helpers.server import RunningServer

LINE = [{"id": f"c{k}", "x": x} for k, x in enumerate(XS)]
SHOWS = ["a text", {"text": "one", "url": "https://a.example/1.png", "n": [1, None]}, ["a", 2], 7, False]


@pytest.fixture
def model(ask):
    return line_model(ask)


def offered(model, candidates):
    answer = model.ask("POST", f"{model.path}/pool", json={"examples": candidates})
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(model):
    """Return the `show` of each id, as the pool lists them."""
    return {c["id"]: c["show"] for c in model.ask("GET", f"{model.path}/pool").json()["candidates"] if "show" in c}


@pytest.mark.parametrize("show", SHOWS)
def test_show_comes_with_the_question(model, show):
    offered(model, [{**LINE[20], "show": show}])
    (question,) = asked(model)
    assert (question["x"], question["show"]) == (LINE[20]["x"], show)
    assert shown(model) == {LINE[20]["id"]: show}
    assert model.ask("GET", f"{model.path}/examples/{LINE[20]['id']}").json()["show"] == show
    label(model, {"id": question["id"], "y": "left", "lease": question["lease"]})
    assert "show" not in model.ask("GET", f"{model.path}/examples/{LINE[20]['id']}").json()


def test_without_show_answers_leave_it_out(model):
    offered(model, [LINE[0], {**LINE[1], "show": None}])
    assert shown(model) == {}
    assert all("show" not in question for question in asked(model, n=2))


def test_show_is_not_a_feature(ask):
    plain, dressed = line_model(ask), line_model(ask)
    offered(plain, LINE)
    offered(dressed, [{**candidate, "show": {"x": [9, 9], "y": "left"}} for candidate in LINE])
    for model in (plain, dressed):
        label(model, *({"id": LINE[k]["id"], "y": "left" if k < 20 else "right"} for k in (0, 5, 30, 40)))
    asked_of = [[0.3, 0.3], [-0.2, 0.1]]
    assert plain.predict(*asked_of) == dressed.predict(*asked_of)


def test_the_same_offer_again_changes_nothing(model):
    first = [{**LINE[0], "show": {"a": 1, "b": 2}}, LINE[1]]
    assert offered(model, first)["added"] == 2
    assert offered(model, [{**LINE[0], "show": {"b": 2, "a": 1}}, LINE[1]])["added"] == 0
    position = model.figures()["position"]
    assert offered(model, LINE[:2])["added"] == 0  # this candidate has no show
    assert shown(model) == {LINE[0]["id"]: {"a": 1, "b": 2}}
    assert model.figures()["position"] == position


def test_a_repeated_offer_replaces_show(model):
    offered(model, [{**LINE[0], "show": {"a": 1}}, LINE[1], LINE[2]])
    again = [LINE[3], {**LINE[0], "show": {"a": True}}, {**LINE[1], "show": "a text"}, LINE[1]]
    answer = offered(model, again)
    assert (answer["added"], answer["size"]) == (1, 4)
    assert shown(model) == {LINE[0]["id"]: {"a": True}, LINE[1]["id"]: "a text"}
    questions = {question["id"]: question for question in asked(model, n=4, request_id="r")}
    assert questions[LINE[1]["id"]]["show"] == "a text"
    offered(model, [{**LINE[1], "show": 7}])
    repeated = {question["id"]: question for question in asked(model, n=4, request_id="r")}
    assert repeated[LINE[1]["id"]]["show"] == 7


def test_a_request_with_two_shows_for_one_candidate_is_refused_as_a_whole(model):
    offered(model, [LINE[0]])
    for given in (LINE[0], LINE[2]):
        body = {"examples": [{**given, "show": 1}, LINE[1], {**given, "show": 2}]}
        error = refusal(model.ask("POST", f"{model.path}/pool", json=body), 409, "conflict")
        assert error["details"]["index"] == 2
        assert f"{given['id']!r} has another `show` earlier in this request" in error["message"]
    assert shown(model) == {}
    assert model.figures()["pool"]["size"] == 1


def test_a_new_show_stays_when_other_candidates_come(ask):
    model = line_model(ask)
    assert ask("PATCH", model.path, json={"labels": {"pool_max": 2}}).status_code == 200
    offered(model, [{**LINE[0], "show": "old"}, LINE[1]])
    assert offered(model, [{**LINE[0], "show": "new"}, LINE[2]])["size"] == 2
    assert shown(model) == {}  # the candidate was removed to make room
    offered(model, [{**LINE[0], "show": "newest"}])
    assert shown(model) == {LINE[0]["id"]: "newest"}


def test_a_show_that_is_too_large_or_not_json_is_refused(model):
    offered(model, [{**LINE[0], "show": (SHOW_BYTES_MAX - 2) * "a"}])
    for show in ((SHOW_BYTES_MAX - 1) * "a", SHOW_BYTES_MAX // 2 * "ä"):
        body = {"examples": [LINE[1], {**LINE[2], "show": show}]}
        error = refusal(model.ask("POST", f"{model.path}/pool", json=body), 422, "invalid")
        assert f"examples[1].show: must have at most {SHOW_BYTES_MAX} bytes" in error["message"]
        assert error["details"] == {"index": 1}
    content = b'{"examples": [{"id": "n", "x": [0, 0], "show": [NaN]}]}'
    headers = {"content-type": "application/json"}
    error = refusal(model.ask("POST", f"{model.path}/pool", content=content, headers=headers), 422, "invalid")
    assert "examples[0].show: must be JSON" in error["message"]
    assert model.figures()["pool"]["size"] == 1


def test_show_survives_a_crash_and_an_export_and_leaves_no_trace_when_forgotten(tmp_path):
    with RunningServer(tmp_path / "data", snapshot_examples=5) as server, Asking(server.url) as ask:
        model = line_model(ask)
        shows = {candidate["id"]: {"told": f"{k}"} for k, candidate in enumerate(LINE)}
        shows[LINE[3]["id"]] = shows[LINE[4]["id"]] = {"told": NEEDLE}
        offered(model, LINE)
        offered(model, [{**candidate, "show": shows[candidate["id"]]} for candidate in LINE])
        server.kill()
        server.start()
        assert shown(model) == shows
        exported = ask("GET", f"{model.path}/export").content
        headers = {"content-type": "application/octet-stream"}
        assert ask("POST", "/models/again/import", content=exported, headers=headers).status_code == 201
        assert shown(type(model)(ask, "again")) == shows
        assert ask("DELETE", "/models/again").status_code == 200
        label(model, {"id": LINE[4]["id"], "y": "left"})
        for given in (LINE[3]["id"], LINE[4]["id"]):
            answer = ask("DELETE", f"{model.path}/examples/{given}")
            if answer.status_code == 202:
                assert until_ended(ask, answer.json()["job"])["state"] == "done"
        assert found_in(tmp_path / "data", NEEDLE.encode()) == []
        for given in (LINE[3]["id"], LINE[4]["id"]):
            del shows[given]
        assert shown(model) == shows
