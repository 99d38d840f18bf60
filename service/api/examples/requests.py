"""Requests to learn and to predict: a body is read and checked, its model asked, and told what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from starlette.requests import HTTPConnection

from hinged.service.api.wire import form_of, registry_of
from hinged.service.commands.planned import Elsewhere, LearnRequest
from hinged.service.commands.predict import Predictions, make_predictions
from hinged.service.data.batches import read_batch
from hinged.service.data.classes import Label, check_labels
from hinged.service.data.examples import (
    Body,
    Details,
    LabelledExample,
    UnlabelledExample,
    check_ids,
    digests,
    parse_learn,
    parse_predict,
    to_inputs,
)
from hinged.service.data.parts import Configuration
from hinged.service.edge.access import caller, check_examples, require
from hinged.service.engine.learning import LearnAnswer
from hinged.service.engine.worker import Worker
from hinged.service.errors import Invalid
from hinged.service.settings import Settings

EXPLAINED_MAX = 1_000

# -- learning ---------------------------------------------------------------------------------------------------------


async def learn_from(connection: HTTPConnection, worker: Worker, body: Body) -> dict[str, Any]:
    """Learn the examples of a body."""
    settings, configuration = registry_of(connection).settings, worker.published.configuration
    examples = parse_learn(body, settings.batch_examples_max, form=form_of(configuration))
    check_examples(caller(connection), examples)
    request = learn_request(body, examples, configuration, settings)
    return shown_learned(worker, await worker.learn(request))


async def learn_batch(connection: HTTPConnection, worker: Worker, body: bytes) -> dict[str, Any]:
    """Learn the examples of a batch."""
    require(connection, "writer")  # each brings an x
    read = partial(_batch_request, body, settings=registry_of(connection).settings)
    return shown_learned(worker, await worker.learn(read(worker.published.configuration)))


def _batch_request(body: bytes, configuration: Configuration, settings: Settings) -> LearnRequest:
    batch = read_batch(body, configuration, settings, labelled=True)
    labels = cast("list[Label]", batch.labels)
    reread = partial(_batch_request, body, settings=settings)
    return LearnRequest(batch.ids, labels, batch.rows, digests(batch.rows, labels), reread=reread)


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
    examples = parse_learn(body, settings.batch_examples_max, form=form_of(configuration))
    return learn_request(body, examples, configuration, settings, elsewhere)


def shown_learned(worker: Worker, answer: LearnAnswer) -> dict[str, Any]:
    """What is told of examples that were learned."""
    results: list[dict[str, Any]] = []
    for given, prediction, score, duplicate, votes in answer.results:
        result: dict[str, Any] = {"id": given, "prediction": prediction, "score": score, "duplicate": duplicate}
        if votes is not None:
            result |= {"collected": votes.collected, "needed": votes.needed}
            if votes.tally:
                result["votes"] = [{"label": label, "count": count} for label, count in votes.tally]
        results.append(result)
    return {"model": worker.model.name, "position": answer.position, "results": results}


# -- predicting -------------------------------------------------------------------------------------------------------


async def predict_from(settings: Settings, worker: Worker, body: Body) -> dict[str, Any]:
    """Predict the examples of a body."""
    form = form_of(worker.published.configuration)
    examples, details = parse_predict(body, settings.batch_examples_max, form=form)
    return await predict_examples(worker, examples, details)


async def predict_batch(connection: HTTPConnection, worker: Worker, body: bytes) -> dict[str, Any]:
    """Predict the examples of a batch."""
    published = worker.published
    batch = read_batch(body, published.configuration, registry_of(connection).settings, labelled=False)
    return _shown(worker, batch.ids, await make_predictions(worker, published, batch.rows, batch.ids))


async def predict_examples(worker: Worker, examples: list[UnlabelledExample], details: Details) -> dict[str, Any]:
    """Predict examples that were parsed. Invalid before anything else is done."""
    explain = details.explain
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    if explain > EXPLAINED_MAX or explain * len(examples) > EXPLAINED_MAX * 10:
        raise Invalid(f"explain must be at most {EXPLAINED_MAX}, and ten times that over all examples, got {explain}")
    published = worker.published
    inputs = to_inputs([example["x"] for example in examples], published.configuration)
    return _shown(worker, ids, await make_predictions(worker, published, inputs, ids, details))


def _shown(worker: Worker, ids: list[str | None], found: Predictions) -> dict[str, Any]:
    results = []
    for r, (given, scores, wish) in enumerate(zip(ids, found.scores, found.wishes or (), strict=True)):
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
        results.append(result)
    return {"model": worker.model.name, "position": found.published.position, "results": results}
