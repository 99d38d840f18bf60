"""Requests to decide: parse and check their bodies, and make their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hinged.service.api.dispatch import Brought, Change, Context, Handling, Packed
from hinged.service.api.examples.predict import answer_size, ids_of, is_short, read_predict
from hinged.service.commands.decide import decide
from hinged.service.data.answers import Answer, Parts
from hinged.service.data.batches import read_batch
from hinged.service.data.examples import Details, parse_decide, to_inputs
from hinged.service.data.inputs import Inputs
from hinged.service.data.portions import is_long
from hinged.service.data.slices import sliced
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
    worker, settings, published = context.worker, context.settings, context.worker.published
    configuration, details = published.configuration, Details()
    inputs: Inputs
    if isinstance(body, Packed):
        batch = await sliced(read_batch(body.data, configuration, settings, labelled=False))
        ids, inputs = batch.ids, batch.rows
    elif is_long(body):
        ids, inputs, details = await sliced(read_predict(body, configuration, settings, parse_decide))
    else:
        examples, details = parse_decide(body, settings.batch_examples_max, configuration.features)
        ids, inputs = ids_of(examples), to_inputs([example["x"] for example in examples], configuration)
    found = await decide(worker, published, inputs, ids, details)
    results = Parts(len(ids), answer_size(published, details), found.part)
    shown = results.all() if results.short else results
    return {"model": worker.model.name, "position": published.position, "results": shown}
