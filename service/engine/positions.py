"""The log positions of all models, for followers of all models."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple


class LogPosition(NamedTuple):
    """The newest position of a model. birth: number that tells the model from an earlier model of the same name."""

    birth: int
    position: int


class Positions:
    """The last published position of each model, by name. On one event loop."""

    def __init__(self) -> None:
        self.newest: dict[str, LogPosition] = {}
        self.listeners: set[Callable[[str], None]] = set()
        """Called with the name of each model whose position has changed, or that is gone."""
        self._births = count(time.time_ns())  # a restarted process begins with other numbers

    def begin(self, name: str, position: int) -> Callable[[int], None]:
        """Add a model; return the function to call with each new position. It has no effect after the model's end."""
        birth = next(self._births)

        def moved(position: int) -> None:
            known = self.newest.get(name)
            if known is not None and known.birth == birth and known.position != position:
                self._put(name, LogPosition(birth, position))

        self._put(name, LogPosition(birth, position))
        return moved

    def end(self, name: str) -> None:
        """Remove a model. Listeners are called even if it was never loaded here, because a follower may have it."""
        self.newest.pop(name, None)
        self._tell(name)

    def _put(self, name: str, place: LogPosition) -> None:
        self.newest[name] = place
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in [*self.listeners]:
            listener(name)
