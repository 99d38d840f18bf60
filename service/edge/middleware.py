"""Checks of the Host and the Origin before any route gets a request. Refusals have one shape.

This module also counts requests by the template of their route, and reports them to the log and to traces.

A page in a browser can post to localhost, and a name that resolves to 127.0.0.1 makes it a same-origin page. So the
Host must be one of the allowed names. If a write or a WebSocket has an Origin, it must be an allowed origin or this
server's own origin.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hinged.service.data.answers import is_long, json_bytes, json_pieces
from hinged.service.data.slices import sliced
from hinged.service.edge.access import Headers
from hinged.service.edge.logs import log_request
from hinged.service.edge.refusals import refusal_of
from hinged.service.edge.traces import open_spans
from hinged.service.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    ServiceError,
)
from hinged.service.settings import Settings

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
WITH_SLASH = ("/ui/", "/docs/")
"""Paths that keep the slash at their end, because relative links of these pages need it. All other paths lose it. An
encoded slash stays, because it is the end of an id."""
NO_ROUTE = "none"  # the route label of requests for unknown paths
UNFORESEEN = 500  # status of an unforeseen error

HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[0-9a-z._~!$&'()*+,;=%-]*))(?::[0-9]*)?")
"""Matches a Host header in lower case: a name or an address, and perhaps a port (RFC 3986, section 3.2.2)."""


class JSON(Response):
    """A JSON answer that pydantic's encoder writes. A long answer is written in pieces; other requests are served in
    between.
    """

    media_type = "application/json"
    long: Any = None

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body. For a long answer, return no bytes: they are made when the answer is sent."""
        if is_long(content):
            self.long = content
            return b""
        return json_bytes(content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        if self.long is None:
            await super().__call__(scope, receive, send)
            return
        pieces = await sliced(json_pieces(self.long))
        self.headers["content-length"] = str(sum(map(len, pieces)))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def error_response(error: ServiceError, path: str = "") -> Response:
    """Return the HTTP answer for an error. path: path of the refused request, which determines the shape."""
    refusal = refusal_of(path)
    return JSON(refusal.body(error), refusal.status(error), dict(error.headers))


class Edge:
    """ASGI middleware that refuses foreign hosts and origins, and counts requests.

    count: called with each HTTP request's method, route, status and seconds. probes: paths that only report whether the
    server is well. They accept any Host, because a monitor may know the server by another name.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        count: Callable[[str, str, int, float], None],
        probes: Container[str] = (),
    ) -> None:
        self.app = app
        self.probes = probes
        self.count = count
        self.log_requests = settings.log_requests
        self.spans = open_spans()
        self.hosts = {host.lower() for host in settings.allowed_hosts}
        self.origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        path = scope.get("path", "")
        if path[-1:] == "/" and len(path) > 1 and path not in WITH_SLASH and scope.get("raw_path", b"/")[-1:] == b"/":
            scope["path"] = path[:-1]
        if scope["type"] == "http":
            await self._counted(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._opened(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, started = UNFORESEEN, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if not await self._refused(scope, receive, noting):
                await self.app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", NO_ROUTE)  # set by the router
            seconds = time.perf_counter() - started
            self.count(scope["method"], route, status, seconds)
            self.tell(scope, route, status, seconds)

    @property
    def tells(self) -> bool:
        """Return whether requests are logged or traced."""
        return self.log_requests or self.spans is not None

    def tell(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        """Report an answered request to the log and to traces, if they are switched on."""
        if self.log_requests:
            log_request(scope, route, status, seconds)
        if self.spans is not None:
            self.spans(scope, route, status, seconds)

    def close(self) -> None:
        """Stop reporting."""
        if self.spans is not None:
            self.spans.close()

    async def _opened(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket on. The router closes a WebSocket that has no route; this method sends the client an error
        instead.
        """
        accepted = False

        async def telling(message: Message) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] != "websocket.close"
            if accepted:
                await send(message)
            else:
                unknown = NotFound(f"there is no WebSocket at {scope['path'][:100]!r}")
                await error_response(unknown)(scope, receive, send)

        if not await self._refused(scope, receive, send):
            await self.app(scope, receive, telling)

    async def _refused(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Refuse a request that is not allowed, a WebSocket at its handshake; return whether it was refused."""
        try:
            self.check(scope)
        except ServiceError as error:
            await error_response(error, scope["path"])(scope, receive, send)
            return True
        return False

    def check(self, scope: Scope) -> None:
        """Raise BadRequest for a URL that is not UTF-8, or for a Host that is not allowed. Raise Forbidden for an
        Origin that may not write.
        """
        url = scope.get("raw_path", b"") + b"?" + scope.get("query_string", b"")
        try:  # decoders would replace the bytes, and so find another id or label
            unquote_to_bytes(url).decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"a URL must be UTF-8, percent-encoded, got {error.object[:100]!r}") from None
        safe = scope.get("method") in SAFE_METHODS
        if not (safe and scope.get("path") in self.probes):
            self.check_headers(scope["headers"], safe=safe and scope["type"] == "http")

    def check_headers(self, headers: Headers, *, safe: bool) -> None:
        """Do the same as `check`, but for headers. safe: whether the request changes nothing."""
        hosts, origins = [], []
        for header, said in headers:
            if header == b"host":
                hosts.append(said.decode("latin-1"))
            elif header == b"origin":
                origins.append(said.decode("latin-1"))
        if len(hosts) != 1:
            raise BadRequest(f"a request has one Host header, got {len(hosts)}")
        name = _name_of(hosts[0])
        if "*" not in self.hosts and name not in self.hosts:
            raise BadRequest(
                f"host {hosts[0][:100]!r} is not allowed; HINGED_ALLOWED_HOSTS lists {', '.join(sorted(self.hosts))}"
            )
        if safe:
            return
        for value in origins:
            if not self._may_write(value.lower(), hosts[0].lower()):
                raise Forbidden(f"origin {value[:100]!r} may not write; HINGED_ALLOWED_ORIGINS lists origins that may")

    def _may_write(self, origin: str, host: str) -> bool:
        try:
            return origin in self.origins or urlsplit(origin).netloc == host
        except ValueError:  # an invalid URL, for example "http://["
            return False


@lru_cache(maxsize=256)
def _name_of(host: str) -> str:
    """Return the name in a Host header, without its port. Raise BadRequest if it is malformed."""
    found = HOST.fullmatch(host.strip(" \t").lower())
    if found is None:
        raise BadRequest(f"the Host header is a name or an address, and perhaps a port, got {host[:100]!r}")
    return found["address"] or found["name"]
