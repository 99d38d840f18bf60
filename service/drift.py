"""Whether a model's errors have changed: ADWIN over the 0/1 errors of its predictions, River's.

A. Bifet and R. Gavalda, Learning from Time-Changing Data with Adaptive Windowing, SDM 2007. ADWIN keeps a window as
long as the mean is the same all over it, and cuts it where two parts differ. A cut behind which there are more errors
is a drift; fewer errors are what learning is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# River's ADWIN is this compiled class. Its Python face, river.drift, would load SciPy: a second and 70 MB.
from river.__version__ import __version__
from river._river_rust.drift import AdaptiveWindowing

from solvers.solver import StateReader

Array = np.ndarray[Any, Any]

DETECTOR = "adwin"
VERSION = np.frombuffer(__version__.encode(), np.uint8)


def new_detector() -> AdaptiveWindowing:
    """ADWIN as River has it by default."""
    return AdaptiveWindowing(delta=0.002, clock=32, max_buckets=5, min_window_length=5, grace_period=10)


class Drift:
    """Counts drifts and knows where the last one was."""

    def __init__(self) -> None:
        self.count = 0
        self.last_at = 0  # number of the example, from 1 on; 0 for none
        self._begin()

    def _begin(self) -> None:
        self._adwin = new_detector()
        self._seen = self._errors = 0  # since it began

    def add(self, errors: list[bool], numbers: list[int]) -> None:
        """Take errors in order, each with the number of its example."""
        for error, number in zip(errors, numbers, strict=True):
            self._seen += 1
            self._errors += error
            if self._adwin.update(error):
                # What is left is the part behind the cut.
                if self._adwin.get_total() / self._adwin.get_width() > self._errors / self._seen:
                    self.count += 1
                    self.last_at = number
                self._begin()

    def state(self) -> dict[str, Array]:
        """The detector as arrays."""
        return {
            "counts": np.array([self.count, self.last_at, self._seen, self._errors]),
            "adwin": np.frombuffer(self._adwin.__getstate__(), np.uint8),
            "version": VERSION,
        }

    def load(self, state: dict[str, Array]) -> None:
        """Take over a state of `state`. ValueError where it is none.

        Of another version of River only the counts are taken: the detector begins anew.
        """
        read = StateReader(state)
        counts = read.take("counts", np.int64, (4,), 0, np.iinfo(np.int64).max)
        self.count, self.last_at, seen, errors = (int(v) for v in counts)
        self._begin()
        if np.array_equal(read.take("version", np.uint8, (None,)), VERSION):
            _set_state(self._adwin, read.take("adwin", np.uint8, (None,)).tobytes())
            self._seen, self._errors = seen, errors
            if (self._adwin.get_width(), self._adwin.get_total()) != (seen, errors):
                raise ValueError(f"adwin does not hold {seen} examples with {errors} errors")


def _set_state(adwin: AdaptiveWindowing, state: bytes) -> None:
    try:
        adwin.__setstate__(state)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what Rust raises is no Exception, and has no public name
            raise
        raise ValueError(f"adwin cannot be read: {error}") from None
