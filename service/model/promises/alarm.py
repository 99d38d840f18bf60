"""The alarm of one learner: a test martingale on the errors of streamed examples, which begins again after each alarm.

path    the highest value of the martingale between two points, oldest first: (number of the example, value). When there
        are PATH_MAX points, each two become one, and the stride doubles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hinged.service.model.promises.martingale import CAPITAL_MAX, Martingale, uniform
from hinged.solvers.core.states import COUNT_MAX, State, StateReader

PATH_MAX = 256  # part of the state: if this is changed, old logs lead to other paths


class Alarm:
    """Counts alarms. configured: the part `alarm` of a configuration."""

    def __init__(self, configured: Mapping[Any, float]) -> None:
        self.configured = configured
        self.level: float = configured["level"]
        self.count = 0
        self.last_at = 0  # number of the example of the last alarm, from 1 on. 0: no alarm so far
        self.martingale = Martingale()
        self.path: list[tuple[int, float]] = []
        self._stride, self._highest = 1, 0.0

    def add(self, errors: Sequence[bool], numbers: Sequence[int]) -> None:
        """Add errors in order, each with the number of its example."""
        for error, number in zip(errors, numbers, strict=True):
            self.martingale.add(error, uniform(number))
            self._note(number)
            if self.martingale.value >= 1.0 / self.level:
                self.count += 1
                self.last_at = number
                self.martingale = Martingale()

    def _note(self, number: int) -> None:
        """Add a point to the path if it is due."""
        self._highest = max(self._highest, self.martingale.value)
        if self.path and number - self.path[-1][0] < self._stride:
            return
        self.path.append((number, self._highest))
        self._highest = 0.0
        if len(self.path) == PATH_MAX:
            pairs = zip(self.path[::2], self.path[1::2], strict=True)
            self.path, self._stride = [(late[0], max(early[1], late[1])) for early, late in pairs], 2 * self._stride

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def log_value(self) -> float:
        """Return the decimal logarithm of the martingale. There is an alarm at -log10(level)."""
        return math.log10(self.martingale.value)

    def figures(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            "level": self.level,
            "value": self.log_value,
            "examples": self.martingale.seen,
            "errors": self.martingale.errors,
            "last_at": self.last_at or None,
            "count": self.count,
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return the path as columns: numbers of examples, and decimal logarithms."""
        path = list(self.path)  # a copy: the path grows in another thread
        return {"examples": [at for at, _ in path], "value": [math.log10(value) for _, value in path]}

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state as arrays."""
        own: State = {
            "alarms": np.array([self.count, self.last_at, self._stride]),
            "highest": np.array([self._highest]),
            "path_at": np.array([at for at, _ in self.path], np.int64),
            "path": np.array([value for _, value in self.path], np.float64),
        }
        return own | self.martingale.state()

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit; then nothing changes."""
        read, martingale = StateReader(state), Martingale()
        count, last_at, stride = read.take("alarms", np.int64, (3,), 0, COUNT_MAX).tolist()
        highest = float(read.take("highest", np.float64, (1,), 0.0, CAPITAL_MAX)[0])
        at = read.take("path_at", np.int64, (None,), 1, COUNT_MAX)
        path = read.take("path", np.float64, (at.size,), 0.0, CAPITAL_MAX)
        martingale.load(state)
        if (last_at > 0) != (count > 0) or count > last_at or not stride:
            raise ValueError(f"{count} alarms do not fit the last alarm at {last_at} and a stride of {stride}")
        if at.size >= PATH_MAX or (np.diff(at) <= 0).any() or (path <= 0.0).any():
            raise ValueError(f"a path must have less than {PATH_MAX} points of rising numbers and positive values")
        self.count, self.last_at, self._stride, self._highest = count, last_at, stride, highest
        self.path, self.martingale = list(zip(at.tolist(), path.tolist(), strict=True)), martingale
