"""The application: settings in, a server out."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.config import STARTUP_FAILURE

from hinged.service.api import (
    bad_query,
    methods_of,
    quick_routes,
    router,
    unknown_route,
)
from hinged.service.api.examples.together import Gathering, Soon
from hinged.service.api.labelstudio.annotations import Inbox
from hinged.service.api.openapi import document, operation_id
from hinged.service.api.server.exposition import Exposition
from hinged.service.cluster.node import Node, as_node
from hinged.service.data.configuration import default_configuration
from hinged.service.edge.access import Access, authorise, refuse_open_door
from hinged.service.edge.allocator import settle
from hinged.service.edge.direct import Direct
from hinged.service.edge.ending import FAILURE, end, give_up, has_given_up
from hinged.service.edge.holds import Holds
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.edge.queries import known_query
from hinged.service.edge.serving import Server, make_server
from hinged.service.edge.shortcut import Shortcut
from hinged.service.edge.start import begin_process, refuse_taken_address, tell_start
from hinged.service.edge.streams import Streams
from hinged.service.engine.registry import Registry
from hinged.service.errors import (
    UNFORESEEN,
    BadRequest,
    InternalError,
    MethodNotAllowed,
    ServiceError,
)
from hinged.service.peers.alone import Alone, Parts
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.service.store.choice import open_store as open_chosen_store
from hinged.version import __version__

log = logging.getLogger(__name__)

STOP_LEAST_S = 2.0
"""What models get at least to end in order, where requests took all the time that there was to drain."""


class Application(FastAPI):
    """FastAPI behind the edge, which answers what is asked most without any of its layers."""

    edge: Edge
    shortcut: Shortcut  # of connections, before both
    gate: ASGIApp  # before the edge; the edge itself, where there is but one process

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket, or start and stop."""
        scope["app"] = self
        await self.gate(scope, receive, send)

    async def passed_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the edge let through."""
        await super().__call__(scope, receive, send)


def create_app(
    settings: Settings | None = None,
    open_store: Callable[[], Store] | None = None,
    peers: Alone | None = None,
) -> Application:
    """The ASGI application; Invalid if default_model is no configuration or the key file cannot be read.

    `open_store` makes its store at start-up; by default the one that the settings name. peers: who else there is.
    """
    chosen = as_node(settings or Settings())
    default_configuration(chosen.default_model, dense=True, dim=1, settings=chosen)  # refused now, not then
    access = Access(chosen)
    company = peers or (Alone() if chosen.node is None else Node())
    make_store = open_store or (lambda: open_chosen_store(chosen, stop_fenced))

    @asynccontextmanager
    async def lifespan(app: Application) -> AsyncIterator[dict[str, Any]]:
        store = make_store()
        registry = app.state.registry = Registry(store, chosen)
        exposition.watch(registry)
        holds.start()
        app.gate = company.join(Parts(store, registry, chosen, app.edge, access, app.state.streams))
        exposition.add(company)
        starting = asyncio.create_task(registry.start(company.claims))
        starting.add_done_callback(_tell_failure)
        starting.add_done_callback(lambda _: settle())
        await company.start()
        works = Soon(registry, app.state.gathering).works()
        app.shortcut.open(quick_routes(works), works, company.here)
        yield company.shared()
        company.drain()
        if not starting.done():
            starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        stops_at, now = app.state.streams.stops_at, time.monotonic()
        await registry.stop(chosen.shutdown_s if stops_at is None else max(STOP_LEAST_S, stops_at - now))
        await company.stop()
        holds.stop()
        app.edge.close()

    app = Application(
        title="hinged",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=operation_id,
    )
    described: dict[str, Any] = {}
    app.openapi = lambda: described or described.update(document(app)) or described  # type: ignore[method-assign]
    app.state.access = access
    app.state.peers = company
    streams = app.state.streams = Streams(chosen.streams_max)
    app.state.labelstudio = Inbox()
    app.state.gathering = Gathering()
    exposition = app.state.exposition = Exposition(streams)
    holds = Holds()
    exposition.add(holds)
    app.include_router(router, dependencies=[Depends(authorise), Depends(known_query)])
    app.edge = Edge(app.passed_on, chosen, exposition.count, Direct(quick_routes(), _unforeseen))
    app.gate = app.edge
    app.shortcut = Shortcut(app.edge, access, chosen.body_bytes_max)
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _query_error)
    app.add_exception_handler(Exception, _unforeseen)
    return app


def serve(settings: Settings | None = None) -> None:
    """Run the server until SIGINT or SIGTERM; drains within shutdown_s.

    StoreUnavailable if the store cannot open, Invalid if others could reach a server without keys or nobody can listen
    there.
    """
    chosen = as_node(settings or Settings())
    refuse_open_door(chosen)
    refuse_taken_address(chosen)
    begin_process(chosen)
    store = open_chosen_store(chosen, stop_fenced)
    app = create_app(chosen, lambda: store)
    tell_start(chosen)
    run(make_server(app, app.state.streams, chosen, app.state.peers.connection, shortcut=app.shortcut))


def run(server: Server, sockets: list[socket.socket] | None = None) -> None:
    """Serve until a signal says that it is enough; end the process with a failure where it could not."""
    with suppress(KeyboardInterrupt):  # of a moment in which uvicorn takes no signals yet
        server.run(sockets)
    if not server.started:
        sys.exit(STARTUP_FAILURE)
    if has_given_up():
        sys.exit(FAILURE)


def _tell_failure(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and starting.exception() is not None:
        log.error("the server cannot get ready and stops", exc_info=starting.exception())
        give_up()


def stop_fenced(message: str) -> None:
    """Another server has taken the store over."""
    log.error("the server stops: %s", message)
    end()  # another one has the store: to be started again would take it back


async def _service_error(connection: Any, error: Exception) -> Any:
    assert isinstance(error, ServiceError)  # noqa: S101  registered for these
    if isinstance(connection, WebSocket):  # refused before it was accepted: the handshake gets the one shape too
        await connection.send_denial_response(error_response(error))
        return None
    return error_response(error, connection.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    """The framework's own refusals in the shape of all others."""
    assert isinstance(error, HTTPException)  # noqa: S101
    match error.status_code:
        case 404:
            return error_response(unknown_route(request.url.path), request.url.path)
        case 405:
            response = error_response(
                MethodNotAllowed(f"{request.method} is not a method of this route"), request.url.path
            )
            response.headers["Allow"] = methods_of(request.url.path) or (error.headers or {}).get("Allow", "GET")
            return response
        case _:
            return error_response(BadRequest(str(error.detail)), request.url.path)


async def _query_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return error_response(bad_query(error.errors()[0]), request.url.path)


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("unforeseen", exc_info=error)
    return error_response(InternalError(UNFORESEEN), request.url.path)
