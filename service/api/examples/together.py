"""Requests of one kind that came together: what they bring is checked and taken in one go, but each stands for itself.

Most of what a small request costs is not its examples: a batch of one row is made in the time of one of thirty. So
what came together is read as one; where something is wrong with that, each is read alone, and told what. Frames of a
WebSocket come together, and requests of many clients, in one turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from hinged.service.api.examples.requests import (
    answer_size,
    learn_from,
    learn_request,
    predict_examples,
    predict_from,
    reader,
    shown_learned,
)
from hinged.service.api.wire import registry_of
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.answers import VALUES_MAX, Answer
from hinged.service.data.examples import Body, Details, Raw, parse_learn, parse_predict
from hinged.service.edge.access import caller, check_examples
from hinged.service.edge.keys import Key
from hinged.service.edge.shortcut import SMALL_BYTES, Outcome, Work
from hinged.service.engine.learning import LearnAnswer
from hinged.service.engine.queue import settle
from hinged.service.engine.registry import Registry
from hinged.service.engine.worker import Worker
from hinged.service.errors import UNFORESEEN, InternalError, Invalid, ServiceError
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

WITH_ALL = Details(probabilities=True)
TOGETHER_MAX = 32
"""Requests that are read as one at most: they keep the event loop busy for a millisecond."""


def read_learn(
    settings: Settings, key: Key, worker: Worker, bodies: Sequence[Body]
) -> list[LearnRequest | ServiceError]:
    """The request of each body, or why it is refused. key: of who sent them."""
    try:
        return [*_read_as_one(settings, key, worker, bodies)]
    except ServiceError as error:
        if len(bodies) == 1:
            return [error]
        return [request for body in bodies for request in read_learn(settings, key, worker, [body])]


def _read_as_one(settings: Settings, key: Key, worker: Worker, bodies: Sequence[Body]) -> list[LearnRequest]:
    configuration = worker.published.configuration
    parsed = [parse_learn(body, settings.batch_examples_max, configuration.features) for body in bodies]
    every = [*chain.from_iterable(parsed)]
    check_examples(key, every)
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


async def predict_together(settings: Settings, worker: Worker, bodies: Sequence[Body]) -> list[Outcome]:
    """What each body is answered, from one state."""
    try:
        if len(bodies) == 1:
            return [await predict_from(settings, worker, bodies[0])]
        return [*await _predict_as_one(settings, worker, bodies)]
    except Invalid as error:  # of what was sent, before anything was done
        if len(bodies) == 1:
            return [error]
        return [answer for body in bodies for answer in await predict_together(settings, worker, [body])]
    except ServiceError as error:
        return [error] * len(bodies)


async def _predict_as_one(settings: Settings, worker: Worker, bodies: Sequence[Body]) -> list[Answer]:
    configuration = worker.published.configuration
    if configuration.features.in_order:
        raise Invalid("an x tells how long it is since the one before it, in its own request")
    parsed = [parse_predict(body, settings.batch_examples_max, configuration.features) for body in bodies]
    if any(any(details) for _, details in parsed):
        raise Invalid("some ask for more than a prediction")
    examples = [found for found, _ in parsed]
    if answer_size(worker.published, Details()) * sum(map(len, examples)) > VALUES_MAX:
        raise Invalid("the answers are long")
    answer = await predict_examples(worker, [*chain.from_iterable(examples)], Details())
    return [{**answer, "results": answer["results"][begin:end]} for begin, end in _parts(examples)]


class Gathering:
    """Small requests that have come in one turn of the event loop, by what is to be done with them."""

    def __init__(self) -> None:
        self._open: dict[Any, list[tuple[Body, Callable[[Any], None]]]] = {}
        self._working: set[asyncio.Task[None]] = set()  # the loop itself keeps no hold of them

    def put(
        self,
        kind: Any,
        body: Body,
        work: Callable[[list[Body]], Awaitable[list[T | ServiceError]]],
        tell: Callable[[T | ServiceError], None],
    ) -> None:
        """Have a body worked on with those of its kind that come in this turn, by the work of the first of them.

        tell: what is told the outcome; it raises nothing.
        """
        mates = self._open.get(kind)
        if mates is None or len(mates) == TOGETHER_MAX:
            mates = self._open[kind] = []
            working = asyncio.get_running_loop().create_task(self._work(kind, mates, work))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
        mates.append((body, tell))

    async def outcome(
        self, kind: Any, body: Body, work: Callable[[list[Body]], Awaitable[list[T | ServiceError]]]
    ) -> T:
        """What the work finds of a body, for who waits for it. A refusal is raised."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(kind, body, work, lambda found: settle([future], [found]))
        return await future

    async def _work(
        self,
        kind: Any,
        mates: list[tuple[Body, Callable[[Any], None]]],
        work: Callable[[list[Body]], Awaitable[list[Any]]],
    ) -> None:
        if self._open.get(kind) is mates:
            del self._open[kind]
        found: Sequence[Any]
        try:
            found = await work([body for body, _ in mates])
        except Exception:
            log.exception("unforeseen")
            found = [InternalError(UNFORESEEN)] * len(mates)
        for (_, tell), outcome in zip(mates, found, strict=True):
            try:
                tell(outcome)
            except Exception:  # the others are still to be told
                log.exception("unforeseen")


async def learn_gathered(connection: HTTPConnection, worker: Worker, body: Raw) -> Answer:
    """Learn the examples of a body, and what has come with it."""
    if len(body) > SMALL_BYTES or not caller(connection).plays("writer"):  # an annotator's may bring no x
        return await learn_from(connection, worker, body)
    settings, gathering = registry_of(connection).settings, _gathering(connection)
    request = await gathering.outcome(("learn", worker), body, _reading(settings, caller(connection), worker))
    return shown_learned(worker, await worker.learn(request))


def _reading(
    settings: Settings, key: Key, worker: Worker
) -> Callable[[list[Body]], Awaitable[list[LearnRequest | ServiceError]]]:
    """What reads requests of those who may send an x, as this key may."""

    async def read(bodies: list[Body]) -> list[LearnRequest | ServiceError]:
        return read_learn(settings, key, worker, bodies)

    return read


async def predict_gathered(connection: HTTPConnection, worker: Worker, body: Raw) -> Answer:
    """Predict the examples of a body, and what has come with it."""
    settings = registry_of(connection).settings
    if len(body) > SMALL_BYTES or _is_much(worker, body):
        return await predict_from(settings, worker, body)
    work = partial(predict_together, settings, worker)
    answer: Answer = await _gathering(connection).outcome(("predict", worker), body, work)
    return answer


def _is_much(worker: Worker, body: Raw) -> bool:
    """Whether the answer to a small body may be long: each example has a brace, and each class two values."""
    size = answer_size(worker.published, WITH_ALL)
    # An example has eight characters at least; of most bodies that says enough.
    return len(body) * size > 8 * VALUES_MAX and body.count(b"{") * size > VALUES_MAX


def _gathering(connection: HTTPConnection) -> Gathering:
    gathering: Gathering = connection.app.state.gathering
    return gathering


class Soon:
    """Small requests for who does not wait but is told: what the shortcut of connections leads to."""

    def __init__(self, registry: Registry, gathering: Gathering) -> None:
        self._registry = registry
        self._gathering = gathering

    def learn(self, key: Key, model: str, body: Raw, tell: Callable[[Outcome], None]) -> bool:
        """As `learn_gathered`. False, and nothing begun, for who may not send an x."""
        if not key.plays("writer"):
            return False
        worker = self._registry.get(model)

        def begin(request: LearnRequest | ServiceError) -> None:
            if isinstance(request, ServiceError):
                tell(request)
                return
            try:
                learnt = worker.begin_to_learn(request)
            except ServiceError as error:
                tell(error)
            else:
                learnt.add_done_callback(done)

        def done(learnt: asyncio.Future[LearnAnswer]) -> None:
            error = learnt.exception()
            if error is None:
                tell(shown_learned(worker, learnt.result()))
            else:
                tell(error if isinstance(error, ServiceError) else InternalError(UNFORESEEN))

        self._gathering.put(("learn", worker), body, _reading(self._registry.settings, key, worker), begin)
        return True

    def predict(self, key: Key, model: str, body: Raw, tell: Callable[[Outcome], None]) -> bool:  # noqa: ARG002
        """As `predict_gathered`. False, and nothing begun, where the answer may be long."""
        worker = self._registry.get(model)
        if _is_much(worker, body):
            return False
        work = partial(predict_together, self._registry.settings, worker)
        self._gathering.put(("predict", worker), body, work, tell)
        return True

    def works(self) -> Mapping[str, Work]:
        """By the name of the route that does the same."""
        return {
            "learn": self.learn,
            "learn_default": self.learn,
            "predict": self.predict,
            "predict_default": self.predict,
        }


def _parts(parsed: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """From where to where each one's examples stand among all."""
    ends = [0]
    for examples in parsed:
        ends.append(ends[-1] + len(examples))
    return [*pairwise(ends)]
