"""A port on which several processes accept connections."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from uvicorn import Config

from hinged.service.edge.accepting import Accepting, listen
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S


class Hearing(asyncio.Protocol):
    def __init__(self):
        self.made, self.heard = False, asyncio.Event()

    def connection_made(self, transport):
        self.made, self.transport = True, transport

    def data_received(self, _):
        self.heard.set()


@pytest.mark.parametrize("turns", range(12))
def test_a_half_made_connection_is_served_although_no_more_are_accepted(turns):
    async def main():
        protocols = []

        def protocol():
            protocols.append(Hearing())
            return protocols[-1]

        accepting = Accepting(listen(Settings(port=0)))
        with socket.create_connection(accepting.listening.getsockname()) as client:
            client.sendall(b"x")
            accepting.start(SimpleNamespace(protocol=protocol))
            for _ in range(turns):
                await asyncio.sleep(0)
            accepting.stop()
            await asyncio.sleep(0.01)
            for made in protocols:
                assert made.made
                await asyncio.wait_for(made.heard.wait(), PATIENCE_S)
                made.transport.abort()
        return len(protocols)

    with asyncio.Runner(loop_factory=Config(app="").get_loop_factory()) as runner:
        runner.run(main())
