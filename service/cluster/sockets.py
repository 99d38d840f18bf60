"""Forward a WebSocket: relay messages in both directions between the client's socket and a socket to the owner."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

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
        self._accepted = False
        self._gone = Close(CloseCode.SERVICE_RESTART, f"the server at {address} is gone; the model comes back")
        self._close: Close | None = None  # why this server ends the WebSocket

    async def run(self) -> None:
        """Relay messages until one side closes, the owner is dead, or this server stops. Raise QueueFull if too many
        streams are open, Unavailable if the owner cannot be reached.
        """
        stops = Close(CloseCode.SERVICE_RESTART, "the server stops")
        try:
            async with asyncio.timeout(None) as under_way:

                def end(close: Close) -> None:
                    if self._close is None:
                        self._close = close
                        under_way.reschedule(0)

                with (
                    self._passing.streams.one(partial(end, stops)),
                    self._passing.one(self._address, partial(end, self._gone)),
                ):
                    owner = await self._open()
                    close = None if owner is None else await self._carry(owner)
        except TimeoutError:
            close = self._close
            if not self._accepted:
                raise unanswered(self._address, "it is gone") from None
        if close is not None:
            with suppress(ClientDisconnected):
                await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})

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

    async def _carry(self, owner: ClientConnection) -> Close | None:
        """Relay messages until one side closes; return the owner's close, if the client must get it."""
        to_owner = None
        try:
            await self._receive()  # the handshake
            await self._send({"type": "websocket.accept"})
            self._accepted = True
            to_owner = asyncio.create_task(self._to_owner(owner))
            return await self._to_client(owner)
        except ClientDisconnected:
            return None
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
