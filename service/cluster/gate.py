"""The gate passes requests for models of other servers on, or redirects their clients, before anything else."""

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
"""Value of `Prefer` with which a request is redirected instead of passed on."""


class Gate:
    """ASGI middleware: a request for this server's model stays here, any other request goes to the owner."""

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
        if PASSED_ON in headers:  # two servers take each other for the owner
            raise Unavailable(f"model {name} is on its way to {address}; ask again", retry_after_s=1)
        if not _has_ticket(scope):  # check the key here: the owner would log this server's address for the client's
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
        """Count a passed-on request during the block. Unavailable if its key or model has its portion (portions.py)."""
        keys = (value for name, value in scope["headers"] if name == b"authorization")
        return self._portions.one(model_of(scope["path"]), *keys)

    def waits_for_body(self, scope: Scope) -> bool:
        """Whether a request, judged by its head, will be passed on, so that its body should come first."""
        name = model_of(scope["path"])
        return name is not None and self._members.elsewhere(name) is not None and self._lets_in(scope)

    def short_way(self, scope: Scope) -> str | None:
        """The owner of a request's model, if nothing must be waited for and nothing is unusual.

        None if the request must go through the gate, to be answered here or to be refused.
        """
        name = model_of(scope["path"])
        address = None if name is None else self._members.elsewhere(name)
        if name is None or address is None or not address.startswith("http:"):
            return None
        headers = dict(scope["headers"])
        if (
            scope["method"] == "HEAD"  # its answer has no body, whatever its head says
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
        """The owner to which a WebSocket's handshake is passed on; None if it must go through the gate."""
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
        """Whether the client asks to be redirected."""
        return REDIRECT in [p.strip().lower() for p in headers.get(b"prefer", b"").split(b",")]


def _has_ticket(scope: Scope) -> bool:
    """Whether a ticket is to let a request in: it is valid once, and only at the owner."""
    return b"ticket=" in scope["query_string"]
