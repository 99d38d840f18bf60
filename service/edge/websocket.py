"""A WebSocket connection: uvicorn's connection, with protection against slow clients and malformed data."""

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

from hinged.service.edge.transports import CoalescingTransport
from hinged.service.errors import UNFORESEEN, BadRequest, InternalError

FRAGMENTS_MAX = 1000
"""Number of fragments of a frame after which they are joined, so that many empty fragments do not fill the memory."""

PIECES = "hinged.pieces"
"""Key of a message to send: a text in pieces, none of them empty."""

THERE = "hinged.there"
"""Key of a WebSocket's scope: a function like `receive` that returns None if no frame has arrived yet."""


class Handshake(ServerProtocol):
    """The WebSocket protocol. It refuses a handshake with an error in the usual shape."""

    def reject(self, status: int, text: str) -> Response:
        """Return the answer to an invalid handshake."""
        error = InternalError(UNFORESEEN) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else BadRequest(_line(text))
        body = to_json(error.body())
        headers = {"Connection": "close", "Content-Type": "application/json", "Content-Length": str(len(body))}
        return Response(error.status, HTTPStatus(error.status).phrase, Headers(headers), body)


class PatientWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose client does not count as dead while the server does not read. The client's pong waits in the
    socket.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = Handshake(max_size=self.config.ws_max_size, logger=self.logger)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember that the client may be sending data whenever the connection ends."""
        super().connection_made(transport)
        self.together = cast("CoalescingTransport", transport)
        self.together.more_comes = lambda: True

    def data_received(self, data: bytes) -> None:
        """Handle the head, which comes from the HTTP connection, and later data."""
        if self.handshake_initiated:
            self.together.receive(data, self.receive_piece)
        else:
            self.receive_piece(data)

    def receive_piece(self, data: bytes) -> None:
        """Handle the valid data first, then the first fault, if there is one."""
        if self.transport.is_closing():
            return
        self.conn.receive_data(data)
        self.handle_events()
        if self.conn.parser_exc is not None and not self.close_sent:
            self.handle_parser_exception()
        elif not self.handshake_initiated:  # the handshake is complete, but too long or invalid HTTP
            reason = _line(f"the handshake of a WebSocket was not understood: {self.conn.handshake_exc}")
            self.transport.write(self.conn.reject(HTTPStatus.BAD_REQUEST, reason).serialize())
            self.transport.close()

    async def run_asgi(self) -> None:
        """Give the application all frames that have arrived, without a turn of the event loop for each."""
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
        """Receive a fragment of a frame."""
        if len(self.frames) >= FRAGMENTS_MAX:
            self.frames = [b"".join(self.frames)]
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Give a frame to the application. An invalid text closes the socket; it does not count as an error of the
        server.
        """
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
        """Send the application's message.

        Raise ClientDisconnected if the socket was closed because of a client's fault.
        """
        if self.close_sent and message["type"] in ("websocket.send", "websocket.close"):
            raise ClientDisconnected
        if (pieces := message.get(PIECES)) is not None:
            await self._send_pieces(cast("list[bytes]", pieces))
            return
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # refused with an answer, which uvicorn does not count as complete

    async def _send_pieces(self, pieces: list[bytes]) -> None:
        """Send a text in fragments, as fast as the client accepts them. Only pings may be sent between fragments."""
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
        """Close the socket if no pong arrived although the server was reading."""
        if self.read_paused:
            self.pong_timer = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()

    def shutdown(self) -> None:
        """Stop, unless the socket is already closing."""
        if not self.transport.is_closing():
            super().shutdown()


def _line(text: str) -> str:
    """Return a library's message as one line."""
    return " ".join(text.split())
