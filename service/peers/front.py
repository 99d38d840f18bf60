"""Before all else: what is asked of another process's model is answered from a replica, or handed on."""

from __future__ import annotations

import logging
import re
import time

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from hinged.service.api import quick_routes
from hinged.service.api.examples.together import Gathering
from hinged.service.edge.access import Access, authorise
from hinged.service.edge.direct import endpoint_of
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable
from hinged.service.peers.following import Followed
from hinged.service.peers.handing import CONNECTION, Way
from hinged.service.peers.paths import model_of
from hinged.service.peers.replica import NotHere
from hinged.service.peers.ring import Ring

log = logging.getLogger(__name__)

HERE = ("predict", "predict_default", "rank_examples")
"""Routes that are answered from a replica."""
HAS_IDS, NONE = b'"id"', b""
"""A prediction with an id waits for its label, at the owner. Where it is written otherwise the replica notices."""
DIGITS = re.compile(r"[0-9]{1,18}")


class State:
    """What routes find in `app.state`."""

    def __init__(self, registry: Followed, access: Access) -> None:
        self.registry = registry
        self.access = access
        self.gathering = Gathering()


class Front:
    """ASGI middleware. Refusals too are the owner's, for it alone knows the newest state."""

    def __init__(self, edge: Edge, access: Access, ring: Ring, ways: dict[int, Way], followed: Followed) -> None:
        self.state = State(followed, access)
        self._edge = edge
        self._ring = ring
        self._ways = ways
        self._routes = {route.path: route for route in quick_routes(HERE)}

    def leads(self, scope: Scope) -> Way | bool:
        """Where a request leads: to another process, to this one (True), or where that shows later (False)."""
        name = model_of(scope["path"])
        owner = self._ring.number if name is None else self._ring.owner(name)
        if owner == self._ring.number:
            return True
        if owner in self._ring.followed and endpoint_of(self._routes, scope) is not None:
            return False
        return self._ways[owner]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a WebSocket."""
        name = model_of(scope["path"]) if scope["type"] == "http" else None
        if name is None or self._ring.here(name):
            await self._edge(scope, receive, send)
            return
        way = self._ways[self._ring.owner(name)]
        found = endpoint_of(self._routes, scope)
        if found is None:
            await _hand_on(way, scope, receive, send)
            return
        scope["app"] = self
        route, parameters = found
        started = time.perf_counter()
        watched = _Watched(receive, stop_at=NONE if route.name == "rank_examples" else HAS_IDS)
        scope["route"], scope["path_params"] = route, parameters
        try:
            status = await self._answer(route, Request(scope, watched), parameters, send)
        except ServiceError as error:
            if watched.cut_off:  # a client that goes away, or takes too long
                await error_response(error, scope["path"])(scope, receive, send)
            else:
                await _hand_on(way, scope, receive, send)
        except Exception:
            log.exception("a prediction could not be answered from a replica")
            await _hand_on(way, scope, receive, send)
        else:
            seconds = time.perf_counter() - started
            self._edge.count(scope["method"], route.path, status, seconds)
            self._edge.tell(scope, route.path, status, seconds)

    async def _answer(self, route: APIRoute, request: Request, parameters: dict[str, str], send: Send) -> int:
        self._edge.check(request.scope)
        await authorise(request)
        response = await route.endpoint(**parameters, **_numbers_of(route, request), request=request)
        await response(request.scope, request.receive, send)
        return int(response.status_code)


class _Watched:
    """What is received, unless it shows that it is not for a replica."""

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
                self.cut_off = False
                raise NotHere
            self._end = part[1 - len(self._stop_at) :] if self._stop_at else NONE
        return message


def _numbers_of(route: APIRoute, request: Request) -> dict[str, int]:
    """The query of a request as the route takes it. NotHere for what it does not, which the owner refuses."""
    known, query = {parameter.alias for parameter in route.dependant.query_params}, request.query_params
    if not known.issuperset(query) or not all(DIGITS.fullmatch(value) for value in query.values()):
        raise NotHere
    return {name: int(value) for name, value in query.items()}


async def _hand_on(way: Way, scope: Scope, receive: Receive, send: Send) -> None:
    """Leave a connection to the owner, or say that it is away."""
    try:
        await scope[CONNECTION].hand_on(way)
    except Unavailable as error:
        await error_response(error, scope["path"])(scope, receive, send)
    else:
        while (await receive())["type"] != "http.disconnect":  # which it is for this process
            pass
