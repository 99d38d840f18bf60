"""The window of a model: which examples have become too old, and how the remaining examples fade."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from hinged.service.data.parts import HalfLife, Window
from hinged.solvers.core.elementary import exp
from hinged.solvers.core.states import COUNT_MAX, StateReader

Array = np.ndarray[Any, Any]

Left: TypeAlias = range
"""The numbers of the examples that leave."""

NONE: Left = range(0)
FADES = 64  # fading steps per half-life of examples, for models without a configured step
STEPS = 100  # a window without a configured step moves at least this often within its own length
GRAINS = 1_000  # number of different times within a window of seconds
LN_2 = 0.6931471805599453
HALF_LIVES_MAX = 64.0  # maximum number of half-lives in one step: after this many, nothing is left
MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class Ages:
    """Finds the examples that leave the window, and returns each only once. The result does not depend on how the
    stream is cut into batches.

    With a half-life, examples leave after a number of half-lives. Until then, older examples have less and less weight.
    """

    def __init__(self, window: Window | None, half_life: HalfLife | None = None) -> None:
        if half_life is not None:
            window = half_life.window
        self._half_life = half_life.examples if half_life is not None else None
        self._half_life_ms = 1000 * half_life.seconds if half_life is not None and half_life.seconds else None
        said = window.step if window is not None else None
        self._step = said or max(1, (self._half_life or 0) // FADES)  # examples between two fading steps
        self._examples = window.examples if window is not None else None
        self._ms = round(1000 * window.seconds) if window is not None and window.seconds is not None else None
        self._stride = said or max(1, (self._examples or 0) // STEPS)  # number of examples that leave together
        self.dropped = 0  # all examples up to this number have left
        self._faded = 0  # number of steps by which the remaining examples have faded
        # For each group of examples close in time: (number of the last example, first time, last time).
        self._grains: list[tuple[int, int, int]] = []

    def end_of_part(self, keys: Array, begin: int) -> int:
        """Return the end of the part of a batch that starts at `begin`. A part ends where the window moves."""
        if self._examples is None:
            return int(keys.size)
        strides = [self._stride] if self._half_life is None else [self._stride, self._step]
        border = min((int(keys[begin]) // stride + 1) * stride for stride in strides)
        return begin + int(np.searchsorted(keys[begin:], border))

    def fading_until(self, now_ms: int) -> float:
        """Return the factor by which everything has faded since the last example, for a half-life in seconds; otherwise
        1.
        """
        if self._half_life_ms is None or not self._grains or now_ms <= self._grains[-1][2]:
            return 1.0
        return _part_left((now_ms - self._grains[-1][2]) / self._half_life_ms)

    def fading_to(self, number: int) -> float:
        """Return the factor by which everything fades before example `number`, for a half-life in examples; otherwise
        1.
        """
        steps = number // self._step
        if self._half_life is None or steps == self._faded:
            return 1.0
        steps, self._faded = steps - self._faded, steps  # several steps if the examples in between were forgotten
        return _part_left(steps * self._step / self._half_life)

    def add(self, last: int, at_ms: int) -> Left:
        """Record that examples up to number `last` have been learned. Return the examples that no longer fit the
        window.
        """
        if self._ms is not None:
            if self._grains and at_ms - self._grains[-1][1] < self._ms // GRAINS:
                self._grains[-1] = (last, self._grains[-1][1], at_ms)
            else:
                self._grains.append((last, at_ms, at_ms))
        if self._examples is None or (last + 1) % self._stride:
            return NONE
        return self._leave(last - self._examples)

    def older_than(self, now_ms: int) -> Left:
        """Return the examples that are too old at this time."""
        if self._ms is None:
            return NONE
        through = 0
        while self._grains and self._grains[0][2] < now_ms - self._ms:
            through = self._grains.pop(0)[0]
        return self._leave(through)

    def _leave(self, through: int) -> Left:
        if through <= self.dropped:
            return NONE
        left = range(self.dropped + 1, through + 1)
        self.dropped = through
        return left

    def state(self) -> dict[str, Array]:
        """Return the state as arrays."""
        state = {"dropped": np.array([self.dropped]), "grains": np.array(self._grains, np.int64).reshape(-1, 3)}
        return state | ({"faded": np.array([self._faded])} if self._half_life is not None else {})

    def load(self, state: dict[str, Array]) -> None:
        """Restore the state from a result of `state`."""
        read = StateReader(state)
        dropped = int(read.take("dropped", np.int64, (1,), 0, COUNT_MAX)[0])
        grains = read.take("grains", np.int64, (None, 3), 0, COUNT_MAX)
        if (grains.size and self._ms is None) or (dropped and self._ms is None and self._examples is None):
            raise ValueError("without a window no example may have left it")
        if (np.diff(grains[:, 0], prepend=dropped) <= 0).any() or (grains[:, 1:] > MS_MAX).any():
            raise ValueError("grains must be of examples that are still there, in order, and before the year 10,000")
        if self._half_life is not None:
            self._faded = int(read.take("faded", np.int64, (1,), 0, COUNT_MAX)[0])
        self.dropped = dropped
        self._grains = [tuple(row) for row in grains.tolist()]

    @property
    def newest(self) -> int:
        """Return the newest example number that is known here."""
        return self._grains[-1][0] if self._grains else self.dropped

    @property
    def newest_ms(self) -> int:
        """Return the latest time of an example that is known here."""
        return max((row[2] for row in self._grains), default=0)


def _part_left(half_lives: float) -> float:
    """Return the remaining share after a number of half-lives, with the same bits on every processor."""
    return float(exp(-LN_2 * min(half_lives, HALF_LIVES_MAX)))  # type: ignore[no-untyped-call]
