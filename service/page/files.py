"""The files of the page, read once, each in the form in which it goes out."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).parent / "static"
ZIPPED_MIN = 1_000  # bytes below which gzip gains nothing

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Of what is served; licences and lists beside it are not."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Nothing but files of this server, and no text that becomes markup or a script."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
"""Of every file. A browser asks each time whether it has changed: after an upgrade no half of an old page is shown."""


class File(NamedTuple):
    """A file: its bytes, the same by gzip (None where that gains nothing), its type and a tag of its content."""

    body: bytes
    zipped: bytes | None
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """Every file that is served, by its path below the folder."""
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
