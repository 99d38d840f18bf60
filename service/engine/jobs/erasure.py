"""Erase forgotten examples from a model's log, so that their bytes are nowhere."""

from __future__ import annotations

from collections.abc import Callable

from hinged.service.model.events import KINDS
from hinged.service.model.events.base import Redacted
from hinged.service.model.events.states import EventErased
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Event, Store

SLICE_EVENTS, SLICE_BYTES = 1_000, 2**22
"""Most events, and most bytes of them, rewritten in one transaction. Appends of all models wait meanwhile."""


def redact(store: Store, name: str, tombstones: Tombstones, through: int, stopped: Callable[[], bool]) -> None:
    """Rewrite the log before position `through`, where an event holds the whole state, in order.

    Learned batches and offers lose the forgotten examples; other learners still read the rest of them. Leases,
    predictions and older states are erased whole, except what an import knew of its examples. Stops when `stopped`
    returns true.
    """
    events: dict[int, Event] = {}
    ids: list[str] = []
    size = 0  # bytes of the payloads
    for at, record in store.read_around(name, 0):
        if at >= through:
            break
        if stopped():
            return
        kind = KINDS.get(record.kind)
        redacted = kind.redacted(record.payload, tombstones) if kind is not None else Redacted(None)
        if redacted is None:
            continue
        events[at] = (redacted.event or EventErased(record.kind)).record()
        ids += redacted.ids
        size += len(events[at].payload)
        if len(events) >= SLICE_EVENTS or size >= SLICE_BYTES:
            store.redact(name, through, events, ids)
            events, ids, size = {}, [], 0
    store.redact(name, through, events, ids)
