"""Routes for the server itself: health, metrics, keys, tickets."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import Response

from hinged.answers import Alive, Readiness
from hinged.operations import ServerOperations
from hinged.operations.base import Operation
from hinged.service.api.server.exposition import Exposition
from hinged.service.api.serving import Group
from hinged.service.api.whole import put_metrics, put_readiness
from hinged.service.api.wire import registry_of
from hinged.service.data.answers import Answer
from hinged.service.edge.access import Access, caller
from hinged.service.edge.middleware import JSON

group = Group("health")

# -- health -----------------------------------------------------------------------------------------------------------


@group.serves(Operation("GET", "/healthz", role=None, probe=True), answers=Alive)
async def healthz() -> Answer:
    """Report that the process is running."""
    return {"status": "ok"}


@group.serves(
    Operation("GET", "/readyz", role=None, probe=True),
    answers=Readiness,
    statuses=(200, 503),
    put_together=put_readiness,
)
async def readyz(request: Request) -> Response:
    """Report whether the server is ready: 200 once kernels are compiled and all loadable models are loaded, 503 before.
    The answer contains the number of models in each state.
    """
    registry = registry_of(request)
    ready, models = registry.ready, registry.roster.progress()
    return JSON({"status": "ready" if ready else "starting", "models": models}, 200 if ready else 503)


@group.serves(ServerOperations.metrics, media_type="text/plain", put_together=put_metrics)
async def metrics(request: Request) -> Response:
    """Return metrics in the text format of Prometheus: figures of models, and counts and durations of requests."""
    exposition: Exposition = request.app.state.exposition
    text, content_type = await asyncio.to_thread(exposition.text, request.headers.get("accept", ""))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


# -- access -----------------------------------------------------------------------------------------------------------


@group.serves(ServerOperations.key, tag="access")
async def show_key(request: Request) -> Answer:
    """Show the name, role and models of the caller's key."""
    key = caller(request)
    return {"name": key.name, "role": key.role, "models": list(key.models)}


@group.serves(ServerOperations.ticket, tag="access")
async def create_ticket(request: Request) -> Answer:
    """Issue a ticket. With the ticket, a browser can open one event stream or one WebSocket. The ticket has the rights
    of the caller's key.
    """
    access: Access = request.app.state.access
    return access.issue_ticket(request)
