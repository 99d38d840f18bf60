"""Bodies that arrive together are parsed together. Each body is answered as if it had arrived alone."""

import asyncio
import json

import httpx
import pytest
from websockets.frames import Frame, Opcode

from hinged.operations import ExampleOperations
from hinged.service.api.dispatch import TOGETHER_MAX, Change, Dispatch, Handling
from hinged.service.edge.keys import NOBODY_ASKED
from hinged.service.edge.shortcut import SMALL_BYTES
from hinged.service.errors import InternalError, QueueFull
from hinged.service.settings import Settings
from tests.helpers.http_client import example
from tests.helpers.server import PATIENCE_S
from tests.helpers.stream_client import opened

A, B = example([0, 1], "up", "a"), example([1, 0], "down", "b")
FRAMES = [
    {"op": "learn", **A},
    {"op": "learn", **B},
    {"op": "learn", "x": [1], "y": "down"},
    {"op": "learn", "x": [1, 1]},
    {"op": "learn", "examples": []},
    {"op": "learn", "examples": [example([2, 1], "up", "c"), example([1, 2], "down")]},
    {"op": "learn", **A},
    {"op": "learn", **(A | {"y": "down"})},
    {"op": "learn", "id": "unheard", "y": "up"},
    {"op": "learn", **example([3, 1], "up", "")},
    {"op": "nothing"},
    {"op": "pool", "examples": [{"id": "q", "x": [5, 5]}]},
    {"op": "learn", "id": "q", "y": "up"},
    {"op": "learn", **example([3, 1], "up", "d")},
    {"op": "predict", "x": [0, 1], "id": "p"},
    {"op": "predict", "x": [1]},
    {"op": "predict", "examples": [{"x": [0, 1]}, {"x": [1, 0]}]},
    {"op": "predict", "x": [0, 1], "probabilities": True},
    {"op": "predict", "x": [0, 1], "explain": 1},
    {"op": "predict"},
]


def said(answer, model):
    """Return an answer without the parts that depend on the model's name and on the number of events."""
    del answer["ref"]
    answer.pop("position", None)
    return json.loads(json.dumps(answer).replace(model.name, "m"))


def test_frames_that_come_together_are_answered_like_frames_that_come_alone(ask):
    together, alone = ask.new_model(), ask.new_model()
    data = b"".join(
        Frame(Opcode.TEXT, json.dumps({"ref": str(n), **frame}).encode()).serialize(mask=True)
        for n, frame in enumerate(FRAMES)
    )
    with opened(ask.url, f"{together.path}/stream") as many, opened(ask.url, f"{alone.path}/stream") as one:
        many.connection.socket.sendall(data)
        answers = [many.hear() for _ in FRAMES]
        assert [answer["ref"] for answer in answers] == [str(n) for n in range(len(FRAMES))]
        expected = [one.ask(**frame) for frame in FRAMES]
    assert [said(answer, together) for answer in answers] == [said(answer, alone) for answer in expected]
    assert {answer["ok"] for answer in answers} == {True, False}
    assert together.figures()["examples"] == alone.figures()["examples"] == 6


def test_requests_of_many_clients_at_once_get_each_its_own_answer(ask):
    model = ask.new_model()
    model.learn(A, B)

    async def send_all():
        limits = httpx.Limits(max_connections=40)
        async with httpx.AsyncClient(base_url=ask.url, timeout=PATIENCE_S, limits=limits) as http:
            learn = [{"x": [n % 7, n % 3], "y": ("up", "down")[n % 2], "id": f"n{n}"} for n in range(40)]
            predict = [{"x": [n, 1] if n % 4 else [n], "id": f"p{n}"} for n in range(40)]
            return await asyncio.gather(
                *(http.post(f"{model.path}/learn", json=body) for body in learn),
                *(http.post(f"{model.path}/predict", json=body) for body in predict),
            )

    answers = asyncio.run(send_all())
    assert [answer.json()["results"][0]["id"] for answer in answers[:40]] == [f"n{n}" for n in range(40)]
    for n, answer in enumerate(answers[40:]):
        assert answer.status_code == (200 if n % 4 else 422)
        if n % 4:
            assert [result["id"] for result in answer.json()["results"]] == [f"p{n}"]
    assert model.figures()["examples"] == 42


class Kept:
    """A stand-in for a model. The stand-in does what the test says, and records what it receives."""

    def __init__(self, read, gathers=lambda *_: True, together=None):
        self.settings = Settings()
        self._dispatch = Dispatch(self, {ExampleOperations.learn: Handling(read, gathers, together)})

    def get(self, name):
        return name

    def begin(self, body, tell):
        return self._dispatch.begin(ExampleOperations.learn, NOBODY_ASKED, "m", body, tell)

    def ask(self, body):
        return self._dispatch(ExampleOperations.learn, NOBODY_ASKED, "m", body)


def test_bodies_of_one_kind_and_one_turn_are_read_together():
    worked = []

    async def read(_, body):
        worked.append([body])
        return {"said": body.decode()}

    async def together(_, bodies):
        worked.append(bodies)
        return [{"said": body.decode()} for body in bodies]

    async def ask_all():
        kept = Kept(read, together=together)
        return await asyncio.gather(*(kept.ask(b"%d" % n) for n in range(2 * TOGETHER_MAX + 1)))

    assert asyncio.run(ask_all()) == [{"said": str(n)} for n in range(2 * TOGETHER_MAX + 1)]
    assert [len(bodies) for bodies in worked] == [TOGETHER_MAX, TOGETHER_MAX, 1]


@pytest.mark.parametrize("declined", [False, True])
def test_bodies_that_cannot_be_read_together_are_read_one_by_one(declined):
    async def read(_, body):
        if body == b"1":
            raise QueueFull("later")
        return {"said": body.decode()}

    async def together(*_):
        return None

    async def ask_all():
        kept = Kept(read, together=together if declined else None)
        return await asyncio.gather(*(kept.ask(b"%d" % n) for n in range(3)), return_exceptions=True)

    first, second, third = asyncio.run(ask_all())
    assert (first, type(second), third) == ({"said": "0"}, QueueFull, {"said": "2"})


def test_bodies_that_are_large_or_not_gathered_are_read_alone():
    worked = []

    async def read(*_):
        worked.append(1)
        return {}

    async def ask_all():
        small, none = Kept(read), Kept(read, lambda *_: False)
        await asyncio.gather(
            *(small.ask(b" " * (SMALL_BYTES + 1)) for _ in range(2)), *(none.ask(b"") for _ in range(2))
        )
        return none.begin(b"", worked.append)

    assert asyncio.run(ask_all()) is False
    assert worked == [1, 1, 1, 1]


def test_an_error_in_reading_is_answered_to_every_client(caplog):
    async def read(*_):
        raise ZeroDivisionError

    async def ask_all():
        kept = Kept(read)
        return await asyncio.gather(*(kept.ask(b"") for _ in range(3)), return_exceptions=True)

    assert [type(found) for found in asyncio.run(ask_all())] == [InternalError] * 3
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (lambda future: future.set_result(7), {"shown": 7}),
        (lambda future: future.set_exception(QueueFull("later")), QueueFull),
        (lambda future: future.set_exception(ZeroDivisionError()), InternalError),
        (lambda future: future.set_result(None), InternalError),  # a result for which no answer can be made
    ],
)
def test_a_change_is_answered_once_it_has_ended_however_it_ends(ended, told):
    def shown(found):
        return {"shown": found + 0}

    async def scenario():
        futures, outcomes, known = [], [], asyncio.Event()

        def begin():
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        async def read(*_):
            return Change(begin, shown)

        def tell(outcome):
            outcomes.append(outcome)
            known.set()

        assert Kept(read).begin(b"", tell)
        while not futures:  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0)
        assert not outcomes
        ended(futures[0])
        await asyncio.wait_for(known.wait(), PATIENCE_S)
        return outcomes

    (outcome,) = asyncio.run(scenario())
    assert outcome == told if isinstance(told, dict) else type(outcome) is told


def test_a_change_that_cannot_begin_is_refused():
    def full():
        raise QueueFull("later")

    async def read(*_):
        return Change(full, dict)

    with pytest.raises(QueueFull):
        asyncio.run(Kept(read).ask(b""))


def test_a_client_that_cannot_be_answered_does_not_keep_the_rest_from_their_answers():
    told, both_told = [], asyncio.Event()

    async def read(_, body):
        return {"said": body}

    def fail(outcome):
        raise RuntimeError(outcome)

    def note(outcome):
        told.append(outcome["said"])
        if len(told) == 2:
            both_told.set()

    async def scenario():
        kept = Kept(read)
        for body, tell in ((b"a", fail), (b"b", note), (b"c", fail), (b"d", note)):
            assert kept.begin(body, tell)
        await both_told.wait()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
    assert told == [b"b", b"d"]
