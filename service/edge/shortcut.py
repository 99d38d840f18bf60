"""A shortcut for small requests, from the connection to the operation, without an ASGI application in between.

For each request uvicorn makes a task, an event and three messages, and Starlette makes two objects. That takes longer
than a prediction. The shortcut avoids these objects. It answers a POST to one of a few routes if the request is
complete, its body is short JSON, and its headers are usual. The usual path defines the behaviour, and the same
functions check the caller. If the shortcut does not know a request, or would refuse it before reading the body, the
usual path answers it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hinged.operations.base import Operation
from hinged.service.data.answers import is_long, json_bytes, json_pieces
from hinged.service.data.slices import at_once
from hinged.service.edge.access import Access, Headers
from hinged.service.edge.keys import Key
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, foreseen

if TYPE_CHECKING:
    from hinged.service.edge.connection import Connection

SMALL_BYTES = 2_048
"""Maximum bytes of the body of a small request. Small requests wait for one turn of the event loop, so that several are
done together."""
JSON_TYPES = frozenset({b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"})
UNUSUAL = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
"""A request with one of these headers takes the usual path."""
URLS_KEPT, URL_BYTES_MAX = 4_096, 256
"""Number of URLs whose routes are cached, and the maximum length of such a URL in bytes. Longer URLs take the usual
path."""

Outcome = dict[str, Any] | ServiceError
Begin = Callable[[Operation[..., Any], Key, str, bytes, Callable[[Outcome], None]], bool]
"""Begins an operation for a key, a model and a body, and later calls the given function with the outcome. If it returns
false or raises an error, nothing was begun, and the usual path must answer."""

METHOD = "POST"
OVER = asyncio.Event()
"""Placeholder for uvicorn's message_event; never awaited."""


class Led(Protocol):
    """The part of a route that the shortcut needs."""

    path: str
    operation: Operation[..., Any]


class Way(NamedTuple):
    """The target of a URL."""

    route: Led
    parameters: dict[str, str]
    model: str
    path: str


Find = Callable[[str, str], "tuple[Led, dict[str, str]] | None"]
"""Finds the route of a method and a path, and the parameters in the path."""


class Shortcut:
    """The shortcut of all connections of a server. Until it is opened, all requests take the usual path."""

    def __init__(self, edge: Edge, access: Access, bytes_max: int) -> None:
        """Take the checks of the server. bytes_max: maximum length of a body on any route."""
        self._edge = edge
        self._access = access
        self._bytes_max = min(SMALL_BYTES, bytes_max)
        self._find: Find = lambda *_: None
        self._begin: Begin = lambda *_: False
        self._here: Callable[[str], bool] = lambda _: True
        self._known: Callable[[bytes], Way | None] = lambda _: None
        self._defaults: Headers = ()
        self._lines = b""

    def open(self, find: Find, begin: Begin, here: Callable[[str], bool]) -> None:
        """Open the shortcut, with a function that finds routes and a function that begins operations.

        here: returns whether this server certainly owns a model.
        """
        self._find, self._begin, self._here = find, begin, here
        self._known = lru_cache(URLS_KEPT)(self._lead)

    def way(self, url: bytes, headers: Headers) -> Way | None:
        """Return the target of a POST; None if the POST takes the usual path, which may hand the unchanged request over
        to another server.
        """
        found = self._known(url) if len(url) <= URL_BYTES_MAX and is_plain(headers) else None
        return found if found is not None and self._here(found.model) else None

    def lines(self, defaults: Headers) -> bytes:
        """Return the headers common to all answers, in the form to send. These headers change once a second."""
        if defaults is not self._defaults:
            self._defaults, self._lines = defaults, lines_of(defaults)
        return self._lines

    def _lead(self, url: bytes) -> Way | None:
        if not url.isascii() or not url.startswith(b"/") or any(mark in url for mark in b"%?#"):
            return None
        path = url.decode()
        found = self._find(METHOD, path)
        if found is None or not found[0].operation.small:
            return None
        route, parameters = found
        return Way(route, parameters, parameters.get("model", route.operation.covers or ""), path)

    def begin(self, way: Way, connection: Connection, body: bytes) -> Asked | None:
        """Begin to answer a complete POST. If the POST takes the usual path, do nothing and return None."""
        if len(body) > self._bytes_max or not self._here(way.model):  # the model may have moved
            return None
        try:
            self._edge.check_headers(connection.headers, safe=False)
            key = self._access.admitted(connection.headers, way.route.operation, way.model)
            if key is None:
                return None
            asked = Asked(self, self._edge, connection, way, key)
            begun = self._begin(way.route.operation, key, way.model, body, asked.answer)
        except Exception:  # noqa: BLE001  the usual path answers with the right error
            return None
        if not begun:
            return None
        self._access.rates.count(key)
        return asked


def is_plain(headers: Headers) -> bool:
    """Return whether the headers declare the body as JSON exactly once, and contain nothing unusual."""
    types = 0
    for name, value in headers:
        if name == b"content-type":
            if value.lower() not in JSON_TYPES:
                return False
            types += 1
        elif name in UNUSUAL:
            return False
    return types == 1


def lines_of(headers: Headers) -> bytes:
    """Return the headers in the form to send."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)


class Asked:
    """A request that is being answered. uvicorn's connection uses this object instead of its own cycle."""

    __slots__ = (
        "_began", "_connection", "_edge", "_key", "_scope", "_shortcut", "_way", "disconnected", "keep_alive",
        "message_event", "response_complete",
    )  # fmt: skip

    def __init__(self, shortcut: Shortcut, edge: Edge, connection: Connection, way: Way, key: Key) -> None:
        self.keep_alive = connection.parser.should_keep_alive()
        self.response_complete = self.disconnected = False
        self.message_event = OVER
        self._began = time.perf_counter()
        self._shortcut = shortcut
        self._edge = edge
        self._connection = connection
        self._scope = cast("Scope", connection.scope)
        self._way = way
        self._key = key

    def answer(self, outcome: Outcome) -> None:
        """Send the outcome, unless the client has disconnected, and count the request."""
        way, edge, connection = self._way, self._edge, self._connection
        try:
            status, headers, body = written(outcome, way.path)
        except Exception as error:  # noqa: BLE001  handled as on the usual path
            status, headers, body = written(foreseen(error), way.path)
        self.response_complete = True
        if not self.disconnected:
            defaults = self._shortcut.lines(connection.server_state.default_headers)
            connection.answer((STATUS_LINE[status], defaults, headers), body, keep_alive=self.keep_alive)
        seconds = time.perf_counter() - self._began
        edge.count(METHOD, way.route.path, status, seconds)
        if edge.tells:
            scope = self._scope
            scope["method"], scope["path_params"], scope["state"]["caller"] = METHOD, way.parameters, self._key
            edge.tell(scope, way.route.path, status, seconds)


def written(outcome: Outcome, path: str) -> tuple[int, bytes, bytes]:
    """Return (status, headers, body), with the headers in the form to send."""
    if isinstance(outcome, ServiceError):
        response = error_response(outcome, path)
        return response.status_code, lines_of(response.raw_headers), bytes(response.body)
    # A small body may ask for an answer of several pieces, by `explain` or `intervals`.
    body = b"".join(at_once(json_pieces(outcome))) if is_long(outcome) else json_bytes(outcome)
    return HTTPStatus.OK, b"content-length: %d\r\ncontent-type: application/json\r\n" % len(body), body
