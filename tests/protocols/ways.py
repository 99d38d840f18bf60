"""The ways in which a server runs: alone, in two processes, as two nodes that share a Redis, and behind nginx."""

import contextlib
import re
import socket
import ssl
import time

import httpx

from tests.helpers.divided_server import ONE, TWO
from tests.helpers.nginx import behind_nginx
from tests.helpers.nodes import Nodes, make
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer

NAMES = (ONE[0], TWO[0])
"""Two models. Where there are two processes or two nodes, each owns one of the models."""
WAYS = ("alone", "processes", "nodes", "nginx")


class Way:
    """A server that runs in one of the ways, at the port where clients ask."""

    def __init__(self, how, server, port, certificate=None):
        self.how, self.server, self.port = how, server, port
        self.proxied = how == "nginx"
        self.exchanges, self.longest_s = 0, 0.0
        """Number of connections and requests so far, and the seconds of the longest."""
        self._context = certificate and ssl.create_default_context(cafile=certificate)
        self.url = f"http{'s' if certificate else ''}://localhost:{port}"
        self._http = httpx.Client(base_url=self.url, verify=self._context or PLAIN, timeout=PATIENCE_S)

    def __call__(self, method, path, **request):
        """Send a request that is well formed, and return the response."""
        with self._timed():
            return self._http.request(method, path, **request)

    @contextlib.contextmanager
    def _timed(self):
        start = time.monotonic()
        yield
        self.exchanges += 1
        self.longest_s = max(self.longest_s, time.monotonic() - start)

    @contextlib.contextmanager
    def connected(self):
        """Open a connection over which a test may send any bytes."""
        with self._timed(), socket.create_connection(("localhost", self.port), timeout=PATIENCE_S) as line:
            if self._context is None:
                yield line
            else:
                with self._context.wrap_socket(line, server_hostname="localhost") as secured:
                    yield secured

    def answers(self, *pieces, most=1_000):
        """Send a stream; return the status and body of each answer. most: number of answers after which the client
        disconnects.
        """
        with self.connected() as line:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    line.sendall(piece)
            found, got = [], b""
            while True:
                while (answer := _first_of(got)) is None:
                    try:
                        if len(found) == most:
                            line.shutdown(socket.SHUT_WR)
                        part = line.recv(2**16)
                    except OSError:
                        part = b""
                    if not part:
                        return found
                    got += part
                status, body, got = answer
                if status >= 200:
                    found.append((status, body))

    def close(self):
        self._http.close()


def _first_of(got):
    """Return the status and body of the first answer and the bytes after it; None if the answer is incomplete."""
    head, found, rest = got.partition(b"\r\n\r\n")
    if not found:
        return None
    status, length = int(head.split()[1]), re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    size = int(length[1]) if length else 0
    return None if len(rest) < size else (status, rest[:size], rest[size:])


@contextlib.contextmanager
def running(how, folder, **settings):
    """Run a server in one of the ways. At the end it must be ready, and no answer may have been 500."""
    with contextlib.ExitStack() as stack:
        if how == "nodes":
            nodes = stack.enter_context(Nodes(folder, 2, **settings))
            servers = nodes.servers
        else:
            settings |= {"processes": 2} if how == "processes" else {}
            servers = [stack.enter_context(RunningServer(folder / "data", **settings))]
        way = Way(how, servers[0], servers[0].port)
        if how == "nginx":
            url = stack.enter_context(behind_nginx(folder, servers[0].port))
            way = Way(how, servers[0], int(url.rpartition(":")[2]), folder / "tls.pem")
        stack.callback(way.close)
        for name, server in zip(NAMES, (servers[0], servers[-1]), strict=True):
            make(server, name)
        yield way
        for server in servers:
            assert httpx.get(f"{server.url}/readyz", verify=PLAIN, timeout=PATIENCE_S).status_code == 200
            log = server.log.read_text()
            assert "Traceback" not in log
            assert " ERROR " not in log
            counted = httpx.get(f"{server.url}/metrics", verify=PLAIN, timeout=PATIENCE_S).text
            assert not re.findall(r'hinged_requests_total{.*status="500".*', counted)
