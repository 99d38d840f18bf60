"""A node of the simulated cluster: the whole server behind its socket, started, killed, suspended and stopped."""

import asyncio
from functools import cache

from hinged.service.app import create_app, stop_fenced
from hinged.service.cluster.node import as_node
from hinged.service.edge.serving import make_server
from hinged.service.errors import StoreUnavailable
from hinged.service.settings import Settings
from hinged.service.store.choice import open_store
from tests.seeds.world import Place

PORT = 8000
TTL_S = 1.0
AGAIN_S = 0.3  # time until a supervisor starts a process again


@cache
def settings_of(address):
    """Return the settings of a node."""
    return as_node(
        Settings(
            store="redis://redis", node=address, node_ttl_s=TTL_S, redis_timeout_s=1.0, snapshot_examples=15,
            shutdown_s=2.0, cache_mb=1, queue_examples_max=1000,
        )
    )  # fmt: skip


class Node:
    """A node, over all its starts. place: the process of its current start, or None."""

    def __init__(self, world, network, name):
        self.world, self.network, self.name = world, network, name
        self.address = f"http://{name}:{PORT}"
        self.place = None
        self.ahead_s = 0.0
        self.starts = 0
        self._server = self._starting = None

    def start(self):
        """Start a process, which retries until the store can be opened."""
        if self.place is None:
            self.place = Place(self.name)
            self.place.ahead_s = self.ahead_s
            self.starts += 1
            self._starting = self.world.loop.create_task(self._serve(self.place), context=self.place.context)

    async def _serve(self, place):
        settings = settings_of(self.address)
        while True:
            try:
                store = await asyncio.to_thread(open_store, settings, stop_fenced)
                break
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_S)
        app = create_app(settings, lambda: store)
        server = make_server(app, app.state.streams, settings, app.state.peers.connection, shortcut=app.shortcut)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.lifespan.startup()
        if server.lifespan.should_exit:
            self.world.loop.call_soon(self.kill_and_start, context=self.world.nowhere.context)
            return
        self._server = server
        self.network.listening[self.address] = place, server.protocol

    def kill(self):
        """End the process at once."""
        place, self.place, self._server = self.place, None, None
        if place is not None:
            if self.network.listening.get(self.address, (None,))[0] is place:
                del self.network.listening[self.address]
            self.network.kill(place)
            self.world.kill(place)

    def kill_and_start(self):
        """Start the process again, as a supervisor does."""
        self.kill()
        self.world.loop.call_later(AGAIN_S, self.start, context=self.world.nowhere.context)

    def stop(self):
        """End the process as SIGTERM does, and start it again."""
        place, server = self.place, self._server
        if place is None:
            return
        if server is None or place.paused:
            self.kill_and_start()
            return
        self._server = None
        del self.network.listening[self.address]

        async def ending():
            await server.lifespan.shutdown()
            self.world.loop.call_soon(self._over, place, context=self.world.nowhere.context)

        self._starting = self.world.loop.create_task(ending(), context=place.context)

    def _over(self, place):
        if self.place is place:
            self.kill_and_start()

    def pause(self):
        """Suspend the process."""
        if self.place is not None:
            self.world.pause(self.place)

    def go_on(self):
        """Let a suspended process go on."""
        if self.place is not None and self.place.paused:
            self.world.go_on(self.place)

    def jump(self, seconds):
        """Set the wall clock."""
        self.ahead_s += seconds
        if self.place is not None:
            self.place.ahead_s = self.ahead_s
