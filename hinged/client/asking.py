"""What all methods of the clients stand on: an address, and requests to it as exchanges."""

from __future__ import annotations

from typing import Any

import httpx

from hinged.client.exchange import Exchange, exchange
from hinged.operations.base import Asker, Call


class Asking(Asker):
    """An address that is asked."""

    def __init__(self, url: str, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max
        self.owners: dict[str, str] = {}
        """Where several servers share a store, the one that answered for a model last, by its name."""

    def _ask(self, call: Call[Any]) -> Any:
        """What a call is answered, or an awaitable of it."""
        return self._run(self._exchange(call))

    def _run(self, steps: Exchange[Any]) -> Any:
        """What an exchange returns, or an awaitable of it."""
        raise NotImplementedError

    def _exchange(self, call: Call[Any]) -> Exchange[Any]:
        if call.once:
            return exchange(self.url, call, tries_max=1)
        return exchange(self.url, call, self.tries_max, self.owners)


def checked_url(url: str) -> str:
    """A server's address; ValueError if it can be none, or holds a password."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no URL: {error}") from error
    if parsed.userinfo:  # not shown: URLs end up in messages and logs
        raise ValueError("a URL must hold no user or password; give a key as key=")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError(f"url must be like http://127.0.0.1:8000, got {url!r}")
    return url


def authorization(key: str | None) -> dict[str, str]:
    """The header of a key; ValueError, which does not show it, if it can be none."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable() and key and " " not in key):
        raise ValueError("key must be printable ASCII without spaces, as `hinged keys create` printed it")
    return {"authorization": f"Bearer {key}"}
