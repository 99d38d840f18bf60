"""The application of a reader: predictions and rankings from its replicas; for all else a connection is handed on."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hinged.service.api import quick_routes
from hinged.service.edge.access import Access, authorise
from hinged.service.edge.direct import endpoint_of
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable
from hinged.service.replicas.handing import CONNECTION
from hinged.service.replicas.replica import NotHere, Replicas
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

HERE = ("predict", "predict_default", "rank_examples")
"""Routes that a reader answers."""
HAS_IDS, NONE = b'"id"', b""
"""A prediction with an id waits for its label, at the server."""
GONE = "the server behind this reader is gone, or the answer to an earlier request is still due; try again soon"
REQUESTS_KEPT = 100_000


class State:
    """What routes find in `app.state`."""

    def __init__(self, registry: Replicas, access: Access) -> None:
        self.registry = registry
        self.access = access


class Front:
    """Answers what it can, and leaves the rest to the server: refusals too, for it alone knows the newest state."""

    def __init__(self, replicas: Replicas, settings: Settings) -> None:
        """Invalid if the key file cannot be read."""
        self.state = State(replicas, Access(settings))
        self.requests: deque[tuple[str, str, int, float]] = deque(maxlen=REQUESTS_KEPT)
        """Answered here and not yet reported: method, route, status, seconds."""
        self._edge = Edge(self, settings, lambda *_: None)
        self._routes = {route.path: route for route in quick_routes(HERE)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket."""
        if scope["type"] == "lifespan":
            await _live(receive, send, self._edge.close)
            return
        scope["app"] = self
        found = endpoint_of(self._routes, scope)
        if found is None:
            await _hand_on(scope, receive, send)
            return
        route, parameters = found
        started = time.perf_counter()
        watched = _Watched(receive, stop_at=NONE if route.name == "rank_examples" else HAS_IDS)
        scope["route"], scope["path_params"] = route, parameters
        try:
            status = await self._answer(route, Request(scope, watched), parameters, send)
        except NotHere:
            await _hand_on(scope, receive, send)
        except ServiceError as error:
            if watched.whole:
                await _hand_on(scope, receive, send)
                return
            status = error.status  # a client that goes away, or takes too long
            await error_response(error, scope["path"])(scope, receive, send)
        except Exception:
            log.exception("a reader could not answer")
            await _hand_on(scope, receive, send)
        else:
            seconds = time.perf_counter() - started
            self.requests.append((scope["method"], route.path, status, seconds))
            self._edge.tell(scope, route.path, status, seconds)

    async def _answer(self, route: APIRoute, request: Request, parameters: dict[str, str], send: Send) -> int:
        query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if query.keys() - {"min_position"}:
            raise NotHere
        self._edge.check(request.scope)
        await authorise(request)
        if "min_position" in query:
            self._check_position(parameters.get("model", "default"), query["min_position"])
        response = await route.endpoint(**parameters, request=request)
        await response(request.scope, request.receive, send)
        return int(response.status_code)

    def _check_position(self, model: str, wanted: str) -> None:
        if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 18:
            raise NotHere
        if self.state.registry.get(model).published.position < int(wanted):
            raise NotHere


class _Watched:
    """What is received, unless it shows that it is not for a reader."""

    def __init__(self, receive: Receive, stop_at: bytes) -> None:
        """stop_at: a body with this is not."""
        self.whole = False
        """Whether no part of the body is still to come."""
        self._receive = receive
        self._stop_at = stop_at

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.whole = not message.get("more_body", False)
            if self._stop_at and self._stop_at in message.get("body", b""):
                raise NotHere
        return message


async def _hand_on(scope: Scope, receive: Receive, send: Send) -> None:
    """Leave a connection to the server, or say that it is gone."""
    if await scope[CONNECTION].hand_on():
        while (await receive())["type"] != "http.disconnect":  # which it is for this process
            pass
    else:
        await error_response(Unavailable(GONE, retry_after_s=1), scope["path"])(scope, receive, send)


async def _live(receive: Receive, send: Send, close: Callable[[], None]) -> None:
    while True:
        message: dict[str, Any] = dict(await receive())
        if message["type"] == "lifespan.shutdown":
            close()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
