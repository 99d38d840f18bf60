"""Before all else: a request for a model that another server owns goes there, or is told where to go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hinged.service.cluster.lines import PASSED_ON
from hinged.service.cluster.members import HERE, Members
from hinged.service.cluster.passing import Passing
from hinged.service.cluster.portions import Portions
from hinged.service.edge.access import Access
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable
from hinged.service.peers.paths import model_of, target_of

REDIRECT = b"redirect"
"""With `Prefer: redirect` a request is not passed on: who asks wants to know where to ask."""


class Gate:
    """ASGI middleware: this server's models here, those of others there."""

    def __init__(self, app: Edge, members: Members, passing: Passing, access: Access) -> None:
        self._app = app
        self._members = members
        self._passing = passing
        self._access = access
        self._portions = Portions()
        self.passed_on = 0
        self.redirected = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer here, or let the owner answer."""
        name = model_of(scope["path"]) if scope["type"] in {"http", "websocket"} else None
        if name is None:
            await self._app(scope, receive, send)
            return
        try:
            address = await self._members.where(name)
            if address == HERE:
                await self._app(scope, receive, send)
                return
            await self._send_to(address, name, scope, receive, send)
        except ServiceError as error:
            await error_response(error, scope["path"])(scope, receive, send)

    async def _send_to(self, address: str, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._app.check(scope)  # Host and Origin name this server, and are not passed on
        headers = dict(scope["headers"])
        if PASSED_ON in headers:  # two servers that take each other for the owner
            raise Unavailable(f"model {name} is on its way to {address}; ask again", retry_after_s=1)
        if not _has_ticket(scope):  # the owner would log an address of this server for the client's
            self._access.caller(HTTPConnection(scope), basic=True)
        if scope["type"] == "websocket" or self._is_to_tell(headers):
            self.redirected += 1
            await Response(status_code=307, headers={"Location": address + target_of(scope).decode("latin-1")})(
                scope, receive, send
            )
            return
        with self.portion(scope):
            self.passed_on += 1
            await self._passing.pass_on(scope, receive, send, address, lambda: self._members.lives(address))

    def portion(self, scope: Scope) -> AbstractContextManager[None]:
        """While a request is passed on. Unavailable where its key or its model has its portion (portions.py)."""
        keys = (value for name, value in scope["headers"] if name == b"authorization")
        return self._portions.one(model_of(scope["path"]), *keys)

    def waits_for_body(self, scope: Scope) -> bool:
        """Whether a request is to be passed on by all that its head says, so that its body may come before."""
        name = model_of(scope["path"])
        return name is not None and self._members.elsewhere(name) is not None and self._lets_in(scope)

    def short_way(self, scope: Scope) -> str | None:
        """The owner of a request's model, where nothing has to be waited for and nothing is unusual.

        None: the request is to come to the gate, be it for this server or to be refused.
        """
        name = model_of(scope["path"])
        address = None if name is None else self._members.elsewhere(name)
        if name is None or address is None or not address.startswith("http:"):
            return None
        headers = dict(scope["headers"])
        if (
            scope["method"] == "HEAD"  # whose answer has no body, whatever its head says
            or scope["http_version"] != "1.1"
            or headers.get(b"transfer-encoding", b"chunked") != b"chunked"
            or PASSED_ON in headers
            or b"upgrade" in headers
            or (b"prefer" in headers and self._is_to_tell(headers))
        ):
            return None
        try:
            self._app.check(scope)
        except ServiceError:
            return None
        if not self._lets_in(scope):
            return None
        self.passed_on += 1
        return address

    async def way_of_socket(self, scope: Scope) -> str | None:
        """The owner to whom the handshake of a WebSocket is passed on; None where it is to come to the gate."""
        name, headers = model_of(scope["path"]), dict(scope["headers"])
        if name is None or PASSED_ON in headers or self._is_to_tell(headers):
            return None
        try:
            address = await self._members.where(name)
            if address == HERE or not address.startswith("http:"):
                return None
            self._app.check(scope)
        except ServiceError:
            return None
        if not self._lets_in(scope):
            return None
        self.passed_on += 1
        return address

    def _lets_in(self, scope: Scope) -> bool:
        return _has_ticket(scope) or self._access.known(scope["headers"])

    def lives(self, address: str) -> bool:
        """Whether a server has given a sign of life in time."""
        return self._members.lives(address)

    def _is_to_tell(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether who asks wants to be told where to ask."""
        return REDIRECT in [p.strip().lower() for p in headers.get(b"prefer", b"").split(b",")]


def _has_ticket(scope: Scope) -> bool:
    """Whether a ticket is to let a request in: it is good once, and at the owner."""
    return b"ticket=" in scope["query_string"]
