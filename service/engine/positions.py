"""Record the log positions of all models, for followers that follow every model."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple


class LogPosition(NamedTuple):
    """The newest position of a model. birth: a number that distinguishes the model from earlier models of the same
    name.
    """

    birth: int
    position: int


class Positions:
    """The last published position of each model, by name. Used on one event loop."""

    def __init__(self) -> None:
        self.newest: dict[str, LogPosition] = {}
        self.listeners: set[Callable[[str], None]] = set()
        """Functions to call with the name of each model whose position has changed, or that is gone."""
        self._births = count(time.time_ns())  # a restarted process begins with other numbers

    def begin(self, name: str, position: int) -> Callable[[int], None]:
        """Add a model. Return a function that sets its position; calls after the model's end have no effect."""
        birth = next(self._births)

        def moved(position: int) -> None:
            known = self.newest.get(name)
            if known is not None and known.birth == birth and known.position != position:
                self._put(name, LogPosition(birth, position))

        self._put(name, LogPosition(birth, position))
        return moved

    def end(self, name: str) -> None:
        """Remove a model. Call the listeners even if it was never loaded here, because a follower may have
        loaded it.
        """
        self.newest.pop(name, None)
        self._tell(name)

    def _put(self, name: str, place: LogPosition) -> None:
        self.newest[name] = place
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in [*self.listeners]:
            listener(name)
