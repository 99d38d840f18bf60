"""Routes of examples: learning and predicting."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NotRequired, cast

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import Field, TypeAdapter, with_config
from starlette.requests import HTTPConnection
from starlette.responses import Response

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.service.api.openapi import Shape, operation
from hinged.service.api.shapes import (
    FINISHED,
    LEARN,
    LEARNED,
    PREDICT,
    PREDICTED,
)
from hinged.service.api.wire import (
    decided_soon,
    is_named,
    read_examples,
    read_optional,
    registry_of,
)
from hinged.service.commands import explain as reasons
from hinged.service.commands.ask import Wish
from hinged.service.commands.learn import LearnRequest
from hinged.service.data.batches import read_batch
from hinged.service.data.classes import Label, check_label
from hinged.service.data.configuration import default_configuration
from hinged.service.data.examples import (
    STRICT,
    Body,
    LabelledExample,
    UnlabelledExample,
    check_ids,
    digests,
    mean_scale,
    parse_learn,
    parse_predict,
    parse_x,
    to_inputs,
)
from hinged.service.data.inputs import Inputs, x_digests
from hinged.service.data.parts import Configuration
from hinged.service.edge.access import DEFAULT, check_examples, require
from hinged.service.edge.middleware import JSON
from hinged.service.engine.registry import Registry
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    ModelFull,
    NotFound,
    QueueFull,
    StoreUnavailable,
)
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.pending import Prediction
from hinged.service.model.view import Decided, Published
from hinged.service.settings import Settings

EXPLAINED_MAX = 1_000
EPOCHS_MAX = 100
KEPT_INLINE_MAX = 100  # predictions that the event loop itself makes ready to wait


@with_config(STRICT)
class FinishBody(TypedDict):
    """Epochs over the log before the finishing step."""

    epochs: NotRequired[Annotated[int, Field(ge=0, le=EPOCHS_MAX)]]


FINISH: TypeAdapter[FinishBody] = TypeAdapter(FinishBody)
FINISH_BODY = Shape(FINISH, {"epochs": 1})
LEARN_ERRORS = (Conflict, Gone, QueueFull, StoreUnavailable, ModelFull)

router = APIRouter(default_response_class=JSON)


# -- learning ---------------------------------------------------------------------------------------------------------


@router.post(
    "/models/{model}/learn",
    tags=["examples"],
    openapi_extra=operation(LEARNED, *LEARN_ERRORS, takes=LEARN, takes_batch=True),
)
async def learn(model: str, request: Request) -> Response:
    """Predict, then learn, each example in order. Answered when all are durable and learned."""
    registry = registry_of(request)
    worker = registry.get(model)
    body, packed = await read_examples(request, registry.settings.body_bytes_max)
    return JSON(await (learn_batch if packed else learn_from)(request, worker, body))


async def learn_from(connection: HTTPConnection, worker: Worker, body: Body) -> dict[str, Any]:
    """Learn the examples of a body."""
    settings, configuration = registry_of(connection).settings, worker.published.configuration
    examples = parse_learn(body, settings.batch_examples_max, named=is_named(configuration))
    check_examples(connection, examples)
    return await _learn(worker, _learn_request(body, examples, configuration, settings))


async def learn_batch(connection: HTTPConnection, worker: Worker, body: bytes) -> dict[str, Any]:
    """Learn the examples of a batch."""
    require(connection, "writer")  # each brings an x
    read = partial(_batch_request, body, settings=registry_of(connection).settings)
    return await _learn(worker, read(worker.published.configuration))


def _batch_request(body: bytes, configuration: Configuration, settings: Settings) -> LearnRequest:
    batch = read_batch(body, configuration, settings, labelled=True)
    labels = cast("list[Label]", batch.labels)
    reread = partial(_batch_request, body, settings=settings)
    return LearnRequest(batch.ids, labels, batch.rows, digests(batch.rows, labels), reread=reread)


@router.post(
    "/learn", tags=["examples"], openapi_extra=operation(LEARNED, *LEARN_ERRORS, takes=LEARN, takes_batch=True)
)
async def learn_default(request: Request) -> Response:
    """The same on the model "default", which the first call creates."""
    registry = registry_of(request)
    try:
        registry.get(DEFAULT)
    except NotFound:
        return await _learn_first(registry, request)
    return await learn(DEFAULT, request)


async def _learn_first(registry: Registry, request: Request) -> Response:
    settings = registry.settings
    body, packed = await read_examples(request, settings.body_bytes_max)
    if packed:
        raise Invalid("the first examples of the default model are sent as JSON, by which it is made")
    # Its features are those of the template; dense or sparse where that leaves them open.
    template = default_configuration(settings.default_model, dense=True, dim=1, gamma=1.0, settings=settings)
    examples = parse_learn(body, settings.batch_examples_max, named=is_named(template))
    check_examples(request, examples)
    require(request, "admin")
    worker = await _create_default(registry, body, examples, named=is_named(template))
    return JSON(await _learn(worker, _learn_request(body, examples, worker.published.configuration, settings)))


async def _create_default(registry: Registry, body: Body, examples: list[LabelledExample], *, named: bool) -> Worker:
    xs = [example["x"] for example in examples if "x" in example]
    if len(xs) < len(examples):
        raise Invalid("the first examples of the default model need x: there is no pool and nothing pending")
    first = xs[0]
    dense = isinstance(first, list)
    gamma = 1.0 if named else mean_scale(xs)
    configuration = default_configuration(
        registry.settings.default_model, dense, len(first) if dense else 0, gamma, registry.settings
    )
    # Nothing of a bad request is kept, so no model of its width either.
    registry.rehearse(configuration, _learn_request(body, examples, configuration, registry.settings))
    try:
        worker, _ = await registry.create(DEFAULT, configuration)
    except Conflict:
        with suppress(NotFound):  # another first request came before this one, with another gamma
            return registry.get(DEFAULT)
        raise
    return worker


def _learn_request(
    body: Body, examples: list[LabelledExample], configuration: Configuration, settings: Settings
) -> LearnRequest:
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    labels = [example["y"] for example in examples]
    for index, label in enumerate(labels):
        check_label(label, f"examples[{index}].y", settings.label_chars_max, index=index)
    leases = [example.get("lease") for example in examples] if any("lease" in example for example in examples) else []
    places = [index for index, example in enumerate(examples) if "x" in example]
    if not places:
        return LearnRequest(ids, labels, None, [None] * len(examples), leases)
    inputs = to_inputs([examples[index]["x"] for index in places], configuration, places)
    contents: list[bytes | None] = [None] * len(examples)
    for index, content in zip(places, digests(inputs, [labels[index] for index in places]), strict=True):
        contents[index] = content
    # What is kept for another reading is the body, a fraction of the size of what was parsed.
    reread = partial(_read_again, body, settings=settings)
    return LearnRequest(ids, labels, inputs, contents, leases, reread)


def _read_again(body: Body, configuration: Configuration, settings: Settings) -> LearnRequest:
    examples = parse_learn(body, settings.batch_examples_max, named=is_named(configuration))
    return _learn_request(body, examples, configuration, settings)


async def _learn(worker: Worker, request: LearnRequest) -> dict[str, Any]:
    answer = await worker.learn(request)
    results = []
    for r in answer.results:
        result: dict[str, Any] = {
            "id": r.id,
            "prediction": r.prediction,
            "score": r.score,
            "duplicate": r.duplicate,
        }
        if r.votes is not None:
            result |= {"collected": r.votes.collected, "needed": r.votes.needed}
            if r.votes.tally:
                result["votes"] = [{"label": label, "count": count} for label, count in r.votes.tally]
        results.append(result)
    return {"model": worker.model.name, "position": answer.position, "results": results}


@router.post(
    "/models/{model}/finish",
    tags=["examples"],
    openapi_extra=operation(FINISHED, Conflict, QueueFull, StoreUnavailable, takes=FINISH_BODY, optional=True),
)
async def finish(model: str, request: Request) -> Response:
    """Optimise over the points held until no pair violates by more than tol; before that, learn the log again."""
    registry = registry_of(request)
    worker = registry.get(model)
    body = await read_optional(request, FINISH, registry.settings.body_bytes_max)
    return JSON(await worker.finish(body.get("epochs", 0)))


# -- predicting -------------------------------------------------------------------------------------------------------


@router.post(
    "/models/{model}/predict",
    tags=["examples"],
    openapi_extra=operation(PREDICTED, QueueFull, takes=PREDICT, takes_batch=True),
)
async def predict(model: str, request: Request) -> Response:
    """Predict each example, from what was published last; one with an id waits for its label."""
    registry = registry_of(request)
    worker = registry.get(model)
    body, packed = await read_examples(request, registry.settings.body_bytes_max)
    return JSON(await (predict_batch if packed else predict_from)(request, worker, body))


async def predict_from(connection: HTTPConnection, worker: Worker, body: Body) -> dict[str, Any]:
    """Predict the examples of a body."""
    settings = registry_of(connection).settings
    named = is_named(worker.published.configuration)
    examples, explain = parse_predict(body, settings.batch_examples_max, named=named)
    return await _predict_examples(worker, examples, explain, settings)


async def predict_batch(connection: HTTPConnection, worker: Worker, body: bytes) -> dict[str, Any]:
    """Predict the examples of a batch."""
    published = worker.published
    batch = read_batch(body, published.configuration, registry_of(connection).settings, labelled=False)
    return await _predict(worker, published, batch.ids, batch.rows, 0)


@router.get("/models/{model}/predict", tags=["examples"], openapi_extra=operation(PREDICTED))
async def predict_one(model: str, request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example."""
    registry = registry_of(request)
    worker = registry.get(model)
    example: UnlabelledExample = {"x": parse_x(x, named=is_named(worker.published.configuration))}
    return JSON(await _predict_examples(worker, [example], 0, registry.settings))


@router.post(
    "/predict",
    tags=["examples"],
    openapi_extra=operation(PREDICTED, NotFound, QueueFull, takes=PREDICT, takes_batch=True),
)
async def predict_default(request: Request) -> Response:
    """The same on the model "default"."""
    return await predict(DEFAULT, request)


@router.get("/predict", tags=["examples"], openapi_extra=operation(PREDICTED, NotFound))
async def predict_one_default(request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example on the model "default"."""
    return await predict_one(DEFAULT, request, x)


async def _predict_examples(
    worker: Worker, examples: list[UnlabelledExample], explain: int, settings: Settings
) -> dict[str, Any]:
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    if explain > EXPLAINED_MAX or explain * len(examples) > EXPLAINED_MAX * 10:
        raise Invalid(f"explain must be at most {EXPLAINED_MAX}, and ten times that over all examples, got {explain}")
    published = worker.published
    inputs = to_inputs([example["x"] for example in examples], published.configuration)
    return await _predict(worker, published, ids, inputs, explain)


async def _predict(
    worker: Worker, published: Published, ids: list[str | None], inputs: Inputs, explain: int
) -> dict[str, Any]:
    """Predict what was read for a state from this state: another may have another kernel or precision."""
    because = None
    if explain:
        published, decided, because = await worker.read(partial(reasons.explain, inputs=inputs, most=explain))
    else:
        decided = await decided_soon(worker, published, inputs, published.decide)
    worker.predictions_served += len(inputs)
    wishes = worker.wishes(ids, published.doubtful(decided.columns).tolist())
    await _keep(worker, published, inputs, ids, decided, wishes)
    numbers, chances = decided.numbers.tolist(), decided.probabilities.tolist()
    results = []
    for r, (given, scores) in enumerate(zip(ids, published.scores(decided), strict=True)):
        result: dict[str, Any] = {
            "id": given,
            "prediction": None if numbers[r] == UNKNOWN else published.labels[numbers[r]],
            "probability": None if math.isnan(chances[r]) else chances[r],
            "scores": scores,
            "label": wishes[r]._asdict(),
        }
        if because is not None:
            result["support_vectors"] = because[r]
        results.append(result)
    return {"model": worker.model.name, "position": published.position, "results": results}


async def _keep(
    worker: Worker,
    published: Published,
    inputs: Inputs,
    ids: list[str | None],
    decided: Decided,
    wishes: list[Wish],
) -> None:
    """Let the predictions that have an id wait for their labels."""
    configuration = published.configuration
    named = [r for r, given in enumerate(ids) if given is not None]
    if not named or not configuration.labels.pending_max:
        return
    work = partial(_predictions, configuration, inputs, ids, named, decided, wishes)
    made = work() if len(named) <= KEPT_INLINE_MAX else await asyncio.to_thread(work)
    await worker.keep(made, published.labels)


def _predictions(
    configuration: Configuration,
    inputs: Inputs,
    ids: list[str | None],
    named: list[int],
    decided: Decided,
    wishes: list[Wish],
) -> list[Prediction]:
    now_ms = time.time_ns() // 1_000_000
    budgeted = configuration.labels.budget is not None
    digests_of = x_digests(inputs)
    return [
        Prediction(
            id=ids[r] or "",
            x=inputs.take(np.array([r])),
            digest=digests_of[r],
            columns=decided.columns[r].copy(),
            number=int(decided.numbers[r]),
            source=wishes[r].source if budgeted else 0,
            at_ms=now_ms,
        )
        for r in named
    ]
