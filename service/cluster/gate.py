"""The gate gets each request first. It forwards requests for models of other servers, or redirects their clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hinged.service.cluster.lines import PASSED_ON
from hinged.service.cluster.members import HERE, Members
from hinged.service.cluster.passing import Passed, Passing
from hinged.service.cluster.sockets import Carried
from hinged.service.edge.access import Access
from hinged.service.edge.middleware import Edge, error_response
from hinged.service.errors import Unavailable, foreseen
from hinged.service.peers.front import hand_on
from hinged.service.peers.handing import Channel
from hinged.service.peers.paths import model_of, target_of

REDIRECT = b"redirect"
"""Value of the header `Prefer` with which the gate redirects a client instead of forwarding the request."""


REQUESTS_MAX = 2_000
"""Maximum number of forwarded requests in progress, each with its own connection. With more, a process may run out of
file descriptors."""


class Gate:
    """ASGI middleware: this server answers requests for its own models, and the owner answers all other requests."""

    def __init__(self, app: Edge, members: Members, passing: Passing, access: Access) -> None:
        self._app = app
        self._members = members
        self._passing = passing
        self._access = access
        self._portions = Portions()
        self.sibling: Callable[[str], Channel | None] = lambda _: None
        """Returns the channel to the process of this machine with the given address; None for another machine."""
        self.passed_on = 0
        self.redirected = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request here, or let the model's owner answer it."""
        name = model_of(scope["path"]) if scope["type"] in {"http", "websocket"} else None
        if name is None:
            await self._app(scope, receive, send)
            return
        try:
            address = await self._members.where(name)
            channel = self.sibling(address) if scope["type"] == "http" else None
            if channel is not None:
                await hand_on(channel, scope, receive, send)
                return
            if address != HERE:
                await self._send_to(address, name, scope, receive, send)
                return
        except Exception as error:  # noqa: BLE001
            await error_response(foreseen(error), scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _send_to(self, address: str, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._app.check(scope)  # Host and Origin are meant for this server, and are not forwarded
        headers = dict(scope["headers"])
        if self._passing.sender in headers.get(PASSED_ON, b"").split():  # the request has come back
            raise Unavailable(f"model {name} is on its way to {address}; ask again", retry_after_s=1)
        if b"ticket=" not in scope["query_string"]:  # a ticket is valid once, and only the owner can check it
            # Check the key here, because the owner does not see the client's address.
            self._access.caller(HTTPConnection(scope), basic=True)
        if REDIRECT in [part.strip().lower() for part in headers.get(b"prefer", b"").split(b",")]:
            self.redirected += 1
            await Response(
                status_code=307, headers={"Location": address.partition("#")[0] + target_of(scope).decode("latin-1")}
            )(scope, receive, send)
            return
        if scope["type"] == "websocket":
            self.passed_on += 1
            await Carried(self._passing, scope, receive, send, address).run()
            return
        request = Passed(self._passing, scope, receive, send, address)
        await request.hold()
        keys = (value for name, value in scope["headers"] if name == b"authorization")
        with self._portions.one(name, *keys):
            self.passed_on += 1
            await request.run()


class Portions:
    """Limits the requests in progress of each key and of each model to the number of slots that are still free.

    So one key can use at most half of the slots, and a second key at most half of the rest.
    """

    def __init__(self, most: int = REQUESTS_MAX) -> None:
        self._most = self._free = most
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, *owners: Hashable) -> Iterator[None]:
        """Use one slot during the block, and count the request for each of its owners (a model or a key). Raise
        Unavailable if an owner is at its limit.
        """
        held = max((self._taken[owner] for owner in owners), default=0)
        if held >= self._free:
            raise Unavailable(
                f"{held} requests of this key or for this model are passed on at this moment, and there is room for "
                f"{self._free} more of {self._most}; ask again",
                retry_after_s=1,
            )
        self._free -= 1
        self._taken.update(owners)
        try:
            yield
        finally:
            self._free += 1
            self._taken.subtract(owners)
            for owner in owners:
                if not self._taken[owner]:
                    del self._taken[owner]
