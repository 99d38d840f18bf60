"""Requests to learn and to predict: a body is read and checked, its model asked, and told what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from starlette.requests import HTTPConnection

from hinged.service.api.wire import registry_of
from hinged.service.commands.planned import Elsewhere, LearnRequest
from hinged.service.commands.predict import Decisions, make_decisions
from hinged.service.data.answers import Answer, Parts
from hinged.service.data.batches import read_batch
from hinged.service.data.classes import Label, check_labels
from hinged.service.data.examples import (
    Body,
    Details,
    LabelledExample,
    Raw,
    UnlabelledExample,
    check_ids,
    digests,
    parse_learn,
    parse_predict,
    to_inputs,
)
from hinged.service.data.inputs import Inputs, join_long
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import in_portions, is_long
from hinged.service.data.slices import Slices, at_once, sliced, spans
from hinged.service.edge.access import caller, check_examples, require
from hinged.service.edge.keys import Key
from hinged.service.engine.learning import LearnAnswer, Learnt
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid
from hinged.service.model.view import Published
from hinged.service.settings import Settings

EXPLAINED_MAX = 1_000
RESULT_VALUES = 12
"""Numbers and texts of a result beside the classes, about."""

# -- learning ---------------------------------------------------------------------------------------------------------


async def learn_from(connection: HTTPConnection, worker: Worker, body: Body) -> Answer:
    """Learn the examples of a body."""
    settings, configuration = registry_of(connection).settings, worker.published.configuration
    request = await sliced(read_request(body, configuration, settings, caller(connection)))
    return shown_learned(worker, await worker.learn(request))


def read_request(
    body: Body,
    configuration: Configuration,
    settings: Settings,
    key: Key | None = None,
    elsewhere: Sequence[Elsewhere] = (),
) -> Slices[LearnRequest]:
    """The request of a body. Invalid; Forbidden where this key may not send what it brings."""
    features, parts = configuration.features, []

    def read(portion: Body) -> Slices[None]:
        examples = parse_learn(portion, settings.batch_examples_max, features)
        if key is not None:
            check_examples(key, examples)
        yield
        parts.append(learn_request(portion, examples, configuration, settings, elsewhere))

    if not is_long(body):
        at_once(read(body))
        return parts[0]
    rest = yield from in_portions(body, configuration, settings, read)
    if rest is not None:
        parse_learn(rest, settings.batch_examples_max, features)
    return (yield from _joined(parts, reader(body, settings, elsewhere)))


def _joined(parts: Sequence[LearnRequest], reread: Callable[[Configuration], LearnRequest]) -> Slices[LearnRequest]:
    """Requests one after the other as one, which is read again as a whole."""
    inputs = [part.inputs for part in parts if part.inputs is not None]
    leased = any(part.leases for part in parts)
    return LearnRequest(
        [given for part in parts for given in part.ids],
        [label for part in parts for label in part.labels],
        (yield from join_long(inputs)) if inputs else None,
        [content for part in parts for content in part.contents],
        [lease for part in parts for lease in part.leases or [None] * len(part.ids)] if leased else (),
        reread if inputs else None,
        parts[0].elsewhere,
    )


async def learn_batch(connection: HTTPConnection, worker: Worker, body: Raw) -> Answer:
    """Learn the examples of a batch."""
    require(connection, "writer")  # each brings an x
    read = _batch_request(body, worker.published.configuration, registry_of(connection).settings)
    return shown_learned(worker, await worker.learn(await sliced(read)))


def _batch_request(body: Raw, configuration: Configuration, settings: Settings) -> Slices[LearnRequest]:
    batch = yield from read_batch(body, configuration, settings, labelled=True)
    labels, contents = cast("list[Label]", batch.labels), []
    for begin, end in spans(batch.rows.indptr):
        contents += digests(batch.rows.part(begin, end), labels[begin:end])
        yield

    def reread(configuration: Configuration) -> LearnRequest:
        return at_once(_batch_request(body, configuration, settings))

    return LearnRequest(batch.ids, labels, batch.rows, contents, reread=reread)


def learn_request(
    body: Body,
    examples: list[LabelledExample],
    configuration: Configuration,
    settings: Settings,
    elsewhere: Sequence[Elsewhere] = (),
) -> LearnRequest:
    """The request of a body whose examples were parsed, checked. Invalid."""
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    labels = [example["y"] for example in examples]
    check_labels(labels)
    leases = [example.get("lease") for example in examples] if any("lease" in example for example in examples) else []
    places = [index for index, example in enumerate(examples) if "x" in example]
    if not places:
        return LearnRequest(ids, labels, None, [None] * len(examples), leases, elsewhere=elsewhere)
    inputs = to_inputs([examples[index]["x"] for index in places], configuration, places)
    contents: list[bytes | None] = [*digests(inputs, [labels[index] for index in places])]
    if len(places) < len(examples):
        of_place = dict(zip(places, contents, strict=True))
        contents = [of_place.get(index) for index in range(len(examples))]
    # What is kept for another reading is the body, a fraction of the size of what was parsed.
    reread = reader(body, settings, elsewhere)
    return LearnRequest(ids, labels, inputs, contents, leases, reread, elsewhere)


def reader(
    body: Body, settings: Settings, elsewhere: Sequence[Elsewhere] = ()
) -> Callable[[Configuration], LearnRequest]:
    """What reads the request of a body once more, for another configuration."""
    return partial(_read_again, body, settings=settings, elsewhere=elsewhere)


def _read_again(
    body: Body, configuration: Configuration, settings: Settings, elsewhere: Sequence[Elsewhere]
) -> LearnRequest:
    return at_once(read_request(body, configuration, settings, elsewhere=elsewhere))


def shown_learned(worker: Worker, answer: LearnAnswer) -> Answer:
    """What is told of examples that were learned."""
    results = Parts(len(answer.results), RESULT_VALUES, partial(_learned, answer.results))
    shown = results.all() if results.short else results
    return {"model": worker.model.name, "position": answer.position, "results": shown}


def _learned(learnt: Sequence[Learnt], begin: int, end: int) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for given, prediction, score, duplicate, votes in learnt[begin:end]:
        result: dict[str, Any] = {"id": given, "prediction": prediction, "score": score, "duplicate": duplicate}
        if votes is not None:
            result |= {"collected": votes.collected, "needed": votes.needed}
            if votes.tally:
                result["votes"] = [{"label": label, "count": count} for label, count in votes.tally]
        results.append(result)
    return results


# -- predicting -------------------------------------------------------------------------------------------------------


async def predict_from(settings: Settings, worker: Worker, body: Body) -> Answer:
    """Predict the examples of a body."""
    published = worker.published
    if is_long(body):
        ids, inputs, details = await sliced(_read_predict(body, published.configuration, settings))
        return await _predict(worker, ids, inputs, details, published)
    examples, details = parse_predict(body, settings.batch_examples_max, published.configuration.features)
    return await predict_examples(worker, examples, details)


def _read_predict(
    body: Body, configuration: Configuration, settings: Settings
) -> Slices[tuple[list[str | None], Inputs, Details]]:
    """The ids and the x of a long body, and what is to be said besides."""
    ids: list[str | None] = []
    parts: list[Inputs] = []
    details = Details()

    def read(portion: Body) -> Slices[None]:
        nonlocal details
        examples, details = parse_predict(portion, settings.batch_examples_max, configuration.features)
        ids.extend(_ids(examples))
        yield
        parts.append(to_inputs([example["x"] for example in examples], configuration))

    rest = yield from in_portions(body, configuration, settings, read)
    if rest is not None:
        _, details = parse_predict(rest, settings.batch_examples_max, configuration.features)
    _check_explained(details, len(ids))
    return ids, (yield from join_long(parts)), details


async def predict_batch(connection: HTTPConnection, worker: Worker, body: Raw) -> Answer:
    """Predict the examples of a batch."""
    published, settings = worker.published, registry_of(connection).settings
    batch = await sliced(read_batch(body, published.configuration, settings, labelled=False))
    return await _predict(worker, batch.ids, batch.rows, Details(), published)


async def predict_examples(worker: Worker, examples: list[UnlabelledExample], details: Details) -> Answer:
    """Predict examples that were parsed. Invalid before anything else is done."""
    ids = _ids(examples)
    _check_explained(details, len(examples))
    published = worker.published
    inputs = to_inputs([example["x"] for example in examples], published.configuration)
    return await _predict(worker, ids, inputs, details, published)


def _ids(examples: list[UnlabelledExample]) -> list[str | None]:
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    return ids


def _check_explained(details: Details, count: int) -> None:
    explain = details.explain
    if explain > EXPLAINED_MAX or explain * count > EXPLAINED_MAX * 10:
        raise Invalid(f"explain must be at most {EXPLAINED_MAX}, and ten times that over all examples, got {explain}")


async def _predict(
    worker: Worker, ids: list[str | None], inputs: Inputs, details: Details, published: Published
) -> Answer:
    found = await make_decisions(worker, published, inputs, ids, details)
    published = found.published
    results = Parts(len(ids), answer_size(published, details), partial(_results, ids, found))
    shown = results.all() if results.short else results
    return {"model": worker.model.name, "position": published.position, "results": shown}


def answer_size(published: Published, details: Details) -> int:
    """About how many values the answer for one example has."""
    return RESULT_VALUES + len(published.names) * (2 if details.probabilities else 1) + 3 * details.explain


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
        if found.support_vectors is not None:
            result["support_vectors"] = found.support_vectors[r]
        if r in found.outside:
            result["outside"] = found.outside[r]
        results.append(result)
    return results
