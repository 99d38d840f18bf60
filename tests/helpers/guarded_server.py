"""A server with keys, and raw connections over which a test may send any bytes."""

import contextlib
import itertools
import json
import socket

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hinged.service.edge.keys import create_key
from tests.helpers.http_client import BASE, Asking, bearer
from tests.helpers.server import PATIENCE_S, RunningServer

HEAD_BYTES_MAX = 2**16
BODY_BYTES_MAX = 200_000
FRAME_BYTES_MAX = 1000
LINES = {"host": "localhost", "accept": "*/*"}

often = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Guarded:
    """A server with keys, and the headers that let a request in."""

    def __init__(self, running, keys):
        self.running = running
        self.port = running.port
        self.keys = keys

    def bearer(self, name="admin"):
        return bearer(self.keys[name])


@contextlib.contextmanager
def guarded_server(folder):
    """Run a guarded server. At the end it must be ready, and its log must contain no error and no traceback."""
    path = folder / "keys.json"
    keys = {"admin": create_key(path, "me", "admin"), "other": create_key(path, "other", "admin", ["other-*"])}
    settings = {"keys_file": path, "body_bytes_max": BODY_BYTES_MAX, "streams_max": 20}
    with RunningServer(folder / "data", limits={"frame_bytes_max": FRAME_BYTES_MAX}, **settings) as running:
        guarded = Guarded(running, keys)
        with Asking(running.url) as ask:
            assert ask("PUT", "/models/m", json=BASE, headers=guarded.bearer()).status_code == 201
        yield guarded
        with Asking(running.url) as ask:
            assert ask("GET", "/readyz").status_code == 200
        log = running.log.read_text()
        assert "Traceback" not in log
        assert " ERROR " not in log


def head(method, path, headers):
    """Return the bytes of a request's first line and headers."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    lines = [f"{method} {path} HTTP/1.1".encode(), *(_bytes(name) + b": " + _bytes(value) for name, value in pairs)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode()


class Line:
    """A connection to the server. A test reads one answer at a time from it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data, splits=()):
        """Send data in pieces. Stop if the server closes the connection."""
        edges = [0, *sorted({round(split * len(data)) for split in splits}), len(data)]
        with contextlib.suppress(ConnectionError):
            for start, end in itertools.pairwise(edges):
                self.socket.sendall(data[start:end])

    def _more(self):
        part = self.socket.recv(65536)
        self.got += part
        return bool(part)

    def take(self, size):
        while len(self.got) < size:
            assert self._more(), self.got
        taken, self.got = self.got[:size], self.got[size:]
        return taken

    def answer(self):
        """Return the status, the headers and the body of the next answer."""
        while b"\r\n\r\n" not in self.got:
            assert self._more(), self.got
        told, _, self.got = self.got.partition(b"\r\n\r\n")
        first, *lines = told.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = b"" if first.split()[1] == "101" else self.take(int(headers["content-length"]))
        return int(first.split()[1]), headers, body

    def refused(self, status, code):
        """Check that the next answer is an error with this status and code; return its message."""
        got, headers, body = self.answer()
        assert got == status, body
        return message_of(headers, body, code)

    def ended(self):
        """Return whether the server has closed the connection and all data has been read."""
        return not self.got and not self._more()


def message_of(headers, body, code):
    assert headers["content-type"] == "application/json"
    found = json.loads(body)
    assert list(found) == ["error"]
    assert list(found["error"]) in (["code", "message"], ["code", "message", "details"])
    assert found["error"]["code"] == code, found
    assert "\n" not in found["error"]["message"]
    return found["error"]["message"]


splits = st.lists(st.floats(0, 1), max_size=6)
