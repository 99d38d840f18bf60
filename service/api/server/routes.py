"""Routes for the server itself: health, metrics, keys, tickets."""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from hinged.answers import Alive, Readiness
from hinged.operations import ServerOperations
from hinged.operations.base import Operation
from hinged.service.api.openapi import AT, Shape
from hinged.service.api.server.exposition import Exposition
from hinged.service.api.serving import Group
from hinged.service.api.whole import put_metrics, put_readiness
from hinged.service.api.wire import registry_of
from hinged.service.edge.access import caller
from hinged.service.edge.middleware import JSON

group = Group("health")

LINKS = {
    "page": "/ui",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "models": "/models",
    "ready": "/readyz",
    "metrics": "/metrics",
}
ALIVE = Shape(Alive, {"status": "ok"})
READINESS = Shape(
    Readiness, {"status": "ready", "models": {"total": 3, "loading": 0, "serving": 2, "stopped": 1, "waiting": 0}}
)
METRICS = 'hinged_log_position{model="weather"} 5.0\n'
KEY = {"name": "ann", "role": "annotator", "models": ["fraud-*"]}
TICKET = {"ticket": "8bJ0v1xkq2dSgVdE0Zt3rQ", "expires_at": AT}


@group.serves(Operation("GET", "/", role=None))
async def root(request: Request) -> Response:
    """Redirect a browser to the page; give a program links to the routes."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("ui")
    return JSON({"name": request.app.title, "version": request.app.version, **LINKS})


# -- health -----------------------------------------------------------------------------------------------------------


@group.serves(Operation("GET", "/healthz", role=None, probe=True), ALIVE)
async def healthz() -> Response:
    """Report that the process is running."""
    return JSON({"status": "ok"})


@group.serves(
    Operation("GET", "/readyz", role=None, probe=True), READINESS, statuses=(200, 503), put_together=put_readiness
)
async def readyz(request: Request) -> Response:
    """Report whether the server is ready: 200 once kernels are compiled and all loadable models are loaded, 503 before.
    The answer contains the number of models in each state.
    """
    registry = registry_of(request)
    ready, models = registry.ready, registry.roster.progress()
    return JSON({"status": "ready" if ready else "starting", "models": models}, 200 if ready else 503)


@group.serves(
    ServerOperations.metrics,
    METRICS,
    media_type="text/plain",
    response_class=PlainTextResponse,
    put_together=put_metrics,
)
async def metrics(request: Request) -> Response:
    """Return metrics in the text format of Prometheus: figures of models, and counts and durations of requests."""
    exposition: Exposition = request.app.state.exposition
    text, content_type = await asyncio.to_thread(exposition.text, request.headers.get("accept", ""))
    return Response(text, media_type=None, headers={"Content-Type": content_type})


# -- access -----------------------------------------------------------------------------------------------------------


@group.serves(ServerOperations.key, KEY, tag="access")
async def show_key(request: Request) -> Response:
    """Show the name, role and models of the caller's key."""
    key = caller(request)
    return JSON({"name": key.name, "role": key.role, "models": list(key.models)})


@group.serves(ServerOperations.ticket, TICKET, tag="access")
async def create_ticket(request: Request) -> Response:
    """Issue a ticket. With the ticket, a browser can open one event stream or one WebSocket. The ticket has the rights
    of the caller's key.
    """
    return JSON(request.app.state.access.issue_ticket(request))
