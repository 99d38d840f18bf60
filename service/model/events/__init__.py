"""The events of a model's log: everything that changes a model, in the order in which it did.

created     the configuration; the first, unless that is
imported    the state of a model that was exported
class_added a label that gets the next class number
learned     a micro-batch of examples, in order
revised     a later state of what another program keeps was heard of
finished    the finishing step was run, perhaps after further epochs
predicted   predictions that wait for their labels
offered     candidates for the pool
shown       candidates are shown as something else from now on
leased      candidates lent to an annotator, and what the request for them said
renewed, released, skipped, unskipped    what an annotator did with a lease
voted       one of several labels that a candidate needs
rolled_back the state became again what it was at an earlier position
forgotten   an example is to leave no trace
corrected   an example has another label
intended    another configuration, or a challenger, that is taught from the log before it takes its place
swapped     the whole state anew, made of the log without what was forgotten, with what is corrected or intended
settled     what was intended, corrected or forgotten is done, or has failed
reconfigured another configuration, in place
retired, promoted    what became of a challenger
set_aside   an event that could not be applied counts no longer
erased      an event that stood here and is none any more

at_ms is the time of an event, milliseconds since 1970; in a log it never falls.
"""

from __future__ import annotations

from typing import TypeAlias

from hinged.frames import BadFrame, decode
from hinged.service.model.events.changes import (
    Corrected,
    Forgotten,
    Intended,
    Promoted,
    Reconfigured,
    Retired,
    Settled,
)
from hinged.service.model.events.labelling import Leased, Offered, Released, Renewed, Shown, Skipped, Unskipped, Voted
from hinged.service.model.events.learning import ClassAdded, Finished, Learned, Predicted, Revised
from hinged.service.model.events.states import Created, Erased, Imported, RolledBack, SetAside, Swapped

__all__ = [
    "KINDS",
    "ClassAdded",
    "Corrected",
    "Created",
    "Erased",
    "Finished",
    "Forgotten",
    "Imported",
    "Intended",
    "Learned",
    "Leased",
    "ModelEvent",
    "Offered",
    "Predicted",
    "Promoted",
    "Reconfigured",
    "Released",
    "Renewed",
    "Retired",
    "Revised",
    "RolledBack",
    "SetAside",
    "Settled",
    "Shown",
    "Skipped",
    "Swapped",
    "Unskipped",
    "Voted",
    "decode_event",
]

ModelEvent: TypeAlias = (
    Created
    | Imported
    | RolledBack
    | ClassAdded
    | Learned
    | Revised
    | Finished
    | Predicted
    | Offered
    | Shown
    | Leased
    | Renewed
    | Released
    | Skipped
    | Unskipped
    | Voted
    | Forgotten
    | Corrected
    | Intended
    | Reconfigured
    | Settled
    | Retired
    | Promoted
    | SetAside
    | Erased
    | Swapped
)
KINDS: dict[str, type[ModelEvent]] = {
    event.KIND: event
    for event in (
        Created, Imported, RolledBack, ClassAdded, Learned, Revised, Finished, Predicted, Offered, Shown, Leased,
        Renewed, Released, Skipped, Unskipped, Voted, Forgotten, Corrected, Intended, Reconfigured, Settled, Retired,
        Promoted, SetAside, Erased, Swapped,
    )
}  # fmt: skip


def decode_event(kind: str, payload: bytes) -> ModelEvent:
    """The event of a payload. BadFrame if it is none that this version knows."""
    facts, arrays = decode(payload, kind)
    if kind not in KINDS:
        raise BadFrame(f"unknown kind of event: {kind!r}")
    try:
        return KINDS[kind].read(facts, arrays)
    except (KeyError, TypeError) as error:
        raise BadFrame(f"an event of kind {kind!r} of another version: {error!r}") from None
