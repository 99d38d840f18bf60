"""Whom a client trusts, read with its first connection that speaks TLS.

httpx by itself reads the certificates as a client is made, for 20 ms and 2 MB, where all may be plain HTTP.
"""

from __future__ import annotations

import ssl
from functools import cached_property
from typing import Any, Self

import httpx


class Certificates(ssl.SSLContext):
    """The context that httpx makes by itself, made when it is needed."""

    def __new__(cls) -> Self:
        """Trust nobody yet."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    @cached_property
    def _read(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()

    def wrap_socket(self, *socket: Any, **options: Any) -> ssl.SSLSocket:
        """Speak TLS on a socket."""
        return self._read.wrap_socket(*socket, **options)

    def wrap_bio(self, *ends: Any, **options: Any) -> ssl.SSLObject:
        """Speak TLS on what asyncio reads and writes."""
        return self._read.wrap_bio(*ends, **options)
