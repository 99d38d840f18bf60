"""A connection that has become a WebSocket: what uvicorn's lacks where clients are slow, or send what is none."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from pydantic_core import to_json
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from hinged.service.edge.connection import CoalescingTransport
from hinged.service.errors import UNFORESEEN, BadRequest, InternalError

FRAGMENTS_MAX = 1000
"""Of a frame that comes in more fragments, those before are put together: empty ones fill no memory."""

PIECES = "hinged.pieces"
"""Of a message that is sent: a text in pieces, none of them empty."""

THERE = "hinged.there"
"""Of a WebSocket's scope: what gives the next frame as `receive` does, or None where none has come yet."""


class Handshake(ServerProtocol):
    """The protocol of a WebSocket, which refuses a handshake in the shape of all errors."""

    def reject(self, status: int, text: str) -> Response:
        """The answer to a handshake that is none."""
        error = InternalError(UNFORESEEN) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else BadRequest(_line(text))
        body = to_json(error.body())
        headers = {"Connection": "close", "Content-Type": "application/json", "Content-Length": str(len(body))}
        return Response(error.status, HTTPStatus(error.status).phrase, Headers(headers), body)


class PatientWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose client is not taken for dead while the server does not read: its pong waits in the line."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = Handshake(max_size=self.config.ws_max_size, logger=self.logger)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """However it ends, the client may be sending."""
        super().connection_made(transport)
        cast("CoalescingTransport", transport).more_comes = lambda: True

    def data_received(self, data: bytes) -> None:
        """Do what was asked for before the fault, if there is one."""
        if self.transport.is_closing():
            return
        self.conn.receive_data(data)
        self.handle_events()
        if self.conn.parser_exc is not None and not self.close_sent:
            self.handle_parser_exception()
        elif not self.handshake_initiated:  # which comes as a whole: longer than websockets takes it, or no HTTP to it
            reason = _line(f"the handshake of a WebSocket was not understood: {self.conn.handshake_exc}")
            self.transport.write(self.conn.reject(HTTPStatus.BAD_REQUEST, reason).serialize())
            self.transport.close()

    async def run_asgi(self) -> None:
        """The application may take all frames that have come, without a turn of the event loop for each."""
        cast("dict[str, Any]", self.scope)[THERE] = self._next_there
        await super().run_asgi()

    def _next_there(self) -> ASGIReceiveEvent | None:
        if self.queue.empty():
            return None
        message = self.queue.get_nowait()
        if self.read_paused and self.queue.empty():  # as `receive` does
            self.read_paused = False
            self.transport.resume_reading()
        return message

    def handle_cont(self, event: Any) -> None:
        """A fragment of a frame."""
        if len(self.frames) >= FRAGMENTS_MAX:
            self.frames = [b"".join(self.frames)]
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Give a frame to the application; one of text that is none closes the socket, which is no error of ours."""
        if self.curr_msg_data_type == "text" and not all(part.isascii() for part in self.frames):
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError as error:
                self.frames = []
                if self.conn.state is State.OPEN:
                    self.conn.send_close(1007, f"{error.reason} at position {error.start}")
                    self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """Send what the application says, to nobody once the socket was closed for a fault of the client."""
        if self.close_sent and message["type"] in ("websocket.send", "websocket.close"):
            raise ClientDisconnected
        if (pieces := message.get(PIECES)) is not None:
            await self._send_pieces(cast("list[bytes]", pieces))
            return
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # it was refused with an answer, which uvicorn takes for none

    async def _send_pieces(self, pieces: list[bytes]) -> None:
        """Send a text in fragments, as far as the client takes them; nothing else is sent meanwhile but pings."""
        for k, piece in enumerate(pieces):
            await self.writable.wait()
            if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
                raise ClientDisconnected
            last = k == len(pieces) - 1
            if k:
                self.conn.send_continuation(piece, last)
            else:
                self.conn.send_text(piece, last)
            self.transport.write(b"".join(self.conn.data_to_send()))
            await asyncio.sleep(0)

    def keepalive_timeout(self) -> None:
        """Close the socket if no pong came although there was nothing else to read."""
        if self.read_paused:
            self.pong_timer = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()

    def shutdown(self) -> None:
        """The server stops. What is closing already is left to itself."""
        if not self.transport.is_closing():
            super().shutdown()


def _line(text: str) -> str:
    """What a library says, as one line."""
    return " ".join(text.split())
