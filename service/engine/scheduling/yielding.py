"""The store as the models use it. A call that waits for the store gives its place (turns.py) to another call.

The work after an append may take long, and so may the work for each event that is read. So the call rests before both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import Histogram

from hinged.service.engine.scheduling.turns import rest_before_work, stand_back
from hinged.service.store.base import BOUNDS_S, Event, Store
from hinged.solvers.core.turns import rest


def _method(name: str, *, yields: bool) -> Any:
    """Return a method that calls the store's method. yields: whether it first gives up the place."""

    def call(self: Yielding, *arguments: Any) -> Any:
        if yields:
            stand_back()
        return getattr(self._store, name)(*arguments)

    return call


class Yielding(Store):
    """A store whose callers give up their place while they wait. It raises the store's errors, and the errors of a
    rest.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits = store.commits
        meaning = "Time until an append is durable."
        self.appends = Histogram("hinged_store_append_duration_seconds", meaning, buckets=BOUNDS_S, registry=None)

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Give up the place, call Store.append, then rest."""
        stand_back()
        with self.appends.time():
            position = self._store.append(model, after, events)
        rest_before_work()
        return position

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Call Store.read, and rest before each event."""
        return _resting(self._store.read(model, after))

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Call Store.read_around, and rest before each event."""
        return _resting(self._store.read_around(model, after))

    create, delete, put_snapshot, trim, redact, purge = (
        _method(name, yields=True) for name in ("create", "delete", "put_snapshot", "trim", "redact", "purge")
    )
    models, end, find, snapshots, get_snapshot, room, close = (
        _method(name, yields=False) for name in ("models", "end", "find", "snapshots", "get_snapshot", "room", "close")
    )


def _resting(events: Iterator[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    for event in events:
        rest()
        yield event
