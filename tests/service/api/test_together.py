"""What comes together is done together, and each is answered as if it had come alone."""

import asyncio
import json

import httpx
import pytest
from websockets.frames import Frame, Opcode

from hinged.service.api.examples.together import TOGETHER_MAX, Gathering
from hinged.service.errors import InternalError
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
    """An answer without what depends on the model's name and on how many events there were."""
    del answer["ref"]
    answer.pop("position", None)
    return json.loads(json.dumps(answer).replace(model.name, "m"))


@pytest.mark.server
def test_frames_that_come_together_are_answered_as_those_that_come_alone(ask):
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


@pytest.mark.server
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


def test_the_first_of_a_turn_does_the_work_of_all_its_kind():
    gathering, worked = Gathering(), []

    async def work(bodies):
        worked.append(bodies)
        return [body.decode() for body in bodies]

    async def ask_all():
        bodies = [b"%d" % n for n in range(2 * TOGETHER_MAX + 1)]
        return await asyncio.gather(*(gathering.outcome("learn", body, work) for body in bodies))

    assert asyncio.run(ask_all()) == [str(n) for n in range(2 * TOGETHER_MAX + 1)]
    assert [len(bodies) for bodies in worked] == [TOGETHER_MAX, TOGETHER_MAX, 1]


def test_where_the_work_breaks_nobody_waits_for_ever():
    async def work(_):
        raise ZeroDivisionError

    async def ask_all():
        gathering = Gathering()
        outcomes = [gathering.outcome("learn", b"", work) for _ in range(3)]
        return await asyncio.gather(*outcomes, return_exceptions=True)

    assert [type(found) for found in asyncio.run(ask_all())] == [InternalError] * 3


def test_where_one_cannot_be_told_the_others_still_are():
    told, both_told = [], asyncio.Event()

    async def work(bodies):
        return [body.upper() for body in bodies]

    def fail(outcome):
        raise RuntimeError(outcome)

    def note(outcome):
        told.append(outcome)
        if len(told) == 2:
            both_told.set()

    async def scenario():
        gathering = Gathering()
        for body, tell in ((b"a", fail), (b"b", note), (b"c", fail), (b"d", note)):
            gathering.put("kind", body, work, tell)
        await both_told.wait()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
    assert told == [b"B", b"D"]
