"""Requests to predict and to decide: parse and check their bodies, and make their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

from hinged.service.api.dispatch import Brought, Change, Context, Handling, Packed
from hinged.service.api.examples.learn import RESULT_VALUES
from hinged.service.commands.decide import decide
from hinged.service.commands.predict import Decisions, make_decisions
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
from hinged.service.data.portions import in_portions, is_long
from hinged.service.data.slices import Slices, sliced
from hinged.service.edge.shortcut import Outcome
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid, ServiceError, attempted
from hinged.service.model.view import Published
from hinged.service.settings import Settings

Parse: TypeAlias = Callable[[Body, int, Features], tuple[list[UnlabelledExample], Details]]
"""A function that returns the examples of a body, and the further contents of each result."""
Unlabelled: TypeAlias = tuple[list[str | None], Inputs, Details]
"""The ids and the x of examples, and the further contents of each result."""

EXPLAINED_MAX = 1_000
WITH_ALL = Details(probabilities=True)


async def predict(context: Context, bodies: Sequence[Brought]) -> list[Change | Outcome]:
    """Predict the examples of each body. Bodies that are parsed together are predicted from the same state."""
    worker, settings = context.worker, context.settings
    if len(bodies) > 1:
        return [*await _predict_together(worker, settings, cast("Sequence[Body]", bodies))]
    (body,), published = bodies, worker.published
    try:
        ids, inputs, details = await read_unlabelled(body, published.configuration, settings, parse_predict)
        return [await _predict(worker, ids, inputs, details, published)]
    except ServiceError as error:
        return [error]


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


PREDICTING = Handling(predict, is_short)


async def _predict_together(worker: Worker, settings: Settings, bodies: Sequence[Body]) -> list[Outcome]:
    published = worker.published
    features = published.configuration.features

    async def alone(examples: list[UnlabelledExample], details: Details) -> Outcome:
        try:
            return await predict_examples(worker, published, examples, details)
        except ServiceError as error:
            return error

    found = [attempted(parse_predict, body, settings.batch_examples_max, features) for body in bodies]
    read = [each for each in found if isinstance(each, tuple)]
    outcomes = iter(await _as_one(worker, published, read) or [await alone(*each) for each in read])
    return [next(outcomes) if isinstance(each, tuple) else each for each in found]


async def _as_one(
    worker: Worker, published: Published, read: Sequence[tuple[list[UnlabelledExample], Details]]
) -> list[Outcome]:
    """Return the answers to parsed bodies, made in one step. Return an empty list if the answers must be made one by
    one.
    """
    features, every = published.configuration.features, [*chain.from_iterable(examples for examples, _ in read)]
    tells_since = features.in_order  # values depend on the time since the previous x of the same request
    is_much = answer_size(published, Details()) * len(every) > VALUES_MAX
    if len(read) < 2 or tells_since or is_much or any(any(details) for _, details in read):
        return []
    try:
        answer = await predict_examples(worker, published, every, Details())
    except Invalid:  # refused before anything was done: parse one by one
        return []
    except ServiceError as error:
        return [error] * len(read)
    answers: list[Outcome] = []
    begin = 0
    for examples, _ in read:
        end = begin + len(examples)
        answers.append({**answer, "results": answer["results"][begin:end]})
        begin = end
    return answers


def read_predict(
    body: Body, configuration: Configuration, settings: Settings, parse: Parse = parse_predict
) -> Slices[Unlabelled]:
    """Read a long body. parse: parses a portion of the body."""
    ids: list[str | None] = []
    parts: list[Inputs] = []
    details = Details()

    def read(portion: Body) -> Slices[None]:
        nonlocal details
        examples, details = parse(portion, settings.batch_examples_max, configuration.features)
        ids.extend(_ids(examples))
        yield
        parts.append(to_inputs([example["x"] for example in examples], configuration))

    rest = yield from in_portions(body, configuration, settings, read)
    if rest is not None:
        _, details = parse(rest, settings.batch_examples_max, configuration.features)
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
    return answer_of(worker, found.published, len(ids), details, partial(_results, ids, found))


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


def _results(ids: list[str | None], decisions: Decisions, begin: int, end: int) -> list[dict[str, Any]]:
    found = decisions.part(begin, end)
    results = []
    for r, (given, scores, wish) in enumerate(zip(ids[begin:end], found.scores, found.wishes or (), strict=True)):
        result: dict[str, Any] = {
            "id": given,
            "prediction": found.labels[r],
            "probability": found.probabilities[r],
            "scores": scores,
            "label": wish._asdict(),
        }
        if found.of_classes is not None:
            result["probabilities"] = found.of_classes[r]
        if found.intervals is not None:
            result["intervals"] = found.intervals[r]
        if found.p_values is not None:
            result["p_values"] = found.p_values[r]
        if found.support_vectors is not None:
            result["support_vectors"] = found.support_vectors[r]
        if r in found.outside:
            result["outside"] = found.outside[r]
        results.append(result | found.judged[r])
    return results


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
