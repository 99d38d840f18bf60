"""No data from a client blocks the event loop. A blocked loop (a hold) would keep all other clients waiting."""

import itertools
import json
import threading
from functools import partial

import httpx
import pytest

from tests.helpers.bodies import CLASSES, DIM, HOSTILE, VALID, dense, label, many, random_hostile
from tests.helpers.holding import held
from tests.helpers.http_client import BASE, Asking
from tests.helpers.server import PATIENCE_S, RunningServer
from tests.helpers.stream_client import opened

SEEDS = [*range(20), 99, 187]  # at 99 and 187 the garbage collector once blocked the loop
ROWS = {"features": {"type": "dense", "dim": DIM}}
MODELS = {
    "rows": BASE | ROWS,
    "studio": BASE | ROWS,
    "many": BASE | ROWS,
    "wide": BASE | {"features": {"type": "dense", "dim": 200_000}},
    "named": BASE | {"features": {"type": "named"}},
    "text": BASE | {"features": {"type": "text"}},
    "words": BASE | {"features": {"type": "text", "warmup": 20}},
    "meanings": BASE | {"features": {"type": "text", "embedding": "wordllama", "warmup": 20}},
    "columns": BASE | {"features": {"type": "named", "warmup": 20}},
}
FORMS = {
    "short texts": ("words", lambda r: f"w{r} v{7919 * r % 10_007}"),
    "texts": ("words", lambda r: " ".join(f"w{(31 * r + 17 * k) % 5003}" for k in range(20))),
    "short meanings": ("meanings", lambda r: f"w{r} v{7919 * r % 10_007}"),
    "meanings": ("meanings", lambda r: " ".join(f"w{(31 * r + 17 * k) % 5003}" for k in range(20))),
    "times": ("columns", lambda r: {f"t{k}": f"2026-01-{10 + k}T10:{r % 60:02}:00" for k in range(20)}),
    "categories": ("columns", lambda r: {f"c{k}": "abc"[r * k % 3] for k in range(20)}),
    "numbers": ("columns", lambda r: {f"n{k}": r * k % 17 for k in range(20)}),
    "rows": ("rows", dense),
}
"""By form of x: the model, and a function that makes x number r."""
SIZES = 3, 10, 30, 100, 300, 1000
"""Numbers of rows in a batch. The event loop predicts short batches by itself."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("holds") / "data") as running:
        running.prefer()  # a thread that waits for a core may have Python's lock
        with Asking(running.url) as ask:
            for name, configuration in MODELS.items():
                assert ask("PUT", f"/models/{name}", json=configuration).status_code == 201
            many = [{"x": dense(), "y": label(r)} for r in range(2 * CLASSES)]
            assert ask("POST", "/models/many/learn", json={"examples": many}).status_code == 200
            wide = [{"x": {"indices": [r], "values": [1]}, "y": r} for r in range(2)]
            assert ask("POST", "/models/wide/learn", json={"examples": wide}).status_code == 200
            few = [{"x": dense(), "y": r % 2} for r in range(40)]
            for name in ("rows", "studio"):
                assert ask("POST", f"/models/{name}/learn", json={"examples": few}).status_code == 200
            ask("POST", "/models/text/learn", json={"examples": [{"x": "a text", "y": 1}]})
            for name, x in FORMS.values():
                few = [{"x": x(-r), "y": r % 2} for r in range(30)]
                assert ask("POST", f"/models/{name}/learn", json={"examples": few}).status_code == 200
        yield running
        assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def ask(server):
    """A connection to the server. Meanwhile another client asks without a pause whether the server is well."""
    with Asking(server.url) as asking, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as other:
        over, answers = threading.Event(), set()

        def tick():
            while not over.wait(0.02):
                answers.add(other.get("/healthz").status_code)

        ticking = threading.Thread(target=tick)
        ticking.start()
        yield asking
        over.set()
        ticking.join()
        assert answers == {200}


def sent(ask, where, media_type, body):
    model, _, what = where.partition("/")
    path, method = f"/models/{model}/{what}", "POST" if what else "PUT"
    if what == "infer":
        path = f"/v2{path}"
    elif model == "studio":
        path = f"/labelstudio{path}"
    return ask(method, path.rstrip("/"), content=body, headers={"content-type": media_type})


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_body_is_refused_without_holding_the_loop(ask, what):
    answer, seconds = held(ask, partial(sent, ask, *HOSTILE[what]()))
    assert answer.status_code in (200, 400, 413, 422), answer.text[:500]
    assert not seconds


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_body_is_refused_without_holding_the_loop(ask, seed):
    answer, seconds = held(ask, partial(sent, ask, *random_hostile(seed)))
    assert answer.status_code in (400, 413, 422), answer.text[:500]
    assert not seconds


@pytest.mark.long
@pytest.mark.parametrize("what", VALID)
def test_a_long_body_is_answered_without_holding_the_loop(ask, what):
    answer, seconds = held(ask, partial(sent, ask, *VALID[what]()))
    assert answer.status_code == 200, answer.text[:500]
    assert not seconds


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_a_batch_of_any_size_is_predicted_without_holding_the_loop(ask, form, size):
    name, x = FORMS[form]
    numbers = itertools.count(size * 10_000)  # each attempt has new words

    def send():
        return ask("POST", f"/models/{name}/predict", json={"examples": [{"x": x(next(numbers))} for _ in range(size)]})

    answer, seconds = held(ask, send)
    assert answer.status_code == 200, answer.text[:500]
    assert not seconds


FRAME = 2**20 - 1000
"""Approximate bytes of a long frame."""
UNKNOWN = b",".join(b'"%05d":0' % k for k in range(90_000))
FRAMES = {
    "a row that is too long": many(b"0.25", b'{"op":"predict","ref":"r","x":[', b"]}", size=FRAME),
    "unknown parts": b'{"op":"learn","ref":"r",' + UNKNOWN + b"}",
    "unknown parts of an example": b'{"op":"learn","ref":"r","examples":[{' + UNKNOWN + b"}]}",
    "a question of unknown parts": b'{"op":"query","ref":"r",' + UNKNOWN + b"}",
    "leases that are held": many(b'"a"', b'{"op":"query","ref":"r","annotator":"a","held":[', b"]}", size=FRAME),
    "a subscription of numbers": many(b"1", b'{"op":"subscribe","ref":"r","from":[', b"]}", size=FRAME),
    "a reference without end": b'{"op":"predict","x":[],"ref":"' + b"a" * FRAME + b'"}',
    "brackets": b"[" * FRAME,
    "nulls as examples": many(b"null", b'{"op":"learn","ref":"r","examples":[', b"]}", size=FRAME),
}
EMPTY = {"indices": [], "values": []}


@pytest.mark.parametrize("what", FRAMES)
def test_a_hostile_frame_is_refused_without_holding_the_loop(server, ask, what):
    with opened(server.url, "/models/rows/stream") as socket:

        def send():
            socket.raw(FRAMES[what].decode())
            assert socket.hear()["ok"] is False

        assert not held(ask, send)[1]


@pytest.mark.long
def test_a_long_answer_to_a_frame_comes_whole_without_holding_the_loop(server, ask):
    frame = {"op": "predict", "examples": [{"x": EMPTY} for _ in range(8000)], "probabilities": True}
    with opened(server.url, "/models/many/stream") as socket:

        def send():
            socket.raw(json.dumps(frame | {"ref": "long"}))
            socket.raw(json.dumps({"op": "predict", "ref": "short", "x": EMPTY}))
            long, short = socket.hear(), socket.hear()
            assert [long["ref"], short["ref"]] == ["long", "short"]
            assert len(long["results"]) == 8000
            assert long["results"][7999]["scores"] == short["results"][0]["scores"]

        assert not held(ask, send)[1]
