"""Routes for labels: the pool, questions and leases, ranking, and suspects."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, NotRequired, cast

from fastapi import Query, Request
from pydantic import Field, StringConstraints, with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import Queries
from hinged.operations import ExampleOperations, LabelOperations
from hinged.service import limits
from hinged.service.api.dispatch import Brought, Change, Context, Handling, Packed
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group, dispatched, examples_dispatched
from hinged.service.api.wire import SENT, PathWorker, parsed, read_command, read_json, registry_of
from hinged.service.commands import explain as reasons
from hinged.service.commands.ask import Ask, Offer, Peek
from hinged.service.commands.leases import Release, Renew, Skip, Unskip
from hinged.service.commands.rank import make_ranking
from hinged.service.data.answers import Answer
from hinged.service.data.batches import SHOWS, read_batch
from hinged.service.data.classes import Label, check_label
from hinged.service.data.examples import (
    SERVER_ID,
    STRICT,
    Body,
    CandidateExample,
    PoolBody,
    RankBody,
    Raw,
    Strategy,
    check_ids,
    check_show,
    parse_pool,
    parse_rank,
    to_inputs,
)
from hinged.service.data.features.catalogue import AnyX
from hinged.service.data.inputs import Inputs, join_long, x_digests
from hinged.service.data.parts import Configuration
from hinged.service.data.portions import parse_portions
from hinged.service.data.slices import Slices, at_once, sliced, spans
from hinged.service.errors import (
    Conflict,
    Gone,
    Invalid,
    StoreUnavailable,
)
from hinged.service.settings import Settings
from hinged.solvers.scores.selection import ACTIVE

LEASE_S = 600.0
"""Default duration of a lease, in seconds. If an annotator leaves, the question is blocked for this long. If an
annotator thinks for longer, somebody else is asked the same question.
"""
SEARCHED = 1_000
"""Default number of candidates among which a question is chosen. More candidates take longer; fewer make worse
questions.
"""

group = Group("labels")

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
LeaseTime = Annotated[float, Field(ge=0.001, le=limits.LEASE_S_MAX)]


@with_config(STRICT)
class AskBody(TypedDict):
    """A request for labels: how many, for which annotator, how to choose the candidates, and how long the leases last.
    A retry with the same request_id gets the same answer.

    held: leases that the client still has. Only these leases are repeated. null: all open leases of the annotator are
    repeated.
    """

    n: NotRequired[Annotated[int, Field(ge=1)]]
    annotator: Name
    strategy: NotRequired[Strategy]
    lease_s: NotRequired[LeaseTime]
    request_id: NotRequired[Name | None]
    search: NotRequired[Annotated[int, Field(ge=1, le=limits.SEARCHED_MAX)]]
    held: NotRequired[Annotated[list[Name], Field(max_length=limits.HELD_MAX)] | None]


@with_config(STRICT)
class HeartbeatBody(TypedDict):
    """How long a lease lasts from now, in seconds."""

    lease_s: NotRequired[LeaseTime]


SkipBody = TypedDict("SkipBody", {"for": NotRequired[Literal["me", "all"]]})
with_config(STRICT)(SkipBody)


ASK_BODY = Shape(AskBody, {"n": 1, "annotator": "ann", "strategy": "active", "lease_s": 600.0})


# -- asking for labels ------------------------------------------------------------------------------------------------


async def offer_candidates(context: Context, body: Brought) -> Change:
    """Offer the candidates of a body."""
    configuration, settings = context.worker.published.configuration, context.settings
    if isinstance(body, Packed):
        offer = await sliced(_read_batch_offer(body.data, configuration, settings))
    else:
        offer = await sliced(_read_offer(body, configuration, settings))
    for index, given in enumerate(offer.ids):
        if given.startswith(SERVER_ID):
            raise Invalid(
                f"examples[{index}].id: ids that begin with {SERVER_ID} are reserved for the server", index=index
            )
    return Change(partial(context.worker.command, offer), dict)


@group.serves(
    LabelOperations.offer,
    Conflict,
    Gone,
    StoreUnavailable,
    handling=Handling(offer_candidates),
    takes=Shape(PoolBody[AnyX], {"examples": [{"id": "thu", "x": [0.5, 0.5]}, {"id": "fri", "x": [0.9, 0.9]}]}),
    takes_batch=True,
)
async def offer(model: str, request: Request) -> Response:
    """Offer candidates to the pool. A candidate that is already in the pool or already learned is not added again."""
    return await examples_dispatched(request, LabelOperations.offer, model)


def _read_offer(body: Body, configuration: Configuration, settings: Settings) -> Slices[Offer]:
    offers: list[Offer] = []

    def take(_: Body, examples: list[CandidateExample]) -> Slices[None]:
        ids = [example["id"] for example in examples]
        check_ids(ids)
        labels = [example.get("y") for example in examples]
        for index, label in enumerate(labels):
            if label is not None:
                check_label(label, f"examples[{index}].y", index=index)
        shows = [example.get("show") for example in examples]
        for index, show in enumerate(shows):
            check_show(show, index)
            if index % SHOWS == SHOWS - 1:
                yield
        inputs = to_inputs([example["x"] for example in examples], configuration)
        yield
        offers.append(Offer(ids, inputs, x_digests(inputs), labels, shows))

    yield from parse_portions(body, configuration, settings, parse_pool, take)
    return Offer(
        [given for offer in offers for given in offer.ids],
        (yield from join_long([offer.inputs for offer in offers])),
        [digest for offer in offers for digest in offer.digests],
        [label for offer in offers for label in offer.labels],
        [show for offer in offers for show in offer.shows],
        reread=lambda configuration: at_once(_read_offer(body, configuration, settings)),
    )


def _read_batch_offer(body: Raw, configuration: Configuration, settings: Settings) -> Slices[Offer]:
    batch = yield from read_batch(body, configuration, settings, labelled=None)
    ids = [given for given in batch.ids if given is not None]
    if len(ids) < len(batch.ids):
        raise Invalid("each candidate needs an id")
    digests: list[bytes] = []
    for begin, end in spans(batch.rows.indptr):
        digests += x_digests(batch.rows.part(begin, end))
        yield
    return Offer(
        ids,
        batch.rows,
        digests,
        batch.labels,
        batch.shows,
        reread=lambda configuration: at_once(_read_batch_offer(body, configuration, settings)),
    )


async def ask_questions(context: Context, body: Brought) -> Change:
    """Lease the candidates that a body asks for."""
    return Change(partial(context.worker.command, _read_ask(cast("Body", body))), dict)


@group.serves(
    LabelOperations.query,
    Conflict,
    StoreUnavailable,
    answers=Queries[AnyX],
    handling=Handling(ask_questions),
    takes=ASK_BODY,
)
async def ask(worker: PathWorker, request: Request) -> Answer:
    """Ask for labels: lease the candidates whose labels are worth most. The annotator's open leases come first."""
    return await dispatched(request, LabelOperations.query, worker, await read_command(request))


def _read_ask(body: Body) -> Ask:
    asked: AskBody = parsed(ASK_BODY.adapter, body)
    most = limits.QUERIES_MAX
    n = asked.get("n", 1)
    if n > most:
        raise Invalid(f"n must be at most {most}, got {n}")
    held = asked.get("held")
    return Ask(
        n=n,
        annotator=asked["annotator"],
        strategy=asked.get("strategy", ACTIVE),
        lease_ms=round(1000 * asked.get("lease_s", LEASE_S)),
        request_id=asked.get("request_id"),
        search=asked.get("search", SEARCHED),
        held=None if held is None else tuple(sorted(set(held))),
    )


@group.serves(LabelOperations.queries)
async def peek(
    worker: PathWorker,
    n: Annotated[int, Query(ge=1, le=1000, description="the most questions to return")] = 1,
    strategy: Annotated[Strategy, Query(description="how candidates are chosen")] = "active",
) -> Answer:
    """Show the next questions, the open leases and the pool's size. Nothing changes."""
    return await worker.command(Peek(n, strategy, SEARCHED))


@group.serves(
    LabelOperations.heartbeat, StoreUnavailable, takes=Shape(HeartbeatBody, {"lease_s": 600.0}), optional=True
)
async def heartbeat(worker: PathWorker, lease: str, body: Annotated[HeartbeatBody, SENT]) -> Answer:
    """Extend a lease. The lease then lasts `lease_s` seconds from now."""
    lease_s = body.get("lease_s")
    return await worker.command(Renew(lease, None if lease_s is None else round(1000 * lease_s)))


@group.serves(LabelOperations.release, StoreUnavailable)
async def release(worker: PathWorker, lease: str) -> Answer:
    """Release a lease. The server may ask about the candidate again."""
    return await worker.command(Release(lease))


@group.serves(LabelOperations.skip, StoreUnavailable, takes=Shape(SkipBody, {"for": "me"}), optional=True)
async def skip(worker: PathWorker, lease: str, body: Annotated[SkipBody, SENT]) -> Answer:
    """Skip a leased candidate. With `me`, the server does not ask this annotator about it again. With `all`, the server
    asks no annotator about it.
    """
    return await worker.command(Skip(lease, for_all=body.get("for", "me") == "all"))


@group.serves(LabelOperations.unskip, Conflict, StoreUnavailable)
async def unskip(worker: PathWorker, lease: str) -> Answer:
    """Undo a skip. The lease is open again."""
    return await worker.command(Unskip(lease))


@group.serves(
    ExampleOperations.rank,
    takes=Shape(RankBody[AnyX], {"examples": [{"id": "a", "x": [0.9, 0.1]}, {"id": "b", "x": [0.5, 0.4]}]}),
)
async def rank_examples(worker: PathWorker, request: Request) -> Answer:
    """Rank examples by how useful their labels would be. Nothing changes."""
    settings = registry_of(request).settings
    body = await read_json(request, settings.body_bytes_max)
    published = worker.published
    told, ids, inputs, labels = await sliced(_read_rank(body, published.configuration, settings))
    ranking = await make_ranking(worker, published, inputs, ids, labels, told.get("strategy", ACTIVE))
    shown = ranking[: told.get("n") or len(ranking)]
    return {"model": worker.name, "position": published.position, "ranking": shown}


def _read_rank(
    body: Raw, configuration: Configuration, settings: Settings
) -> Slices[tuple[RankBody, list[str | None], Inputs, list[Label | None]]]:
    """Return a body without its examples, and the ids, x and labels of the examples."""
    ids: list[str | None] = []
    labels: list[Label | None] = []
    inputs: list[Inputs] = []

    def take(_: Body, parsed: RankBody) -> Slices[None]:
        examples = parsed["examples"]
        given = [example.get("id") for example in examples]
        check_ids(given)
        ids.extend(given)
        labels.extend(example.get("y") for example in examples)
        yield
        inputs.append(to_inputs([example["x"] for example in examples], configuration))

    told = yield from parse_portions(body, configuration, settings, parse_rank, take)
    return told, ids, (yield from join_long(inputs)), labels


@group.serves(ExampleOperations.suspects)
async def suspects(
    worker: PathWorker,
    n: Annotated[int, Query(ge=1, le=10_000, description="the most examples to return")] = 10,
) -> Answer:
    """List the learned examples whose labels look wrong: the examples that contradict their label most, and the
    examples that the ramp set aside.
    """
    found = await worker.read(partial(reasons.suspects, most=n))
    return {"model": worker.name, "position": worker.published.position, "suspects": found}
