"""Models that are created without features. Their first examples determine the features."""

import threading

import pytest

from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer, eventually

WEBSOCKET = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
XS = {
    "dense": [[0, 1], [1, 0]],
    "sparse": [{"indices": [4], "values": [1]}, {"indices": [], "values": []}],
    "named": [{"age": 31, "job": "nurse"}, {"age": 40, "job": None}],
    "text": ["a text", "another text"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("announced") / "data") as running:
        yield running


@pytest.fixture
def ask(server):
    with Asking(server.url) as asking:
        yield asking


@pytest.fixture
def name(ask, request):
    name = request.node.name.partition("[")[2].rstrip("]") or "x"
    ask("DELETE", f"/models/{name}")
    yield name
    ask("DELETE", f"/models/{name}")


def create(ask, name, **parts):
    return ask("PUT", f"/models/{name}", json=parts)


def learn(ask, name, *xs):
    examples = [example(x, k % 2, f"e{k}") for k, x in enumerate(xs)]
    return ask("POST", f"/models/{name}/learn", json={"examples": examples})


def state_of(ask, name):
    return {model["model"]: model for model in ask("GET", "/models").json()["models"]}[name]


@pytest.mark.parametrize("form", XS)
def test_the_first_examples_make_the_model_that_they_make_as_the_default_model(ask, form, name):
    made = create(ask, name)
    assert (made.status_code, made.json()) == (201, {"model": name, "configuration": {}, "state": "waiting"})
    ask("DELETE", "/models/default")
    default = ask("POST", "/learn", json={"examples": [example(x, k % 2, f"e{k}") for k, x in enumerate(XS[form])]})
    learned = learn(ask, name, *XS[form])
    assert learned.status_code == 200
    assert learned.json() == default.json() | {"model": name}
    configuration = state_of(ask, name)["configuration"]
    assert configuration == state_of(ask, "default")["configuration"]
    # The request that created the model may be repeated.
    again = create(ask, name)
    assert (again.status_code, again.json()) == (200, {"model": name, "configuration": configuration})
    refusal(create(ask, name, C=3), 409, "conflict")


def test_the_parts_that_were_given_stay(ask, name):
    create(ask, name, C=3, kernel={"type": "linear"}, classes=["a", "b"])
    assert ask("POST", f"/models/{name}/learn", json=example([0, 1], "a")).status_code == 200
    configuration = state_of(ask, name)["configuration"]
    assert (configuration["solver"], configuration["C"]) == ("lasvm", 3)
    assert configuration["kernel"] == {"type": "linear"}
    assert ask("GET", f"/models/{name}").json()["classes"] == ["a", "b"]


def test_until_then_every_request_gets_the_same_answer(ask, name):
    create(ask, name, C=3)
    assert state_of(ask, name) == {"model": name, "state": "waiting", "configuration": {"C": 3}}
    assert ask("GET", "/readyz").json()["models"]["waiting"] == 1
    base = f"/models/{name}"
    answers = [
        ask("GET", base),
        ask("POST", f"{base}/predict", json={"x": [0, 1]}),
        ask("GET", f"{base}/predict?x=[0,1]"),
        ask("POST", f"{base}/pool", json={"examples": [{"id": "a", "x": [0, 1]}]}),
        ask("POST", f"{base}/queries", json={"n": 1, "annotator": "ann"}),
        ask("POST", f"{base}/finish"),
        ask("GET", f"{base}/export"),
        ask("GET", f"{base}/events"),
        ask("GET", f"{base}/stream", headers=WEBSOCKET),
        ask("POST", f"{base}/rollback", json={"to": 1}),
    ]
    errors = [refusal(answer, 409, "conflict") for answer in answers]
    assert errors == [errors[0]] * len(errors)
    assert errors[0]["message"].startswith(f"model {name} has no features yet: the first examples")
    assert errors[0]["details"] == {"state": "waiting", "configuration": {"C": 3}}
    # Nothing that is refused decides anything.
    for bad in (example([], 1), example([0], None), {"id": "a", "y": 1}, {"examples": []}, example([0, "a"], 1)):
        refusal(ask("POST", f"{base}/learn", json=bad), 422, "invalid")
    assert state_of(ask, name)["state"] == "waiting"


def test_creation_may_be_repeated_but_not_with_other_parts(ask, name):
    assert create(ask, name, C=1).status_code == 201
    for parts in ({"C": 1.0}, {"C": 1, "solver": "lasvm"}):
        assert create(ask, name, **parts).status_code == 200
    for parts in ({}, {"C": 2}, {"C": 1, "features": {"type": "dense", "dim": 2}}):
        error = refusal(create(ask, name, **parts), 409, "conflict")
        assert error["details"]["configuration"] == {"C": 1}
    exported = ask.new_model("whole")
    file = ask("GET", f"{exported.path}/export").content
    there = ask("POST", f"/models/{name}/import", content=file, headers={"content-type": "application/octet-stream"})
    refusal(there, 409, "conflict")
    ask("DELETE", exported.path)
    assert ask("DELETE", f"/models/{name}").status_code == 200
    refusal(ask("GET", f"/models/{name}"), 404, "not_found")
    assert create(ask, name).status_code == 201


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"kernel": "odd"}, "kernel"),
        ({"q": 1}, "unknown part 'q'"),
        ({"C": -1}, "C: "),
        ({"classes": ["a"]}, "classes"),
        ({"features": None}, "features"),
        ({"show": {"image": [8, 8]}}, "features is missing; show.image needs them"),
        ({"points_max": 10**9}, "points_max"),
    ],
    ids=["kernel", "unknown", "C", "classes", "features", "picture", "points"],
)
def test_invalid_parts_are_refused_before_anything_is_created(ask, name, parts, reason):
    assert reason in refusal(create(ask, name, **parts), 422, "invalid")["message"]
    refusal(ask("GET", f"/models/{name}"), 404, "not_found")


def test_of_two_first_requests_with_other_forms_one_decides(ask, server, name):
    for _ in range(5):
        create(ask, name)
        answers = {}

        def first(form, answers=answers):
            with Asking(server.url) as mine:
                answers[form] = learn(mine, name, *XS[form])

        threads = [threading.Thread(target=first, args=(form,)) for form in ("dense", "named", "text")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        decided = state_of(ask, name)["configuration"]["features"]["type"]
        assert {form: answer.status_code for form, answer in answers.items()} == {
            form: 200 if form == decided else 422 for form in answers
        }
        assert ask("DELETE", f"/models/{name}").status_code == 200


def test_a_model_without_features_counts_towards_the_limit_and_needs_no_second_place(tmp_path):
    with RunningServer(tmp_path / "data", models_max=1) as running, Asking(running.url) as ask:
        assert create(ask, "x").status_code == 201
        refusal(create(ask, "y"), 409, "conflict")
        refusal(ask("POST", "/learn", json=example([0, 1], 1)), 409, "conflict")
        assert learn(ask, "x", *XS["dense"]).status_code == 200
        refusal(create(ask, "y"), 409, "conflict")


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "processes", "redis"])
def test_neither_the_announcement_nor_the_decision_is_lost_with_a_killed_server(tmp_path, store):
    redis = RedisServer(tmp_path / "redis") if store == "redis" else None
    settings = {"redis": lambda: {"store": redis.url}, "processes": lambda: {"processes": 2}}.get(store, dict)
    names = [f"m{k}" for k in range(6)]
    try:
        if redis is not None:
            redis.start()
        server = RunningServer(tmp_path / "data", **settings())
        server.start()
        with Asking(server.url) as ask:
            for name in names:
                assert create(ask, name, C=3).status_code == 201
            for name, xs in zip(names, XS.values(), strict=False):
                assert learn(ask, name, *xs).status_code == 200
        server.kill_all()
        server.start()
        with Asking(server.url) as ask:
            states = {model["model"]: model["state"] for model in ask("GET", "/models").json()["models"]}
            assert states == dict.fromkeys(names[:4], "serving") | dict.fromkeys(names[4:], "waiting")
            for name, (form, xs) in zip(names, XS.items(), strict=False):
                assert state_of(ask, name)["configuration"]["features"]["type"] == form
                assert [result["duplicate"] for result in learn(ask, name, *xs).json()["results"]] == [True, True]
            assert learn(ask, names[4], *XS["named"]).status_code == 200
            eventually(lambda: ask("POST", f"/models/{names[4]}/predict", json={"x": {"age": 3}}).status_code == 200)
            refusal(ask("POST", f"/models/{names[5]}/predict", json={"x": {"age": 3}}), 409, "conflict")
        server.terminate()
    finally:
        if redis is not None:
            redis.stop()
