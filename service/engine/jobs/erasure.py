"""Erase forgotten examples from a model's log, so that no copy of their bytes remains."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hinged.service.model.events import KINDS
from hinged.service.model.events.base import Redacted
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.events.states import EventErased
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Event, Store

SLICE_EVENTS, SLICE_BYTES = 1_000, 2**22
"""Maximum number of events, and maximum bytes of events, that are rewritten at once. Appends of all models wait
meanwhile."""


def redact(
    store: Store,
    name: str,
    tombstones: Tombstones,
    through: int,
    stopped: Callable[[], bool],
    *,
    sealed: bool = False,
) -> None:
    """Rewrite the events before `through`, in order. The event at `through` contains the whole state.

    Learned batches and offers lose the forgotten examples; other learners still read the remaining examples. Leases,
    predictions and older states are erased as a whole, but an import keeps its facts about examples. Return early when
    `stopped` returns true.

    sealed: whether the log may contain salts for receipts. The salts of these events go first, so that an interrupted
    redaction, which is repeated, leaves no salt of an event that it has replaced.
    """
    if sealed:
        _rewrite(store, name, _unsalted(_redacted(store, name, tombstones, through)), through, stopped)
    _rewrite(store, name, _redacted(store, name, tombstones, through), through, stopped)


Rewritten = Iterator[tuple[int, Event, Redacted | None]]
"""The events of a log: the position of each, the event in the log, and its replacement or None."""


def _redacted(store: Store, name: str, tombstones: Tombstones, through: int) -> Rewritten:
    for at, record in store.read_around(name, 0):
        if at >= through:
            break
        kind = KINDS.get(record.kind)
        yield at, record, kind.redacted(record.payload, tombstones) if kind is not None else Redacted(None)


def _unsalted(redacted: Rewritten) -> Rewritten:
    """Yield the seals instead, without the salts of the events that will be replaced."""
    gone: set[int] = set()
    for at, record, replacement in redacted:
        if record.kind == EventsSealed.KIND:
            event = EventsSealed.decoded(record.payload).without_salts(gone) if gone else None
            yield at, record, None if event is None else Redacted(event)
            gone.clear()
        else:
            yield at, record, None
            gone |= set() if replacement is None else {at}


def _rewrite(store: Store, name: str, redacted: Rewritten, through: int, stopped: Callable[[], bool]) -> None:
    """Replace events, a slice at a time."""
    events: dict[int, Event] = {}
    ids: list[str] = []
    size = 0  # bytes of the payloads
    for at, record, replacement in redacted:
        if stopped():
            return
        if replacement is None:
            continue
        events[at] = (replacement.event or EventErased(record.kind)).record()
        ids += replacement.ids
        size += len(events[at].payload)
        if len(events) >= SLICE_EVENTS or size >= SLICE_BYTES:
            store.redact(name, through, events, ids)
            events, ids, size = {}, [], 0
    store.redact(name, through, events, ids)
