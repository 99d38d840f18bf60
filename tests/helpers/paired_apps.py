"""Two equal applications in this process, one with the shortcut and one without it. Both get the same requests."""

import asyncio
import json
import logging
import re
import socket
from contextlib import suppress

from hinged.service.app import create_app
from hinged.service.edge.keys import create_key
from hinged.service.edge.serving import make_server
from hinged.service.settings import Settings
from tests.helpers.http_client import BASE
from tests.helpers.limits import limited
from tests.helpers.server import PATIENCE_S

BODY_BYTES_MAX = 2_500
ORIGIN = "http://page.example"
LAST = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
MS = re.compile(r" ms=\S+")


class Told(logging.Handler):
    """Collects log lines without their durations."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(MS.sub("", record.getMessage()))


class Way:
    """An application and its connections. taken: number of requests that took the shortcut."""

    def __init__(self, folder, keys, *, short):
        settings = Settings(
            data_dir=folder, keys_file=keys, body_bytes_max=BODY_BYTES_MAX, log_requests=True, allowed_origins=(ORIGIN,)
        )  # fmt: skip
        self.app = create_app(settings)
        self.server = make_server(
            self.app, self.app.state.streams, settings, shortcut=self.app.shortcut if short else None
        )
        self.server.server_state.default_headers = [(b"server", b"one")]
        self.taken = 0
        begin = self.app.shortcut.begin

        def noting(*arguments):
            asked = begin(*arguments)
            self.taken += asked is not None
            return asked

        self.app.shortcut.begin = noting

    async def start(self):
        self.server.config.load()
        self.server.lifespan = self.server.config.lifespan_class(self.server.config)
        await self.server.lifespan.startup()
        while not self.app.state.registry.ready:  # noqa: ASYNC110  clients poll /readyz, too
            await asyncio.sleep(0.02)

    async def stop(self):
        await self.server.lifespan.shutdown()

    async def connect(self):
        """Open a connection; return the client's end and the server's protocol object."""
        mine, theirs = socket.socketpair()
        for end in (mine, theirs):
            end.setblocking(False)
        _, made = await asyncio.get_running_loop().connect_accepted_socket(self.server.protocol, theirs)
        return Client(mine), made

    async def send(self, parts):
        """Send parts of a stream; return all answers and log lines.

        parts: pairs of bytes and whether to wait for the answer before the next part.
        """
        told, logger = Told(), logging.getLogger("hinged.service.edge")
        logger.addHandler(told)
        logger.setLevel(logging.INFO)
        client, _ = await self.connect()
        try:
            for data, waits in parts:
                await client.send(data)
                if waits:
                    await client.wait()
            await client.send(LAST)
            return await client.rest(), told.lines
        finally:
            client.close()
            logger.removeHandler(told)

    async def begin_anew(self, key):
        """Delete the default model, and create the model "m" again, so that it has learned nothing."""
        for method, path, body in (
            ("DELETE", "/models/default", b""), ("DELETE", "/models/m", b""),
            ("PUT", "/models/m", json.dumps(BASE).encode()),
        ):  # fmt: skip
            await self.send([(request(method, path, body, key=key), True)])

    def counted(self):
        """Return the metrics that count requests, by method, route and status."""
        text, _ = self.app.state.exposition.text()
        kept = ("hinged_requests_total", "hinged_request_duration_seconds_count")
        return sorted(line for line in text.decode().splitlines() if line.startswith(kept))


class Both:
    """Both applications, and keys by role that both accept."""

    def __init__(self, folder):
        self._runner = asyncio.Runner()
        keys = folder / "keys.json"
        self.keys = {role: create_key(keys, role, role) for role in ("reader", "annotator", "writer", "admin")}
        self.keys["other"] = create_key(keys, "other", "admin", ("n*",))
        self.short, self.usual = (Way(folder / way, keys, short=way == "short") for way in ("short", "usual"))

    def __enter__(self):
        self._limits = limited(pending_flush_s=3600)
        self._limits.__enter__()
        for way in (self.short, self.usual):
            self.run(way.start())
        return self

    def __exit__(self, *_):
        for way in (self.short, self.usual):
            self.run(way.stop())
        self._runner.close()
        self._limits.__exit__(None, None, None)

    def run(self, coroutine):
        return self._runner.run(coroutine)

    def begin_anew(self):
        for way in (self.short, self.usual):
            self.run(way.begin_anew(self.keys["admin"]))

    def send(self, parts):
        """Send parts to both applications; return the answers and log lines of each."""
        return tuple(self.run(way.send(parts)) for way in (self.short, self.usual))


class Client:
    """The client's end of a connection. answers: all received bytes; ended: whether the server has closed the
    connection.
    """

    def __init__(self, line):
        self.answers, self.ended = b"", False
        self._line, self._looked_at = line, 0
        self._loop = asyncio.get_running_loop()

    async def send(self, data):
        with suppress(ConnectionError):  # the server has closed the connection
            await self._loop.sock_sendall(self._line, data)
        await asyncio.sleep(0)

    async def wait(self):
        """Wait until another answer has arrived, or the server has closed the connection."""
        while not self.ended and not self._next():
            await self._read()

    async def rest(self):
        """Wait until the server closes the connection; return all answers."""
        while not self.ended:
            await self._read()
        return self.answers

    def close(self):
        self._line.close()

    def _next(self):
        head, found, rest = self.answers[self._looked_at :].partition(b"\r\n\r\n")
        if not found:
            return False
        length = re.search(rb"content-length: (\d+)", head)
        size = int(length[1]) if length else 0
        if len(rest) < size:
            return False
        self._looked_at += len(head) + len(found) + size
        return not head.startswith(b"HTTP/1.1 100") or self._next()

    async def _read(self):
        try:
            async with asyncio.timeout(PATIENCE_S):
                data = await self._loop.sock_recv(self._line, 2**16)
        except ConnectionError:
            data = b""
        self.answers += data
        self.ended = not data


def request(method, path, body=b"", *, key=None, headers=(), version="1.1", chunked=False):
    """Return the bytes of a request.

    headers: pairs that precede the usual headers or replace them. The value None removes a usual header.
    """
    given = {name.lower() for name, _ in headers}
    usual = {"host": "localhost", "content-type": "application/json", "authorization": key and f"Bearer {key}"}
    lines = [f"{method} {path} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in headers if value is not None]
    lines += [f"{name}: {value}" for name, value in usual.items() if name not in given and value is not None]
    lines.append("transfer-encoding: chunked" if chunked else f"content-length: {len(body)}")
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked and body else b"0\r\n\r\n" if chunked else body
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + framed
