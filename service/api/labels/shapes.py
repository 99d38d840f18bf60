"""The bodies of the label routes."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field, StringConstraints, with_config
from typing_extensions import TypedDict

from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.data.examples import STRICT, PoolBody, RankBody, Strategy
from hinged.service.data.features.catalogue import AnyX

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


POOL = Shape(PoolBody[AnyX], {"examples": [{"id": "thu", "x": [0.5, 0.5]}, {"id": "fri", "x": [0.9, 0.9]}]})
ASK_BODY = Shape(AskBody, {"n": 1, "annotator": "ann", "strategy": "active", "lease_s": 600.0})
HEARTBEAT_BODY = Shape(HeartbeatBody, {"lease_s": 600.0})
SKIP_BODY = Shape(SkipBody, {"for": "me"})
RANK = Shape(RankBody[AnyX], {"examples": [{"id": "a", "x": [0.9, 0.1]}, {"id": "b", "x": [0.5, 0.4]}]})
