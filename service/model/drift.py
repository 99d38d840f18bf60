"""Drift: find out whether a model's error rate has changed, by ADWIN (adwin.py) over the 0/1 errors of its predictions.

ADWIN keeps a window as long as its mean is the same in all its parts. ADWIN cuts the window where two parts differ. If
the error rate is higher after a cut, this is a drift. A lower error rate is the expected effect of learning. In both
cases, a new detector starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.service.model.adwin import CLOCK, Adwin
from hinged.solvers.core.states import COUNT_MAX, StateReader

Array = np.ndarray[Any, Any]

DETECTOR = "adwin"


class Drift:
    """Counts drifts, and stores the number of the example at which the last drift was found."""

    def __init__(self) -> None:
        self.count = 0
        self.last_at = 0  # number of the example, from 1 on. 0: no drift so far
        self._adwin = Adwin()

    @property
    def seen(self) -> int:
        """Return the number of examples since the detector started."""
        return self._adwin.width

    @property
    def errors(self) -> int:
        """Return the number of errors among these examples."""
        return self._adwin.total

    def add(self, errors: list[bool], numbers: list[int]) -> None:
        """Add errors in order, each with the number of its example."""
        if len(errors) != len(numbers):
            raise ValueError(f"there must be a number for each of the {len(errors)} errors, got {len(numbers)}")
        begin = 0
        while begin < len(errors):
            end = min(len(errors), begin + CLOCK - self.seen % CLOCK)
            self._adwin.extend(errors[begin:end])
            begin = end
            if self.seen % CLOCK == 0:
                rate = self.errors / self.seen
                if self._adwin.cut():
                    # Only the part after the cut remains.
                    if self.errors / self.seen > rate:
                        self.count += 1
                        self.last_at = numbers[end - 1]
                    self._adwin = Adwin()

    def state(self) -> dict[str, Array]:
        """Return the state as arrays: the number of drifts, the last drift, the examples and errors since then, and the
        detector's buckets.
        """
        return {
            "counts": np.array([self.count, self.last_at, self.seen, self.errors]),
            "buckets": np.array(self._adwin.buckets, np.int64),
        }

    def load(self, state: dict[str, Array]) -> None:
        """Restore the state from a result of `state`. Raise ValueError if the state is invalid; then nothing changes.

        The earlier detector belonged to a different library. From its state, only the counts are taken, and the
        detector starts again.
        """
        read = StateReader(state)
        count, last_at, seen, errors = read.take("counts", np.int64, (4,), 0, COUNT_MAX).tolist()
        if not count * CLOCK <= last_at or (last_at > 0) != (count > 0):
            raise ValueError(f"counts of {count} drifts do not fit the last drift at {last_at}")
        adwin = Adwin()
        if "buckets" in state or "version" not in state:
            adwin.load(seen, read.take("buckets", np.int64, (None,), 0, COUNT_MAX).tolist())
            if adwin.total != errors:
                raise ValueError(f"the buckets have {adwin.total} errors, the counts {errors}")
        self.count, self.last_at, self._adwin = count, last_at, adwin
