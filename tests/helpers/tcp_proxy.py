"""A TCP proxy that delays, holds, swallows and cuts what passes between a client and its server."""

import socket
import threading
import time
from contextlib import suppress


class Link:
    """One connection through the proxy."""

    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", proxy.target))
        self.open = threading.Event()
        self.open.set()
        self.swallows = False
        self.leaves = False
        self.loses = False
        self._ended = threading.Semaphore(1)
        ways = ((self.client, self.server), (self.server, self.client))
        self.pumps = [threading.Thread(target=self._pump, args=way, daemon=True) for way in ways]
        for pump in self.pumps:
            pump.start()

    def _pump(self, source, sink):
        with suppress(OSError):
            while data := source.recv(2**16):
                time.sleep(self.proxy.delay_s)
                if source is self.client:
                    if self.leaves and not self.open.is_set():
                        self.client.shutdown(socket.SHUT_RDWR)
                    self.open.wait()
                elif self.loses:
                    break
                elif self.swallows:
                    continue
                sink.sendall(data)
        # What was held is delivered although its sender is gone, and the server gets to answer it.
        for end, how in ((self.client, socket.SHUT_RDWR), (self.server, socket.SHUT_WR)):
            with suppress(OSError):
                end.shutdown(how)
        if not self._ended.acquire(blocking=False):  # the second of the two
            source.close()
            sink.close()

    def cut(self):
        self.open.set()
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on `port` and passes on to `target`, both on this machine."""

    def __init__(self, target):
        self.target = target
        self.delay_s = 0.0
        self.links = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    self.links.append(Link(self, client))
                except OSError:  # the server is down
                    client.close()

    def hold(self):
        """Keep back what clients send on the connections that there are."""
        for link in self.links:
            link.open.clear()

    def keep(self):
        """Keep back what clients send next on the connections that there are, and hang up on them when it has come."""
        for link in self.links:
            link.leaves = True
        self.hold()

    def deliver(self):
        """Pass on what was kept back. When this returns, the server has dealt with all whose sender was gone."""
        for link in self.links:
            link.open.set()
        for link in self.links:
            for pump in link.pumps if link.leaves else ():
                pump.join()

    def swallow(self):
        """Drop what the server answers on the connections that there are."""
        for link in self.links:
            link.swallows = True

    def lose(self):
        """Drop what the server answers next on the connections that there are, and hang up on both."""
        for link in self.links:
            link.loses = True

    def cut(self):
        """Cut the connections that there are."""
        links, self.links = self.links, []
        for link in links:
            link.cut()

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
