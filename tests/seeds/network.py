"""A simulated network: connections between places, with delays, partitions and resets."""

import asyncio
import socket
from types import SimpleNamespace
from urllib.parse import urlencode, urlsplit

import httptools
import httpx

from tests.seeds.world import PLACE

DELAY_S = 0.0005  # mean delay of a message
SLOW_S = 0.4  # mean delay on a slow way


class Network:
    """The ways between places, by their names. Data on a cut way is kept until the way heals, as TCP repeats it."""

    def __init__(self, world):
        self.world, self.loop = world, world.loop
        self.cuts, self.slow = set(), set()
        self.listening = {}  # by address: the place, and the function that makes its protocol
        self._held = {}
        self._last = {}
        self.wires = []
        self.loop.connect = self.connect

    def heal(self):
        """Let everything pass everywhere, at the usual speed."""
        self.cuts.clear()
        self.slow.clear()
        self.let_through()

    def let_through(self):
        """Send what waited for ways that are no longer cut."""
        held, self._held = self._held, {}
        for way, messages in held.items():
            for message in messages:
                self.send(*way, *message)

    def delay_s(self, one, other):
        slow = (one, other) in self.slow
        return self.world.rng.expovariate(1.0 / (SLOW_S if slow else DELAY_S))

    def send(self, one, other, stream, deliver, *args):
        """Deliver a message in the future. Messages of a stream stay in order."""
        if (one, other) in self.cuts:
            self._held.setdefault((one, other), []).append((stream, deliver, *args))
            return
        at = self.loop.now + self.delay_s(one, other)
        if stream is not None:
            at = self._last[stream, one] = max(at, self._last.get((stream, one), 0.0))
        self.loop.call_at(at, deliver, *args, context=self.loop.world.nowhere.context)

    async def connect(self, factory, address):
        """Open a connection to an address, as loop.create_connection does."""
        here, opened = PLACE.get(), self.loop.create_future()
        there = address.partition("//")[2].partition(":")[0]

        def answer(error, wire=None):
            if opened.done():
                if wire is not None:
                    wire.abort()
            elif error is not None:
                opened.set_exception(error)
            else:
                wire.protocol = factory()
                wire.protocol.connection_made(wire)
                opened.set_result((wire, wire.protocol))

        def arrive():
            found = self.listening.get(address)
            if found is None or found[0].dead:
                refused = ConnectionRefusedError("Connection refused")
                self.send(there, here.name, None, self._at, here, answer, refused)
            else:
                self._at(found[0], accept, found)

        def accept(found):
            place, make = found
            mine, other = Wire(self, place), Wire(self, here)
            mine.peer, other.peer = other, mine
            self.wires += (mine, other)
            mine.protocol = make()
            mine.protocol.connection_made(mine)
            mine.send(answer, None, other)

        self.send(here.name, there, None, arrive)
        return await opened

    def _at(self, place, function, *args):
        self.loop.call_soon(function, *args, context=place.context)

    def kill(self, place):
        """Reset the connections of a place, as its system does when the process is gone."""
        for wire in self.wires:
            if wire.place is place and not wire.lost:
                wire.lost = True
                wire.send(wire.peer.reset)
        self.wires = [wire for wire in self.wires if wire.place is not place]


class Wire(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network, place):
        super().__init__()
        self.network, self.place = network, place
        self.peer = self.protocol = None
        self.lost = self._closing = False
        self._paused = None  # data that arrived while reading is paused

    def send(self, deliver, *args):
        one, other = self.place.name, self.peer.place.name
        self.network.send(one, other, min(id(self), id(self.peer)), self.network._at, self.peer.place, deliver, *args)

    def get_extra_info(self, name, default=None):
        names = {"peername": (self.peer.place.name, 1), "sockname": (self.place.name, 1)}
        line = SimpleNamespace(
            family=socket.AF_INET, setsockopt=lambda *_: None,
            getpeername=lambda: names["peername"], getsockname=lambda: names["sockname"],
        )  # fmt: skip
        return {**names, "socket": line}.get(name, default)

    def is_closing(self):
        return self._closing or self.lost

    def write(self, data):
        if not self.is_closing() and data:
            self.send(self.peer.receive, bytes(data))

    def write_eof(self):
        if not self.is_closing():
            self.send(self.peer.end)

    def close(self):
        if not self.is_closing():
            self._closing = True
            self.send(self.peer.end)
            self.network._at(self.place, self.lose, None)

    def abort(self):
        if not self.lost:
            self._closing = True
            self.send(self.peer.reset)
            self.network._at(self.place, self.lose, None)

    def receive(self, data):
        if self.is_closing():
            return
        if self._paused is not None:
            self._paused.append(data)
        else:
            self.protocol.data_received(data)

    def end(self):
        if not self.is_closing() and not self.protocol.eof_received():
            self.close()

    def reset(self):
        self.lose(ConnectionResetError("Connection reset by peer"))

    def lose(self, error):
        if not self.lost and self.protocol is not None:
            self.lost = True
            self.protocol.connection_lost(error)

    def pause_reading(self):
        self._paused = [] if self._paused is None else self._paused

    def resume_reading(self):
        data, self._paused = self._paused or [], None
        for piece in data:
            self.receive(piece)

    def is_reading(self):
        return self._paused is None

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high=None, low=None):
        """Do nothing: the buffer is always empty."""


class Answer(asyncio.Protocol):
    """Receives one answer, for the client."""

    def __init__(self, loop):
        self.parser = httptools.HttpResponseParser(self)
        self.headers, self.body = [], b""
        self.whole = loop.create_future()

    def data_received(self, data):
        self.parser.feed_data(data)

    def connection_lost(self, error):
        if not self.whole.done():
            self.whole.set_exception(error or ConnectionResetError("the server hung up"))

    def on_header(self, name, value):
        self.headers.append((name, value))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        if not self.whole.done():
            self.whole.set_result(None)


class Sender:
    """Stands for the httpx client of a client: sends each request on a connection of its own."""

    def __init__(self, loop, timeout_s):
        self._loop, self._timeout_s = loop, timeout_s

    async def request(self, method, url, content, params, headers, timeout=None):  # noqa: ASYNC109  as httpx has it
        limit_s, where = timeout or self._timeout_s, urlsplit(url)
        path = f"{where.path}?{urlencode(params)}" if params else where.path
        headers = {"host": where.netloc, **headers, "content-length": len(content or b"")}
        head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "\r\n"]
        try:
            async with asyncio.timeout(limit_s):
                line, answer = await self._loop.create_connection(
                    lambda: Answer(self._loop), where.hostname, where.port
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        try:
            line.write("\r\n".join(head).encode() + (content or b""))
            async with asyncio.timeout(limit_s):
                await answer.whole
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        finally:
            line.abort()
        status, sent = answer.parser.get_status_code(), httpx.Request(method, url)
        return httpx.Response(status, headers=answer.headers, content=answer.body, request=sent)
