"""The certificates that a client trusts. The certificates are read at the client's first TLS connection.

httpx would read them when a client is made. That takes 20 ms and 2 MB, which a client of plain HTTP does not need.
"""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import Any, Self

import httpx


class Certificates(ssl.SSLContext):
    """The SSL context of httpx, made only when it is needed."""

    def __new__(cls) -> Self:
        """Make an empty context."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    @cached_property
    def _read(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def wrap_socket(self, *socket: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket in TLS."""
        return self._read.wrap_socket(*socket, **options)

    def wrap_bio(self, *ends: Any, **options: Any) -> ssl.SSLObject:
        """Wrap asyncio's buffers in TLS."""
        return self._read.wrap_bio(*ends, **options)
