"""The bodies and answers of the label routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, StringConstraints, TypeAdapter, with_config

# pydantic needs typing_extensions' TypedDict below Python 3.12
from typing_extensions import TypedDict

from hinged.answers import Queries
from hinged.service import limits
from hinged.service.api.openapi import AT, Shape
from hinged.service.data.examples import STRICT, PoolBody, RankBody, Strategy
from hinged.service.data.features.catalogue import AnyX

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
LeaseTime = Annotated[float, Field(ge=0.001, le=limits.LEASE_S_MAX)]


@with_config(STRICT)
class AskBody(TypedDict):
    """A request for labels: how many, for whom, chosen how, for how long. A request_id is answered once; a retry gets
    the same answer.

    held: leases that the client still holds; only these are repeated. null: all leases that the annotator has open.
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
    """How long a lease shall last from now, in seconds."""

    lease_s: NotRequired[LeaseTime]


SkipBody = TypedDict("SkipBody", {"for": NotRequired[Literal["me", "all"]]})
with_config(STRICT)(SkipBody)


HEAD = {"model": "weather", "position": 8}
LEASE = "c2l4dGVlbiBieXRlcyE"
POOL = Shape(PoolBody[AnyX], {"examples": [{"id": "thu", "x": [0.5, 0.5]}, {"id": "fri", "x": [0.9, 0.9]}]})
OFFERED = {**HEAD, "added": 2, "size": 2, "dropped": 0}
ASK: TypeAdapter[AskBody] = TypeAdapter(AskBody)
ASK_BODY = Shape(ASK, {"n": 1, "annotator": "ann", "strategy": "active", "lease_s": 600.0})
QUERIES = Shape(
    Queries[AnyX],
    {
        **HEAD,
        "queries": [{"id": "thu", "x": [0.5, 0.5], "lease": LEASE, "expires_at": AT, "score": 0.2, "reason": "active"}],
    },
)
PEEKED = {**HEAD, "next": [{"id": "thu", "score": 0.2, "reason": "active"}], "leased": [], "pool": {}}
HEARTBEAT: TypeAdapter[HeartbeatBody] = TypeAdapter(HeartbeatBody)
HEARTBEAT_BODY = Shape(HEARTBEAT, {"lease_s": 600.0})
RENEWED = {**HEAD, "id": "thu", "lease": LEASE, "expires_at": AT}
RELEASED = {**HEAD, "id": "thu", "released": True}
SKIP: TypeAdapter[Any] = TypeAdapter(SkipBody)
SKIP_BODY = Shape(SKIP, {"for": "me"})
SKIPPED = {**HEAD, "id": "thu", "skipped": "me"}
RANK = Shape(RankBody[AnyX], {"examples": [{"id": "a", "x": [0.9, 0.1]}, {"id": "b", "x": [0.5, 0.4]}]})
RANKED = {**HEAD, "ranking": [{"id": "b", "score": 0.2}, {"id": "a", "score": 1.0}]}
SUSPECTS = {
    **HEAD,
    "suspects": [{"id": "mon", "label": "sun", "prediction": "rain", "margin": -0.4, "reason": "contradicts"}],
}
