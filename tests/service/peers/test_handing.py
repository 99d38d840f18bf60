"""Hand connections over from one process to another, tested within one process."""

import asyncio
import os
import socket
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from uvicorn import Config

from hinged.service.edge.serving import make_server
from hinged.service.edge.streams import Streams
from hinged.service.errors import Unavailable
from hinged.service.peers.handing import INLINE_BYTES_MAX, LENGTH_BYTES, Channel, Lent, Taking
from hinged.service.settings import Settings
from tests.helpers.limits import limited
from tests.helpers.server import PATIENCE_S
from tests.helpers.worker import until

MORE_THAN_WAIT = 600
"""A number of connections that exceeds the queue of a datagram socket on any system."""


class Noting(asyncio.Protocol):
    """The protocol of a server's connection. It records the data that arrives."""

    def __init__(self, came):
        self._came = came

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        self._came.append(data)
        self._transport.write(b"taken")


class Server:
    def __init__(self):
        self.came = []

    def protocol(self):
        return Noting(self.came)


@pytest.fixture(params=[None, Config(app="").get_loop_factory()], ids=["asyncio", "as the server"])
def run(request):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "connections"


class Lines:
    """Makes connections, and keeps the client's end of each connection."""

    def __init__(self):
        self._stack = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def one(self):
        return map(self._stack.enter_context, socket.socketpair())


async def heard(mine):
    mine.setblocking(False)
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.get_running_loop().sock_recv(mine, 100)


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 3_000_000])
def test_all_data_of_a_connection_goes_with_it_and_the_rest_comes_afterwards(run, path, size):
    async def scenario():
        taking, server, channel = Taking(path), Server(), Channel(2, path)
        taking.start(server)
        with Lines() as lines:
            mine, theirs = lines.one()
            came = os.urandom(size)
            await channel.hand(theirs.fileno(), came)
            theirs.close()
            mine.sendall(b"rest")
            assert (await heard(mine)).startswith(b"taken")
            await until(lambda: b"".join(server.came) == came + b"rest")
        channel.close()
        taking.stop()

    run(scenario())


class Pausing(Noting):
    """Pauses reading at each piece of data."""

    over = False

    def data_received(self, data):
        super().data_received(data)
        self._transport.pause_reading()

    def connection_lost(self, _):
        self.over = True


def test_a_protocol_that_pauses_at_the_data_of_a_connection_gets_no_more_until_it_resumes(run, path):
    async def scenario():
        taking, channel, came = Taking(path), Channel(2, path), []
        pausing = Pausing(came)
        taking.start(SimpleNamespace(protocol=lambda: pausing))
        with Lines() as lines:
            mine, theirs = lines.one()
            await channel.hand(theirs.fileno(), b"first")
            theirs.close()
            assert await heard(mine) == b"taken"
            mine.sendall(b"rest")
            await asyncio.sleep(0.1)
            assert came == [b"first"]
            pausing._transport.resume_reading()
            await until(lambda: came == [b"first", b"rest"])
            pausing._transport.abort()
            await until(lambda: pausing.over)
        channel.close()
        taking.stop()

    run(scenario())


def test_more_connections_than_the_system_queues_wait_and_are_taken_in_order(run, path):
    async def scenario():
        taking, server, channel = Taking(path), Server(), Channel(2, path)
        with Lines() as lines:
            handing = []
            for k in range(MORE_THAN_WAIT):
                _, theirs = lines.one()
                handing.append(asyncio.create_task(channel.hand(theirs.fileno(), b"%d" % k)))
            await asyncio.sleep(0.01)
            assert not all(task.done() for task in handing)
            taking.start(server)
            await asyncio.gather(*handing)
            await until(lambda: len(server.came) == MORE_THAN_WAIT)
            assert server.came == [b"%d" % k for k in range(MORE_THAN_WAIT)]
        channel.close()
        taking.stop()

    run(scenario())


def test_a_connection_that_is_not_taken_in_time_stays(run, path):
    async def scenario():
        taking, channel = Taking(path), Channel(2, path)
        with Lines() as lines, limited(hand_over_s=0.05):
            handing = [channel.hand([*lines.one()][1].fileno(), b"") for _ in range(MORE_THAN_WAIT)]
            found = await asyncio.gather(*handing, return_exceptions=True)
            assert {type(each) for each in found} == {type(None), Unavailable}
            assert "took nothing for 0.05 s" in found[-1].message
        channel.close()
        taking._socket.close()

    run(scenario())


def test_a_dead_process_is_noticed_at_once_and_so_is_its_successor(run, path):
    async def scenario():
        channel, server = Channel(2, path), Server()
        with Lines() as lines:
            mine, theirs = lines.one()
            for end in ("stop", "killed"):
                with pytest.raises(Unavailable, match="process 2 of this server is away"):
                    await channel.hand(theirs.fileno(), b"x")
                taking = Taking(path)
                taking.start(server)
                await channel.hand(theirs.fileno(), b"x")
                assert await heard(mine) == b"taken"
                if end == "stop":
                    taking.stop()
                else:  # the process leaves its socket file
                    asyncio.get_running_loop().remove_reader(taking._socket)
                    taking._socket.close()
            with pytest.raises(Unavailable):
                channel.hand_now(theirs.fileno(), b"x")
        channel.close()

    run(scenario())


def test_connections_handed_over_before_a_process_stops_are_taken(run, path):
    async def scenario():
        taking, server, channel = Taking(path), Server(), Channel(2, path)
        with Lines() as lines:
            ends = [[*lines.one()] for _ in range(5)]
            taking.start(server)
            assert all(channel.hand_now(theirs.fileno(), b"x") for _, theirs in ends)
            taking.stop()
            for mine, _ in ends:
                assert await heard(mine) == b"taken"
        channel.close()

    run(scenario())


def test_a_connection_that_arrives_without_all_of_its_data_is_closed(run, path):
    async def scenario():
        taking, server = Taking(path), Server()
        taking.start(server)
        with Lines() as lines, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.connect(str(path))
            mine, theirs = lines.one()
            ours, rest = lines.one()
            told = (100).to_bytes(LENGTH_BYTES, "big")
            socket.send_fds(channel, [told], [theirs.fileno(), rest.fileno()])
            theirs.close()
            rest.close()
            ours.sendall(b"half of it")
            ours.close()  # as if the process were killed
            assert await heard(mine) == b""
            assert server.came == []
        taking.stop()

    run(scenario())


def test_a_request_is_handed_over_once_at_most(path):
    """If each of two processes believes that the other process is the owner, they must not hand a request over for
    ever.
    """
    channel = Channel(2, path)

    async def asked():
        server = make_server(None, Streams(1), Settings(), Lent, leads=staticmethod(lambda _: channel))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        protocol = server.protocol()
        protocol.taken = True
        mine, theirs = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, theirs)
        reader, writer = await asyncio.open_connection(sock=mine)
        writer.write(b"GET /models/m HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        writer.close()
        protocol.taken = True
        with pytest.raises(Unavailable):
            await protocol.hand_on(channel)
        return answer

    answer = asyncio.run(asked())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"process 2 may not be; ask again" in answer
