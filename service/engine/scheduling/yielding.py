"""The store as the models use it. A call that waits for the store gives its place (turns.py) to another call.

The work after an append may take long, and so may the work for each event that is read. So the call rests before both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hinged.service.engine.scheduling.turns import rest_before_work, stand_back
from hinged.service.store.base import Event, Room, Store
from hinged.service.store.times import Times
from hinged.solvers.core.turns import rest


class Yielding(Store):
    """A store whose callers give up their place while they wait. It raises the store's errors, and the errors of a
    rest.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits = store.commits
        self.appends = Times()

    def models(self) -> list[str]:
        """Call Store.models."""
        return self._store.models()

    def create(self, model: str, first: Event) -> None:
        """Give up the place and call Store.create."""
        stand_back()
        self._store.create(model, first)

    def delete(self, model: str) -> None:
        """Give up the place and call Store.delete."""
        stand_back()
        self._store.delete(model)

    def append(self, model: str, after: int, events: Sequence[Event]) -> int:
        """Give up the place, call Store.append, then rest."""
        stand_back()
        with self.appends.one():
            position = self._store.append(model, after, events)
        rest_before_work()
        return position

    def end(self, model: str) -> int:
        """Call Store.end."""
        return self._store.end(model)

    def read(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Call Store.read, and rest before each event."""
        return _resting(self._store.read(model, after))

    def read_around(self, model: str, after: int) -> Iterator[tuple[int, Event]]:
        """Call Store.read_around, and rest before each event."""
        return _resting(self._store.read_around(model, after))

    def find(self, model: str, ids: Sequence[str]) -> dict[str, int]:
        """Call Store.find."""
        return self._store.find(model, ids)

    def put_snapshot(self, model: str, position: int, state: bytes) -> None:
        """Give up the place and call Store.put_snapshot."""
        stand_back()
        self._store.put_snapshot(model, position, state)

    def snapshots(self, model: str) -> list[int]:
        """Call Store.snapshots."""
        return self._store.snapshots(model)

    def get_snapshot(self, model: str, position: int) -> bytes:
        """Call Store.get_snapshot."""
        return self._store.get_snapshot(model, position)

    def trim(self, model: str, through: int) -> None:
        """Give up the place and call Store.trim."""
        stand_back()
        self._store.trim(model, through)

    def redact(self, model: str, through: int, events: Mapping[int, Event], ids: Sequence[str]) -> None:
        """Give up the place and call Store.redact."""
        stand_back()
        self._store.redact(model, through, events, ids)

    def purge(self) -> list[str]:
        """Give up the place and call Store.purge."""
        stand_back()
        return self._store.purge()

    def room(self) -> Room | None:
        """Call Store.room."""
        return self._store.room()

    def close(self) -> None:
        """Call Store.close."""
        self._store.close()


def _resting(events: Iterator[tuple[int, Event]]) -> Iterator[tuple[int, Event]]:
    for event in events:
        rest()
        yield event
