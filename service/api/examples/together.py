"""Requests of one kind that came together: what they bring is checked and taken in one go, but each stands for itself.

Most of what a small request costs is not its examples: a batch of one row is made in the time of one of thirty. So
what came together is read as one; where something is wrong with that, each is read alone, and told what.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

from starlette.requests import HTTPConnection

from hinged.service.api.examples.routes import (
    learn_request,
    predict_examples,
    predict_from,
    reader,
)
from hinged.service.api.wire import form_of, registry_of
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.examples import Body, Details, parse_learn, parse_predict
from hinged.service.edge.access import check_examples
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid, ServiceError

Answer = dict[str, Any]


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


async def predict_together(
    connection: HTTPConnection, worker: Worker, bodies: Sequence[Body]
) -> list[Answer | ServiceError]:
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


def _parts(parsed: Sequence[Sequence[Any]]) -> list[tuple[int, int]]:
    """From where to where each one's examples stand among all."""
    ends = [0]
    for examples in parsed:
        ends.append(ends[-1] + len(examples))
    return [*pairwise(ends)]
