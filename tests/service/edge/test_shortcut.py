"""A small request takes a shortcut. It is answered, counted and logged exactly as on the usual path."""

import asyncio
import json

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hinged.service.edge.shortcut import SMALL_BYTES
from tests.helpers.paired_apps import BODY_BYTES_MAX, ORIGIN, Both, request

PREDICT = json.dumps({"x": [0.0, 1.0]}).encode()
LEARN = json.dumps({"id": "a", "x": [0.5, 1.0], "y": "p"}).encode()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with Both(tmp_path_factory.mktemp("ways")) as both:
        both.begin_anew()
        yield both


# -- any requests -----------------------------------------------------------------------------------------------------

numbers = st.sampled_from([0.0, 0.5, 1.0, -1.0, 2, 1e40, "1", None])
xs = (
    st.lists(st.sampled_from([0.0, 0.5, 1.0, -2]), min_size=2, max_size=2)
    | st.lists(numbers, max_size=3)
    | st.builds(lambda i, v: {"indices": [i], "values": [v]}, st.integers(-1, 2), numbers)
)
ids = st.sampled_from(["a", "b", "c", "", "@1", "\n", None, 7])
labelled = st.fixed_dictionaries({"x": xs, "y": st.sampled_from(["p", "q", "p", "q", 1, True, None])})
examples = st.builds(
    lambda example, more: example | more, labelled, st.dictionaries(st.just("id"), ids) | st.just({"lease": "l"})
)
unlabelled = st.fixed_dictionaries({"x": xs})
asked = st.fixed_dictionaries(
    {"x": xs},
    optional={
        "id": ids,
        "explain": st.sampled_from([0, 1, 5000]),
        "probabilities": st.booleans(),
        "intervals": st.booleans(),
        "conformal": st.sampled_from([None, "full", "half"]),
        "what": st.just(1),
    },
)
said = (
    examples
    | asked
    | st.builds(lambda every: {"examples": every}, st.lists(examples | unlabelled, max_size=3))
    | st.builds(lambda size: {"x": [0.0, 1.0], "id": "i" * size}, st.sampled_from([SMALL_BYTES, BODY_BYTES_MAX]))
)
bodies = said.map(lambda body: json.dumps(body).encode()) | st.sampled_from(
    [b"", b"{", b"[]", b"\xff", b'{"x": [NaN, 1]}', PREDICT + b" " * (SMALL_BYTES - len(PREDICT)), b" " * 2_100]
)
paths = st.sampled_from(
    ["/models/m/learn", "/models/m/predict"] * 6
    + ["/learn", "/predict", "/models/none/predict", "/models/m/learn/", "/models//learn", "//models/m/predict"]
    + ["/models/m/predict?min_position=1", "/models/m/predict?min_position=9999", "/models/m/learn?what=1"]
    + ["/models/%6d/predict", "/models/m/predict?", "/models/m/predict#there", "http://localhost/models/m/predict"]
    + ["/models/m/pool", "/models/m/sing", "/models/" + "m" * 70 + "/predict", "/models/m/" + "p" * 300]
)
unusual = st.sampled_from(
    [
        ("host", None), ("host", "elsewhere.example"), ("Host", "LOCALHOST:80"), ("host", "127.0.0.1"), ("host", "["),
        ("content-type", None), ("content-type", "text/plain"), ("Content-Type", "Application/JSON; charset=UTF-8"),
        ("content-type", "application/json;x=y"), ("content-type", "application/vnd.hinged.batch"),
        ("origin", ORIGIN), ("origin", "http://localhost"), ("origin", "http://elsewhere.example"), ("origin", "null"),
        ("authorization", None), ("authorization", "Bearer nobody"), ("authorization", "Basic eDp5"),
        ("connection", "close"), ("connection", "keep-alive"), ("connection", "upgrade"), ("upgrade", "h2c"),
        ("expect", "100-continue"), ("x-forwarded-for", "10.0.0.1"), ("x-forwarded-proto", "https"),
        ("traceparent", "00-" + 32 * "1" + "-" + 16 * "2" + "-01"), ("x-hinged-passed-on", "http://other"),
        ("prefer", "redirect"), ("accept", "text/html"), ("user-agent", "\xe9"), ("x-a", "v" * 3000),
    ]
)  # fmt: skip
plain = st.fixed_dictionaries({"method": st.just("POST"), "path": paths, "body": bodies})
changes = st.one_of(
    st.fixed_dictionaries({"headers": st.lists(unusual, min_size=1, max_size=1)}),
    st.fixed_dictionaries({"headers": st.lists(unusual, min_size=1, max_size=3)}),
    st.sampled_from([{"chunked": True}, {"version": "1.0"}, {"method": "GET"}, {"method": "PUT"}]),
)
requests = plain | st.builds(lambda said, change: said | change, plain, changes)
roles = st.sampled_from(["admin"] * 6 + ["writer"] * 6 + ["annotator", "reader", "other", None])


def parts_of(both, sent):
    """Return the pieces in which requests are sent.

    sent: for each request its form, its key, the place where it is cut, and whether its answer is awaited.
    """
    parts = []
    for said, role, cut, waits in sent:
        data = request(key=both.keys.get(role), **said)
        at = len(data) if cut is None else int(cut * len(data))
        parts += [(data[:at], False), (data[at:], waits)] if 0 < at < len(data) else [(data, waits)]
    return parts


@pytest.mark.long
@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(requests, roles, st.none() | st.floats(0, 1), st.booleans()),
        min_size=1,
        max_size=6,
    )
)
def test_any_request_is_answered_and_logged_like_on_the_usual_way(both, sent):
    both.begin_anew()
    before = both.short.taken
    short, usual = both.send(parts_of(both, sent))
    event("took the shortcut", both.short.taken - before)
    assert short == usual


@pytest.mark.parametrize("explain", ["explain", "\\u0065xplain"])
def test_a_long_answer_to_a_small_body_is_the_answer_of_the_usual_way(both, explain):
    both.begin_anew()
    body = f'{{"examples": [{{"x": [0.0, 1.0]}}, {{"x": [0.5, 1.0]}}], "{explain}": 1000}}'.encode()
    learned = request("POST", "/models/m/learn", LEARN, key=both.keys["admin"])
    asked = request("POST", "/models/m/predict", body, key=both.keys["admin"])
    short, usual = both.send([(learned, True), (asked, True)])
    assert short == usual
    assert b"internal_error" not in str(short).encode()


def test_both_ways_count_the_same(both):
    both.send([(request("POST", "/models/m/predict", PREDICT, key=both.keys["reader"]), True)] * 3)
    assert both.short.counted() == both.usual.counted()
    assert any('route="/models/{model}/predict",status="200"' in line for line in both.short.counted())


# -- which requests take it -------------------------------------------------------------------------------------------


def taken(both, *sent, role="admin", **said):
    """Return how many requests took the shortcut, without the last request. Its answer shows that all were answered."""
    before = both.short.taken
    data = sent or (request("POST", "/models/m/predict", PREDICT, key=both.keys[role], **said),)
    short, usual = both.send([(part, True) for part in data])
    assert short == usual
    return both.short.taken - before


@pytest.mark.parametrize("path", ["/models/m/learn", "/models/m/predict", "/learn", "/predict"])
def test_small_requests_to_learn_and_to_predict_take_the_shortcut(both, path):
    both.begin_anew()
    key = both.keys["admin"]
    first = request("POST", "/learn", LEARN, key=key)  # creates the default model
    again = request("POST", path, LEARN if path.endswith("learn") else PREDICT, key=key)
    assert taken(both, first, again, again) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"headers": [("content-type", "application/json;x=y")]},
        {"headers": [("expect", "100-continue")]},
        {"headers": [("host", "elsewhere.example")]},
        {"headers": [("authorization", "Bearer nobody")]},
        {"version": "1.0", "headers": [("connection", "keep-alive")]},
        {"chunked": True},
    ],
)
def test_unusual_requests_and_early_refusals_take_the_usual_way(both, said):
    assert taken(both, **said) == 0


@pytest.mark.parametrize(("size", "count"), [(SMALL_BYTES, 1), (SMALL_BYTES + 1, 0)])
def test_a_body_that_is_not_small_takes_the_usual_way(both, size, count):
    body = PREDICT + b" " * (size - len(PREDICT))
    assert taken(both, request("POST", "/models/m/predict", body, key=both.keys["reader"])) == count


def test_a_key_that_may_not_send_an_x_learns_on_the_usual_way(both):
    assert taken(both, request("POST", "/models/m/learn", LEARN, key=both.keys["annotator"])) == 0


async def begun(made):
    """Wait until the server has begun to answer a request."""
    while made.cycle is None:  # noqa: ASYNC110  there is no event to wait for
        await asyncio.sleep(0)


async def under_way(both, data):
    """Return both ends of a connection with the shortcut, after the server has begun to answer its request."""
    client, made = await both.short.connect()
    await client.send(data)
    await begun(made)
    return client, made


async def in_two(both, between, body=PREDICT):
    """Return the answer to a request whose last bytes are sent after `between` has run."""
    data = request("POST", "/models/m/predict", body, key=both.keys["reader"])
    client, made = await both.short.connect()
    await client.send(data[:-3])
    while not made._held:  # noqa: ASYNC110  there is no event to wait for
        await asyncio.sleep(0)
    await between(made)
    await client.send(data[-3:])
    await client.wait()
    client.close()
    return client.answers


async def nothing(_):
    pass


async def its_time_is_over(made):
    made._take_usual_way()


async def the_server_stops(made):
    made.shutdown()


@pytest.mark.parametrize(("between", "count"), [(nothing, 1), (its_time_is_over, 0), (the_server_stops, 0)])
def test_a_body_may_come_a_moment_after_its_head_and_later_takes_the_usual_way(both, between, count):
    before = both.short.taken
    assert both.run(in_two(both, between)).startswith(b"HTTP/1.1 200 OK")
    assert both.short.taken == before + count


@pytest.mark.parametrize("body", [PREDICT, PREDICT + b" " * SMALL_BYTES])
def test_a_body_that_comes_a_byte_at_a_time_is_one_body(both, body):
    data = request("POST", "/models/m/predict", body, key=both.keys["reader"])
    pieces = [data[at : at + 1] for at in range(len(data))]
    short, usual = both.send([(piece, False) for piece in pieces[:-1]] + [(pieces[-1], True)])
    assert short == usual


def test_a_client_that_leaves_in_the_middle_of_a_body_is_counted_like_on_the_usual_way(both):
    data = request("POST", "/models/m/predict", PREDICT, key=both.keys["reader"])

    async def leave(way, before):
        client, made = await way.connect()
        await client.send(data[:-3])
        while not (made._held or made.cycle):  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0)
        client.close()
        while way.counted() == before:  # noqa: ASYNC110
            await asyncio.sleep(0)

    new = []
    for way in (both.short, both.usual):
        before = way.counted()
        both.run(leave(way, before))
        new.append([line.split()[0] for line in way.counted() if line not in before])
    assert new[0] == new[1]
    assert any('status="400"' in line for line in new[0])


# -- the connection ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [b"", b"POST /models/m/predict HT"])
def test_an_idle_connection_is_closed_after_a_while(both, behind):
    data = request("POST", "/models/m/predict", PREDICT, key=both.keys["reader"]) + behind

    async def left_alone():
        client, made = await both.short.connect()
        made.timeout_keep_alive = 0.05
        await client.send(data)
        answers = await client.rest()
        client.close()
        return answers

    assert both.run(left_alone()).count(b"HTTP/1.1 200 OK") == 1


def test_a_connection_that_was_used_again_stays_open(both):
    data = request("POST", "/models/m/predict", PREDICT, key=both.keys["reader"])

    async def used():
        client, made = await both.short.connect()
        timers = []
        for _ in range(3):
            await client.send(data)
            await client.wait()
            timers.append(made.timeout_keep_alive_task)
        found = [timer.cancelled() for timer in timers]
        client.close()
        return found

    assert both.run(used()) == [True, True, False]


@pytest.mark.long
@pytest.mark.parametrize("path", ["/models/m/predict", "/models/m/predict?min_position=0"])
def test_a_client_that_sends_thousands_of_requests_ahead_must_wait_for_answers(both, path):
    data = request("POST", path, PREDICT, key=both.keys["reader"], headers=[("x-a", "v" * 3_000)])

    async def ahead():
        client, made = await both.short.connect()
        sending, most = asyncio.create_task(client.send(1_000 * data)), 0
        while client.answers.count(b"HTTP/1.1 200 OK") < 1_000:
            await client._read()
            most = max(most, len(made.pipeline))
        await sending
        client.close()
        return most

    # The server holds at most as many requests as one read returns, and asyncio reads at most 256 KB.
    assert both.run(ahead()) <= 2**18 / len(data) + 1


def test_the_example_of_a_client_that_leaves_before_the_answer_is_learned(both):
    both.begin_anew()
    data = request("POST", "/models/m/learn", LEARN, key=both.keys["writer"])

    async def leave():
        client, _ = await under_way(both, data)
        client.close()

    both.run(leave())
    (answers, _), _ = both.send([(data, True)])
    assert b'"duplicate":true' in answers


def test_a_connection_that_should_close_does_so_after_the_answer(both):
    both.begin_anew()
    data = request("POST", "/models/m/learn", LEARN, key=both.keys["writer"])

    async def drained():
        client, made = await under_way(both, data)
        made.shutdown()
        answers = await client.rest()
        client.close()
        return answers

    answers = both.run(drained())
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close\r\n" in answers


def test_an_unforeseen_error_has_the_usual_shape(both, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("a secret")

    monkeypatch.setattr("hinged.service.api.examples.predict.to_inputs", broken)
    (answers, _), _ = both.send([(request("POST", "/models/m/predict", PREDICT, key=both.keys["reader"]), True)])
    assert answers.startswith(b"HTTP/1.1 500 ")
    assert b'"internal_error"' in answers
    assert b"secret" not in answers
    assert "a secret" in caplog.text
