"""Byte streams that HTTP parsers may split into different requests, and the requests that h11 finds in them."""

from functools import lru_cache

import h11
from hypothesis import strategies as st

SMUGGLED = b"DELETE /smuggled HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"


class Taken(tuple):
    """A request as a parser has read it: method, path with query, body."""

    __slots__ = ()

    def __new__(cls, method, target, body):
        return super().__new__(cls, (method, target, body))


def path_of(target):
    """Return the path and query of a request target, without a fragment. In a whole URL, path and query come after the
    host.
    """
    target = target.partition(b"#")[0]
    if b"://" in target and not target.startswith(b"/"):
        rest = target.partition(b"://")[2]
        at = min((rest.find(mark) for mark in b"/?" if mark in rest), default=len(rest))
        target = rest[at:]
    return target if target.startswith(b"/") else b"/" + target


@lru_cache(256)
def as_h11_reads(stream):
    """Return the complete requests of a stream with their headers, and whether h11 accepted the whole stream.

    This function answers each request with 404. It skips empty lines before a request, as servers should (RFC 9112,
    section 2.2) and h11 does not. No stream has several spaces in the first line of a request: h11 refuses such a
    line, but nginx and the server accept it.
    """
    taken, rest, fine = [], stream, True
    while rest is not None:
        found, rest, fine = _first(rest.lstrip(b"\r\n"))
        taken += found
    return taken, fine


def _first(stream):
    """Return (request, rest, fine) for the first request of a stream.

    rest: the bytes after the request, or None if the connection ends. fine: whether h11 understood the request.
    """
    connection, request, body = h11.Connection(h11.SERVER), None, b""
    connection.receive_data(stream)
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return [], None, False
        match event:
            case h11.Request():
                request = event
            case h11.Data():
                body += bytes(event.data)
            case h11.EndOfMessage():
                connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                found = [(Taken(request.method, path_of(request.target), body), request.headers.raw_items())]
                return found, connection.trailing_data[0] if connection.our_state is h11.DONE else None, True
            case _:
                return [], None, True


def message(first, *lines, body=b"", host=b"localhost"):
    """Return the bytes of a request with exactly these lines and this body."""
    return b"\r\n".join((first, b"host: " + host, *lines, b"", b"")) + body


def sized(body, *lines, first=b"POST /models/a/predict HTTP/1.1"):
    return message(first, b"content-length: %d" % len(body), *lines, body=body)


def chunked(body, *lines, first=b"POST /models/a/predict HTTP/1.1", end=b"0\r\n\r\n"):
    pieces = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return message(first, b"transfer-encoding: chunked", *lines, body=pieces + end)


OFFERS = [
    (b"connection: upgrade", b"upgrade: h2c"),
    (b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQCAAAAAAIAAAAA"),
    (b"connection: keep-alive", b"connection: upgrade", b"upgrade: h2c"),
    (b"connection: upgrade", b"connection: keep-alive", b"upgrade: h2c"),
    (b"connection: upgrade", b"upgrade: websocket", b"upgrade: h2c"),
    (b"connection: upgrade", b"upgrade: h2c", b"upgrade: websocket"),
    (b"connection: upgrade", b"upgrade: websocket, h2c"),
    (b"connection: upgrade", b"upgrade: TLS/1.0"),
    (b"connection: upgrade", b"upgrade: "),
    (b"connection: upgrade",),
    (b"upgrade: h2c",),
    (b"connection: close, upgrade", b"upgrade: h2c"),
    (b"connection: upgrade", b"upgrade: websocket"),
    (b"connection: upgrade", b"upgrade: WebSocket"),
    (
        b"connection: Upgrade", b"upgrade: websocket", b"sec-websocket-version: 13",
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
]  # fmt: skip
FRAMINGS = [
    [b"content-length: %d"],
    [b"content-length: +%d"],
    [b"content-length: -%d"],
    [b"content-length: 0%d"],
    [b"content-length: 0x%x"],
    [b"content-length: %d, %d"],
    [b"content-length: %d\r\ncontent-length: %d"],
    [b"content-length: %d\r\ncontent-length: 0"],
    [b"content-length: \r\ncontent-length: %d"],
    [b"content-length:%d"],
    [b"content-length:\t%d \t"],
    [b"content-length : %d"],
    [b" content-length: %d"],
    [b"x: y\r\n content-length: %d"],
    [b"x: y\ncontent-length: %d"],
    [b"x: y\rcontent-length: %d"],
    [b"x: \x00\r\ncontent-length: %d"],
    [b"x\r\ncontent-length: %d"],
    [b"x:\r\ncontent-length: %d"],
    [b"content_length: %d"],
    [b"content-length: %d\x0b"],
    [b"content-length: %d", b"transfer-encoding: chunked"],
    [b"content-length: %d", b"transfer-encoding: identity"],
    [b"content-length: %d", b"transfer-encoding:\x0bchunked"],
    [b"content-length: %d", b"transfer_encoding: chunked"],
    [b"content-length: %d", b"x: y\ntransfer-encoding: chunked"],
    [b"transfer-encoding: chunked"],
    [b"Transfer-Encoding: Chunked"],
    [b"transfer-encoding : chunked"],
    [b"transfer-encoding: chunked, chunked"],
    [b"transfer-encoding: gzip, chunked"],
    [b"transfer-encoding: chunked, identity"],
    [b"transfer-encoding: gzip"],
    [b"transfer-encoding: identity"],
    [b"transfer-encoding: x\r\ntransfer-encoding: chunked"],
    [b"transfer-encoding: chunked\r\ntransfer-encoding: chunked"],
    [b"transfer-encoding: chunked\r\ntransfer-encoding: identity"],
    [b"transfer-encoding: \r\ntransfer-encoding: chunked"],
    [b"transfer-encoding: 'chunked'"],
    [b"transfer-encoding: chunked;q=1"],
    [],
]
TARGETS = [
    b"/models/b/predict", b"/models/b/predict?min_position=1", b"//models/b", b"/models/b#c", b"/%6dodels/b", b"/",
    b"http://localhost", b"http://localhost?a=b", b"http://localhost/models/b", b"HTTP://LOCALHOST/models/b",
    b"https://localhost/models/b", b"ftp://localhost/models/b", b"http://evil.example/models/b",
    b"http://a:b@localhost/models/b", b"http://localhost:80/models/b", b"http:///models/b", b"localhost:80", b"*",
    b"models/b", b"?a", b"http:/models/b", b"http://localhost#c", b"http://[::1]/models/b",
]  # fmt: skip
CHUNKS = [
    b"0\r\n\r\n", b"1\r\na\r\n0\r\n\r\n", b"1;a=b\r\na\r\n0\r\n\r\n", b"01\r\na\r\n0\r\n\r\n", b"1 \r\na\r\n0\r\n\r\n",
    b"1\na\n0\n\n", b"1\r\na\r\n0\r\nx: y\r\n\r\n", b"1\r\na\r\n0\r\ncontent-length: 7\r\n\r\n",
    b"+1\r\na\r\n0\r\n\r\n",
    b"0x1\r\na\r\n0\r\n\r\n", b"1\r\nab\r\n0\r\n\r\n", b"1\r\na0\r\n\r\n", b"1;\x00\r\na\r\n0\r\n\r\n",
    b"10000000000000001\r\na\r\n0\r\n\r\n", b"-1\r\na\r\n0\r\n\r\n", b"1;\nb\r\na\r\n0\r\n\r\n",
    b"\r\n1\r\na\r\n0\r\n\r\n",
]  # fmt: skip
OTHERS = [
    (), (), (b"expect: 100-continue",), (b"expect: nothing",), (b"connection: close",), (b"connection: keep-alive",),
    (b"connection: content-length",), (b"te: trailers",), (b"trailer: content-length",), (b"keep-alive: 1",),
    (b"x-a: \xff\xe9",), (b"content-type: application/json",), (b"hinged-passed-on: http://127.0.0.1:1",),
]  # fmt: skip
VERSIONS = [b"HTTP/1.1"] * 6 + [
    b"HTTP/1.0",
    b"HTTP/0.9",
    b"HTTP/2.0",
    b"HTTP/1.2",
    b"HTTP/1.10",
    b"http/1.1",
    b"HTTP/11",
]
METHODS = [b"POST"] * 4 + [b"GET"] * 3 + [b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"PRI", b"get", b"M-SEARCH", b"X"]


def framed(lines, body):
    """Return header lines that frame a body. The length of the body replaces %d and %x."""
    return [line.replace(b"%d", b"%d" % len(body)).replace(b"%x", b"%x" % len(body)) for line in lines]


KNOWN = [
    *(sized(SMUGGLED, *offer) for offer in OFFERS),
    *(sized(SMUGGLED, *offer, first=b"GET /models/a/stream HTTP/1.1") for offer in OFFERS),
    *(chunked(SMUGGLED, *offer) for offer in OFFERS),
    *(message(b"GET /models/a HTTP/1.1", *offer, body=SMUGGLED) for offer in OFFERS),
    *(message(b"POST /a HTTP/1.1", *framed(lines, SMUGGLED), body=SMUGGLED) for lines in FRAMINGS),
    *(message(b"POST /a HTTP/1.1", *framed(lines, SMUGGLED), body=b"0\r\n\r\n" + SMUGGLED) for lines in FRAMINGS),
    *(message(b"POST /a HTTP/1.1", b"transfer-encoding: chunked", body=chunks + SMUGGLED) for chunks in CHUNKS),
    *(message(b"GET " + target + b" HTTP/1.1", body=SMUGGLED) for target in TARGETS),
    *(message(b"POST /a " + version, b"connection: keep-alive", body=SMUGGLED) for version in VERSIONS[5:]),
    *(sized(SMUGGLED, first=method + b" /a HTTP/1.1") + SMUGGLED for method in METHODS[3:]),
    *(sized(b"{}", *more) + SMUGGLED for more in OTHERS),
    sized(b"{}", b"connection: close") + b"\r\n" + SMUGGLED,
    message(b"CONNECT localhost:1 HTTP/1.1", body=SMUGGLED),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
    b"\r\n\r\n" + SMUGGLED,
    b"\n" + SMUGGLED,
    SMUGGLED.replace(b"\r\n", b"\n") + SMUGGLED,
    b"GET /\r\n" + SMUGGLED,
]
"""A request for each kind of head that is known to mislead parsers. Each has a smuggled request after it or inside
it."""


@st.composite
def _messages(draw, paths, always):
    """Draw a request with at most two unusual parts. Most parsers stop at the first unusual part, so more would test
    nothing.
    """
    odd = draw(st.sets(st.sampled_from(["first", "target", "offer", "framing", "other", "chunks"]), max_size=2))
    method, version = (draw(st.sampled_from(METHODS)), draw(st.sampled_from(VERSIONS))) if "first" in odd else (
        draw(st.sampled_from([b"POST", b"GET"])), b"HTTP/1.1")  # fmt: skip
    target = draw(st.sampled_from(TARGETS)) if "target" in odd else draw(st.sampled_from(paths))
    body = draw(st.sampled_from([b"", b"{}", b"\r\n", b"0\r\n\r\n", SMUGGLED, sized(SMUGGLED), *CHUNKS]))
    framing = (
        draw(st.sampled_from(FRAMINGS)) if "framing" in odd else draw(st.sampled_from((FRAMINGS[0], FRAMINGS[26])))
    )
    lines = [*framed(framing, body), *always]
    if "offer" in odd:
        lines += draw(st.sampled_from(OFFERS))
    if "other" in odd:
        lines += draw(st.sampled_from(OTHERS))
    if b"chunked" in b"".join(lines).lower():
        end = draw(st.sampled_from(CHUNKS)) if "chunks" in odd else CHUNKS[0]
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + end
    return message(b" ".join((method, target, version)), *draw(st.permutations(lines)), body=body)


def streams(paths=(b"/models/b/predict",), always=()):
    """Draw one to three requests in a row. always: header lines that each request has."""
    return st.lists(_messages(paths, always), min_size=1, max_size=3).map(b"".join)
