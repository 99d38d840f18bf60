"""Requests to decide: parse and check their bodies, and make their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hinged.service.api.dispatch import Brought, Change, Context, Handling
from hinged.service.api.examples.predict import answer_of, is_short, read_unlabelled
from hinged.service.commands.decide import decide
from hinged.service.data.answers import Answer
from hinged.service.data.examples import parse_decide
from hinged.service.edge.shortcut import Outcome
from hinged.service.errors import ServiceError


async def decide_examples(context: Context, bodies: Sequence[Brought]) -> list[Change | Outcome]:
    """Decide about the examples of each body."""
    return [*await asyncio.gather(*(_outcome(context, body) for body in bodies))]


DECIDING = Handling(decide_examples, is_short)


async def _outcome(context: Context, body: Brought) -> Outcome:
    try:
        return await _decided(context, body)
    except ServiceError as error:
        return error


async def _decided(context: Context, body: Brought) -> Answer:
    worker, published = context.worker, context.worker.published
    ids, inputs, details = await read_unlabelled(body, published.configuration, context.settings, parse_decide)
    found = await decide(worker, published, inputs, ids, details)
    return answer_of(worker, published, len(ids), details, found.part)
