"""Received data that is handled in several turns of the event loop."""

import asyncio
import socket
import time

import uvloop

from hinged.service.edge.transports import PIECE_BYTES, CoalescingTransport

PIECES = 40


class Slow(asyncio.Protocol):
    """Takes 3 ms for each piece, and answers it. last: the number of the piece after which `then` is called."""

    def __init__(self, last, then):
        self.last, self.then, self.handled = last, then, 0

    def connection_made(self, transport):
        self.transport = CoalescingTransport(transport, asyncio.get_running_loop(), 60.0)

    def data_received(self, data):
        self.transport.receive(data, self.handle)

    def handle(self, _):
        time.sleep(0.003)
        self.handled += 1
        self.transport.write(b"%d\n" % self.handled)
        if self.handled == self.last:
            self.then(self.transport)


def answers_of(last, then):
    """Send many pieces at once. Return the lines that came, and whether the connection ended without a reset."""

    def ask(port):
        with socket.create_connection(("127.0.0.1", port), 60) as line:
            line.sendall(bytes(PIECES * PIECE_BYTES))
            line.shutdown(socket.SHUT_WR)
            found = b""
            try:
                while part := line.recv(2**16):
                    found += part
            except ConnectionError:
                return found.split(), False
            return found.split(), True

    async def main():
        server = await asyncio.get_running_loop().create_server(lambda: Slow(last, then), "127.0.0.1", 0)
        async with server:
            return await asyncio.to_thread(ask, server.sockets[0].getsockname()[1])

    return uvloop.run(main())


def test_a_connection_that_closes_between_two_turns_loses_no_answer():
    def close_soon(transport):
        asyncio.get_running_loop().call_soon(transport.close)

    lines, ended = answers_of(4, close_soon)
    assert ended
    assert lines[:4] == [b"1", b"2", b"3", b"4"]
    assert len(lines) < PIECES


def test_an_error_in_a_later_turn_ends_the_connection():
    def fail(_):
        raise RuntimeError("planted")

    lines, ended = answers_of(13, fail)
    assert len(lines) < PIECES
    assert not ended
