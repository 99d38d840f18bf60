"""Byte streams that HTTP parsers may split into different requests, and the requests that h11 finds in them.

RFC 9112 and the public suites of request smuggling name the parts: conflicts of two lengths (CL.CL, CL.TE, TE.CL), and
spellings of Transfer-Encoding that only some parsers read (TE.TE).
"""

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
    section 2.2) and h11 does not.
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
    *([line] for line in (
        b"content-length: %d\x00", b"content-length: %d %d", b"content-length: %d.0", b"content-length: %de0",
        b"content-length: '%d'", b"content-length: %d_0", b"content-length: 1844674407370955161%d",
        b"content-length: 42949672%d", b"content-length: \xd9\xa5", b"content-length:", b"content-length\t: %d",
        b"content-length\x00: %d", b"\xefcontent-length: %d", b"content-length: %d;a", b"content-length: %d\r\n\t6",
        b"content-length: 99999999999999999999999", b"content-length: %d\r\ncontent-length: %d\r\ncontent-length: 0",
    )),
]  # fmt: skip
CODINGS = [
    b"transfer-encoding: xchunked", b"transfer-encoding\t: chunked", b"transfer-encoding:\tchunked",
    b" transfer-encoding: chunked", b"transfer-encoding\r\n : chunked", b"transfer-encoding:\r\n chunked",
    b"transfer-encoding: chunk", b'transfer-encoding: "chunked"', b"transfer-encoding: chunked,",
    b"transfer-encoding: ,chunked", b"transfer-encoding: chunked, x", b"transfer-encoding: x, chunked",
    b"transfer-encoding: \x00chunked", b"transfer-encoding: chunked\x00", b"transfer-encoding: chunked\xff",
    b"transfer-encoding: \x0bchunked", b"transfer-encoding: \x0cchunked", b"transfer-encoding: \xa0chunked",
    b"transfer-encoding: chunked\x0b", b"transfer-encoding: chunked \t", b"\x00transfer-encoding: chunked",
    b"transfer\xadencoding: chunked", b"transfer encoding: chunked", b"transfer-encod\xc4\xb1ng: chunked",
    b"transfer-encoding: chun\xe2\x84\xaaed", b"x: y\r\n\rtransfer-encoding: chunked",
    b"x: y\r\n\ttransfer-encoding: chunked", b"transfer-encoding: identity, chunked", b"transfer-encoding:",
    b"transfer-encoding: chunked\r", b"content-encoding: chunked", b"te: chunked", b"transfer-encoding: [chunked]",
    b":transfer-encoding: chunked", b"transfer-encoding=chunked", b"transfer-encoding chunked",
    b"trailer: x\r\ntransfer-encoding: chunked", b"transfer-encoding: Chunked\r\nTransfer-Encoding: chunked",
    b"connection: transfer-encoding\r\ntransfer-encoding: chunked",
]  # fmt: skip
"""Lines that only some parsers take for `Transfer-Encoding: chunked`."""
FIRST_LINES = [
    b"GET /a HTTP/1.1 ", b"GET\t/a\tHTTP/1.1", b" GET /a HTTP/1.1", b"GET /a", b"GET /a HTTP/1.1\t",
    b"GET /a HTTP/1.1\x0b",
    b"GET /a b HTTP/1.1", b"GET HTTP/1.1", b"GET /a HTTP/1", b"GET /a HTTP/1.", b"GET /a HTTP/01.1",
    b"GET /a HTTP/1.01",
    b"GET /a HTTP /1.1", b"GET /a HTTPS/1.1", b"GET /a HTTP/1.1.1", b"GET /a HTTP/-1.1", b"GET /a HTTP/+1.1",
    b"GET /a HTTP/3.0", b"G\x00T /a HTTP/1.1", b"G(T /a HTTP/1.1", b"GETT /a HTTP/1.1", b"QUERY /a HTTP/1.1",
    b"/a HTTP/1.1", b"\xffGET /a HTTP/1.1", b"GET /a\x00 HTTP/1.1", b"GET /a\x7f HTTP/1.1", b"GET /\xff HTTP/1.1",
    b"OPTIONS * HTTP/1.1", b"GET # HTTP/1.1", b"HTTP/1.1 200 OK", b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2",
    b"\x16\x03\x01\x02\x00\x01\x00", b"\xef\xbb\xbfGET /a HTTP/1.1", b"GET /a HTTP/1.1\r",
]  # fmt: skip
FIELDS = [
    b"x", b"x y", b": y", b" : y", b"x : y", b"x\t: y", b"x(: y", b"x\xff: y", b"x\x00: y", b"x: \x00", b"x: a\rb",
    b"x: a\nb",
    b"x: a\r\n b", b"x: a\r\n\tb", b"x: a\r\n\r b", b"x:", b"x: \x7f", b"x: \x01", b"x: \x0b", b'"x": y',
    b"x{}: y", b"x@: y",
    b"x/: y", b"x,: y", b"x;y: z", b"x: y\r", b"x: y\n", b"host : localhost", b"x: " + b"y" * 70_000,
    b"x" * 70_000 + b": y", b"connection: x, close", b"connection: close;x", b"connection:\tclose\t",
    b"connection: keep-alive\r\nconnection: close", b"connection: closex", b"proxy-connection: close",
    b"connection: host", b"connection: Close",
]  # fmt: skip
BETWEEN = [b"\r\n", b"\r\n" * 5, b"\n", b"\r", b" ", b"\0", b"x", b"\r\n\0\r\nQUIT\n\x21\x11\0\x0c"]
"""Bytes between two requests."""
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
    *(size + b"\r\na\r\n0\r\n\r\n" for size in (
        b"1\t", b"1;", b"1;a", b'1;a="b;c"', b'1;a="', b"1 ;a", b"1; a = b", b"1;a\rb", b"1;a\nb", b"1;\xff", b"1;;",
        b"1\x00", b"1,", b" 1", b"1h", b"g", b"ffffffffffffffff", b"1\r",
    )),
    *(b"1\r\na" + end for end in (
        b"\n0\r\n\r\n", b"\r0\r\n\r\n", b"\r\n0\n\r\n", b"\r\n0\r\n\n", b"\r\n00\r\n\r\n", b"\r\n0;a\r\n\r\n",
        b"\r\n0 \r\n\r\n",
        b"\r\n-0\r\n\r\n", b"\r\n\r\n0\r\n\r\n",
    )),
    *(b"1\r\na\r\n0\r\n" + trailer + b"\r\n\r\n" for trailer in (
        b"x: y\r\nz: y", b"transfer-encoding: chunked", b"host: other", b"upgrade: h2c", b"connection: close",
        b"connection: upgrade\r\nupgrade: websocket", b"expect: 100-continue", b"x", b"x : y", b" x: y", b"x: y\r\n z",
        b"x: \x00", b"x: y\n", b"x: y\rz", b": y", b"x:",
    )),
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


POST = b"POST /a HTTP/1.1"
KNOWN = {
    "offers": [
        *(sized(SMUGGLED, *offer) for offer in OFFERS),
        *(sized(SMUGGLED, *offer, first=b"GET /models/a/stream HTTP/1.1") for offer in OFFERS),
        *(chunked(SMUGGLED, *offer) for offer in OFFERS),
        *(message(b"GET /models/a HTTP/1.1", *offer, body=SMUGGLED) for offer in OFFERS),
    ],
    "lengths": [
        message(POST, *framed(lines, SMUGGLED), body=before + SMUGGLED)
        for lines in FRAMINGS
        for before in (b"", b"0\r\n\r\n")
    ],
    "codings": [
        *(message(POST, coding, body=b"0\r\n\r\n" + SMUGGLED) for coding in CODINGS),
        *(sized(b"0\r\n\r\n" + SMUGGLED, coding, first=POST) for coding in CODINGS),
        *(
            message(POST, b"content-length: 4", coding, body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED))
            for coding in CODINGS
        ),
    ],
    "chunks": [message(POST, b"transfer-encoding: chunked", body=chunks + SMUGGLED) for chunks in CHUNKS],
    "targets": [message(b"GET " + target + b" HTTP/1.1", body=SMUGGLED) for target in TARGETS],
    "first lines": [
        *(message(first, body=SMUGGLED) for first in FIRST_LINES),
        *(message(b"POST /a " + version, b"connection: keep-alive", body=SMUGGLED) for version in VERSIONS[5:]),
        *(sized(SMUGGLED, first=method + b" /a HTTP/1.1") + SMUGGLED for method in METHODS[3:]),
        message(b"CONNECT localhost:1 HTTP/1.1", body=SMUGGLED),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
        b"GET /\r\n" + SMUGGLED,
        b"GET /a HTTP/1.1\r\n host: localhost\r\n\r\n" + SMUGGLED,
    ],
    "fields": [
        *(message(b"GET /a HTTP/1.1", field, body=SMUGGLED) for field in FIELDS),
        *(sized(b"{}", *more) + SMUGGLED for more in OTHERS),
        sized(b"{}", b"connection: close") + b"\r\n" + SMUGGLED,
        message(b"POST /a HTTP/1.0", b"connection: keep-alive", b"transfer-encoding: chunked", body=b"0\r\n\r\n"),
    ],
    "line ends": [
        *(between + SMUGGLED + between + SMUGGLED for between in BETWEEN),
        *(SMUGGLED.replace(b"\r\n", end) + SMUGGLED for end in (b"\n", b"\r", b"\n\r", b"\r\r\n")),
        *(SMUGGLED[:-2] + end + SMUGGLED for end in (b"\n", b"\r", b"\r\r\n")),
    ],
}
"""By part, requests that are known to mislead parsers. Each has a smuggled request after it or inside it."""
PLAIN = [
    sized(b"{}", *more) + SMUGGLED
    for more in (
        (), (b"expect: 100-continue",), (b"connection: keep-alive",), (b"te: trailers",), (b"x-a: \xff\xe9",), (b"x:",),
        (b"x:y",), (b"x: \t y \t",), (b"x: a, b", b"x: c"), (b"!#$%&'*+-.^_`|~: y",),
        (b"connection: upgrade", b"upgrade: h2c"),
    )
] + [
    chunked(b"abc", end=end) + SMUGGLED
    for end in (
        b"0\r\n\r\n", b"0\r\nx: y\r\nz: y\r\n\r\n", b"0;a\r\n\r\n", b"a\r\n0123456789\r\n0\r\n\r\n", b"00\r\n\r\n",
    )
] + [
    message(b"GET http://localhost/a?b HTTP/1.1", body=SMUGGLED), message(b"GET /a HTTP/1.1", body=b"\r\n" + SMUGGLED),
    message(b"HEAD /a HTTP/1.1", body=SMUGGLED), message(b"OPTIONS /a HTTP/1.1", body=SMUGGLED),
]  # fmt: skip
"""Two requests that every server must understand (RFC 9112)."""
LENIENT = [
    message(b"GET  /smuggled HTTP/1.1"), message(b"GET /smuggled  HTTP/1.1"), message(b"GET /smuggled RTSP/1.1"),
    message(b"GET /smuggled HTTP/1.1", b"content-length: " + b"0" * 30),
    message(b"GET /smuggled HTTP/1.1", b"transfer-encoding: chunked", body=b"0" * 30 + b"\r\n\r\n"),
]  # fmt: skip
"""Requests that h11 refuses and the server takes: several spaces (RFC 9112, section 3), the name of another protocol,
and numbers with many zeros. They end where every parser that takes them finds their end."""


@st.composite
def _messages(draw, paths, always):
    """Draw a request with at most two unusual parts. Most parsers stop at the first unusual part, so more would test
    nothing.
    """
    kinds = ["first", "target", "offer", "framing", "coding", "other", "field", "chunks"]
    odd = draw(st.sets(st.sampled_from(kinds), max_size=2))
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
    if "coding" in odd:
        lines.append(draw(st.sampled_from(CODINGS)))
    if "field" in odd:
        lines.append(draw(st.sampled_from([field for field in FIELDS if len(field) < 100])))
    if "other" in odd:
        lines += draw(st.sampled_from(OTHERS))
    if b"chunked" in b"".join(lines).lower():
        end = draw(st.sampled_from(CHUNKS)) if "chunks" in odd else CHUNKS[0]
        body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + end
    return message(b" ".join((method, target, version)), *draw(st.permutations(lines)), body=body)


def streams(paths=(b"/models/b/predict",), always=()):
    """Draw one to three requests in a row. always: header lines that each request has."""
    requests = st.lists(_messages(paths, always), min_size=1, max_size=3)
    return st.builds(bytes.join, st.sampled_from([b""] * 4 + BETWEEN), requests)
