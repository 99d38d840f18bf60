"""A server answers a stream of frames like the messages that wsproto finds in it, however the server runs."""

import itertools
import json
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.holding import held
from tests.protocols import frames
from tests.protocols.frames import FAULTS, FINE, OTHERWISE, as_wsproto_reads, asked, bytewise, frame
from tests.protocols.ways import NAMES, WAYS, running

HANDSHAKE = (
    b"GET /models/%b/stream HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"sec-websocket-extensions: permessage-deflate\r\n\r\n"
) % NAMES[1].encode()
END = frame(asked(b"end"))


@pytest.fixture(scope="module", params=WAYS)
def way(request, tmp_path_factory):
    with running(request.param, tmp_path_factory.mktemp("frames")) as way:
        yield way


class Ended(Exception):
    pass


def heard(way, *pieces):
    """Open a WebSocket and send the pieces. Return the number of answers, the pongs, and the code of the close frame.
    The code is None if the answer to END came.
    """
    with way.connected() as line:
        line.sendall(HANDSHAKE)
        got = b""

        def take(size):
            nonlocal got
            while len(got) < size:
                part = line.recv(2**16)
                if not part:
                    raise Ended
                got += part
            taken, got = got[:size], got[size:]
            return taken

        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += take(1)
        assert head.startswith(b"HTTP/1.1 101"), head
        assert b"extensions" not in head.lower()
        with suppress(OSError):
            for piece in pieces:
                line.sendall(piece)
        answers, pongs = 0, []
        while True:
            opcode, data = frames.hear(take)
            if opcode == frames.CLOSE:
                with pytest.raises((Ended, ConnectionError)):
                    take(1)
                return answers, pongs, int.from_bytes(data[:2], "big") if data else frames.UNSAID
            if opcode == frames.PONG:
                pongs.append(data)
            if opcode == frames.TEXT:
                answers += 1
                if json.loads(data)["ref"] == "end":
                    return answers, pongs, None


def check(way, stream, *pieces):
    """Send a stream in pieces, and compare what comes back with what wsproto finds in the stream. A socket that closes
    need not answer the frames that came with the fault.
    """
    messages, pings, code = as_wsproto_reads(stream)
    answers, pongs, closed = heard(way, *pieces)
    if code is None:
        assert (answers, pongs) == (messages, pings)
    assert answers <= messages
    return code, closed


def between(stream):
    """Return a stream after a question and before another question."""
    return frame(asked(b"before")) + stream + END


@pytest.mark.parametrize("part", FINE)
def test_frames_are_answered_and_the_socket_stays_open(way, part):
    for stream in map(between, FINE[part]):
        assert check(way, stream, stream) == (None, None)


@pytest.mark.parametrize("part", FAULTS)
def test_a_fault_closes_the_socket_with_its_code(way, part):
    code, streams = FAULTS[part]
    for stream in map(between, streams):
        assert check(way, stream, stream) == (code, code), stream


def test_many_small_frames_hold_nobody_up(way):
    streams = [*map(between, FINE["many small"])]
    assert held(way, lambda: [heard(way, stream) for stream in streams])[1] is None


def test_the_servers_library_differs_only_where_it_does_no_harm(way):
    for stream, code in OTHERWISE.items():
        assert as_wsproto_reads(between(stream))[2] != code
        assert heard(way, between(stream))[2] == code


@pytest.mark.long
def test_frames_may_come_byte_by_byte(way):
    for part in ("2 pings", "5 fragments", "6 valid"):
        for stream in (between(stream) for stream in FINE[part] if len(stream) < 2_000):
            assert check(way, stream, *bytewise(stream)) == (None, None)


texts = st.sampled_from(
    [b"", asked(b"r"), asked(b"r", 130), b"[", b"\xff", frames.KOSME[:1], frames.KOSME[1:], b"x" * 126]
)
any_frames = st.builds(
    frame,
    texts | st.binary(max_size=5) | st.sampled_from([1000, 1005, 3000, 5000]).map(struct.Struct("!H").pack),
    st.sampled_from([frames.TEXT, frames.BYTES, frames.CONTINUED, frames.PING, frames.PONG, frames.CLOSE, 3]),
    fin=st.booleans(),
    reserved=st.sampled_from([0] * 12 + [1, 4]),
    masked=st.sampled_from([True] * 12 + [False]),
)


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(any_frames | st.just(frame(asked(b"r"))), max_size=8), at=st.lists(st.floats(0, 1), max_size=3))
def test_any_frames_are_taken_as_wsproto_takes_them(way, sent, at):
    stream = between(b"".join(sent))
    edges = [0, *sorted(round(where * len(stream)) for where in at), len(stream)]
    code, closed = check(way, stream, *(stream[start:end] for start, end in itertools.pairwise(edges)))
    # The server looks at a text once it is complete, a frame may have two faults, and a message must be complete before
    # the socket closes (OTHERWISE). A close frame that came with an invalid text is answered with its own code.
    assert closed == code or (code is not None and closed in (1000, 1002, frames.UNSAID, 1007, 3000))
