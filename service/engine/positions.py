"""Where the log of each model stands, for those who follow all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import NamedTuple


class LogPosition(NamedTuple):
    """The newest position of a model. birth: a number that tells it from an earlier model of its name."""

    birth: int
    position: int


class Positions:
    """By name, what was published last. On one event loop."""

    def __init__(self) -> None:
        self.newest: dict[str, LogPosition] = {}
        self.listeners: set[Callable[[str], None]] = set()
        """Told the name of each model that is at another place now, or gone."""
        self._births = count(time.time_ns())  # of a process that is started again they are others

    def begin(self, name: str, position: int) -> Callable[[int], None]:
        """A model is there: what is to be told its position from now on, and means nothing once it has ended."""
        birth = next(self._births)

        def moved(position: int) -> None:
            known = self.newest.get(name)
            if known is not None and known.birth == birth and known.position != position:
                self._put(name, LogPosition(birth, position))

        self._put(name, LogPosition(birth, position))
        return moved

    def end(self, name: str) -> None:
        """A model is there no more. Told also of one that was never loaded here: a follower may have it."""
        self.newest.pop(name, None)
        self._tell(name)

    def _put(self, name: str, place: LogPosition) -> None:
        self.newest[name] = place
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in [*self.listeners]:
            listener(name)
