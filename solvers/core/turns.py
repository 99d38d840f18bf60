"""Turns: long computations stop now and then, so that others get on.

A call into compiled code cannot be interrupted. So whatever may take long is cut into calls of bounded work, and the
Python code that drives them calls `rest` between two. Whoever runs computations side by side listens (`resting`) and
decides there whether others come first, or whether this one is given up.

Work is counted, never timed: where a computation is cut depends on its own numbers alone, and no bit of its result on
where it was cut. The unit is about a multiplication and an addition of a vectorised loop, half a nanosecond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORK_MAX = 6_000_000
"""Work of one compiled call: some milliseconds. A piece that is not cut, such as one kernel row, may be larger."""

VALUE_WORK = 4
"""Of a kernel value, beside one for each non-zero feature of its row."""

GATHERED_WORK = 3
"""Of a feature where points keep no columns."""

Listener = Callable[[], None]

_here = threading.local()


class Abandoned(BaseException):
    """Raised by a listener to give the computation up for good: the solver may be torn and is to be thrown away."""


def rest() -> None:
    """Let others get on: called between two compiled calls. Does nothing unless somebody listens on this thread."""
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is not None:
        listener()


@contextmanager
def resting(listener: Listener) -> Iterator[None]:
    """Have `rest` call this on this thread meanwhile. It may block, and may raise `Abandoned`."""
    former: Listener | None = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = former


def portion(work_each: float) -> int:
    """How many pieces of so much work one compiled call takes: one at least."""
    return max(1, int(WORK_MAX / max(1.0, work_each)))
