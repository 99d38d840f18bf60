"""Read the files of the page once, and keep the bytes and headers that the server sends."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "static"
# Bytes. Smaller files are sent without gzip, which would gain nothing.
ZIPPED_MIN = 1_000

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by suffix. The server sends no file with another suffix: neither licences nor SHA256SUMS."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""The browser loads files from this server only, and no text can become markup or a script."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
"""Headers of every file. `no-cache` makes the browser ask each time whether a file has changed; otherwise a browser
could mix files of two versions after an upgrade.
"""


class File(NamedTuple):
    """A file: its bytes, its gzipped bytes (None if gzip gains nothing), its media type and its ETag."""

    body: bytes
    zipped: bytes | None
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Return every file that the server sends, by its path below `static/`."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        media_type = TYPES.get(path.suffix)
        if media_type is None or not path.is_file():
            continue
        body = path.read_bytes()
        zipped = gzip.compress(body, 9, mtime=0) if len(body) >= ZIPPED_MIN else None
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        found[path.relative_to(STATIC).as_posix()] = File(body, zipped, media_type, tag)
    return found
