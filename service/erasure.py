"""Taking what is forgotten out of a model's log, so that its bytes are nowhere any more."""

from __future__ import annotations

import numpy as np

from service.events import (
    ClassAdded,
    Corrected,
    Created,
    Erased,
    Finished,
    Forgotten,
    Intended,
    Learned,
    Promoted,
    Reconfigured,
    Retired,
    RolledBack,
    Settled,
    decode_event,
)
from service.store.base import Event, Store
from service.traces import Traces

SLICE_EVENTS = 1_000

WITHOUT_EXAMPLES = frozenset(
    event.KIND
    for event in (
        ClassAdded, Created, Erased, Finished, Forgotten, Intended, Promoted, Reconfigured, Retired,
        RolledBack, Settled,
    )
)  # fmt: skip
"""Kinds of events that tell nothing of any example."""


def redact(store: Store, name: str, traces: Traces, through: int) -> None:
    """Put the log before position `through`, where the whole state stands anew, in order.

    Learned batches lose the examples that are forgotten. They alone are still read, for other learners; so of
    candidates, leases, predictions and older states nothing is kept at all.
    """
    events: dict[int, Event] = {}
    ids: list[str] = []
    for at, record in store.read(name, 0):
        if at >= through:
            break
        if record.kind == Learned.KIND:
            event = decode_event(record.kind, record.payload)
            assert isinstance(event, Learned)  # noqa: S101  decode_event checks the kind
            gone = [r for r in range(len(event.ids)) if traces.knows(event.id_of(r))]
            if gone:
                ids += [event.id_of(r) for r in gone]
                rest = event.take(np.delete(np.arange(len(event.ids)), gone))
                events[at] = Event(rest.KIND, rest.encode(), rest.given_ids)
        elif record.kind == Corrected.KIND:
            corrected = decode_event(record.kind, record.payload)
            if isinstance(corrected, Corrected) and corrected.number in traces.numbers:
                erased = Erased(record.kind)
                events[at] = Event(erased.KIND, erased.encode())
        elif record.kind not in WITHOUT_EXAMPLES:
            erased = Erased(record.kind)
            events[at] = Event(erased.KIND, erased.encode())
        if len(events) >= SLICE_EVENTS:
            store.redact(name, through, events, ids)
            events, ids = {}, []
    store.redact(name, through, events, ids)
