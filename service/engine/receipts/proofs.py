"""Proofs about the tree of a model's receipts, from the seals in its log."""

from __future__ import annotations

import threading
from itertools import takewhile

from hinged.answers import Consistency, Receipt
from hinged.service.engine.receipts.sealing import receipt_of
from hinged.service.errors import Conflict, Invalid, NotFound
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.receipts import Leaves, Ledger
from hinged.service.store.base import Store


class Proofs:
    """Makes proofs for one model. The first proof reads the whole log, a later proof only the events since then. The
    leaves stay in memory: about 100 bytes for each. Methods may be called from any thread.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._lock = threading.Lock()
        self._read_to = 0
        self._origin, self._first = "", 0  # of the newest tree: its name, and the position of its first known event
        self._leaves: Leaves | None = None

    def inclusion(self, ledger: Ledger, position: int | None, example: str | None = None) -> Receipt:
        """Return the receipt of the event at a position, or of the event that contains an example, for the newest head.

        Raise NotFound if the tree has no such event, Conflict if the log no longer contains all seals.
        """
        if position is None:
            position = self._store.find(self._name, [example or ""]).get(example or "")
        if position is None:
            raise NotFound(f"the log of model {self._name} has no example with the id {example!r}")
        with self._lock:
            leaves = self._caught_up(ledger)
            if position < self._first:  # the next seal may be far away
                raise self._no_leaf(position)
        at, sealed = position, None
        for at, record in self._store.read(self._name, position - 1):
            if at > ledger.through:
                break
            if record.kind == EventsSealed.KIND:
                sealed = EventsSealed.decoded(record.payload)
                break
        if sealed is None or sealed.head.origin != ledger.head.origin or not sealed.first <= position < at:
            raise self._no_leaf(position)
        with self._lock:
            try:
                return receipt_of(sealed, position, leaves, ledger.head)
            except LookupError:
                raise self._trimmed() from None

    def consistency(self, ledger: Ledger, first: int, second: int) -> Consistency:
        """Return the proof that the tree of `first` leaves begins the tree of `second` leaves. Raise Invalid for other
        sizes, Conflict if the log no longer contains the seals.
        """
        if not 1 <= first <= second <= ledger.tree.size:
            raise Invalid(f"1 <= first <= second <= {ledger.tree.size} must hold, got {first} and {second}")
        with self._lock:
            try:
                path = self._caught_up(ledger).consistency(first, second)
            except LookupError:
                raise self._trimmed() from None
        return {"first": first, "second": second, "path": [node.hex() for node in path]}

    def _no_leaf(self, position: int) -> NotFound:
        return NotFound(f"there is no leaf for the event at {position} of model {self._name}")

    def _trimmed(self) -> Conflict:
        return Conflict(f"the log of model {self._name} is trimmed: the older leaves of the tree are gone")

    def _caught_up(self, ledger: Ledger) -> Leaves:
        """Return the leaves of the tree, at least up to the ledger's head."""
        if self._origin != ledger.head.origin:
            self._read_to, self._origin, self._leaves = 0, ledger.head.origin, None
        events = self._store.read(self._name, self._read_to)
        for at, record in takewhile(lambda event: event[0] <= ledger.through, events):
            if record.kind != EventsSealed.KIND:
                continue
            sealed = EventsSealed.decoded(record.payload)
            if sealed.head.origin != self._origin:
                continue
            if self._leaves is None:
                self._leaves, self._first = Leaves(sealed.before, []), sealed.first
            self._leaves.extend(sealed.leaves)
            self._read_to = at
        if self._leaves is None:
            raise self._trimmed()
        return self._leaves
