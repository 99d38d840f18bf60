"""The application of a reader: predictions and rankings from its replicas; for all else a connection is handed on."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hinged.operations import ExampleOperations
from hinged.service.api import ROUTES
from hinged.service.api.dispatch import Dispatch
from hinged.service.api.serving import Route
from hinged.service.edge.access import Access
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable
from hinged.service.replicas.handing import CONNECTION
from hinged.service.replicas.replica import NotHere, Replicas
from hinged.service.settings import Settings

log = logging.getLogger(__name__)

HAS_IDS, NONE = b'"id"', b""
"""A prediction with an id waits for its label, at the server. Where it is written otherwise the replica notices."""
GONE = "the server behind this reader is gone; try again soon"
REQUESTS_KEPT = 100_000


class State:
    """What routes find in `app.state`."""

    def __init__(self, registry: Replicas, access: Access) -> None:
        self.registry = registry
        self.access = access
        self.dispatch = Dispatch(registry, ROUTES.handlings())


class Front:
    """Answers what it can, and leaves the rest to the server: refusals too, for it alone knows the newest state."""

    def __init__(self, replicas: Replicas, settings: Settings) -> None:
        """Invalid if the key file cannot be read."""
        self.state = State(replicas, Access(settings))
        self.requests: deque[tuple[str, str, int, float]] = deque(maxlen=REQUESTS_KEPT)
        """Answered here and not yet reported: method, route, status, seconds."""
        self._edge = Edge(self, settings, lambda *_: None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket."""
        if scope["type"] == "lifespan":
            await _live(receive, send, self._edge.close)
            return
        scope["app"] = self
        found = None
        if scope["type"] == "http" and not scope["root_path"]:
            found = ROUTES.find(scope["method"], scope["path"])
        if found is None or not found.route.operation.replicas:
            await _hand_on(scope, receive, send)
            return
        scope["route"], scope["path_params"] = route, _ = found
        started = time.perf_counter()
        watched = _Watched(receive, stop_at=NONE if route.operation is ExampleOperations.rank else HAS_IDS)
        try:
            status = await self._answer(route, Request(scope, watched), send)
        except NotHere:
            await _hand_on(scope, receive, send)
        except ServiceError as error:
            if watched.cut_off:  # a client that goes away, or takes too long
                await error_response(error, scope["path"])(scope, receive, send)
            else:
                await _hand_on(scope, receive, send)
        except Exception:
            log.exception("a reader could not answer")
            await _hand_on(scope, receive, send)
        else:
            seconds = time.perf_counter() - started
            self.requests.append((scope["method"], route.path, status, seconds))
            self._edge.tell(scope, route.path, status, seconds)

    async def _answer(self, route: Route, request: Request, send: Send) -> int:
        self._edge.check(request.scope)
        response = await route.respond(request)
        await response(request.scope, request.receive, send)
        return int(response.status_code)


class _Watched:
    """What is received, unless it shows that it is not for a reader."""

    def __init__(self, receive: Receive, stop_at: bytes) -> None:
        """stop_at: a body with this is not."""
        self.cut_off = False
        """Whether a part of the body was waited for, and there is none."""
        self._receive = receive
        self._stop_at = stop_at
        self._end = b""  # of the part before, which may end within it

    async def __call__(self) -> Message:
        self.cut_off = True
        message = await self._receive()
        if message["type"] == "http.request":
            self.cut_off = message.get("more_body", False)
            part = self._end + message.get("body", b"")
            if self._stop_at and self._stop_at in part:
                raise NotHere
            self._end = part[1 - len(self._stop_at) :] if self._stop_at else NONE
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
