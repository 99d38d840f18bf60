"""Handing a request or a WebSocket on to the server, as it came, over its Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import websockets
from starlette.types import Message, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from hinged.service.edge.middleware import error_response
from hinged.service.errors import Unavailable

BETWEEN_NEIGHBOURS = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""
NOT_PASSED_BACK = BETWEEN_NEIGHBOURS | {b"date", b"server"}  # a reader tells its own
OF_THE_HANDSHAKE = "sec-websocket-"
ABNORMAL, TRY_AGAIN = 1006, 1013  # codes of RFC 6455
CONNECTIONS_MAX = 10_000
GONE = "the server behind this reader is gone; try again soon"


class Forwarder:
    """The way to the server."""

    def __init__(self, path: Path) -> None:
        self._path = path
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS_MAX)
        transport = httpx.AsyncHTTPTransport(uds=str(path), limits=limits)
        self._client = httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)  # noqa: S113  its own limits

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the server does."""
        await (self._request if scope["type"] == "http" else self._socket)(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended = asyncio.Event()
        body = _body(receive, ended) if _has_body(scope) else None
        if body is None:
            ended.set()
        url = f"http://server{_target(scope)}"  # whom the client meant stands in its Host header
        request = self._client.build_request(scope["method"], url, headers=_headers(scope), content=body)
        answering = asyncio.create_task(self._client.send(request, stream=True))
        leaving = asyncio.create_task(_left(receive, ended))
        try:
            # Who leaves while the server answers is left by it too, as without a reader between.
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return
            try:
                response = answering.result()
            except httpx.TransportError:
                await error_response(Unavailable(GONE, retry_after_s=1), scope["path"])(scope, receive, send)
                return
            passing = asyncio.create_task(_pass_back(response, send))
            try:
                await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
                if passing.done():
                    passing.result()
            finally:
                passing.cancel()
                await asyncio.gather(passing, return_exceptions=True)
                await response.aclose()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _headers(scope)]
        host = next((value for name, value in headers if name == "host"), "localhost")
        headers = [(name, value) for name, value in headers if not name.startswith(OF_THE_HANDSHAKE) and name != "host"]
        try:
            connection = await unix_connect(
                str(self._path),
                uri=f"ws://{host}{_target(scope)}",
                additional_headers=headers,
                subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", ())] or None,
                compression=None,
                max_size=None,
                ping_interval=None,
                proxy=None,
                user_agent_header=None,
            )
        except InvalidStatus as refused:
            response = refused.response
            await send(
                {
                    "type": "websocket.http.response.start",
                    "status": response.status_code,
                    "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in response.headers.raw_items()],
                }
            )
            await send({"type": "websocket.http.response.body", "body": response.body or b""})
            return
        except (OSError, websockets.WebSocketException):
            await error_response(Unavailable(GONE, retry_after_s=1))(scope, receive, send)
            return
        await send({"type": "websocket.accept", "subprotocol": connection.subprotocol})
        async with connection:
            there, back = (
                asyncio.create_task(_frames_there(receive, connection)),
                asyncio.create_task(_frames_back(connection, send)),
            )
            await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)


def _target(scope: Scope) -> str:
    """The path as it came, with its query."""
    query = scope["query_string"].decode("latin-1")
    return f"{scope['raw_path'].decode('latin-1')}{'?' if query else ''}{query}"


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in scope["headers"] if name not in BETWEEN_NEIGHBOURS]


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _body(receive: Receive, ended: asyncio.Event) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise httpx.WriteError("the client went away in the middle of the body")
        yield message.get("body", b"")
        more = message.get("more_body", False)
    ended.set()


async def _left(receive: Receive, ended: asyncio.Event) -> None:
    """Returns once the client is gone, which shows when there is no more to read."""
    await ended.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pass_back(response: httpx.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    headers = [(name, value) for name, value in headers if name not in NOT_PASSED_BACK]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    async for part in response.aiter_raw():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _frames_there(receive: Receive, connection: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        while True:
            message: Message = await receive()
            if message["type"] == "websocket.disconnect":
                await connection.close(message.get("code") or 1000, message.get("reason") or "")
                return
            text = message.get("text")
            await connection.send(message["bytes"] if text is None else text)


async def _frames_back(connection: ClientConnection, send: Send) -> None:
    try:
        async for frame in connection:
            told: dict[str, Any] = {"text": frame} if isinstance(frame, str) else {"bytes": frame}
            await send({"type": "websocket.send", **told})
    except ConnectionClosed:
        pass
    code, reason = connection.close_code, connection.close_reason or ""
    if code is None or code == ABNORMAL:
        code, reason = TRY_AGAIN, GONE
    await send({"type": "websocket.close", "code": code, "reason": reason})
