"""Streams of frames: the cases of RFC 6455 in the order of Autobahn's test suite, and what wsproto finds in them."""

import itertools
import struct

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import RemoteProtocolError

CONTINUED, TEXT, BYTES, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
UNSAID = 1005
"""The code that programs report for a close frame without a code (RFC 6455, 7.1.5). The server answers such a frame
with a close frame without a code."""


def frame(data, opcode=TEXT, fin=True, reserved=0, masked=True, mask=b"\x01\x80\x55\xff", long=False):
    """Return the bytes of a frame, masked as a client masks them. long: whether its length takes too many bytes."""
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    size = len(data)
    if size < 126 and not long:
        sizes = bytes([size])
    elif size < 2**16:
        sizes = b"\x7e" + struct.pack("!H", size)
    else:
        sizes = b"\x7f" + struct.pack("!Q", size)
    if not masked:
        return bytes([first]) + sizes + data
    hidden = bytes(a ^ b for a, b in zip(data, itertools.cycle(mask), strict=False))
    return bytes([first, sizes[0] | 0x80]) + sizes[1:] + mask + hidden


def asked(ref, size=0):
    """Return the text of a question with at least this many bytes."""
    return b'{"op": "predict", "ref": "%b", "x": [0, 1]}'.ljust(size) % ref


def fragments(*parts, opcode=TEXT, between=b""):
    """Return the frames of a message in fragments. between: frames after each fragment but the last."""
    last = len(parts) - 1
    frames = (frame(part, CONTINUED if k else opcode, fin=k == last) for k, part in enumerate(parts))
    return between.join(frames)


def bytewise(data):
    return [data[k : k + 1] for k in range(len(data))]


def close(code, reason=b""):
    return frame(struct.pack("!H", code) + reason, CLOSE)


A = asked(b"a")
KOSME = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"
VALID = [
    KOSME, b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!", b"\x00", b"\xc2\x80",
    b"\xe0\xa0\x80",
    b"\xf0\x90\x80\x80", b"\x7f", b"\xdf\xbf", b"\xef\xbf\xbf", b"\xf4\x8f\xbf\xbf", b"\xed\x9f\xbf", b"\xee\x80\x80",
    b"\xef\xbf\xbd", b"\xef\xbf\xbe", b"\xf0\x9f\xbf\xbe", b"\xf3\xaf\xbf\xbf", b"\xf0\x9f\x98\x80",
]  # fmt: skip
"""Texts that are UTF-8 (Autobahn 6.2, 6.5 to 6.7, 6.9, 6.11, 6.22, 6.23)."""
INVALID = [
    KOSME + b"\xed\xa0\x80edited", KOSME + b"\xf4\x90\x80\x80edited", b"\xf8\x88\x80\x80\x80",
    b"\xfc\x84\x80\x80\x80\x80",
    b"\xf7\xbf\xbf\xbf", b"\xfb\xbf\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf\xbf", b"\xf4\x90\x80\x80", b"\x80", b"\xbf",
    b"\x80\xbf\x80", b"\xc0 \xc1 ", b"\xe0 \xef ", b"\xf0 \xf7 ", b"\xf8 ", b"\xfe ", b"\xc0", b"\xe0\x80",
    b"\xf0\x80\x80",
    b"\xdf", b"\xef\xbf", b"\xf7\xbf\xbf", b"\xc0\xe0\x80\xf0\x80\x80", b"\xfe", b"\xff", b"\xfe\xfe\xff\xff",
    b"\xc0\xaf",
    b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf", b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xed\xa0\x80", b"\xed\xad\xbf", b"\xed\xb0\x80", b"\xed\xbf\xbf", b"\xed\xa0\x80\xed\xb0\x80",
    b"\xed\xaf\xbf\xed\xbf\xbf",
    *(KOSME[:end] for end in (1, 3, 4, 6, 8, 10)),
]  # fmt: skip
"""Texts that are not UTF-8 (Autobahn 6.3, 6.6, 6.8, 6.10 to 6.21)."""
FINE = {
    "1 sizes": [frame(asked(b"a", size), kind) for kind in (TEXT, BYTES)
    for size in (0, 125, 126, 127, 128, 65_535, 65_536)],
    "1 nothing": [frame(b""), frame(b"", BYTES), frame(A, mask=b"\0\0\0\0")],
    "2 pings": [
        frame(b"", PING), frame(b"Hello", PING), frame(b"\x00\xff\xfe\xfd", PING), frame(b"p" * 125, PING),
        frame(b"", PONG), frame(b"unsolicited", PONG), frame(b"x", PONG) + frame(b"y", PING),
        b"".join(frame(b"%d" % k, PING) for k in range(10)),
    ],
    "5 fragments": [
        fragments(A[:5], A[5:]), fragments(*bytewise(A)), fragments(A[:5], A[5:], between=frame(b"p", PING)),
        fragments(*bytewise(A), between=frame(b"p", PING) + frame(b"q", PONG)), fragments(A[:5], A[5:], opcode=BYTES),
        fragments(b"", A, b""), fragments(b"", b"", b""), fragments(*[b""] * 3_000, A, *[b""] * 3_000),
    ],
    "many small": [fragments(*[b""] * 40_000, A), frame(b"", PING) * 20_000, fragments(A[:5], A[5:]) * 2_000],
    "6 valid": [frame(text) for text in VALID] + [fragments(*bytewise(b'{"ref": "%b"}' % text)) for text in VALID],
    "6 bytes need not be text": [frame(text, BYTES) for text in INVALID],
}  # fmt: skip
"""Frames that are answered."""
FAULTS = {
    "2 long ping": (1002, [frame(b"p" * 126, PING), frame(b"p" * 126, PONG), frame(b"p" * 2**16, PING)]),
    "3 reserved": (1002, [frame(A, opcode, reserved=bits) for bits in range(1, 8)
    for opcode in (TEXT, BYTES, PING, CLOSE)]),
    "4 opcodes": (1002, [frame(data, code) for code in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15) for data in (b"", A)]),
    "5 fragments": (1002, [
        fragments(b"a", b"b", opcode=PING), fragments(b"a", b"b", opcode=PONG), fragments(b"", b"", opcode=CLOSE),
        frame(A, CONTINUED), frame(A, CONTINUED, fin=False), frame(b"", CONTINUED),
        fragments(A[:5], A[5:]) + frame(b"", CONTINUED),
        frame(A, fin=False) + frame(A), frame(A, fin=False) + frame(A, BYTES),
        frame(A, fin=False) + frame(A, fin=False),
    ]),
    "6 invalid": (1007, [
        *(frame(text) for text in INVALID), *(fragments(*bytewise(text)) for text in INVALID),
        *(fragments(text[:1], text[1:], between=frame(b"p", PING)) for text in INVALID if len(text) > 1),
    ]),
    "7 close": (1000, [
        close(1000), close(1000, b"reason"), close(1000, b"r" * 123), close(1000) + close(1000),
        close(1000) + frame(b"p", PING),
        close(1000) + frame(A), close(1000, KOSME),
    ]),
    "7 no code": (UNSAID, [frame(b"", CLOSE)]),
    "7 bad close": (1002, [frame(b"\x03", CLOSE), close(1000, b"r" * 124)]),
    "7 reason": (1007, [close(1000, text) for text in INVALID]),
    "7 no such code": (1002, [close(k) for k in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999,
    5000, 65_535)]),
    **{f"7 code {k}": (k, [close(k)]) for k in (1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000,
    4999)},
    "masks": (1002, [frame(A, masked=False), frame(b"", PING, masked=False), frame(b"", CLOSE, masked=False)]),
}  # fmt: skip
"""Frames after which the socket closes: the code, and the streams."""


OTHERWISE = {
    frame(A, long=True): None,  # wsproto refuses the length
    frame(A[:5], fin=False) + close(1000): 1002,  # for wsproto, a message that is not complete may end
    b"\x81\xff" + struct.pack("!Q", 2**63) + bytes(4): 1009,  # too long for the server, no length for wsproto
}
"""Streams that the server's library takes otherwise than wsproto, and the code."""


def hear(take):
    """Return the opcode and the data of the next frame of a server. take: a function that returns so many bytes."""
    first, size = take(2)
    assert first & 0x70 == 0
    assert size < 128
    if size >= 126:
        (size,) = struct.unpack("!H" if size == 126 else "!Q", take(2 if size == 126 else 8))
    return first & 0x0F, take(size)


def as_wsproto_reads(stream):
    """Return the number of messages, the data of the pings, and the code with which the socket closes, or None."""
    connection, messages, pings = Connection(ConnectionType.SERVER), 0, []
    connection.receive_data(stream)
    try:
        for event in connection.events():
            match event:
                case TextMessage() | BytesMessage():
                    messages += event.message_finished
                case Ping():
                    pings.append(bytes(event.payload))
                case CloseConnection():
                    return messages, pings, event.code
    except RemoteProtocolError as error:
        return messages, pings, error.event_hint.code
    return messages, pings, None
