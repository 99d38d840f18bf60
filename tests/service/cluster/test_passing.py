"""Forwarded requests and their lines, without a server: slow clients and owners, answers that break off, and errors."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from hinged.service import limits
from hinged.service.cluster.gate import Gate
from hinged.service.cluster.lines import LineBroken, Lines
from hinged.service.cluster.passing import HELD_BYTES_MAX, Passed, Passing
from hinged.service.edge.streams import Streams
from hinged.service.errors import RequestTimeout, Unavailable
from tests.helpers.server import PATIENCE_S, free_port
from tests.helpers.worker import until


class Unforeseen:
    """A `Members` that raises an unforeseen error."""

    async def where(self, _):
        raise RuntimeError("what nobody foresaw")


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_an_unforeseen_error_of_the_gate_has_the_one_shape(kind, caplog):
    said = []

    async def send(message):
        said.append(message)

    scope = {"type": kind, "path": "/models/m/stream", "headers": [], "extensions": {"websocket.http.response": {}}}
    asyncio.run(Gate(None, Unforeseen(), None, None)(scope, None, send))
    assert said[0]["status"] == 500
    assert json.loads(said[1]["body"])["error"]["code"] == "internal_error"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["unforeseen error"]


class Answering(asyncio.Protocol):
    """A server that gives the same answer to every request, and may then close the connection.

    made: gets this object. ended: is done once the connection is closed.
    """

    def __init__(self, answer, made, *, hangs_up=False):
        self._answer, self.ended = answer, asyncio.get_running_loop().create_future()
        self._hangs_up = hangs_up
        made.append(self)

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, _):
        self.transport.write(self._answer)
        if self._hangs_up:
            self.transport.close()

    def connection_lost(self, exc):
        self.ended.set_result(exc)


async def once(lines, address):
    """Send a single request over a line; return the status of the answer, or the reason why there is no answer."""
    line = await lines.take(address)
    line.writer.write(b"asked")
    try:
        messages = [message async for message in line.answer(bodyless=False)]
    except LineBroken as error:
        line.abort()
        return str(error)
    if line.last:
        line.abort()
    else:
        lines.keep(line)
    assert [message.get("more_body") for message in messages][-1] is False
    return messages[0]["status"]


class Passes:
    """Forwards a request to a server that gives each request the same answer. Records the messages to the client."""

    def __init__(self, answer, *, hangs_up=False, body=b""):
        self._body = body
        self.said, self.owner = [], []
        self.client_left, self.reads = asyncio.Event(), asyncio.Event()
        self._answer, self._hangs_up = answer, hangs_up

    async def run(self, meanwhile):
        """Run until the request or `meanwhile` ends; return the result of `meanwhile`."""
        port = free_port()
        made = lambda: Answering(self._answer, self.owner, hangs_up=self._hangs_up)  # noqa: E731
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", port)
        passing = self.passing = Passing(SimpleNamespace(lives=lambda _: True, address="http://here"), Streams(10), 1.0)
        headers = [(b"content-length", str(len(self._body)).encode())]
        scope = {"method": "GET", "path": "/", "query_string": b"", "headers": headers}
        self.request = Passed(passing, scope, self._receive, self._send, f"http://127.0.0.1:{port}")
        passed = asyncio.create_task(self.request.run())
        async with asyncio.timeout(PATIENCE_S):
            found = await meanwhile(passed)
        passed.cancel()
        await asyncio.wait([passed])
        passing.lines.close()
        server.close()
        return found

    async def _receive(self):
        if self._body:
            piece, self._body = self._body[:HELD_BYTES_MAX], self._body[HELD_BYTES_MAX:]
            return {"type": "http.request", "body": piece, "more_body": bool(self._body)}
        await self.client_left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.said.append(message)
        await self.reads.wait()


LONG = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n"


def test_an_answer_for_a_slow_client_waits_at_the_owner():
    passes = Passes(LONG + bytes(100_000_000))

    async def is_read_no_further(_):
        await until(lambda: passes.said)
        await asyncio.sleep(0.3)
        waits = passes.owner[0].transport.get_write_buffer_size()
        passes.reads.set()
        await until(lambda: len(passes.said) >= 20)
        return waits

    assert asyncio.run(passes.run(is_read_no_further)) > 50_000_000
    assert sum(len(message.get("body", b"")) for message in passes.said) > HELD_BYTES_MAX


def test_the_owner_notices_that_a_client_has_left():
    passes = Passes(b"")

    async def leaves(passed):
        await until(lambda: passes.owner)
        passes.client_left.set()
        passes.reads.set()
        await passed
        await passes.owner[0].ended

    asyncio.run(passes.run(leaves))


def test_an_answer_that_breaks_off_does_not_look_complete():
    passes = Passes(LONG + b"a part", hangs_up=True)
    passes.reads.set()
    asyncio.run(passes.run(_ended))
    assert [message["type"] for message in passes.said] == ["http.response.start", "http.response.body"]
    assert passes.said[-1]["more_body"]


def test_a_client_that_is_slow_to_send_a_small_body_is_refused():
    came = iter([b"{", b"}"])

    async def receive():
        await asyncio.sleep(0.04)
        return {"type": "http.request", "body": next(came, b""), "more_body": True}

    async def hold():
        passing = Passing(SimpleNamespace(lives=None, address="http://here"), Streams(10), 0.1)
        scope = {"method": "POST", "path": "/", "headers": [(b"content-length", b"2000")]}
        await Passed(passing, scope, receive, None, "http://there").hold()

    with pytest.raises(RequestTimeout, match=r"[0-2] bytes of the body came in 0\.1"):
        asyncio.run(hold())


async def test_a_living_server_that_reads_nothing_is_waited_for_no_longer_than_a_stream(monkeypatch):
    monkeypatch.setattr(limits, "STREAM_IDLE_S", 0.3)
    passes = Passes(b"", body=bytes(50_000_000))

    async def reads_nothing(passed):
        await until(lambda: passes.owner)
        passes.owner[0].transport.pause_reading()
        with pytest.raises(Unavailable, match=r"it has read nothing for .* its outcome is unknown"):
            await passed
        passes.owner[0].transport.abort()

    await passes.run(reads_nothing)


async def _ended(passed):
    await passed


async def _lines_of(requests, answer):
    """Return the number of connections that `requests` use one after the other, and their outcomes."""
    made, port = [], free_port()
    server = await asyncio.get_running_loop().create_server(lambda: Answering(answer, made), "127.0.0.1", port)
    lines = Lines()
    found = [await once(lines, f"http://127.0.0.1:{port}") for _ in range(requests)]
    lines.close()
    await asyncio.gather(*(each.ended for each in made))
    server.close()
    await server.wait_closed()
    return len(made), found


async def test_a_line_that_gets_an_answer_without_a_request_is_used_no_more():
    answer, made, port = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", [], free_port()
    server = await asyncio.get_running_loop().create_server(lambda: Answering(answer, made), "127.0.0.1", port)
    lines, address = Lines(), f"http://127.0.0.1:{port}"
    assert await once(lines, address) == 200
    made[0].transport.write(answer.replace(b"hi", b"no"))
    await made[0].ended
    assert await once(lines, address) == 200
    assert len(made) == 2
    lines.close()
    server.close()


async def test_a_request_to_a_server_that_dies_is_given_up():
    passes = Passes(b"")

    async def dies(passed):
        await until(lambda: passes.passing._under_way)
        passes.passing._lives = lambda _: False
        passes.passing.look()
        with pytest.raises(Unavailable, match="it is gone; its outcome is unknown"):
            await passed

    await passes.run(dies)


@pytest.mark.parametrize(
    ("answer", "connections", "found"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", 1, 200),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 1, 200),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 1, 204),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi", 3, 200),
    ],
)
def test_a_line_is_kept_for_the_next_request_unless_the_other_server_ends_it(answer, connections, found):
    assert asyncio.run(_lines_of(3, answer)) == (connections, [found] * 3)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\nhi",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n",
        b"SSH-2.0\r\n",
    ],
)
def test_a_line_breaks_at_an_answer_that_it_cannot_parse(answer):
    connections, found = asyncio.run(_lines_of(2, answer))
    assert connections == 2
    assert all("not understood" in reason for reason in found)
