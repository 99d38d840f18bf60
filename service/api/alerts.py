"""Routes for alerts: list and acknowledge the decisions for a class with a capacity."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import Query
from pydantic import Field, with_config
from typing_extensions import TypedDict

from hinged.operations import AlertOperations, AlertOrder
from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, PathWorker
from hinged.service.commands.alerts import Acknowledge, ListAlerts
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT
from hinged.service.errors import StoreUnavailable

group = Group("alerts")


@with_config(STRICT)
class AcknowledgeBody(TypedDict):
    """The ids of alerts. reopen: whether they shall wait again."""

    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=limits.ID_CHARS_MAX)]],
        Field(min_length=1, max_length=limits.ALERTS_KEPT),
    ]
    reopen: NotRequired[bool]


@group.serves(AlertOperations.alerts)
async def list_alerts(
    worker: PathWorker,
    n: Annotated[int, Query(ge=1, le=1000, description="the most alerts to return")] = 100,
    order: Annotated[AlertOrder, Query(description='"newest" first, or "best" first')] = "newest",
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
) -> Answer:
    """List the alerts that nobody has acknowledged, in pages."""
    return await worker.command(ListAlerts(n, order == "best", cursor))


@group.serves(AlertOperations.acknowledge, StoreUnavailable, takes=Shape(AcknowledgeBody, {"ids": ["p7"]}))
async def acknowledge(worker: PathWorker, body: Annotated[AcknowledgeBody, SENT]) -> Answer:
    """Acknowledge alerts: they are worked off, and no longer listed. Or reopen them. Unknown ids are ignored."""
    return await worker.command(Acknowledge(body["ids"], body.get("reopen", False)))
