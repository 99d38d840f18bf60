"""Short forms for the WebSockets and event streams of a running server."""

import contextlib
import itertools
import json

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.helpers.server import PATIENCE_S, PLAIN


class Socket:
    """One WebSocket: `say` sends a frame, `hear` returns the next frame, `ask` sends a frame and returns its answer."""

    def __init__(self, connection):
        self.connection = connection
        self._refs = itertools.count(1)

    def say(self, op, **body):
        ref = str(next(self._refs))
        self.connection.send(json.dumps({"op": op, "ref": ref, **body}))
        return ref

    def raw(self, data):
        self.connection.send(data)

    def hear(self, timeout=PATIENCE_S):
        return json.loads(self.connection.recv(timeout=timeout))

    def ask(self, op, **body):
        ref = self.say(op, **body)
        answer = self.hear()
        assert answer["ref"] == ref, answer
        return answer


def hear_all(socket):
    """Read frames until the server closes the socket, then raise; the error's `heard` has the frames."""
    heard = []
    while True:
        try:
            heard.append(socket.hear())
        except ConnectionClosed as error:
            error.heard = heard
            raise


def closed(socket):
    """Wait until the server closes the socket; return its code and reason."""
    with pytest.raises(ConnectionClosed) as caught:
        hear_all(socket)
    return caught.value.rcvd.code, caught.value.rcvd.reason


@contextlib.contextmanager
def opened(url, path, query="", **options):
    """Open a WebSocket to a server."""
    with connect(url.replace("http", "ws", 1) + path + query, proxy=None, max_size=None, **options) as connection:
        yield Socket(connection)


def refused(frame, code):
    """Check that a frame is an error of this code in the standard shape; return the error."""
    assert list(frame) == ["ref", "ok", "error"], frame
    assert frame["ok"] is False
    error = frame["error"]
    assert list(error) in (["code", "message"], ["code", "message", "details"])
    assert error["code"] == code, error
    assert error["message"]
    assert "\n" not in error["message"]
    return error


def granted(frame):
    """Check that a frame's `ok` is true; return the frame without `ref` and `ok`."""
    assert frame["ok"] is True, frame
    return {name: value for name, value in frame.items() if name not in ("ref", "ok")}


class Lines:
    """An event stream: `event()` returns the next event, `block()` the next block, which may be a heartbeat."""

    def __init__(self, response):
        self._lines = response.iter_lines()

    def block(self):
        found = {}
        for line in self._lines:
            if not line:
                return found
            name, _, value = line.partition(": ")
            found[name or "comment"] = value
        return None

    def event(self):
        while (found := self.block()) is not None:
            if "data" in found:
                return found | {"data": json.loads(found["data"])}
        return None


@contextlib.contextmanager
def followed(url, path, timeout=PATIENCE_S, **request):
    """Follow an event stream of a server; AssertionError if the server refuses it."""
    with httpx.Client(timeout=timeout, verify=PLAIN) as http, http.stream("GET", url + path, **request) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Lines(response)
