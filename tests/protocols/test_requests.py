"""A connection splits any bytes into the same requests as h11, or refuses the bytes and ends.

A proxy sends the requests of several clients over one connection. If the proxy and the server disagree about the end of
a request, the client that sent it can write the beginning of another client's request, with that client's key.
"""

import asyncio
import itertools
import socket
from contextlib import suppress

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hinged.service.edge.connection import MALFORMED, Connection
from hinged.service.edge.serving import make_server
from hinged.service.edge.streams import Streams
from hinged.service.peers.handing import Channel, Lent, Taking
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S
from tests.protocols.requests import KNOWN, LENIENT, PLAIN, SMUGGLED, Taken, as_h11_reads, path_of, sized, streams

TURNS = 10
"""Number of turns of the event loop that are enough to answer a few requests."""


class Noting:
    """An application that answers 404 to every request, and records the complete requests."""

    def __init__(self):
        self.taken = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            self.taken.append(Taken(b"GET", target_of(scope), b""))
            await receive()
            await send({"type": "websocket.close"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect" or MALFORMED in scope:
                break
            body, more = body + message["body"], message["more_body"]
        else:
            self.taken.append(Taken(scope["method"].encode(), target_of(scope), body))
        await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def target_of(scope):
    query = scope["query_string"]
    return path_of(scope["raw_path"] + (b"?" + query if query else b""))


class Reading:
    """A server without a port. Connections are pairs of sockets, and bytes arrive in the pieces that a test makes."""

    def __init__(self, connection, folder):
        self._app = Noting()
        self.step = 15 if connection is Lent else 3
        """Bytes between two places at which a stream is cut. Similar streams begin at other places."""
        self._folder = folder
        parts = {"leads": self._leads} if connection is Lent else {}
        self._server = make_server(self._app, Streams(10), Settings(), connection, **parts)
        self._server.config.load()
        self._server.lifespan = self._server.config.lifespan_class(self._server.config)
        self._runner = asyncio.Runner()

    def _leads(self, _):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._runner.close()

    def taken(self, pieces):
        """Return the requests that the server read from pieces of a stream, and whether it ignores any further data."""
        return self._runner.run(self._taken(pieces))

    async def _taken(self, pieces):
        self._app.taken = []
        mine, theirs = socket.socketpair()
        with mine:
            loop = asyncio.get_running_loop()
            transport, made = await loop.connect_accepted_socket(self._server.protocol, theirs)
            for piece in pieces:
                if made.transport.is_closing():
                    break
                transport.get_protocol().data_received(piece)
                await asyncio.sleep(0)
            for _ in range(TURNS):
                if made.transport.is_closing():
                    break
                await asyncio.sleep(0)
            ended = made.transport.is_closing() or transport.get_protocol() is not made
            with suppress(RuntimeError):
                transport.abort()
            await asyncio.sleep(0)
        return self._app.taken, ended


class Handing(Reading):
    """The same server, but it hands each connection over to itself before it reads a request from it."""

    def __init__(self, connection, folder):
        super().__init__(connection, folder)
        self.step = 40

    def _leads(self, _):
        self._there = not self._there
        return self._way if self._there else True

    async def _taken(self, pieces):
        self._app.taken, self._there = [], False
        path, loop = self._folder / "connections", asyncio.get_running_loop()
        self._way, taking = Channel(2, path), Taking(path)
        taking.start(self._server)
        mine, theirs = socket.socketpair()
        mine.setblocking(False)
        complete, ended = len(as_h11_reads(b"".join(pieces))[0]), False
        with mine:
            await loop.connect_accepted_socket(self._server.protocol, theirs)
            with suppress(OSError):  # the connection accepts no more data
                for piece in pieces:
                    await loop.sock_sendall(mine, piece)
                    await asyncio.sleep(0)
            try:
                while not ended and len(self._app.taken) < complete:
                    ended = not await asyncio.wait_for(loop.sock_recv(mine, 2**16), PATIENCE_S)
            except ConnectionError:  # the server closed the connection before it had read everything
                ended = True
        self._way.close()
        taking.stop()
        assert self._way.handed >= len(self._app.taken)
        return self._app.taken, ended


@pytest.fixture(scope="module", params=[(Reading, Connection), (Reading, Lent), (Handing, Lent)])
def reading(request, tmp_path_factory):
    kind, connection = request.param
    with kind(connection, tmp_path_factory.mktemp("reading")) as reading:
        yield reading


def check(reading, stream, pieces):
    """Read a stream, and compare the requests with h11's; return the requests, and whether further data is ignored."""
    expected = [taken for taken, _ in as_h11_reads(stream)[0]]
    taken, ended = reading.taken(pieces)
    assert taken == expected[: len(taken)]
    assert ended or len(taken) == len(expected)
    return taken, ended


def cut(stream, *at):
    edges = sorted({0, *at, len(stream)})
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("part", KNOWN)
def test_streams_that_deceived_other_parsers_are_parsed_like_by_h11(reading, part):
    for stream in KNOWN[part]:
        check(reading, stream, [stream])


@pytest.mark.long
@pytest.mark.parametrize("part", KNOWN)
def test_so_are_they_wherever_they_are_cut(reading, part):
    for k, stream in enumerate(KNOWN[part]):
        whole = check(reading, stream, [stream])
        places = range(1 + k % reading.step, len(stream), reading.step if len(stream) < 1_000 else 10_007)
        for pieces in (*(cut(stream, at) for at in places), cut(stream, *places)):
            assert check(reading, stream, pieces) == whole or part == "offers", (
                pieces
            )  # frames may come after a handshake


@pytest.mark.parametrize("stream", PLAIN, ids=range(len(PLAIN)))
def test_what_every_server_must_understand_is_understood(reading, stream):
    taken, _ = check(reading, stream, [stream])
    assert len(taken) == 2


def test_what_h11_refuses_without_need_ends_where_it_should(tmp_path):
    with Reading(Connection, tmp_path) as reading:
        for stream in LENIENT:
            assert as_h11_reads(stream)[0] == []
            taken, _ = reading.taken([stream + SMUGGLED])
            assert [method for method, _, _ in taken] == [b"GET", b"DELETE"], stream


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(stream=streams(), at=st.lists(st.floats(0, 1), max_size=4))
def test_any_stream_is_parsed_like_by_h11_however_it_comes(reading, stream, at):
    taken, _ = check(reading, stream, cut(stream, *(round(where * len(stream)) for where in at)))
    event("requests taken", len(taken))
    check(reading, stream, cut(stream, *range(len(stream))))


@pytest.mark.parametrize("upgrade", [b"h2c", b"TLS/1.0", b"websocket, h2c"])
def test_a_request_that_offers_another_protocol_is_answered_as_if_it_had_no_offer(reading, upgrade):
    """Java's HttpClient offers h2c with its first request, whatever the request is."""
    stream = sized(b"{}", b"connection: Upgrade, HTTP2-Settings", b"upgrade: " + upgrade) + SMUGGLED
    taken, ended = reading.taken([stream])
    assert taken == [taken for taken, _ in as_h11_reads(stream)[0]]
    assert [method for method, _, _ in taken] == [b"POST", b"DELETE"]
    assert not ended
