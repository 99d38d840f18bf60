"""Build the application from the settings, and run it."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE

from hinged.service.api import ROUTES
from hinged.service.api.dispatch import Dispatch
from hinged.service.api.openapi import document
from hinged.service.api.server.exposition import Exposition
from hinged.service.cluster.node import Node, as_node
from hinged.service.data.configuration import STAND_IN, default_configuration
from hinged.service.edge.access import Access, refuse_open_door
from hinged.service.edge.allocator import settle
from hinged.service.edge.ending import FAILURE, end, give_up, has_given_up
from hinged.service.edge.holds import Holds
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.edge.serving import Server, make_server
from hinged.service.edge.shortcut import Shortcut
from hinged.service.edge.start import begin_process, refuse_taken_address, tell_start
from hinged.service.edge.streams import Streams
from hinged.service.engine.receipts.sealing import signing_key
from hinged.service.engine.registry import Registry
from hinged.service.errors import MethodNotAllowed, NotFound, ServiceError
from hinged.service.peers.alone import Alone, ServerParts
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.service.store.choice import open_store as open_chosen_store
from hinged.version import __version__

log = logging.getLogger(__name__)

STOP_LEAST_S = 2.0
"""Minimum time, in seconds, for a clean stop of the models, even if draining requests used up all of HINGED_SHUTDOWN_S.
With less time, a model that stops may be unable to write its last snapshot.
"""


class Application(FastAPI):
    """The edge, and FastAPI for the requests that the edge forwards. The edge answers the most frequent requests
    without FastAPI's layers.
    """

    edge: Edge
    shortcut: Shortcut  # answers small requests at the connection, before gate and edge
    gate: ASGIApp  # the first stage for every request; with a single process the gate is the edge itself

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket, or start or stop the application."""
        scope["app"] = self
        await self.gate(scope, receive, send)

    async def passed_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a request to its route, after the edge has accepted the request.

        Most routes are first looked up in a table. FastAPI tries one route after the other, which often takes longer
        than the answer itself.
        """
        found = None
        if scope["type"] == "http" and not scope.get("root_path"):
            found = ROUTES.find(scope["method"], scope["path"])
        if found is None:
            await super().__call__(scope, receive, send)
        else:
            scope["route"], scope["path_params"] = found
            await found.route.answer(scope, receive, send)


def create_app(
    settings: Settings | None = None,
    open_store: Callable[[], Store] | None = None,
    peers: Alone | None = None,
) -> Application:
    """Return the ASGI application. Raise Invalid if default_model is not a valid configuration, or if a key file
    cannot be read.

    open_store: opens the store at start-up; by default it opens the store that the settings name.
    peers: the other processes and servers that share the store. The default is Alone, or Node if the server is a node.
    """
    chosen = as_node(settings or Settings())
    # Refuse an invalid template now, instead of at the first request.
    default_configuration(chosen.default_model, STAND_IN, chosen)
    signing_key(chosen.receipt_key)
    access = Access(chosen)
    company = peers or (Alone() if chosen.node is None else Node())
    make_store = open_store or (lambda: open_chosen_store(chosen, stop_fenced))

    @asynccontextmanager
    async def lifespan(app: Application) -> AsyncIterator[None]:
        store = make_store()
        registry = app.state.registry = Registry(store, chosen)
        dispatch = app.state.dispatch = Dispatch(registry, ROUTES.handlings())
        exposition.watch(registry)
        holds.start()
        app.gate = company.join(ServerParts(store, registry, chosen, app.edge, access, app.state.streams))
        exposition.add(company)
        starting = asyncio.create_task(registry.start(company.claims))
        starting.add_done_callback(_log_failure)
        starting.add_done_callback(lambda _: settle())
        await company.start()
        app.shortcut.open(ROUTES.find, dispatch.begin, company.here)
        yield
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
    )
    described: dict[str, Any] = {}
    app.openapi = lambda: described or described.update(document(app, ROUTES.described)) or described  # type: ignore[method-assign]
    app.state.access = access
    app.state.peers = company
    streams = app.state.streams = Streams(chosen.streams_max)
    for name, make in ROUTES.state.items():
        setattr(app.state, name, make())
    exposition = app.state.exposition = Exposition(streams)
    holds = Holds()
    exposition.add(holds)
    app.router.routes.extend(ROUTES.all)
    app.edge = Edge(app.passed_on, chosen, exposition.count, ROUTES.probes)
    app.gate = app.edge
    app.shortcut = Shortcut(app.edge, access, chosen.body_bytes_max)
    app.add_exception_handler(HTTPException, _no_route)
    return app


def serve(settings: Settings | None = None) -> None:
    """Run the server until SIGINT or SIGTERM. Then drain the requests within shutdown_s.

    Raise StoreUnavailable if the store cannot be opened. Raise Invalid if a server without keys could be reached from
    other machines, or if the address is taken.
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
    """Serve until a signal arrives. Exit with a failure code if the server could not start or has given up."""
    with suppress(KeyboardInterrupt):  # a signal may arrive just before uvicorn handles signals
        server.run(sockets)
    if not server.started:
        sys.exit(STARTUP_FAILURE)
    if has_given_up():
        sys.exit(FAILURE)


def _log_failure(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and starting.exception() is not None:
        error = starting.exception()
        unforeseen = None if isinstance(error, ServiceError) else error
        log.error("the server cannot get ready and stops: %s", error, exc_info=unforeseen)
        give_up()


def stop_fenced(message: str) -> None:
    """Stop the server, because another server has taken over the store."""
    log.error("the server stops: %s", message)
    end()  # another server has the store: a restart would take the store back


async def _no_route(request: Request, error: Exception) -> Response:
    """Answer an unknown route or method in the usual error shape, instead of FastAPI's own shape."""
    assert isinstance(error, HTTPException)  # noqa: S101
    path = request.url.path
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return error_response(NotFound(f"there is no route {path[:100]!r}; /docs lists all routes"), path)
    response = error_response(MethodNotAllowed(f"{request.method} is not a method of this route"), path)
    response.headers["Allow"] = ROUTES.methods_of(path)
    return response
