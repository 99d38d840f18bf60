"""The routes: each parses, calls one method below, formats."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, NotRequired, TypeVar

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, with_config
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from service.asking import Ask, Offer, Peek, Release, Renew, Skip, Wish, rank
from service.configuration import CONFIGURATIONS, default_configuration, parse_configuration
from service.edge import JSON
from service.errors import BadRequest, BodyTooLarge, Conflict, Invalid, NotFound, UnsupportedMediaType
from service.examples import (
    SERVER_ID,
    STRICT,
    LabelledExample,
    LearnBody,
    PoolBody,
    PredictBody,
    RankBody,
    Strategy,
    UnlabelledExample,
    check_ids,
    digests,
    mean_scale,
    parse_learn,
    parse_pool,
    parse_predict,
    parse_rank,
    parse_x,
    to_inputs,
)
from service.exposition import Exposition
from service.inputs import Inputs, Records, x_digests
from service.labels import Label, check_label, label_key
from service.metrics import UNKNOWN
from service.model import Decided, Model, Published
from service.parts import Configuration, first_problem
from service.pending import Prediction
from service.plan import LearnRequest
from service.registry import Registry
from service.settings import Settings
from service.worker import Worker
from solvers.selection import ACTIVE, GRADIENT

T = TypeVar("T")

DEFAULT = "default"

# Work above which a prediction goes to a thread, so that the event loop stays free: multiplications, of which turning
# an inner sum into a kernel value is worth VALUE_WORK. About a millisecond.
INLINE_WORK_MAX = 5_000_000
VALUE_WORK = 8

NAMED_VALUES = 20  # numbers that a record is taken to hold

LEASE_S = 600.0
LEASE_S_MAX = 30 * 86_400.0
SEARCHED = 1_000  # candidates that a question looks at unless it says otherwise
EXPLAINED_MAX = 1_000
EPOCHS_MAX = 100

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
LeaseTime = Annotated[float, Field(gt=0, le=LEASE_S_MAX)]


@with_config(STRICT)
class AskBody(TypedDict):
    """A request for labels: how many, for whom, chosen how, for how long; a request_id is answered once."""

    n: NotRequired[Annotated[int, Field(ge=1)]]
    annotator: NotRequired[Name]
    strategy: NotRequired[Strategy]
    lease_s: NotRequired[LeaseTime]
    request_id: NotRequired[Name | None]
    search: NotRequired[Annotated[int, Field(ge=1)]]


@with_config(STRICT)
class HeartbeatBody(TypedDict):
    """How long a lease is to last from now, seconds."""

    lease_s: NotRequired[LeaseTime]


SkipBody = TypedDict("SkipBody", {"for": NotRequired[Literal["me", "all"]]})
with_config(STRICT)(SkipBody)


@with_config(STRICT)
class FinishBody(TypedDict):
    """Epochs over the log before the finishing step."""

    epochs: NotRequired[Annotated[int, Field(ge=0, le=EPOCHS_MAX)]]


ASK: TypeAdapter[AskBody] = TypeAdapter(AskBody)
HEARTBEAT: TypeAdapter[HeartbeatBody] = TypeAdapter(HeartbeatBody)
SKIP: TypeAdapter[Any] = TypeAdapter(SkipBody)
FINISH: TypeAdapter[FinishBody] = TypeAdapter(FinishBody)

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


async def read_optional(request: Request, adapter: TypeAdapter[Any], bytes_max: int) -> Any:
    """A small JSON body, {} where there is none. Invalid says what is wrong with it."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    body = await read_json(request, bytes_max)
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise Invalid(first_problem(error)) from None


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


@router.get("/metrics", tags=["health"], response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Models and requests in the text format of Prometheus."""
    exposition: Exposition = request.app.state.exposition
    text, content_type = await asyncio.to_thread(exposition.text, request.headers.get("accept", ""))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


# -- models -----------------------------------------------------------------------------------------------------------


@router.get("/models", tags=["models"])
async def list_models(request: Request) -> Response:
    """All models in short: configuration, position in the log, examples, classes."""
    return JSON({"models": _registry(request).summaries()})


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
    examples = parse_learn(body, registry.settings.batch_examples_max, named=_is_named(worker.model.configuration))
    return await _learn(worker, examples, registry.settings)


@router.post("/learn", tags=["examples"], openapi_extra=_body_of(LearnBody))
async def learn_default(request: Request) -> Response:
    """The same on the model "default", which the first call creates."""
    registry = _registry(request)
    with suppress(NotFound):
        registry.get(DEFAULT)
        return await learn(DEFAULT, request)
    settings = registry.settings
    body = await read_json(request, settings.body_bytes_max)
    # Its features are those of the template; dense or sparse where that leaves them open.
    template = default_configuration(settings.default_model, dense=True, dim=1, gamma=1.0, settings=settings)
    examples = parse_learn(body, settings.batch_examples_max, named=_is_named(template))
    return await _learn(await _create_default(registry, examples), examples, settings)


def _is_named(configuration: Configuration) -> bool:
    return configuration.features.type == "named"


async def _create_default(registry: Registry, examples: list[LabelledExample]) -> Worker:
    xs = [example["x"] for example in examples if "x" in example]
    if len(xs) < len(examples):
        raise Invalid("the first examples of the default model need x: there is no pool and nothing pending")
    first = xs[0]
    dense = isinstance(first, list)
    gamma = 1.0 if "indices" not in first and not dense else mean_scale(xs)
    configuration = default_configuration(
        registry.settings.default_model, dense, len(first) if dense else 0, gamma, registry.settings
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
    leases = [example.get("lease") for example in examples] if any("lease" in example for example in examples) else []
    places = [index for index, example in enumerate(examples) if "x" in example]
    if not places:
        return LearnRequest(ids, labels, None, [None] * len(examples), leases)
    inputs = to_inputs([examples[index]["x"] for index in places], configuration, places)
    contents: list[bytes | None] = [None] * len(examples)
    for index, content in zip(places, digests(inputs, [labels[index] for index in places]), strict=True):
        contents[index] = content
    return LearnRequest(ids, labels, inputs, contents, leases)


async def _learn(worker: Worker, examples: list[LabelledExample], settings: Settings) -> Response:
    answer = await worker.learn(_learn_request(examples, worker.model.configuration, settings))
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
    return JSON({"model": worker.model.name, "position": answer.position, "results": results})


@router.post("/models/{model}/finish", tags=["examples"], openapi_extra=_body_of(FinishBody))
async def finish(model: str, request: Request) -> Response:
    """Optimise over the points held until no pair violates by more than tol; before that, learn the log again."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_optional(request, FINISH, registry.settings.body_bytes_max)
    return JSON(await worker.finish(body.get("epochs", 0)))


# -- predicting -------------------------------------------------------------------------------------------------------


@router.post("/models/{model}/predict", tags=["examples"], openapi_extra=_body_of(PredictBody))
async def predict(model: str, request: Request) -> Response:
    """Predict each example, from what was published last; one with an id waits for its label."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_json(request, registry.settings.body_bytes_max)
    named = _is_named(worker.model.configuration)
    examples, explain = parse_predict(body, registry.settings.batch_examples_max, named=named)
    return await _predict(worker, examples, explain, registry.settings)


@router.get("/models/{model}/predict", tags=["examples"])
async def predict_one(model: str, request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example."""
    registry = _registry(request)
    worker = registry.get(model)
    example: UnlabelledExample = {"x": parse_x(x, named=_is_named(worker.model.configuration))}
    return await _predict(worker, [example], 0, registry.settings)


@router.post("/predict", tags=["examples"], openapi_extra=_body_of(PredictBody))
async def predict_default(request: Request) -> Response:
    """The same on the model "default"."""
    return await predict(DEFAULT, request)


@router.get("/predict", tags=["examples"])
async def predict_one_default(request: Request, x: Annotated[str, Query(description="x as JSON")]) -> Response:
    """The same for one example on the model "default"."""
    return await predict_one(DEFAULT, request, x)


async def _predict(worker: Worker, examples: list[UnlabelledExample], explain: int, settings: Settings) -> Response:
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    if explain > EXPLAINED_MAX or explain * len(examples) > EXPLAINED_MAX * 10:
        raise Invalid(f"explain must be at most {EXPLAINED_MAX}, and ten times that over all examples, got {explain}")
    inputs = to_inputs([example["x"] for example in examples], worker.model.configuration)
    published = worker.published
    worker.predictions_served += len(inputs)
    decided = await _inline_or_not(published, inputs, published.decide)
    doubtful = published.doubtful(decided.columns).tolist()
    xs = x_digests(inputs) if any(given is not None for given in ids) or worker.needs_keys else [b""] * len(ids)
    wishes = worker.wishes([given.encode() if given else x for given, x in zip(ids, xs, strict=True)], doubtful)
    await _keep(worker, inputs, ids, xs, decided, wishes)
    because = await worker.read(partial(Model.explain, inputs=inputs, most=explain)) if explain else None
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
    return JSON({"model": worker.model.name, "position": published.position, "results": results})


async def _keep(
    worker: Worker,
    inputs: Inputs,
    ids: list[str | None],
    xs: list[bytes],
    decided: Decided,
    wishes: list[Wish],
) -> None:
    """Let the predictions that have an id wait for their labels."""
    if not worker.model.configuration.labels.pending_max:
        return
    now_ms = time.time_ns() // 1_000_000
    budgeted = worker.model.configuration.labels.budget is not None
    predictions = [
        Prediction(
            id=given,
            x=inputs.take(np.array([r])),
            digest=xs[r],
            columns=decided.columns[r].copy(),
            number=int(decided.numbers[r]),
            source=wishes[r].source if budgeted else 0,
            at_ms=now_ms,
        )
        for r, given in enumerate(ids)
        if given is not None
    ]
    if predictions:
        await worker.keep(predictions)


async def _inline_or_not(published: Published, inputs: Inputs, work: Callable[[Inputs], T]) -> T:
    """Decision values take a moment: on the event loop where it is short, else on a thread."""
    values = len(inputs) * NAMED_VALUES if isinstance(inputs, Records) else inputs.values.size
    if (values + VALUE_WORK * len(inputs)) * published.view.size <= INLINE_WORK_MAX:
        return work(inputs)
    return await asyncio.to_thread(work, inputs)


# -- asking for labels ------------------------------------------------------------------------------------------------


@router.post("/models/{model}/pool", tags=["labels"], openapi_extra=_body_of(PoolBody))
async def offer(model: str, request: Request) -> Response:
    """Offer candidates for a label. What is in the pool or learned already is not added again."""
    registry = _registry(request)
    worker, settings = registry.get(model), registry.settings
    body = await read_json(request, settings.body_bytes_max)
    examples = parse_pool(body, settings.batch_examples_max, named=_is_named(worker.model.configuration))
    ids = [example["id"] for example in examples]
    check_ids(ids, settings.id_chars_max)
    for index, given in enumerate(ids):
        if given.startswith(SERVER_ID):
            raise Invalid(f"examples[{index}].id: ids that begin with {SERVER_ID} are given by the server", index=index)
    labels = [example.get("y") for example in examples]
    for index, label in enumerate(labels):
        if label is not None:
            check_label(label, f"examples[{index}].y", settings.label_chars_max, index=index)
    inputs = to_inputs([example["x"] for example in examples], worker.model.configuration)
    return JSON(await worker.command(Offer(ids, inputs, x_digests(inputs), labels)))


@router.post("/models/{model}/queries", tags=["labels"], openapi_extra=_body_of(AskBody))
async def ask(model: str, request: Request) -> Response:
    """Lease the candidates whose labels are worth most; an annotator's open leases come first."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_optional(request, ASK, registry.settings.body_bytes_max)
    most = registry.settings.queries_max
    n = body.get("n", 1)
    if n > most:
        raise Invalid(f"n must be at most {most}, got {n}")
    command = Ask(
        n=n,
        annotator=body.get("annotator", "anonymous"),
        strategy=body.get("strategy", ACTIVE),
        lease_ms=round(1000 * body.get("lease_s", LEASE_S)),
        request_id=body.get("request_id"),
        search=body.get("search", SEARCHED),
    )
    return JSON(await worker.command(command))


@router.get("/models/{model}/queries", tags=["labels"])
async def peek(
    model: str,
    request: Request,
    n: Annotated[int, Query(ge=1, le=1000)] = 1,
    strategy: Annotated[Strategy, Query()] = "active",
) -> Response:
    """What would be asked next, and what is leased. Changes nothing."""
    return JSON(await _registry(request).get(model).command(Peek(n, strategy, SEARCHED)))


@router.post("/models/{model}/queries/{lease}/heartbeat", tags=["labels"], openapi_extra=_body_of(HeartbeatBody))
async def heartbeat(model: str, lease: str, request: Request) -> Response:
    """Let a lease last `lease_s` from now."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_optional(request, HEARTBEAT, registry.settings.body_bytes_max)
    return JSON(await worker.command(Renew(lease, round(1000 * body.get("lease_s", LEASE_S)))))


@router.post("/models/{model}/queries/{lease}/release", tags=["labels"])
async def release(model: str, lease: str, request: Request) -> Response:
    """Give a lease back."""
    return JSON(await _registry(request).get(model).command(Release(lease)))


@router.post("/models/{model}/queries/{lease}/skip", tags=["labels"], openapi_extra=_body_of(SkipBody))
async def skip(model: str, lease: str, request: Request) -> Response:
    """Give a lease back, for good: not to me again, or to nobody."""
    registry = _registry(request)
    worker = registry.get(model)
    body = await read_optional(request, SKIP, registry.settings.body_bytes_max)
    return JSON(await worker.command(Skip(lease, for_all=body.get("for", "me") == "all")))


@router.post("/models/{model}/rank", tags=["labels"], openapi_extra=_body_of(RankBody))
async def rank_examples(model: str, request: Request) -> Response:
    """The examples of the body in the order in which their labels are wanted. Changes nothing."""
    registry = _registry(request)
    worker, settings = registry.get(model), registry.settings
    body = await read_json(request, settings.body_bytes_max)
    parsed = parse_rank(body, settings.batch_examples_max, named=_is_named(worker.model.configuration))
    examples = parsed["examples"]
    ids = [example.get("id") for example in examples]
    check_ids(ids, settings.id_chars_max)
    published = worker.published
    inputs = to_inputs([example["x"] for example in examples], worker.model.configuration)
    strategy = parsed.get("strategy", ACTIVE)
    classes = _classes_of(published, [example.get("y") for example in examples]) if strategy == GRADIENT else None
    work = partial(rank, published, ids=ids, classes=classes, strategy=strategy)
    ranking = await _inline_or_not(published, inputs, lambda xs: work(inputs=xs))
    position = published.position
    return JSON({"model": model, "position": position, "ranking": ranking[: parsed.get("n") or len(ranking)]})


def _classes_of(published: Published, labels: list[Label | None]) -> np.ndarray[Any, Any] | None:
    numbers = {label_key(label): number for number, label in enumerate(published.labels)}
    found = [numbers.get(label_key(label)) if label is not None else None for label in labels]
    return None if None in found else np.array(found, np.int64)


@router.get("/models/{model}/suspects", tags=["labels"])
async def suspects(model: str, request: Request, n: Annotated[int, Query(ge=1, le=10_000)] = 10) -> Response:
    """The stored examples that contradict their label most, or that the ramp set aside."""
    worker = _registry(request).get(model)
    found = await worker.read(partial(Model.suspects, most=n))
    return JSON({"model": model, "position": worker.published.position, "suspects": found})


def unknown_route(path: str) -> NotFound:
    """The error of a path that no route has."""
    return NotFound(f"there is no route {path[:100]!r}; /docs lists them all")


def bad_query(problem: dict[str, Any]) -> Invalid:
    """The error of a query string that does not fit."""
    return Invalid(f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}")
