"""Relay requests to the server that owns their model, bytes in and bytes out, without an application between.

A client's connection (`Relaying`) parses requests as usual. If a request is for another server's model and nothing
about it is unusual, its bytes go to a line as they come, and the answer goes back. Every other request goes through the
gate (gate.py, passing.py), which handles all cases.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from hinged.service.api.wire import body_s, too_slow
from hinged.service.cluster.gate import Gate
from hinged.service.cluster.lines import PASSED_ON, UNREAD_S, Line, LineRequest, Lines
from hinged.service.cluster.passing import LOOK_S, OF_A_SERVER, unanswered
from hinged.service.cluster.sockets import Spliced
from hinged.service.edge.connection import Connection
from hinged.service.edge.middleware import error_response
from hinged.service.edge.streams import Streams
from hinged.service.errors import ServiceError
from hinged.service.peers.paths import target_of

RELAY = "relay"
"""Key of the lifespan's state: the Relay of a server that shares its store."""
EVENT_STREAM = b"text/event-stream"


class Watched(Protocol):
    """A request or socket in progress to another server."""

    def look(self) -> None:
        """Check whether waiting on still makes sense."""


class Relay:
    """The relay that all connections of a server share. On one event loop."""

    def __init__(self, gate: Gate, streams: Streams, address: str, stream_idle_s: float) -> None:
        """address: of this server. stream_idle_s: seconds that a WebSocket's client may read nothing."""
        self.gate = gate
        self.stream_idle_s = stream_idle_s
        self.streams = streams
        self.lines = Lines()
        self.sender = PASSED_ON + b": " + address.encode() + b"\r\n"
        self._loop = asyncio.get_running_loop()
        self._under_way: set[Watched] = set()
        self._looking: asyncio.TimerHandle | None = None

    def begin(self, relayed: Watched) -> None:
        """Watch a request until it ends."""
        self._under_way.add(relayed)
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_S, self._look)

    def end(self, relayed: Watched) -> None:
        """Stop watching a request."""
        self._under_way.discard(relayed)

    def close(self) -> None:
        """Break all lines."""
        if self._looking is not None:
            self._looking.cancel()
        self.lines.close()

    def _look(self) -> None:
        for relayed in list(self._under_way):
            relayed.look()
        self._looking = self._loop.call_later(LOOK_S, self._look) if self._under_way else None


class Relaying(Connection):
    """A client's connection at a server that shares its store."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.relay: Relay | None = self.app_state.get(RELAY)
        self.relayed: Relayed | None = None
        self._held_back: HeldBack | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        """Relay a request, once a small body is complete, or have it answered here."""
        relay = self.relay
        if relay is not None and comes_slowly(cycle) and relay.gate.waits_for_body(cast("Scope", cycle.scope)):
            self._held_back = HeldBack(relay, self, cycle, app)
            return
        owner = None
        if relay is not None and not cycle.waiting_for_100_continue:
            owner = relay.gate.short_way(cast("Scope", cycle.scope))
        if relay is None or owner is None:
            super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]
            return
        try:
            self.relayed = Relayed(relay, self, cycle, owner)
        except ServiceError as error:
            self.refuse(cycle, error)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, and begin the request if that is too much to hold back."""
        super().on_body(body)
        if self._held_back is not None and len(self.cycle.body) > HIGH_WATER_LIMIT:
            self._held_back.let_go()

    def on_message_complete(self) -> None:
        """Begin a request that was held back, now that its body is complete."""
        super().on_message_complete()
        if self._held_back is not None:
            self._held_back.let_go()

    def hold_no_more(self) -> None:
        """Forget the request held back: it has begun, or was refused."""
        self._held_back = None

    def refuse(self, cycle: RequestResponseCycle, error: ServiceError) -> None:
        """Answer with an error."""
        super()._start_asgi_task(cycle, error_response(error, cycle.scope["path"]))  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Parse the data, and send on at once what it brought."""
        super().data_received(data)
        if self.relayed is not None:
            self.relayed.send()

    def _take_usual_way(self) -> None:
        """Send on at once what was held back for the shortcut."""
        super()._take_usual_way()
        if self.relayed is not None:
            self.relayed.send()

    def on_response_complete(self) -> None:
        """Begin the next request, which may be relayed too and may have come in part."""
        self.relayed = None
        super().on_response_complete()
        if self.relayed is not None:
            self.relayed.send()

    def handle_websocket_upgrade(self) -> None:
        """Open a WebSocket at the server that owns its model."""
        if self.relay is None:
            super().handle_websocket_upgrade()
            return
        self._broken = True  # for HTTP; no time limit runs any more
        self._unlimit()
        self.flow.pause_reading()
        self._opening = self.begin(self._open_socket(self.relay), self.refuse_handshake)

    async def _open_socket(self, relay: Relay) -> None:
        scope: Any = self.scope
        address = await relay.gate.way_of_socket(scope | {"type": "websocket"})
        if self.transport.is_closing():
            return
        if address is None:
            self.flow.resume_reading()
            super().handle_websocket_upgrade()
            return
        self._break_unread(relay.stream_idle_s)
        try:
            handshake = head_of(scope, address, relay.sender, b"connection: upgrade\r\nupgrade: websocket\r\n")
            await Spliced(relay, self, address).begin(handshake)
        except ServiceError as error:
            self.refuse_handshake(error)

    def refuse_handshake(self, error: ServiceError) -> None:
        """Refuse a handshake with an error."""
        self._refuse(error)

    def _not_understood(self, error: ServiceError) -> None:
        if self._held_back is not None:
            self._broken = True
            self._held_back.refuse(error)
            return
        relayed = self.relayed
        if relayed is not None and self._in_body and relayed.cycle is self.cycle:
            self._broken = True
            relayed.cycle.keep_alive = relayed.cycle.more_body = False
            relayed.give_up(error)
        else:
            super()._not_understood(error)

    def pause_writing(self) -> None:
        """Pause the answer, because the client reads too slowly."""
        super().pause_writing()
        if self.relayed is not None:
            self.relayed.wait(waiting=True)

    def resume_writing(self) -> None:
        """Resume the answer."""
        super().resume_writing()
        if self.relayed is not None:
            self.relayed.wait(waiting=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the request, because the client has gone."""
        super().connection_lost(exc)
        if self._held_back is not None:
            self._held_back.end()
        if self.relayed is not None:
            self.relayed.left()


def comes_slowly(cycle: RequestResponseCycle) -> bool:
    """Whether the body of a request is still coming and is small, or of unknown length."""
    headers = dict(cycle.scope["headers"])
    if not cycle.more_body or len(cycle.body) > HIGH_WATER_LIMIT:
        return False
    return 0 < int(headers.get(b"content-length", b"0")) <= HIGH_WATER_LIMIT or b"transfer-encoding" in headers


class HeldBack:
    """A request for another server, held back until its body has come, so that slow clients occupy no line.

    At most HIGH_WATER_LIMIT of a body is held back, because uvicorn reads no further.
    """

    def __init__(self, relay: Relay, connection: Relaying, cycle: RequestResponseCycle, app: ASGIApp) -> None:
        self._relay = relay
        self._connection = connection
        self._cycle = cycle
        self._app = app
        self._since = connection.loop.time()
        relay.begin(self)
        if cycle.waiting_for_100_continue:
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            cycle.waiting_for_100_continue = False
        connection.flow.resume_reading()  # otherwise uvicorn waits until an application asks for the body

    def let_go(self) -> None:
        """Begin the request."""
        self.end()
        self._connection._start_asgi_task(self._cycle, self._app)  # noqa: SLF001  like uvicorn would have

    def look(self) -> None:
        """Refuse the request if its client is too slow."""
        size, seconds = len(self._cycle.body), self._connection.seconds
        if self._connection.loop.time() > self._since + body_s(size, seconds):
            self.refuse(too_slow(size, seconds))

    def refuse(self, error: ServiceError) -> None:
        """Answer with an error, and read no further."""
        self.end()
        self._cycle.keep_alive = self._cycle.more_body = False
        self._cycle.body = bytearray()
        self._connection.refuse(self._cycle, error)

    def end(self) -> None:
        """Forget the request: it has begun, was refused, or its client has gone."""
        self._relay.end(self)
        self._connection.hold_no_more()


class Relayed(LineRequest):
    """A relayed request, from the arrival of its head to the end of its answer."""

    def __init__(self, relay: Relay, connection: Relaying, cycle: RequestResponseCycle, address: str) -> None:
        """Raise Unavailable if its key or its model has too many requests in progress."""
        self.cycle = cycle
        self._relay = relay
        self._connection = connection
        self._address = address
        scope = cast("Scope", cycle.scope)
        self._chunked_body = any(name == b"transfer-encoding" for name, _ in scope["headers"])
        framing = b"transfer-encoding: chunked\r\n" if self._chunked_body else b""
        self._unsent = head_of(scope, address, relay.sender, framing)
        self._sent_all = False
        self._full_since: float | None = None
        self._chunked = False  # whether the answer is chunked
        self._open = ExitStack()
        self._open.enter_context(relay.gate.portion(scope))
        relay.begin(self)
        self._line = relay.lines.idle(address)
        self._opening: asyncio.Task[None] | None = None
        if self._line is None:
            self._opening = connection.begin(self._open_line(), self.give_up)
        else:
            self._begin(self._line)

    async def _open_line(self) -> None:
        try:
            line = await self._relay.lines.open(self._address)
        except ServiceError as error:
            self._opening = None
            self.give_up(error)
            return
        self._opening, self._line = None, line
        self._begin(line)
        self.send()

    def _begin(self, line: Line) -> None:
        line.begin(self)
        if self._connection.flow.write_paused:  # by answers to earlier requests
            line.transport.pause_reading()

    # -- to the owner -----------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Send the part of the request that has come."""
        cycle, line = self.cycle, self._line
        if line is None or self._sent_all:
            return
        parts, self._unsent = [self._unsent], b""
        if cycle.body:
            body = bytes(cycle.body)
            cycle.body = bytearray()
            parts += [b"%x\r\n" % len(body), body, b"\r\n"] if self._chunked_body else [body]
        if not cycle.more_body:
            self._sent_all = True
            if self._chunked_body:
                parts.append(b"0\r\n\r\n")
        line.transport.write(b"".join(parts))
        if cycle.more_body and self._full_since is None:
            self._connection.flow.resume_reading()

    def full(self, *, full: bool) -> None:
        """Pause or resume sending, as the owner takes data."""
        if full:
            self._full_since = time.monotonic()
            self._connection.flow.pause_reading()
        else:
            self._full_since = None
            self.send()

    # -- from the owner ---------------------------------------------------------------------------------------------

    def head(self, status: int, headers: list[tuple[bytes, bytes]], *, last: bool) -> None:
        """Begin the answer to the client."""
        cycle = self.cycle
        parts = [STATUS_LINE[status]]
        self._chunked = status not in {204, 304}
        for name, value in headers:
            if name == b"content-length":
                self._chunked = False
            elif name == b"content-type" and value.startswith(EVENT_STREAM):
                try:
                    self._open.enter_context(self._relay.streams.one(self._end_stream))
                except ServiceError as error:
                    self.give_up(error)
                    return
            parts += [name, b": ", value, b"\r\n"]
        if self._chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        if last and not self._sent_all:  # the owner takes no more of the body
            cycle.keep_alive = False
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        cycle.response_started = True
        self._connection.transport.write(b"".join(parts))

    def piece(self, data: bytes) -> None:
        """Send a piece of the answer's body."""
        self._connection.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def whole(self) -> None:
        """Finish the answer, release the line, and let the next request begin."""
        line, self._line = self._line, None
        if line is not None:
            line.transport.resume_reading()
            line.end(reusable=self._sent_all and not line.last)
        if self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")
        self._finish()

    def lost(self, reason: str) -> None:
        """Give up, because the line broke."""
        self._line = None
        self.give_up(unanswered(self._address, reason))

    def _finish(self) -> None:
        """Do what uvicorn does once an answer is complete."""
        self._close()
        cycle = self.cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._connection.transport.close()
        cycle.on_response()

    # -- interruptions ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Give up if waiting makes no more sense. A living owner answers, even if it has lost the model meanwhile."""
        if self._full_since is not None and time.monotonic() > self._full_since + UNREAD_S:
            self.give_up(unanswered(self._address, "it takes no more of the request"))
        elif not self.cycle.response_started and not self._relay.gate.lives(self._address):
            self.give_up(unanswered(self._address, "it is gone"))

    def wait(self, *, waiting: bool) -> None:
        """Pause or resume the answer, as the client takes data."""
        if self._line is not None:
            if waiting:
                self._line.transport.pause_reading()
            else:
                self._line.transport.resume_reading()

    def left(self) -> None:
        """Drop the request, because the client has gone."""
        self._connection.relayed = None
        self._close()

    def give_up(self, error: ServiceError) -> None:
        """Refuse the request, or break off an answer that has begun."""
        self._close()
        connection = self._connection
        connection.relayed = None
        if self.cycle.response_started:
            connection.transport.close()
        else:
            self.cycle.body = bytearray()
            connection.refuse(self.cycle, error)

    def _end_stream(self) -> None:
        """End an event stream in order, because the server stops."""
        if self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")
        self._close()
        self._connection.transport.close()

    def _close(self) -> None:
        self._relay.end(self)
        self._open.close()
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        line, self._line = self._line, None
        if line is not None:
            line.end(reusable=False)


def head_of(scope: Scope, address: str, sender: bytes, more: bytes) -> bytes:
    """The head of a request for the server at an address. more: headers for that connection."""
    parts = [scope["method"].encode(), b" ", target_of(scope), b" HTTP/1.1\r\nhost: "]
    parts += [urlsplit(address).netloc.encode(), b"\r\n"]
    for name, value in scope["headers"]:
        if name not in OF_A_SERVER:
            parts += [name, b": ", value, b"\r\n"]
    parts += [more, sender, b"\r\n"]
    return b"".join(parts)
