"""The routes: each parses, calls one method below, formats."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.access import DEFAULT, check_examples, require, visible
from service.configuration import CONFIGURATIONS, default_configuration, parse_configuration
from service.edge import JSON
from service.errors import BadRequest, BodyTooLarge, Conflict, Invalid, NotFound, UnsupportedMediaType
from service.examples import (
    LabelledExample,
    LearnBody,
    PredictBody,
    UnlabelledExample,
    check_ids,
    digests,
    mean_scale,
    parse_learn,
    parse_predict,
    parse_x,
    to_rows,
)
from service.labels import check_label
from service.parts import Configuration
from service.plan import LearnRequest
from service.registry import Registry
from service.settings import Settings
from service.worker import Worker

# Work above which a prediction goes to a thread, so that the event loop stays free: multiplications, of which turning
# an inner sum into a kernel value is worth VALUE_WORK. About a millisecond.
INLINE_WORK_MAX = 5_000_000
VALUE_WORK = 8

router = APIRouter(default_response_class=JSON)


def _body_of(schema: Any) -> dict[str, Any]:
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": adapter.json_schema()}},
        }
    }


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.registry
    return registry


async def read_json(request: Request, bytes_max: int) -> bytes:
    """The body of a JSON request. UnsupportedMediaType, BodyTooLarge, BadRequest where it is cut off."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType(f"Content-Type must be application/json, got {media_type or 'none'!r}")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise BodyTooLarge(f"a body has at most {bytes_max} bytes, got {declared}")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise BodyTooLarge(f"a body has at most {bytes_max} bytes, got more")
            parts.append(part)
    except ClientDisconnect:
        raise BadRequest("the client went away in the middle of the body") from None
    return b"".join(parts)


# -- health -----------------------------------------------------------------------------------------------------------


@router.get("/healthz", tags=["health"])
async def healthz() -> Response:
    """The process runs."""
    return JSON({"status": "ok"})


@router.get("/readyz", tags=["health"])
async def readyz(request: Request) -> Response:
    """200 once kernels are compiled and models loaded, 503 before."""
    ready = _registry(request).ready
    return JSON({"status": "ready" if ready else "starting"}, 200 if ready else 503)


# -- access -----------------------------------------------------------------------------------------------------------


@router.post("/tickets", tags=["access"])
async def create_ticket(request: Request) -> Response:
    """A ticket for one event stream or one WebSocket in a browser, with the rights of the key that asks."""
    return JSON(request.app.state.access.issue_ticket(request))


# -- models -----------------------------------------------------------------------------------------------------------


@router.get("/models", tags=["models"])
async def list_models(request: Request) -> Response:
    """All models in short: configuration, position in the log, examples, classes."""
    return JSON({"models": visible(request, _registry(request).summaries())})


@router.put("/models/{model}", tags=["models"], openapi_extra=_body_of(CONFIGURATIONS))
async def create_model(model: str, request: Request) -> Response:
    """Create a model. 201; 200 if it is there with this configuration; 409 if with another."""
    registry = _registry(request)
    body = await read_json(request, registry.settings.body_bytes_max)
    worker, new = await registry.create(model, parse_configuration(body, registry.settings))
    configuration = worker.model.configuration.model_dump(mode="json")
    return JSON({"model": model, "configuration": configuration}, 201 if new else 200)


@router.get("/models/{model}", tags=["models"])
async def describe_model(model: str, request: Request) -> Response:
    """Configuration, position in the log, examples, classes, support vectors, duality gap, metrics, memory."""
    return JSON(await _registry(request).get(model).describe())


@router.delete("/models/{model}", tags=["models"])
async def delete_model(model: str, request: Request) -> Response:
    """Remove a model with its log and its snapshots."""
    await _registry(request).delete(model)
    return JSON({"model": model, "deleted": True})


# -- learning ---------------------------------------------------------------------------------------------------------


@router.post("/models/{model}/learn", tags=["examples"], openapi_extra=_body_of(LearnBody))
async def learn(model: str, request: Request) -> Response:
    """Predict, then learn, each example in order. Answered when all are durable and learned."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_json(request, registry.settings.body_bytes_max)
    examples = parse_learn(body, registry.settings.batch_examples_max)
    check_examples(request, examples)
    return await _learn(worker, examples, registry.settings)


@router.post("/learn", tags=["examples"], openapi_extra=_body_of(LearnBody))
async def learn_default(request: Request) -> Response:
    """The same on the model "default", which the first call creates."""
    registry = _registry(request)
    body = await read_json(request, registry.settings.body_bytes_max)
    examples = parse_learn(body, registry.settings.batch_examples_max)
    check_examples(request, examples)
    try:
        worker = registry.get(DEFAULT)
    except NotFound:
        require(request, "admin")
        worker = await _create_default(registry, examples)
    return await _learn(worker, examples, registry.settings)


async def _create_default(registry: Registry, examples: list[LabelledExample]) -> Worker:
    xs = [example["x"] for example in examples]
    first = xs[0]
    dense = isinstance(first, list)
    configuration = default_configuration(
        registry.settings.default_model, dense, len(first) if dense else 0, mean_scale(xs), registry.settings
    )
    # Nothing of a bad request is kept, so no model of its width either.
    registry.rehearse(configuration, _learn_request(examples, configuration, registry.settings))
    try:
        worker, _ = await registry.create(DEFAULT, configuration)
    except Conflict:
        with suppress(NotFound):  # another first request came before this one, with another gamma
            return registry.get(DEFAULT)
        raise
    return worker


def _learn_request(examples: list[LabelledExample], configuration: Configuration, settings: Settings) -> LearnRequest:
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    labels = [example["y"] for example in examples]
    for index, label in enumerate(labels):
        check_label(label, f"examples[{index}].y", settings.label_chars_max, index=index)
    rows = to_rows([example["x"] for example in examples], configuration)
    return LearnRequest(ids, labels, rows, digests(rows, labels))


async def _learn(worker: Worker, examples: list[LabelledExample], settings: Settings) -> Response:
    answer = await worker.learn(_learn_request(examples, worker.model.configuration, settings))
    return JSON(
        {
            "model": worker.model.name,
            "position": answer.position,
            "results": [
                {"id": r.id, "prediction": r.prediction, "score": r.score, "duplicate": r.duplicate}
                for r in answer.results
            ],
        }
    )


@router.post("/models/{model}/finish", tags=["examples"])
async def finish(model: str, request: Request) -> Response:
    """Run the finishing step: optimise over the points held until no pair violates by more than tol."""
    return JSON(await _registry(request).get(model).finish())


# -- predicting -------------------------------------------------------------------------------------------------------


@router.post("/models/{model}/predict", tags=["examples"], openapi_extra=_body_of(PredictBody))
async def predict(model: str, request: Request) -> Response:
    """Predict each example, from what was published last."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_json(request, registry.settings.body_bytes_max)
    return await _predict(worker, parse_predict(body, registry.settings.batch_examples_max), registry.settings)


@router.get("/models/{model}/predict", tags=["examples"])
async def predict_one(model: str, request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example."""
    registry = _registry(request)
    return await _predict(registry.get(model), [{"x": parse_x(x)}], registry.settings)


@router.post("/predict", tags=["examples"], openapi_extra=_body_of(PredictBody))
async def predict_default(request: Request) -> Response:
    """The same on the model "default"."""
    return await predict(DEFAULT, request)


@router.get("/predict", tags=["examples"])
async def predict_one_default(request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example on the model "default"."""
    return await predict_one(DEFAULT, request, x)


async def _predict(worker: Worker, examples: list[UnlabelledExample], settings: Settings) -> Response:
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    rows = to_rows([example["x"] for example in examples], worker.model.configuration)
    published = worker.published
    if (rows.values.size + VALUE_WORK * len(rows)) * published.view.size <= INLINE_WORK_MAX:
        predictions = published.predict(rows)
    else:
        predictions = await asyncio.to_thread(published.predict, rows)
    return JSON(
        {
            "model": worker.model.name,
            "position": published.position,
            "results": [
                {"id": given, "prediction": label, "scores": scores}
                for given, (label, scores) in zip(ids, predictions, strict=True)
            ],
        }
    )


def unknown_route(path: str) -> NotFound:
    """The error of a path that no route has."""
    return NotFound(f"there is no route {path[:100]!r}; /docs lists them all")


def bad_query(problem: dict[str, Any]) -> Invalid:
    """The error of a query string that does not fit."""
    return Invalid(f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}")
