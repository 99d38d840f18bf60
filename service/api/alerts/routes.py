"""Routes for alerts: list and acknowledge the decisions for a class with a capacity."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from hinged.operations import AlertOperations, AlertOrder
from hinged.service.api.alerts.shapes import ACKNOWLEDGE, ACKNOWLEDGE_BODY, ACKNOWLEDGED, ALERTS
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command, registry_of
from hinged.service.commands.alerts import Acknowledge, ListAlerts
from hinged.service.edge.middleware import JSON
from hinged.service.errors import StoreUnavailable

group = Group("alerts")


@group.serves(AlertOperations.alerts, ALERTS)
async def list_alerts(
    model: str,
    request: Request,
    n: Annotated[int, Query(ge=1, le=1000, description="the most alerts to return")] = 100,
    order: Annotated[AlertOrder, Query(description='"newest" first, or "best" first')] = "newest",
    cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
) -> Response:
    """List the alerts that nobody has acknowledged, in pages."""
    return JSON(await registry_of(request).get(model).command(ListAlerts(n, order == "best", cursor)))


@group.serves(AlertOperations.acknowledge, ACKNOWLEDGED, StoreUnavailable, takes=ACKNOWLEDGE_BODY)
async def acknowledge(model: str, request: Request) -> Response:
    """Acknowledge alerts: they are worked off, and no longer listed. Unknown ids are ignored."""
    body = parsed(ACKNOWLEDGE, await read_command(request))
    return JSON(await registry_of(request).get(model).command(Acknowledge(body["ids"])))
