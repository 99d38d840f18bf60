"""A ticket opens one event stream or one WebSocket in a browser, which cannot send a key's header there.

A ticket is part of a URL, and URLs are stored in histories and logs. So a ticket is random, is valid for seconds and
for one use, and is kept only in memory. If several processes answer for one server, each may get a ticket that another
process issued. Such a ticket itself contains a fingerprint of its key and its expiry, signed with a secret that all
processes know.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

from hinged.service.edge.keys import Key, digest
from hinged.service.errors import QueueFull

NONCE_BYTES, EXPIRY_BYTES, DIGEST_BYTES = 16, 8, 32
BODY_BYTES = NONCE_BYTES + EXPIRY_BYTES + DIGEST_BYTES


class Tickets(Protocol):
    """Issues and redeems tickets. Methods run on one event loop."""

    def issue(self, key: Key) -> str:
        """Issue a ticket with the rights of a key. Raise QueueFull if too many are open."""

    def redeem(self, ticket: str) -> Key | None:
        """Return a ticket's key the first time that the ticket is used, if it has not expired; otherwise None."""


class KeptTickets:
    """Keeps tickets in the memory of one process. Methods run on one event loop."""

    def __init__(self, seconds: float, tickets_max: int) -> None:
        self._seconds = seconds
        self._max = tickets_max
        # Each entry's key is a digest, so that the time of a look-up reveals nothing. All tickets are valid for the
        # same time, so the first entry is the oldest.
        self._open: OrderedDict[str, tuple[Key, float]] = OrderedDict()

    def issue(self, key: Key) -> str:
        """Issue a ticket with the rights of a key. Raise QueueFull if too many are open."""
        now = time.monotonic()
        while self._open and next(iter(self._open.values()))[1] <= now:
            self._open.popitem(last=False)
        if len(self._open) >= self._max:
            raise QueueFull(f"{self._max} tickets are open and unused", retry_after_s=max(1, round(self._seconds)))
        ticket = secrets.token_urlsafe(32)
        self._open[digest(ticket)] = key, now + self._seconds
        return ticket

    def redeem(self, ticket: str) -> Key | None:
        """Return a ticket's key the first time that the ticket is used, if it has not expired; otherwise None."""
        key, expires = self._open.pop(digest(ticket), (None, 0.0))
        return key if expires > time.monotonic() else None


class SignedTickets:
    """Issues tickets that are valid at every process with the same secret, once at each process.

    A ticket is used at the process that answers for its model, so in total it is used only once. A process refuses
    tickets that were issued before it began, because it does not know whether they were used.
    """

    def __init__(self, secret: bytes, seconds: float, tickets_max: int, known: Callable[[], Iterable[Key]]) -> None:
        """Take the secret and the limits. known: returns the keys that are valid now."""
        self._secret = secret
        self._seconds = seconds
        self._max = tickets_max
        self._known = known
        self._began = time.time()
        self._issued: OrderedDict[bytes, float] = OrderedDict()  # nonce to expiry, the oldest first
        self._used: OrderedDict[bytes, float] = OrderedDict()

    def issue(self, key: Key) -> str:
        """Issue a ticket with the rights of a key. Raise QueueFull if too many unexpired tickets were issued."""
        self._make_room(self._issued)
        nonce, expires = secrets.token_bytes(NONCE_BYTES), time.time() + self._seconds
        self._issued[nonce] = expires
        return self._ticket(nonce + round(1000 * expires).to_bytes(EXPIRY_BYTES, "big") + self._mark(key))

    def redeem(self, ticket: str) -> Key | None:
        """Return a ticket's key the first time that the ticket is used, if it has not expired; otherwise None.

        Raise QueueFull if too many tickets were used.
        """
        try:
            given = base64.b64decode(ticket, altchars=b"-_", validate=True)
        except ValueError:
            return None
        body = given[:-DIGEST_BYTES]
        if len(body) != BODY_BYTES or not hmac.compare_digest(self._ticket(body), ticket):
            return None
        nonce, rest = body[:NONCE_BYTES], body[NONCE_BYTES:]
        expires = int.from_bytes(rest[:EXPIRY_BYTES], "big") / 1000
        if nonce in self._used or expires <= time.time() or expires - self._seconds < self._began:
            return None
        self._make_room(self._used)
        self._used[nonce] = expires
        self._issued.pop(nonce, None)
        mark = rest[EXPIRY_BYTES:]
        return next((key for key in self._known() if self._mark(key) == mark), None)

    def _ticket(self, body: bytes) -> str:
        """Return the canonical text of a ticket."""
        return base64.urlsafe_b64encode(body + self._signed(body)).decode()

    def _mark(self, key: Key) -> bytes:
        """Return the fingerprint of a key in a ticket. Without the secret nobody can compute or recognise it.

        The fingerprint is signed with the same secret as a ticket's body. But the signed text of a fingerprint is
        shorter, so a fingerprint can never be a valid signature of a body.
        """
        return self._signed(bytes.fromhex(key.sha256))

    def _signed(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, body, "sha256")

    def _make_room(self, kept: OrderedDict[bytes, float]) -> None:
        now = time.time()
        while kept and next(iter(kept.values())) <= now:
            kept.popitem(last=False)
        if len(kept) >= self._max:
            raise QueueFull(f"{self._max} tickets are open, or were used", retry_after_s=max(1, round(self._seconds)))
