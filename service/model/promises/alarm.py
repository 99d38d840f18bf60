"""An alarm: a test martingale on scores, such as the errors of streamed examples. It begins again after each alarm.

path    the highest value of the martingale between two points, oldest first: (number of the score, value). When there
        are PATH_MAX points, each two become one, and the stride doubles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from hinged.service.model.promises.martingale import CAPITAL_MAX, Martingale, uniform
from hinged.solvers.core.states import COUNT_MAX, State, StateReader

PATH_MAX = 256  # part of the state: if this is changed, old logs lead to other paths
AT_ONCE = 256  # number of scores that are counted at once. It bounds the memory, and changes nothing else.


class Alarm:
    """Counts alarms. configured: the part `alarm` of a configuration. scores, sides: of the martingale."""

    def __init__(self, configured: Mapping[Any, float], scores: int = 2, sides: int = 1) -> None:
        self.configured = configured
        self.level: float = configured["level"]
        self.count = 0
        self.last_at = 0  # number of the score of the last alarm, from 1 on. 0: no alarm so far
        self.martingale = Martingale(scores, sides)
        self.path: list[tuple[int, float]] = []
        self._stride, self._highest = 1, 0.0

    def add(self, scores: Sequence[int], numbers: Sequence[int]) -> None:
        """Add scores in order, each with its number."""
        begin = 0
        while begin < len(scores):
            begin += self.add_until(scores[begin:], numbers[begin:])

    def add_until(self, scores: Sequence[int], numbers: Sequence[int]) -> int:
        """Add scores up to the next alarm. Return how many were added."""
        some = np.array(scores[:AT_ONCE], np.int64)
        thetas = np.array([uniform(number) for number in numbers[:AT_ONCE]])
        values = self.martingale.add(some, thetas, 1.0 / self.level).tolist()
        for number, value in zip(numbers, values, strict=False):
            self._note(number, value)
        if self.martingale.value >= 1.0 / self.level:
            self.count += 1
            self.last_at = numbers[len(values) - 1]
            self.martingale = Martingale(self.martingale.counts.size, self.martingale.sides)
        return len(values)

    def _note(self, number: int, value: float) -> None:
        """Add a point to the path if it is due, or if there is an alarm."""
        self._highest = max(self._highest, value)
        if self.path and value < 1.0 / self.level and number - self.path[-1][0] < self._stride:
            return
        self.path.append((number, self._highest))
        self._highest = 0.0
        if len(self.path) == PATH_MAX:
            pairs = zip(self.path[::2], self.path[1::2], strict=True)
            self.path, self._stride = [(late[0], max(early[1], late[1])) for early, late in pairs], 2 * self._stride

    def copy(self) -> Alarm:
        """Return a copy. Nothing but the path and the martingale's parts is ever changed in place."""
        found = copy(self)
        found.martingale, found.path = copy(self.martingale), self.path.copy()
        return found

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
            "last_at": self.last_at or None,
            "count": self.count,
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return the path as columns: numbers of scores, and decimal logarithms."""
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
        read = StateReader(state)
        martingale = Martingale(self.martingale.counts.size, self.martingale.sides)
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
