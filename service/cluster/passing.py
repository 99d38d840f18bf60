"""Carry a request to another server and its answer back, piece by piece."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from urllib.parse import urlsplit

import httpcore
from starlette.types import Message, Receive, Scope, Send

from hinged.service.cluster.lines import CONNECT_S, ONE_HOP, PASSED_ON, UNREAD_S
from hinged.service.cluster.portions import REQUESTS_MAX
from hinged.service.edge.connection import MALFORMED
from hinged.service.errors import BadRequest, Unavailable
from hinged.service.peers.paths import target_of

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""Seconds between checks, while an answer is due, whether the other server still lives."""
NO_ANSWER = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
OF_A_SERVER = ONE_HOP | {b"host", b"origin"}
"""Headers of a request that are meant for this server, which has checked them; they are not passed on."""
SAID_ANYWAY = ONE_HOP | {b"date", b"server"}
"""Headers of an answer that this server sets itself; they are not passed back."""


class Passing:
    """Connections to the other servers, for requests that are passed on."""

    def __init__(self, address: str) -> None:
        """address: of this server."""
        self._address = address.encode()
        self._pool = httpcore.AsyncConnectionPool(max_connections=REQUESTS_MAX, keepalive_expiry=30.0)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def ask(
        self, address: str, path: str, headers: list[tuple[bytes, bytes]], method: str = "POST", read_s: float = 60.0
    ) -> tuple[int, bytes]:
        """Send a request without a body; return status and body. Unavailable without an answer."""
        try:
            response = await self._pool.request(
                method, address + path, headers=[*headers, (PASSED_ON, self._address)], extensions=_patience(read_s)
            )
        except NO_ANSWER as error:
            raise Unavailable(f"the server at {address} does not answer: {error}", retry_after_s=1) from error
        return response.status, response.content

    async def pass_on(
        self, scope: Scope, receive: Receive, send: Send, address: str, still_there: Callable[[], bool]
    ) -> None:
        """Let the server at an address answer. Unavailable if it did not begin to answer.

        still_there: whether waiting for the answer still makes sense.
        """
        to = urlsplit(address)
        request = _Sent(scope, receive, self._address, to.netloc.encode())
        url = httpcore.URL(
            scheme=to.scheme.encode(), host=(to.hostname or "").encode(), port=to.port, target=target_of(scope)
        )
        asked = httpcore.Request(
            scope["method"].encode(), url, headers=request.headers, content=request.body(),
            extensions=_patience(None),
        )  # fmt: skip
        sending = asyncio.ensure_future(self._pool.handle_async_request(asked))
        try:
            while not sending.done():
                await asyncio.wait([sending], timeout=LOOK_S)
                if not sending.done() and not still_there():
                    raise unanswered(address, "it is gone")
            response = sending.result()
        except NO_ANSWER as error:
            raise unanswered(address, str(error) or type(error).__name__) from error
        finally:
            if not sending.done():
                sending.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await sending
        await self._answer(response, request, send)

    async def _answer(self, response: httpcore.Response, request: _Sent, send: Send) -> None:
        headers = [(name, value) for name, value in response.headers if name.lower() not in SAID_ANYWAY]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        carrying = asyncio.ensure_future(_carry(response, send))
        leaving = asyncio.ensure_future(request.left())
        try:
            await asyncio.wait([carrying, leaving], return_when=asyncio.FIRST_COMPLETED)
            if carrying.done():
                carrying.result()
        except NO_ANSWER as error:
            log.warning("the answer of another server broke off: %s", error)  # and so does this answer
        finally:
            for task in (carrying, leaving):
                task.cancel()
            await asyncio.gather(carrying, leaving, return_exceptions=True)
            await response.aclose()


async def _carry(response: httpcore.Response, send: Send) -> None:
    async for piece in response.aiter_stream():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class _Sent:
    """A request on its way to another server."""

    def __init__(self, scope: Scope, receive: Receive, sender: bytes, host: bytes) -> None:
        self._receive = receive
        self._scope = scope
        self._ended = False  # whether the whole body has come
        names = {name for name, _ in scope["headers"]}
        self._has_body = b"content-length" in names or b"transfer-encoding" in names
        self.headers = [(b"host", host)]
        self.headers += [(name, value) for name, value in scope["headers"] if name not in OF_A_SERVER]
        self.headers.append((PASSED_ON, sender))
        if self._has_body and b"content-length" not in names:
            self.headers.append((b"transfer-encoding", b"chunked"))

    async def body(self) -> AsyncIterator[bytes]:
        """The pieces of the body, as they come."""
        while self._has_body and not self._ended:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                raise httpcore.WriteError("the client is gone")
            if MALFORMED in self._scope:  # the body is incomplete, and must not count as complete
                raise BadRequest(self._scope[MALFORMED])
            self._ended = not message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def left(self) -> None:
        """Return once the client is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _patience(read_s: float | None) -> dict[str, dict[str, float | None]]:
    return {"timeout": {"connect": CONNECT_S, "read": read_s, "write": UNREAD_S, "pool": CONNECT_S}}


def unanswered(address: str, reason: str) -> Unavailable:
    """The error for a request that was sent to another server and whose outcome is unknown."""
    return Unavailable(
        f"the server at {address} did not answer: {reason}; its outcome is unknown, a retry with the same ids is safe",
        retry_after_s=1,
    )
