"""A prediction names the columns that lie outside everything learned, whichever way it was requested."""

import asyncio
import json
import random

import httpx
import numpy as np
import pytest

from hinged.client import AsyncClient, Client
from hinged.service.edge.shortcut import SMALL_BYTES
from tests.helpers.http_client import AskedModel, Asking, example
from tests.helpers.server import RunningServer, eventually, wait_for_children
from tests.helpers.stream_client import opened

WORDS = ("ice", "snow", "sun", "rain", "wind")


def named(rng, k):
    return {
        "a": rng.gauss(0, 1),
        "b": rng.choice("uvw"),
        "c": rng.random() < 0.5,
        "when": f"2026-05-{1 + k % 28:02}T{k % 24:02}:00",
        "note": " ".join(rng.choices(WORDS, k=6)),
        "account": f"customer {k}",
    }


def made(ask, name, features, x_of):
    rng = random.Random(5)
    model = AskedModel(ask, name)
    body = {"solver": "lasvm", "kernel": {"type": "rbf"}, "features": features}
    answer = ask("PUT", model.path, json=body)
    assert answer.status_code == 201, answer.text
    model.learn(*(example(x_of(rng, k), k % 2) for k in range(120)))
    return model


NAMED = {"type": "named", "warmup": 100, "columns": {"note": {"type": "text"}}}
DENSE = {"type": "dense", "dim": 3, "warmup": 100}


def point(rng, _):
    return [rng.gauss(0, 1), rng.random(), 7.0]


@pytest.fixture(scope="module")
def records(ask):
    return made(ask, "outside-named", NAMED, named)


@pytest.fixture(scope="module")
def points(ask):
    return made(ask, "outside-dense", DENSE, point)


USUAL = {"a": 0.3, "b": "u", "c": True, "when": "2026-06-01T09:00", "note": "ice and snow", "account": "customer 9999"}


@pytest.mark.parametrize(
    ("change", "outside"),
    [
        ({}, None),
        ({"a": None, "note": None}, None),
        ({"a": 1e6}, ["a"]),
        ({"a": "much"}, ["a"]),
        ({"b": "x"}, ["b"]),
        ({"b": 3}, ["b"]),
        ({"c": "yes"}, ["c"]),
        ({"d": 1}, ["d"]),
        ({"when": "1.5.2026"}, ["when"]),
        ({"when": "9999-12-31"}, None),  # the day of the week and the part of the year are the same as on any other day
        ({"note": "Wolken am Himmel"}, ["note"]),
        ({"note": "snow am Himmel"}, None),
        ({"a": -1e6, "b": "x", "d": "d"}, ["a", "b", "d"]),
    ],
)
def test_names_with_values_that_were_never_learned_are_listed(records, change, outside):
    results = records.predict(USUAL, USUAL | change, USUAL)
    assert [result.get("outside") for result in results] == [None, outside, None]


def test_at_most_ten_names_are_listed(records):
    (result,) = records.predict({f"n{k}": k for k in range(50)})
    assert len(result["outside"]) == 10


def test_columns_of_rows_are_listed_by_number(points):
    results = points.predict([0, 0.5, 7], [60, 0.5, 7], [0, -9, 700], {"indices": [2], "values": [7]})
    assert [result.get("outside") for result in results] == [None, [0], [1, 2], None]


def test_sparse_columns_are_listed_if_they_are_many_times_as_large(ask):
    def sparse(rng, k):
        return {"indices": [k % 5, 5 + k % 3], "values": [1.0 + rng.random(), 1.0]}

    model = made(ask, "outside-sparse", {"type": "sparse", "dim": 20, "warmup": 100}, sparse)
    results = model.predict(*({"indices": [1, 6], "values": [value, 1]} for value in (1.5, 80)))
    assert [result.get("outside") for result in results] == [None, [1]]


def test_unscaled_numbers_are_never_listed(ask):
    model = made(ask, "outside-plain", DENSE | {"scale": None}, point)
    assert "outside" not in model.predict([1e6, 0, 0])[0]


def test_an_untaught_model_lists_nothing(ask):
    model = ask.new_model(features=NAMED, kernel={"type": "rbf"})
    assert "outside" not in model.predict({"a": 1e9})[0]


def test_a_time_since_longer_than_any_learned_is_listed_only_for_the_first_row(ask):
    def when(rng, k):
        return {"a": rng.gauss(0, 1), "when": f"2026-05-01T{k // 60:02}:{k % 60:02}:{rng.randrange(20):02}"}

    model = made(ask, "outside-since", {"type": "named", "warmup": 100, "since": ["when"]}, when)
    xs = [{"a": 0, "when": f"2027-05-01T12:{minute}:10"} for minute in (10, 11, 12)]
    assert [result.get("outside") for result in model.predict(*xs)] == [["when"], None, None]


# -- every way of predicting
# --------------------------------------------------------------------------------------------


FAR = [[0.0, 0.5, 7.0], [60.0, 0.5, 700.0]]
BODY = {"examples": [{"x": x} for x in FAR]}


def shortcut(model):
    return model.ask("POST", f"{model.path}/predict", json=BODY).json()["results"]


def usual_way(model):
    body = json.dumps(BODY).encode() + b" " * SMALL_BYTES
    headers = {"content-type": "application/json"}
    return model.ask("POST", f"{model.path}/predict", content=body, headers=headers).json()["results"]


def together(model):
    """Send many small requests on one stream. The server parses these requests together."""
    with opened(model.ask.url, f"{model.path}/stream") as stream:
        refs = [stream.say("predict", examples=[{"x": x}]) for x in FAR]
        answers = {frame["ref"]: frame["results"][0] for frame in (stream.hear() for _ in refs)}
        return [answers[ref] for ref in refs]


def query(model):
    found = [model.ask("GET", f"{model.path}/predict", params={"x": json.dumps(x)}) for x in FAR]
    return [answer.json()["results"][0] for answer in found]


def frame(model):
    with opened(model.ask.url, f"{model.path}/stream") as stream:
        return stream.ask("predict", **BODY)["results"]


def explained(model):
    return model.ask("POST", f"{model.path}/predict", json=BODY | {"explain": 1}).json()["results"]


def tensors(model):
    x = {"name": "x", "datatype": "FP64", "shape": [2, 3], "data": FAR}
    outputs = model.ask("POST", f"/v2{model.path}/infer", json={"inputs": [x]}).json()["outputs"]
    return [{"outside": json.loads(said)} for said in outputs[-1]["data"]]


def client(model):
    with Client(model.ask.url) as asks:
        return asks.predict(model.name, BODY["examples"])["results"]


def rows_as_bytes(model):
    with Client(model.ask.url) as asks:
        return asks.predict_rows(model.name, np.array(FAR))["results"]


def asynchronous(model):
    async def ask():
        async with AsyncClient(model.ask.url) as asks:
            return (await asks.predict_rows(model.name, np.array(FAR)))["results"]

    return asyncio.run(ask())


DOORS = [shortcut, usual_way, together, query, frame, explained, tensors, client, rows_as_bytes, asynchronous]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_way_of_predicting_lists_what_lies_outside(points, door):
    assert [result.get("outside") or None for result in door(points)] == [None, [0, 2]]


@pytest.mark.parametrize("more", [{"processes": 2, "followers": 1}, {"processes": 2}], ids=["a follower", "owners"])
def test_other_processes_list_it_too(tmp_path, more):
    with RunningServer(tmp_path / "data", **more) as server, Asking(server.url) as ask:
        model = made(ask, "outside", DENSE, point)
        wait_for_children(server.process.pid, 1)
        newest = ask("GET", model.path).json()["position"]

        def followed():  # a follower may be some milliseconds behind; each request has its own connection
            answers = [httpx.post(f"{server.url}{model.path}/predict", json=BODY).json() for _ in range(10)]
            return all(answer["position"] >= newest for answer in answers)

        eventually(followed)
        for door in (shortcut, usual_way, rows_as_bytes) * 5:  # any free process accepts a connection
            assert [result.get("outside") for result in door(model)] == [None, [0, 2]]
