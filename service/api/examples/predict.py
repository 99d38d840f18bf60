"""Requests to predict and to decide: parse and check their bodies, and make their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from hinged.service.api.dispatch import Brought, Context, Handling, Packed
from hinged.service.api.examples.learn import RESULT_VALUES
from hinged.service.commands.decide import decide
from hinged.service.commands.predict import make_decisions
from hinged.service.data.answers import VALUES_MAX, Answer, Parts
from hinged.service.data.batches import read_batch
from hinged.service.data.examples import (
    Body,
    Details,
    Raw,
    UnlabelledExample,
    check_ids,
    parse_decide,
    parse_predict,
    to_inputs,
)
from hinged.service.data.features.base import Features
from hinged.service.data.inputs import Inputs, join_long
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import is_long, parse_portions
from hinged.service.data.slices import Slices, sliced
from hinged.service.edge.shortcut import Outcome
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid
from hinged.service.model.view import Published
from hinged.service.settings import Settings

Parse: TypeAlias = Callable[[Body, int, Features], tuple[list[UnlabelledExample], Details]]
"""A function that returns the examples of a body, and the further contents of each result."""
Unlabelled: TypeAlias = tuple[list[str | None], Inputs, Details]
"""The ids and the x of examples, and the further contents of each result."""

EXPLAINED_MAX = 1_000
WITH_ALL = Details(probabilities=True)


async def predict(context: Context, body: Brought) -> Answer:
    """Predict the examples of a body."""
    worker, published = context.worker, context.worker.published
    ids, inputs, details = await read_unlabelled(body, published.configuration, context.settings, parse_predict)
    return await _predict(worker, ids, inputs, details, published)


async def predict_together(context: Context, bodies: Sequence[Body]) -> list[Outcome] | None:
    """Predict the examples of several bodies in one step, from the same state. Return None if this is not possible."""
    worker, published, most = context.worker, context.worker.published, context.settings.batch_examples_max
    features = published.configuration.features
    if features.in_order:  # values depend on the time since the previous x of the same request
        return None
    try:
        read = [parse_predict(body, most, features) for body in bodies]
        every = [*chain.from_iterable(examples for examples, _ in read)]
        is_much = answer_size(published, Details()) * len(every) > VALUES_MAX
        if is_much or any(any(details) for _, details in read):
            return None
        answer = await predict_examples(worker, published, every, Details())
    except Invalid:  # refused before anything was done
        return None
    results = iter(answer["results"])
    return [{**answer, "results": [*islice(results, len(examples))]} for examples, _ in read]


async def read_unlabelled(body: Brought, configuration: Configuration, settings: Settings, parse: Parse) -> Unlabelled:
    """Read a body of any form. parse: parses a short body, or a portion of a long body."""
    if isinstance(body, Packed):
        batch = await sliced(read_batch(body.data, configuration, settings, labelled=False))
        return batch.ids, batch.rows, Details()
    if is_long(body):
        return await sliced(read_predict(body, configuration, settings, parse))
    return _unlabelled(*parse(body, settings.batch_examples_max, configuration.features), configuration)


def is_short(context: Context, body: Raw) -> bool:
    """Return whether the answer to a small body is short. The estimate counts each brace in the body as an example."""
    size = answer_size(context.worker.published, WITH_ALL)
    # An example has at least eight characters; for most bodies this first estimate is enough.
    return len(body) * size <= 8 * VALUES_MAX or body.count(b"{") * size <= VALUES_MAX


PREDICTING = Handling(predict, is_short, predict_together)


def read_predict(
    body: Body, configuration: Configuration, settings: Settings, parse: Parse = parse_predict
) -> Slices[Unlabelled]:
    """Read a long body. parse: parses a portion of the body."""
    ids: list[str | None] = []
    parts: list[Inputs] = []

    def take(_: Body, parsed: tuple[list[UnlabelledExample], Details]) -> Slices[None]:
        examples, _details = parsed
        ids.extend(_ids(examples))
        yield
        parts.append(to_inputs([example["x"] for example in examples], configuration))

    _, details = yield from parse_portions(body, configuration, settings, parse, take)
    _check_explained(details, len(ids))
    return ids, (yield from join_long(parts)), details


async def predict_examples(
    worker: Worker, published: Published, examples: list[UnlabelledExample], details: Details
) -> Answer:
    """Predict examples that were parsed for the state `published`. Raise Invalid before anything else is done."""
    ids, inputs, _ = _unlabelled(examples, details, published.configuration)
    return await _predict(worker, ids, inputs, details, published)


def _unlabelled(examples: list[UnlabelledExample], details: Details, configuration: Configuration) -> Unlabelled:
    """Check parsed examples, and return their ids, their x and the details."""
    ids = _ids(examples)
    _check_explained(details, len(examples))
    return ids, to_inputs([example["x"] for example in examples], configuration), details


def _ids(examples: list[UnlabelledExample]) -> list[str | None]:
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    return ids


def _check_explained(details: Details, count: int) -> None:
    explain = details.explain
    if explain > EXPLAINED_MAX or explain * count > EXPLAINED_MAX * 10:
        raise Invalid(
            f"explain must be at most {EXPLAINED_MAX}, and {EXPLAINED_MAX * 10} over all examples, got {explain}"
        )


async def _predict(
    worker: Worker, ids: list[str | None], inputs: Inputs, details: Details, published: Published
) -> Answer:
    found = await make_decisions(worker, published, inputs, ids, details)
    return answer_of(worker, found.published, len(ids), details, found.part)


def answer_of(
    worker: Worker, published: Published, count: int, details: Details, part: Callable[[int, int], list[dict[str, Any]]]
) -> Answer:
    """Return an answer with a result for each of `count` examples. part: makes the results of some examples."""
    results = Parts(count, answer_size(published, details), part)
    shown = results.all() if results.short else results
    return {"model": worker.model.name, "position": published.position, "results": shown}


def answer_size(published: Published, details: Details) -> int:
    """Return roughly how many values the answer contains for one example."""
    listings = 1 + bool(details.probabilities) + 3 * bool(details.intervals) + details.conformal
    listings += published.promise is not None
    return RESULT_VALUES + len(published.names) * listings + 3 * details.explain


async def decide_examples(context: Context, body: Brought) -> Answer:
    """Decide about the examples of a body."""
    worker, published = context.worker, context.worker.published
    ids, inputs, details = await read_unlabelled(body, published.configuration, context.settings, parse_decide)
    found = await decide(worker, published, inputs, ids, details)
    return answer_of(worker, published, len(ids), details, found.part)


DECIDING = Handling(decide_examples, is_short)
