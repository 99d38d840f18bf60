"""Taking what is forgotten out of a model's log, so that its bytes are nowhere any more."""

from __future__ import annotations

from collections.abc import Callable

from hinged.service.model.events import KINDS
from hinged.service.model.events.base import Redacted
from hinged.service.model.events.states import EventErased
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Event, Store

SLICE_EVENTS, SLICE_BYTES = 1_000, 2**22
"""Events, and bytes of them, that are put anew in one transaction. Appends of all models wait for it."""


def redact(store: Store, name: str, tombstones: Tombstones, through: int, stopped: Callable[[], bool]) -> None:
    """Put the log before position `through`, where the whole state stands anew, in order.

    Learned batches and offers lose the examples that are forgotten. They alone are still read, for other learners; so
    of leases, predictions and older states nothing is kept at all, but what an import knew of its examples.
    Leaves off once `stopped` says so.
    """
    events: dict[int, Event] = {}
    ids: list[str] = []
    size = 0  # of their payloads, bytes
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
