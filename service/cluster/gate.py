"""Before all else: a request for a model that another server owns goes there, or is told where to go."""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hinged.service.cluster.members import HERE, Members
from hinged.service.cluster.passing import PASSED_ON, Passing, target_of
from hinged.service.data.parts import DEFAULT, MODEL_NAME
from hinged.service.edge.access import Access
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import ServiceError, Unavailable

OF_A_MODEL = re.compile(r"/(?:v2/|labelstudio/)?models/([^/]+)(?:/.*)?|/cluster/models/([^/]+)/move|/jobs/(.+)\.[0-9]+")
OF_THE_DEFAULT = ("/learn", "/predict")
REDIRECT = b"redirect"
"""With `Prefer: redirect` a request is not passed on: who asks wants to know where to ask."""


class Gate:
    """ASGI middleware: this server's models here, those of others there."""

    def __init__(self, app: Edge, members: Members, passing: Passing, access: Access) -> None:
        self._app = app
        self._members = members
        self._passing = passing
        self._access = access
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
        wanted = [part.strip().lower() for part in headers.get(b"prefer", b"").split(b",")]
        if scope["type"] == "websocket" or REDIRECT in wanted:
            if b"ticket=" not in scope["query_string"]:  # which is good once, and there
                self._access.caller(HTTPConnection(scope), basic=True)
            self.redirected += 1
            await Response(status_code=307, headers={"Location": address + target_of(scope).decode("latin-1")})(
                scope, receive, send
            )
            return
        self.passed_on += 1
        moving = scope["path"].startswith("/cluster/")  # then it is to be elsewhere before the answer comes
        await self._passing.pass_on(
            scope, receive, send, address,
            lambda: self._members.lives(address) if moving else self._members.is_at(name, address),
        )  # fmt: skip


def model_of(path: str) -> str | None:
    """The model that a path is about; None for one that is about none, or about a name that no model can have."""
    path = path.rstrip("/")
    if path in OF_THE_DEFAULT:
        return DEFAULT
    found = OF_A_MODEL.fullmatch(path)
    name = found and (found[1] or found[2] or found[3])
    return name if name and MODEL_NAME.fullmatch(name) else None
