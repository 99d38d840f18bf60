"""The front handles requests for another process's model before any other code. It answers from a replica, or hands the
request over.
"""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hinged.operations import ExampleOperations
from hinged.service.api import ROUTES
from hinged.service.api.dispatch import Dispatch
from hinged.service.api.serving import Found, Route
from hinged.service.edge.access import Access
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable
from hinged.service.peers.following import Followed
from hinged.service.peers.handing import CONNECTION, Channel
from hinged.service.peers.paths import model_of
from hinged.service.peers.replica import NotHere
from hinged.service.peers.ring import Ring

log = logging.getLogger(__name__)

HAS_IDS, NONE = b'"id"', b""
"""HAS_IDS: if a body contains these bytes, a replica cannot answer it. A prediction with an id waits for its label, and
only the owner can store it. The replica itself notices an id that is written differently. NONE: no such bytes."""


class Front:
    """ASGI middleware for models of other processes. Only the owner refuses requests, because only the owner knows the
    newest state.
    """

    def __init__(
        self,
        app: ASGIApp,
        edge: Edge,
        access: Access,
        ring: Ring,
        channels: dict[int, Channel],
        followed: Followed,
    ) -> None:
        """app: answers for this process's models."""
        self._app = app
        # The part of `app.state` that routes use. Its registry contains replicas.
        self.state = SimpleNamespace(registry=followed, access=access, dispatch=Dispatch(followed, ROUTES.handlings()))
        self._edge = edge
        self._ring = ring
        self._channels = channels

    def leads(self, scope: Scope) -> Channel | bool:
        """Return where a request must be answered: the channel to another process, True for this process, or False if
        the process is not yet known.
        """
        name = model_of(scope["path"])
        owner = self._ring.number if name is None else self._ring.owner(name)
        if owner == self._ring.number:
            return True
        if owner in self._ring.followed and _answered_by_a_replica(scope) is not None:
            return False
        return self._channels[owner]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket."""
        name = model_of(scope["path"]) if scope["type"] == "http" else None
        if name is None or self._ring.here(name):
            await self._app(scope, receive, send)
            return
        channel = self._channels[self._ring.owner(name)]
        found = _answered_by_a_replica(scope)
        if found is None:
            await hand_on(channel, scope, receive, send)
            return
        scope["app"] = self
        scope["route"], scope["path_params"] = route, _ = found
        started = time.perf_counter()
        watched = _Watched(receive, stop_at=NONE if route.operation is ExampleOperations.rank else HAS_IDS)
        try:
            status = await self._answer(route, Request(scope, watched), send)
        except ServiceError as error:
            if watched.cut_off:  # the client has disconnected, or is too slow
                await error_response(error, scope["path"])(scope, receive, send)
            else:
                await hand_on(channel, scope, receive, send)
        except Exception:
            log.exception("a prediction could not be answered from a replica")
            await hand_on(channel, scope, receive, send)
        else:
            seconds = time.perf_counter() - started
            self._edge.count(scope["method"], route.path, status, seconds)
            self._edge.tell(scope, route.path, status, seconds)

    async def _answer(self, route: Route, request: Request, send: Send) -> int:
        self._edge.check(request.scope)
        response = await route.respond(request)
        await response(request.scope, request.receive, send)
        return int(response.status_code)


class _Watched:
    """Receives a body, and raises NotHere if the body contains bytes that a replica cannot answer."""

    def __init__(self, receive: Receive, stop_at: bytes) -> None:
        """Take the function that receives a body. stop_at: the bytes that show that a replica cannot answer."""
        self.cut_off = False
        """Whether the rest of the body was awaited and has not arrived."""
        self._receive = receive
        self._stop_at = stop_at
        self._end = b""  # end of the previous part, in which `stop_at` may begin

    async def __call__(self) -> Message:
        self.cut_off = True
        message = await self._receive()
        if message["type"] == "http.request":
            self.cut_off = message.get("more_body", False)
            part = self._end + message.get("body", b"")
            if self._stop_at and self._stop_at in part:
                self.cut_off = False
                raise NotHere
            self._end = part[1 - len(self._stop_at) :] if self._stop_at else NONE
        return message


def _answered_by_a_replica(scope: Scope) -> Found | None:
    """Return the route of a request that a replica may answer; None for any other request."""
    found = None if scope["root_path"] else ROUTES.find(scope["method"], scope["path"])
    return found if found is not None and found.route.operation.replicas else None


async def hand_on(channel: Channel, scope: Scope, receive: Receive, send: Send) -> None:
    """Hand the connection over to the owner, or answer that the owner cannot be reached."""
    try:
        await scope[CONNECTION].hand_on(channel)
    except Unavailable as error:
        await error_response(error, scope["path"])(scope, receive, send)
    else:
        while (await receive())["type"] != "http.disconnect":  # for this process, the request ends with the disconnect
            pass
