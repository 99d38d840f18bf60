"""HINGED_KEY_RATE: how many requests a second each key may send."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

from hinged.service.edge.access import Access
from hinged.service.edge.keys import NOBODY_ASKED, create_key
from hinged.service.edge.rates import KEPT, Rates
from hinged.service.errors import Invalid, QueueFull
from hinged.service.limits import FRAME_BYTES_MAX
from hinged.service.settings import Settings
from tests.helpers.guarded_server import Line, head
from tests.helpers.http_client import BASE, Asking, bearer, example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer

RATE = 4


def key(name):
    return NOBODY_ASKED.model_copy(update={"name": name})


@given(
    rate=st.sampled_from([1, 2, 8]),
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 160)), max_size=60),
)
def test_a_key_is_refused_when_a_bucket_of_tokens_is_empty(rate, steps):
    now = 0.0
    rates, tokens, filled_at = Rates(rate, lambda: now), {"a": rate, "b": rate}, {"a": 0.0, "b": 0.0}
    for name, later in steps:
        now += later / 128  # all numbers are exact
        tokens[name] = min(rate, tokens[name] + (now - filled_at[name]) * rate)
        filled_at[name] = now
        if tokens[name] >= 1:
            tokens[name] -= 1
            rates.check(key(name))
        else:
            with pytest.raises(QueueFull, match=f"the key {name} may send {rate} requests a second") as refused:
                rates.check(key(name))
            assert refused.value.details == {"retry_after_s": 1}
            assert rates.wait_s(key(name)) == (1 - tokens[name]) / rate


def test_idle_keys_take_no_memory():
    now = 0.0
    rates = Rates(1.0, lambda: now)
    for number in range(3 * KEPT):
        now += 0.01
        rates.check(key(f"k{number}"))
    assert len(rates._ends) <= KEPT + 1


def test_without_a_rate_nothing_is_refused_and_a_rate_needs_keys(tmp_path):
    rates = Rates(None)
    for _ in range(10_000):
        rates.check(NOBODY_ASKED)
    with pytest.raises(Invalid, match="needs keys: set HINGED_KEYS_FILE, too"):
        Access(Settings(data_dir=tmp_path, key_rate=5))
    with pytest.raises(Invalid, match="HINGED_READER_BYTES_MAX=2097152 needs keys"):
        Access(Settings(data_dir=tmp_path, reader_bytes_max=2 * 2**20))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that accepts RATE requests a second of each key, and the header of each key."""
    folder = tmp_path_factory.mktemp("rates")
    path = folder / "keys.json"
    names = ("GET", "POST", "frames", "other")
    keys = {name: bearer(create_key(path, name, "admin")) for name in names}
    with RunningServer(folder / "data", keys_file=path, key_rate=RATE) as server, Asking(server.url) as ask:
        assert ask("PUT", "/models/m", json=BASE, headers=keys["other"]).status_code == 201
        yield server, ask, keys


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", "/models/m", b""), ("POST", "/models/m/predict", b'{"x": [0, 1]}')]
)
def test_requests_above_the_rate_get_429_and_other_keys_are_answered(guarded, method, path, body):
    server, ask, keys = guarded
    lines = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body)), **keys[method]}
    begun = time.monotonic()
    with Line(server.port) as line:
        line.send((head(method, path, lines) + body) * 60)
        answers = [line.answer() for _ in range(60)]
    most = RATE + RATE * (time.monotonic() - begun)
    statuses = [status for status, *_ in answers]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= most
    headers, told = next(answer[1:] for answer in answers if answer[0] == 429)
    assert headers["retry-after"] == "1"
    assert json.loads(told)["error"]["code"] == "queue_full"
    assert ask("GET", "/models/m", headers=keys["other"]).status_code == 200
    for _ in range(3 * RATE):
        assert ask("GET", "/healthz").status_code == 200
    refusal(ask("GET", "/models/m"), 401, "unauthenticated")


@pytest.mark.long
def test_frames_above_the_rate_wait(guarded):
    server, _, keys = guarded
    begun, frames = time.monotonic(), 4 * RATE
    with connect(f"ws://localhost:{server.port}/models/m/stream", additional_headers=keys["frames"]) as stream:
        for k in range(frames):
            stream.send(json.dumps({"op": "learn", "ref": str(k), "examples": [example([k, 1], "a", f"e{k}")]}))
        answers = [json.loads(stream.recv(PATIENCE_S)) for _ in range(frames)]
    assert [answer["ref"] for answer in answers] == [str(k) for k in range(frames)]
    assert all("error" not in answer for answer in answers)
    assert time.monotonic() - begun >= (frames - RATE) / RATE


SMALLER, LARGER = FRAME_BYTES_MAX, 2 * FRAME_BYTES_MAX  # longest bodies of readers and of writers
ROLES = ("reader", "annotator", "writer", "admin")


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """A server that accepts shorter bodies from readers and annotators, and the header of a key of each role."""
    folder = tmp_path_factory.mktemp("sizes")
    path = folder / "keys.json"
    keys = {role: bearer(create_key(path, role, role)) for role in ROLES}
    limits = {"reader_bytes_max": SMALLER, "body_bytes_max": LARGER}
    with RunningServer(folder / "data", keys_file=path, **limits) as server, Asking(server.url) as ask:
        assert ask("PUT", "/models/m", json=BASE, headers=keys["admin"]).status_code == 201
        yield ask, keys


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", ["/models/m/predict", "/models/m/rank", "/v2/models/m/infer"])
def test_readers_and_annotators_send_shorter_bodies_than_writers(bounded, path, role, chunked):
    """A body of exactly the limit is read, whatever the route makes of it."""
    ask, keys = bounded
    most = LARGER if role in ROLES[2:] else SMALLER
    headers = {**keys[role], "content-type": "application/json"}
    for size, read in ((most, True), (most + 1, False)):
        body = b'{"x": [0, 1]}'.ljust(size)
        answer = ask("POST", path, content=iter([body[:5], body[5:]]) if chunked else body, headers=headers)
        refused = answer.status_code == 413 and f"at most {most} bytes" in answer.text
        assert refused is not read, answer.text
