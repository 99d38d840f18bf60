"""A ticket opens one event stream or one WebSocket in a browser, which cannot send a key's header there.

A ticket is part of a URL, and URLs are stored in histories and logs. So a ticket is random, and is valid once and for
seconds. It contains a fingerprint of its key and its expiry, signed with a secret. If several processes answer for one
server, all of them know the secret, because each may get a ticket that another process issued.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable

from hinged.service.data.times import now_ms
from hinged.service.edge.keys import Key
from hinged.service.errors import QueueFull

NONCE_BYTES, EXPIRY_BYTES, DIGEST_BYTES = 16, 8, 32
BODY_BYTES = NONCE_BYTES + EXPIRY_BYTES + DIGEST_BYTES


class Tickets:
    """Issues tickets that are valid at every process with the same secret, once at each process.

    A ticket is used at the process that answers for its model, so in total it is used only once. A process refuses
    tickets that were issued before it began, because it does not know whether they were used.
    """

    def __init__(self, secret: bytes, seconds: float, tickets_max: int, known: Callable[[], Iterable[Key]]) -> None:
        """Take the secret and the limits. known: returns the keys that are valid now."""
        self._secret = secret
        self._valid_ms = round(1000 * seconds)
        self._max = tickets_max
        self._known = known
        self._began_ms = now_ms()
        self._issued: OrderedDict[bytes, int] = OrderedDict()  # nonce to expiry in ms, the oldest first
        self._used: OrderedDict[bytes, int] = OrderedDict()

    def issue(self, key: Key) -> str:
        """Issue a ticket with the rights of a key. Raise QueueFull if too many unexpired tickets were issued."""
        self._make_room(self._issued)
        nonce, expires_ms = secrets.token_bytes(NONCE_BYTES), now_ms() + self._valid_ms
        self._issued[nonce] = expires_ms
        return self._ticket(nonce + expires_ms.to_bytes(EXPIRY_BYTES, "big") + self._mark(key))

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
        expires_ms = int.from_bytes(rest[:EXPIRY_BYTES], "big")
        if nonce in self._used or expires_ms <= now_ms() or expires_ms - self._valid_ms < self._began_ms:
            return None
        self._make_room(self._used)
        self._used[nonce] = expires_ms
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

    def _make_room(self, kept: OrderedDict[bytes, int]) -> None:
        now = now_ms()
        while kept and next(iter(kept.values())) <= now:
            kept.popitem(last=False)
        if len(kept) >= self._max:
            raise QueueFull(f"{self._max} tickets are open, or were used", retry_after_s=max(1, self._valid_ms // 1000))
