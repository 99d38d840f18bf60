"""Requests of one kind that came together: what they bring is checked and taken in one go, but each stands for itself.

Most of what a small request costs is not its examples: a batch of one row is made in the time of one of thirty. So
what came together is read as one; where something is wrong with that, each is read alone, and told what. Frames of a
WebSocket come together, and requests of many clients, in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from hinged.service.api.examples.requests import (
    learn_from,
    learn_request,
    predict_examples,
    predict_from,
    reader,
    shown_learned,
)
from hinged.service.api.wire import form_of, registry_of
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.examples import Body, Details, parse_learn, parse_predict
from hinged.service.edge.access import caller, check_examples
from hinged.service.engine.worker import Worker
from hinged.service.errors import UNFORESEEN, InternalError, Invalid, ServiceError

Answer = dict[str, Any]
Outcome = Answer | ServiceError
T = TypeVar("T")

TOGETHER_MAX = 32
"""Requests that are read as one at most: they keep the event loop busy for a millisecond."""
SMALL_BYTES = 2_048
"""Longest body of those that wait a turn of the event loop for others."""


def read_learn(connection: HTTPConnection, worker: Worker, bodies: Sequence[Body]) -> list[LearnRequest | ServiceError]:
    """The request of each body, or why it is refused."""
    try:
        return [*_read_as_one(connection, worker, bodies)]
    except ServiceError as error:
        if len(bodies) == 1:
            return [error]
        return [request for body in bodies for request in read_learn(connection, worker, [body])]


def _read_as_one(connection: HTTPConnection, worker: Worker, bodies: Sequence[Body]) -> list[LearnRequest]:
    settings, configuration = registry_of(connection).settings, worker.published.configuration
    parsed = [parse_learn(body, settings.batch_examples_max, form=form_of(configuration)) for body in bodies]
    every = [*chain.from_iterable(parsed)]
    check_examples(connection, every)
    request = learn_request(bodies[0], every, configuration, settings)
    if len(bodies) == 1:
        return [request]
    inputs = request.inputs
    if inputs is None or len(inputs) < len(every) or request.leases:
        raise Invalid("some bring no x of their own")
    return [
        LearnRequest(
            request.ids[begin:end],
            request.labels[begin:end],
            inputs.part(begin, end),
            request.contents[begin:end],
            reread=reader(body, settings),
        )
        for body, (begin, end) in zip(bodies, _parts(parsed), strict=True)
    ]


async def predict_together(connection: HTTPConnection, worker: Worker, bodies: Sequence[Body]) -> list[Outcome]:
    """What each body is answered, from one state."""
    try:
        if len(bodies) == 1:
            return [await predict_from(connection, worker, bodies[0])]
        return [*await _predict_as_one(connection, worker, bodies)]
    except Invalid as error:  # of what was sent, before anything was done
        if len(bodies) == 1:
            return [error]
        return [answer for body in bodies for answer in await predict_together(connection, worker, [body])]
    except ServiceError as error:
        return [error] * len(bodies)


async def _predict_as_one(connection: HTTPConnection, worker: Worker, bodies: Sequence[Body]) -> list[Answer]:
    settings = registry_of(connection).settings
    form = form_of(worker.published.configuration)
    parsed = [parse_predict(body, settings.batch_examples_max, form=form) for body in bodies]
    if any(any(details) for _, details in parsed):
        raise Invalid("some ask for more than a prediction")
    examples = [found for found, _ in parsed]
    answer = await predict_examples(worker, [*chain.from_iterable(examples)], Details(), settings)
    return [{**answer, "results": answer["results"][begin:end]} for begin, end in _parts(examples)]


class Gathering:
    """Small requests that have come in one turn of the event loop, by what is to be done with them."""

    def __init__(self) -> None:
        self._open: dict[Any, list[tuple[Body, asyncio.Future[Any]]]] = {}

    async def outcome(self, kind: Any, body: Body, work: Callable[[list[Body]], Awaitable[list[T]]]) -> T:
        """What the work finds of a body; the first to come does it for all of his kind."""
        mates = self._open.get(kind)
        if mates is not None and len(mates) + 1 < TOGETHER_MAX:
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            mates.append((body, future))
            return await future
        mates = self._open[kind] = []
        try:
            try:
                await asyncio.sleep(0)
            finally:
                if self._open.get(kind) is mates:
                    del self._open[kind]
            mine, *theirs = await work([body, *(other for other, _ in mates)])
        except BaseException:
            for _, future in mates:
                if not future.done():
                    future.set_exception(InternalError(UNFORESEEN))
            raise
        for (_, future), found in zip(mates, theirs, strict=True):
            if not future.done():
                future.set_result(found)
        return mine


async def learn_gathered(connection: HTTPConnection, worker: Worker, body: bytes) -> Answer:
    """Learn the examples of a body, and what has come with it."""
    if len(body) > SMALL_BYTES or not caller(connection).plays("writer"):  # an annotator's may bring no x
        return await learn_from(connection, worker, body)

    async def read(bodies: list[Body]) -> list[LearnRequest | ServiceError]:
        return read_learn(connection, worker, bodies)

    request = await _gathering(connection).outcome(("learn", worker), body, read)
    if isinstance(request, ServiceError):
        raise request
    return shown_learned(worker, await worker.learn(request))


async def predict_gathered(connection: HTTPConnection, worker: Worker, body: bytes) -> Answer:
    """Predict the examples of a body, and what has come with it."""
    if len(body) > SMALL_BYTES:
        return await predict_from(connection, worker, body)
    work = partial(predict_together, connection, worker)
    answer = await _gathering(connection).outcome(("predict", worker), body, work)
    if isinstance(answer, ServiceError):
        raise answer
    return answer


def _gathering(connection: HTTPConnection) -> Gathering:
    gathering: Gathering = connection.app.state.gathering
    return gathering


def _parts(parsed: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """From where to where each one's examples stand among all."""
    ends = [0]
    for examples in parsed:
        ends.append(ends[-1] + len(examples))
    return [*pairwise(ends)]
