"""The application of a reader: predictions and rankings from its replicas, all else from the server."""

from __future__ import annotations

import logging
import time
from collections import deque
from typing import Any
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hinged.service.api import quick_routes
from hinged.service.edge.access import Access, authorise
from hinged.service.edge.direct import endpoint_of
from hinged.service.edge.logs import log_request
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError
from hinged.service.replicas.forward import Forwarder
from hinged.service.replicas.replica import NotHere, Replicas
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

HERE = ("predict", "predict_default", "rank_examples")
"""Routes that a reader answers."""
HAS_IDS, NONE = b'"id"', b""
"""A prediction with an id waits for its label, at the server."""
REQUESTS_KEPT = 100_000


class State:
    """What routes find in `app.state`."""

    def __init__(self, registry: Replicas, access: Access) -> None:
        self.registry = registry
        self.access = access


class Front:
    """Answers what it can, and leaves the rest to the server: refusals too, for it alone knows the newest state."""

    def __init__(self, replicas: Replicas, forward: Forwarder, settings: Settings) -> None:
        """Invalid if the key file cannot be read."""
        self.state = State(replicas, Access(settings))
        self.requests: deque[tuple[str, str, int, float]] = deque(maxlen=REQUESTS_KEPT)
        """Answered here and not yet reported: method, route, status, seconds."""
        self._forward = forward
        self._settings = settings
        self._edge = Edge(forward, settings, lambda *_: None)
        self._routes = {route.path: route for route in quick_routes(HERE)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        scope["app"] = self
        found = endpoint_of(self._routes, scope)
        if found is None:
            await self._forward(scope, receive, send)
            return
        route, parameters = found
        started = time.perf_counter()
        recorded = _Recorded(receive, stop_at=NONE if route.name == "rank_examples" else HAS_IDS)
        scope["route"], scope["path_params"] = route, parameters
        try:
            status = await self._answer(route, Request(scope, recorded), parameters, send)
        except NotHere:
            await self._forward(scope, recorded.again(), send)
        except ServiceError as error:
            if recorded.whole:
                await self._forward(scope, recorded.again(), send)
                return
            status = error.status  # what came is no request that could be handed on
            await error_response(error, scope["path"])(scope, receive, send)
        except Exception:
            log.exception("a reader could not answer")
            await self._forward(scope, recorded.again(), send)
        else:
            seconds = time.perf_counter() - started
            self.requests.append((scope["method"], route.path, status, seconds))
            if self._settings.log_requests:
                log_request(scope, route.path, status, seconds)

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


class _Recorded:
    """What is received, so that it can be received again by whoever answers instead."""

    def __init__(self, receive: Receive, stop_at: bytes) -> None:
        """stop_at: a body with this is not for a reader."""
        self._receive = receive
        self._stop_at = stop_at
        self._messages: list[Message] = []

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._messages.append(message)
            if self._stop_at and self._stop_at in message.get("body", b""):
                raise NotHere
        return message

    @property
    def whole(self) -> bool:
        """Whether no part of the body is still to come."""
        return bool(self._messages) and not self._messages[-1].get("more_body", False)

    def again(self) -> Receive:
        """All of it from the beginning."""
        messages = iter(self._messages)

        async def receive() -> Message:
            return next(messages, None) or await self._receive()

        return receive


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message: dict[str, Any] = dict(await receive())
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
