"""The base class of the clients: it has the server's address, and sends requests as exchanges."""

from __future__ import annotations

from typing import Any

import httpx

from hinged.client.exchange import Exchange, exchange
from hinged.operations.base import Asker, Call


class Asking(Asker):
    """The address of a server, and the way to send a call to this server."""

    def __init__(self, url: str, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max
        self.owners: dict[str, str] = {}
        """For each model, the server that last answered for it. Used if several servers share a store."""

    def _ask(self, call: Call[Any]) -> Any:
        """Return the answer to a call, or an awaitable of the answer."""
        return self._run(self._exchange(call))

    def _run(self, steps: Exchange[Any]) -> Any:
        """Return the result of an exchange, or an awaitable of the result."""
        raise NotImplementedError

    def _exchange(self, call: Call[Any]) -> Exchange[Any]:
        if call.once:
            return exchange(self.url, call, tries_max=1)
        return exchange(self.url, call, self.tries_max, self.owners)


def checked_url(url: str) -> str:
    """Return a server's address. Raise ValueError if it is invalid or contains a password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not a URL: {error}") from error
    if parsed.userinfo:  # not shown, because messages may get into logs
        raise ValueError("a URL must not hold a user or a password; pass a key as key=")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"url must be like http://127.0.0.1:8000, got {url!r}")
    return url


def authorization(key: str | None) -> dict[str, str]:
    """Return the header for a key. Raise ValueError, which does not show the key, if the key is invalid."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable() and key and " " not in key):
        raise ValueError("key must be printable ASCII without spaces, as `hinged keys create` printed it")
    return {"authorization": f"Bearer {key}"}
