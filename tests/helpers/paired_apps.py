"""Two applications in this process that are alike, but for the shortcut: what one is sent the other is, too."""

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
    """What is logged, without how long it took."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(MS.sub("", record.getMessage()))


class Way:
    """An application that is asked over connections of its own. taken: requests that took the shortcut."""

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
        while not self.app.state.registry.ready:  # noqa: ASYNC110  as any client does
            await asyncio.sleep(0.02)

    async def stop(self):
        await self.server.lifespan.shutdown()

    async def connect(self):
        """A new connection: the client's end, and what the server has of it."""
        mine, theirs = socket.socketpair()
        for end in (mine, theirs):
            end.setblocking(False)
        _, made = await asyncio.get_running_loop().connect_accepted_socket(self.server.protocol, theirs)
        return Client(mine), made

    async def send(self, parts):
        """All that is answered to some parts of a stream, and what is logged. A part: bytes, and whether the answer to
        what was sent is waited for.
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
        """The one model "m", that has learned nothing, and no default model."""
        for method, path, body in (
            ("DELETE", "/models/default", b""), ("DELETE", "/models/m", b""),
            ("PUT", "/models/m", json.dumps(BASE).encode()),
        ):  # fmt: skip
            await self.send([(request(method, path, body, key=key), True)])

    def counted(self):
        """How many requests were answered, by method, route and status."""
        text, _ = self.app.state.exposition.text()
        kept = ("hinged_requests_total", "hinged_request_duration_seconds_count")
        return sorted(line for line in text.decode().splitlines() if line.startswith(kept))


class Both:
    """The two of them, and keys that both know, by role."""

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
        """What each of them answers and logs."""
        return tuple(self.run(way.send(parts)) for way in (self.short, self.usual))


class Client:
    """The client's end of a connection. answers: all that has come; ended: whether the server has closed it."""

    def __init__(self, line):
        self.answers, self.ended = b"", False
        self._line, self._looked_at = line, 0
        self._loop = asyncio.get_running_loop()

    async def send(self, data):
        with suppress(ConnectionError):  # the server has closed it
            await self._loop.sock_sendall(self._line, data)
        await asyncio.sleep(0)

    async def wait(self):
        """Until one more answer has come, if one will."""
        while not self.ended and not self._next():
            await self._read()

    async def rest(self):
        """All answers, once the server has closed."""
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
    """The bytes of a request; headers come before those that are usual, of which None leaves one out."""
    given = {name.lower() for name, _ in headers}
    usual = {"host": "localhost", "content-type": "application/json", "authorization": key and f"Bearer {key}"}
    lines = [f"{method} {path} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in headers if value is not None]
    lines += [f"{name}: {value}" for name, value in usual.items() if name not in given and value is not None]
    lines.append("transfer-encoding: chunked" if chunked else f"content-length: {len(body)}")
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked and body else b"0\r\n\r\n" if chunked else body
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + framed
