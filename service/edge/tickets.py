"""Tickets: what opens one event stream or one WebSocket in a browser, which cannot send a key's header there.

A ticket stands in a URL, and URLs end up in histories and logs. So it is random, good for seconds and for one use, and
kept in memory alone.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict

from hinged.service.edge.keys import Key, digest
from hinged.service.errors import QueueFull


class Tickets:
    """The tickets that are open. Methods run on one event loop."""

    def __init__(self, seconds: float, tickets_max: int) -> None:
        self._seconds = seconds
        self._max = tickets_max
        # By digest, so that looking one up tells nothing by the time that it takes. All live equally long: the
        # oldest stands first.
        self._open: OrderedDict[str, tuple[Key, float]] = OrderedDict()

    def issue(self, key: Key) -> str:
        """A ticket with the rights of a key. QueueFull if too many are open."""
        now = time.monotonic()
        while self._open and next(iter(self._open.values()))[1] <= now:
            self._open.popitem(last=False)
        if len(self._open) >= self._max:
            raise QueueFull(f"{self._max} tickets are open and unused", retry_after_s=max(1, round(self._seconds)))
        ticket = secrets.token_urlsafe(32)
        self._open[digest(ticket)] = key, now + self._seconds
        return ticket

    def redeem(self, ticket: str) -> Key | None:
        """The key that a ticket stands for, once and before it has expired."""
        key, expires = self._open.pop(digest(ticket), (None, 0.0))
        return key if expires > time.monotonic() else None
