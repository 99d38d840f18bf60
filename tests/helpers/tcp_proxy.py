"""A TCP proxy that can delay, hold, drop and cut the traffic between a client and its server."""

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
        # Even if the client has disconnected, the server receives the held data and can answer it.
        for end, how in ((self.client, socket.SHUT_RDWR), (self.server, socket.SHUT_WR)):
            with suppress(OSError):
                end.shutdown(how)
        if not self._ended.acquire(blocking=False):  # the other direction has already ended
            source.close()
            sink.close()

    def cut(self):
        self.open.set()
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Listens on `port` and forwards to the port `target`, both on this machine."""

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
        """Hold the data that clients send on the open connections."""
        for link in self.links:
            link.open.clear()

    def keep(self):
        """Hold the data that clients send next on the open connections, and disconnect each client once it has sent
        data.
        """
        for link in self.links:
            link.leaves = True
        self.hold()

    def deliver(self):
        """Deliver the held data. On return, the server has handled all data whose sender had disconnected."""
        for link in self.links:
            link.open.set()
        for link in self.links:
            for pump in link.pumps if link.leaves else ():
                pump.join()

    def swallow(self):
        """Drop the server's answers on the open connections."""
        for link in self.links:
            link.swallows = True

    def lose(self):
        """Drop the server's next answer on each open connection, and close both sides."""
        for link in self.links:
            link.loses = True

    def cut(self):
        """Cut the open connections."""
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
