"""The events of a model's log. Everything that changes a model is an event, and the events are in order.

Everything particular to a kind of event is in its class (base.py). The class defines how the event is written and read,
what must be true before it is appended, what it does, what followers get, and what remains of it after erasing.
"""

from __future__ import annotations

from types import ModuleType

from hinged.frames import BadFrame
from hinged.service.data.declared import check_declared
from hinged.service.model.events import changes, decisions, hooks, labelling, learning, receipts, states
from hinged.service.model.events.base import ModelEvent

__all__ = ["KINDS", "ModelEvent", "decode_event"]


def _kinds(*modules: ModuleType) -> dict[str, type[ModelEvent]]:
    """Return every event class by its kind. Raise TypeError for a class that lacks a definition, or if a kind occurs
    twice.
    """
    found: dict[str, type[ModelEvent]] = {}
    for module in modules:
        for value in vars(module).values():
            if not (isinstance(value, type) and issubclass(value, ModelEvent) and value.__module__ == module.__name__):
                continue
            if "KIND" not in vars(value):  # a base of several kinds
                continue
            check_declared(value, "event")
            if value.KIND in found:
                raise TypeError(f"{value.__name__} and {found[value.KIND].__name__} are both of kind {value.KIND!r}")
            found[value.KIND] = value
    return found


KINDS = _kinds(states, learning, labelling, changes, hooks, decisions, receipts)


def decode_event(kind: str, payload: bytes) -> ModelEvent:
    """Return the event of a payload. Raise BadFrame if this version does not know the kind."""
    if kind not in KINDS:
        raise BadFrame(f"unknown kind of event: {kind!r}")
    return KINDS[kind].decoded(payload)
