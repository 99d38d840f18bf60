"""Forward a WebSocket: relay messages in both directions between the client's socket and a socket to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import Close, CloseCode

from hinged.service import limits
from hinged.service.cluster.lines import PASSED_ON
from hinged.service.cluster.passing import OF_A_SERVER, SAID_ANYWAY, Passing, unanswered
from hinged.service.peers.paths import target_of

HANDSHAKE_S = 10.0  # seconds that the owner may take to answer a handshake
OF_A_SOCKET = b"sec-websocket-"
"""Prefix of headers that concern only one socket."""
UNSENDABLE = (CloseCode.NO_STATUS_RCVD, CloseCode.ABNORMAL_CLOSURE)
"""Codes that mean that the close code is missing. A frame must never contain them."""


class Carried:
    """A WebSocket that is forwarded to another server."""

    def __init__(self, passing: Passing, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        self._passing = passing
        self._scope = scope
        self._receive = receive
        self._send = send
        self._address = address
        self._gone = Close(CloseCode.SERVICE_RESTART, f"the server at {address} is gone; the model comes back")
        self._over: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    def look(self) -> None:
        """Close the socket if the owner is dead. A living owner closes the sockets of a model that it gives up."""
        if not self._passing.lives(self._address):
            self._end(self._gone)

    def _end(self, close: Close) -> None:
        if not self._over.done():
            self._over.set_result(close)

    async def run(self) -> None:
        """Relay messages until one side closes. Raise QueueFull if too many streams are open, Unavailable if the owner
        cannot be reached.
        """
        stops = Close(CloseCode.SERVICE_RESTART, "the server stops")
        with self._passing.streams.one(lambda: self._end(stops)):
            self._passing.watch(self.look)
            try:
                owner = await self._or_over(self._open())
                if isinstance(owner, Close):
                    raise unanswered(self._address, "it is gone")
                if owner is not None:
                    with suppress(ClientDisconnected):
                        await self._carry(owner)
            finally:
                self._passing.forget(self.look)

    async def _or_over(self, work: Awaitable[ClientConnection | Close | None]) -> ClientConnection | Close | None:
        """Return the result of `work`, or the reason why the socket closes before the work ends."""
        task = asyncio.ensure_future(work)
        try:
            either: list[asyncio.Future[Any]] = [task, self._over]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else self._over.result()
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _open(self) -> ClientConnection | None:
        """Open a socket to the owner. If the owner refuses it, forward the refusal and return None.

        Raise Unavailable if the owner cannot be reached.
        """
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self._scope["headers"]
            if name not in OF_A_SERVER and not name.startswith(OF_A_SOCKET)
        ]
        headers.append((PASSED_ON.decode(), self._passing.senders(self._scope).decode("latin-1")))
        uri = self._address.partition("#")[0].replace("http", "ws", 1) + target_of(self._scope).decode("latin-1")
        try:
            return await connect(
                uri,
                additional_headers=headers,
                user_agent_header=None,
                compression=None,
                proxy=None,
                open_timeout=HANDSHAKE_S,
                ping_interval=None,  # each of the two servers sends its own pings
                max_size=None,  # the owner limits its answers
            )
        except InvalidStatus as error:
            answer = error.response
            said = {k: v for k, v in answer.headers.raw_items() if k.lower().encode() not in SAID_ANYWAY}
            await Response(bytes(answer.body or b""), answer.status_code, said)(self._scope, self._receive, self._send)
            return None
        except (OSError, WebSocketException) as error:
            raise unanswered(self._address, str(error) or "it is gone") from error

    async def _carry(self, owner: ClientConnection) -> None:
        to_owner = None
        try:
            await self._receive()  # the handshake
            await self._send({"type": "websocket.accept"})
            to_owner = asyncio.create_task(self._to_owner(owner))
            close = await self._or_over(self._to_client(owner))
            if isinstance(close, Close):
                await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})
        finally:
            if to_owner is not None:
                to_owner.cancel()
            owner.transport.abort()

    async def _to_owner(self, owner: ClientConnection) -> None:
        """Relay the client's messages until the client leaves. Then close the socket to the owner."""
        with suppress(ConnectionClosed):
            while (message := await self._receive())["type"] == "websocket.receive":
                text = message.get("text")
                await owner.send(message["bytes"] if text is None else text)
            code = message.get("code", CloseCode.NO_STATUS_RCVD)
            await owner.close(CloseCode.NORMAL_CLOSURE if code in UNSENDABLE else code, message.get("reason") or "")

    async def _to_client(self, owner: ClientConnection) -> Close | None:
        """Relay the owner's messages until the owner closes the socket; return the code and the reason.

        Return None if the client does not read.
        """
        left = False
        try:
            while True:
                data = await owner.recv()
                if not left:
                    with suppress(ClientDisconnected):
                        left = True  # the messages that the client sent before it left still go to the owner
                        async with asyncio.timeout(limits.STREAM_IDLE_S):
                            kind = "text" if isinstance(data, str) else "bytes"
                            await self._send({"type": "websocket.send", kind: data})
                        left = False
        except TimeoutError:
            return None
        except ConnectionClosed as error:
            if error.rcvd is None:
                return self._gone
            return Close(CloseCode.NORMAL_CLOSURE, "") if error.rcvd.code in UNSENDABLE else error.rcvd
