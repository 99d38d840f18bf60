"""Routes of labels: the pool, questions and leases, ranking, suspects."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.requests import HTTPConnection
from starlette.responses import Response

from hinged.service import limits
from hinged.service.api.labels.shapes import (
    ASK,
    ASK_BODY,
    HEARTBEAT,
    HEARTBEAT_BODY,
    OFFERED,
    PEEKED,
    POOL,
    QUERIES,
    RANK,
    RANKED,
    RELEASED,
    RENEWED,
    SKIP,
    SKIP_BODY,
    SKIPPED,
    SUSPECTS,
    AskBody,
)
from hinged.service.api.openapi import operation
from hinged.service.api.wire import (
    form_of,
    parsed,
    read_examples,
    read_json,
    read_optional,
    registry_of,
)
from hinged.service.commands import explain as reasons
from hinged.service.commands.ask import Ask, Offer, Peek
from hinged.service.commands.leases import Release, Renew, Skip, Unskip
from hinged.service.commands.rank import make_ranking
from hinged.service.data.batches import read_batch
from hinged.service.data.classes import check_label
from hinged.service.data.examples import (
    SERVER_ID,
    Body,
    Strategy,
    check_ids,
    check_show,
    parse_pool,
    parse_rank,
    to_inputs,
)
from hinged.service.data.inputs import Inputs, x_digests
from hinged.service.data.parts import Configuration
from hinged.service.edge.middleware import JSON
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    QueueFull,
    StoreUnavailable,
)
from hinged.solvers.scores.selection import ACTIVE

LEASE_S = 600.0
"""Seconds that a lease lasts where the request does not say. A question whose annotator has gone waits for so long; one
who thinks for longer finds it asked of somebody else."""
SEARCHED = 1_000
"""Candidates that a question looks at where the request does not say. More take longer, fewer make worse questions."""

router = APIRouter(default_response_class=JSON)


# -- asking for labels ------------------------------------------------------------------------------------------------


@router.post(
    "/models/{model}/pool",
    tags=["labels"],
    openapi_extra=operation(OFFERED, Conflict, Gone, QueueFull, StoreUnavailable, takes=POOL, takes_batch=True),
)
async def offer(model: str, request: Request) -> Response:
    """Offer candidates for a label. What is in the pool or learned already is not added again."""
    registry = registry_of(request)
    worker = registry.get(model)
    body, packed = await read_examples(request, registry.settings.body_bytes_max)
    return JSON(await (offer_batch if packed else offer_from)(request, worker, body))


async def offer_from(connection: HTTPConnection, worker: Worker, body: Body) -> dict[str, Any]:
    """Offer the candidates of a body."""
    settings, configuration = registry_of(connection).settings, worker.published.configuration
    examples = parse_pool(body, settings.batch_examples_max, form=form_of(configuration))
    ids = [example["id"] for example in examples]
    check_ids(ids)
    labels = [example.get("y") for example in examples]
    for index, label in enumerate(labels):
        if label is not None:
            check_label(label, f"examples[{index}].y", index=index)
    shows = [example.get("show") for example in examples]
    for index, show in enumerate(shows):
        check_show(show, index)

    def read(configuration: Configuration) -> tuple[Inputs, list[bytes]]:
        again = parse_pool(body, settings.batch_examples_max, form=form_of(configuration))
        return _with_digests(to_inputs([example["x"] for example in again], configuration))

    inputs, digests = _with_digests(to_inputs([example["x"] for example in examples], configuration))
    return await _offer(worker, Offer(ids, inputs, digests, labels, shows, read=read))


async def offer_batch(connection: HTTPConnection, worker: Worker, body: bytes) -> dict[str, Any]:
    """Offer the candidates of a batch."""
    settings = registry_of(connection).settings

    def read(configuration: Configuration) -> tuple[Inputs, list[bytes]]:
        return _with_digests(read_batch(body, configuration, settings, labelled=None).rows)

    batch = read_batch(body, worker.published.configuration, settings, labelled=None)
    ids = [given for given in batch.ids if given is not None]
    if len(ids) < len(batch.ids):
        raise Invalid("each candidate needs an id")
    return await _offer(worker, Offer(ids, *_with_digests(batch.rows), batch.labels, batch.shows, read=read))


def _with_digests(inputs: Inputs) -> tuple[Inputs, list[bytes]]:
    return inputs, x_digests(inputs)


async def _offer(worker: Worker, offer: Offer) -> dict[str, Any]:
    for index, given in enumerate(offer.ids):
        if given.startswith(SERVER_ID):
            raise Invalid(f"examples[{index}].id: ids that begin with {SERVER_ID} are given by the server", index=index)
    return await worker.command(offer)


@router.post(
    "/models/{model}/queries",
    tags=["labels"],
    openapi_extra=operation(QUERIES, Conflict, QueueFull, StoreUnavailable, takes=ASK_BODY),
)
async def ask(model: str, request: Request) -> Response:
    """Lease the candidates whose labels are worth most; leases that the annotator holds already come first."""
    registry = registry_of(request)
    worker = registry.get(model)
    return JSON(await ask_from(request, worker, await read_json(request, registry.settings.body_bytes_max)))


async def ask_from(_: HTTPConnection, worker: Worker, body: Body) -> dict[str, Any]:
    """Lease candidates as a body asks."""
    asked: AskBody = parsed(ASK, body)
    most = limits.QUERIES_MAX
    n = asked.get("n", 1)
    if n > most:
        raise Invalid(f"n must be at most {most}, got {n}")
    held = asked.get("held")
    command = Ask(
        n=n,
        annotator=asked["annotator"],
        strategy=asked.get("strategy", ACTIVE),
        lease_ms=round(1000 * asked.get("lease_s", LEASE_S)),
        request_id=asked.get("request_id"),
        search=asked.get("search", SEARCHED),
        held=None if held is None else tuple(sorted(set(held))),
    )
    return await worker.command(command)


@router.get("/models/{model}/queries", tags=["labels"], openapi_extra=operation(PEEKED, QueueFull))
async def peek(
    model: str,
    request: Request,
    n: Annotated[int, Query(ge=1, le=1000, description="questions")] = 1,
    strategy: Annotated[Strategy, Query(description="how they are chosen")] = "active",
) -> Response:
    """What would be asked next, and what is leased. Changes nothing."""
    return JSON(await registry_of(request).get(model).command(Peek(n, strategy, SEARCHED)))


@router.post(
    "/models/{model}/queries/{lease}/heartbeat",
    tags=["labels"],
    openapi_extra=operation(RENEWED, QueueFull, StoreUnavailable, takes=HEARTBEAT_BODY, optional=True),
)
async def heartbeat(model: str, lease: str, request: Request) -> Response:
    """Let a lease last `lease_s` from now."""
    registry = registry_of(request)
    worker = registry.get(model)
    body = await read_optional(request, HEARTBEAT, registry.settings.body_bytes_max)
    lease_s = body.get("lease_s")
    return JSON(await worker.command(Renew(lease, None if lease_s is None else round(1000 * lease_s))))


@router.post(
    "/models/{model}/queries/{lease}/release",
    tags=["labels"],
    openapi_extra=operation(RELEASED, QueueFull, StoreUnavailable),
)
async def release(model: str, lease: str, request: Request) -> Response:
    """Give a lease back."""
    return JSON(await registry_of(request).get(model).command(Release(lease)))


@router.post(
    "/models/{model}/queries/{lease}/skip",
    tags=["labels"],
    openapi_extra=operation(SKIPPED, QueueFull, StoreUnavailable, takes=SKIP_BODY, optional=True),
)
async def skip(model: str, lease: str, request: Request) -> Response:
    """Give a lease back, for good: not to me again, or to nobody."""
    registry = registry_of(request)
    worker = registry.get(model)
    body = await read_optional(request, SKIP, registry.settings.body_bytes_max)
    return JSON(await worker.command(Skip(lease, for_all=body.get("for", "me") == "all")))


@router.delete(
    "/models/{model}/queries/{lease}/skip",
    tags=["labels"],
    openapi_extra=operation(RENEWED, Conflict, QueueFull, StoreUnavailable),
)
async def unskip(model: str, lease: str, request: Request) -> Response:
    """Take a skip back: the lease is open again."""
    return JSON(await registry_of(request).get(model).command(Unskip(lease)))


@router.post("/models/{model}/rank", tags=["labels"], openapi_extra=operation(RANKED, takes=RANK))
async def rank_examples(model: str, request: Request) -> Response:
    """The examples of the body in the order in which their labels are wanted. Changes nothing."""
    registry = registry_of(request)
    worker, settings = registry.get(model), registry.settings
    body = await read_json(request, settings.body_bytes_max)
    published = worker.published
    parsed = parse_rank(body, settings.batch_examples_max, form=form_of(published.configuration))
    examples = parsed["examples"]
    ids = [example.get("id") for example in examples]
    check_ids(ids)
    inputs = to_inputs([example["x"] for example in examples], published.configuration)
    labels = [example.get("y") for example in examples]
    strategy = parsed.get("strategy", ACTIVE)
    ranking = await make_ranking(worker, published, inputs, ids, labels, strategy)
    position = published.position
    return JSON({"model": model, "position": position, "ranking": ranking[: parsed.get("n") or len(ranking)]})


@router.get("/models/{model}/suspects", tags=["labels"], openapi_extra=operation(SUSPECTS))
async def suspects(
    model: str, request: Request, n: Annotated[int, Query(ge=1, le=10_000, description="examples, at most")] = 10
) -> Response:
    """The stored examples that contradict their label most, or that the ramp set aside."""
    worker = registry_of(request).get(model)
    found = await worker.read(partial(reasons.suspects, most=n))
    return JSON({"model": model, "position": worker.published.position, "suspects": found})
