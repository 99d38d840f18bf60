"""How the methods ask: what an address and a key must be, and a request as an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import httpx

from hinged.client.exchange import Call, Exchange, exchange
from hinged.extras import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Finishing works until the solver has converged, so the time-out of a common request says nothing about it.
FINISH_TIMEOUT_S = 3600.0

Strategy = Literal["active", "random", "gradient", "autoactive"]


class Asking:
    """What all methods stand on: an address, and requests to it as exchanges."""

    def __init__(self, url: str, tries_max: int) -> None:
        self.url = checked_url(url).rstrip("/")
        if not tries_max >= 1:
            raise ValueError(f"tries_max must be >= 1, got {tries_max}")
        self.tries_max = tries_max
        self.owners: dict[str, str] = {}
        """Where several servers share a store, the one that answered for a model last, by its name."""

    def _run(self, steps: Exchange[Any]) -> Any:
        """What an exchange returns, or an awaitable of it."""
        raise NotImplementedError

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Exchange[Any]:
        return exchange(self.url, Call(method, path, body, **more), self.tries_max, self.owners)

    def _ask_rows(
        self,
        path: str,
        X: Any,
        y: Sequence[Any] | None,
        ids: Sequence[str | None] | None,
        shows: Sequence[Any] | None = None,
    ) -> Exchange[Any]:
        with needed("files", "a batch of rows"):
            from hinged.client.batch import MEDIA_TYPE, pack  # noqa: PLC0415  who sends no rows needs no NumPy

        call = Call("POST", path, pack(X, y, ids, shows), media_type=MEDIA_TYPE)
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
