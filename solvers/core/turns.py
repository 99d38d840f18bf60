"""Turns: long computations pause now and then, so that other work can run.

A call into compiled code cannot be interrupted. So a long computation is cut into calls of bounded work, and between
two calls Python calls `rest`. The code that runs several computations sets a listener (`resting`). At each rest, the
listener decides whether other work runs first, or whether this computation is abandoned.

Work is counted, never timed. The cuts depend only on the computation's own numbers, and no bit of the result depends on
the cuts. The unit is about one multiplication and addition of a vectorised loop: half a nanosecond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORK_MAX = 6_000_000
"""Maximum work of one compiled call: a few milliseconds.

A piece that cannot be cut, such as one kernel row, may be larger.
"""

VALUE_WORK = 4
"""Work of a kernel value, in addition to 1 for each non-zero feature of its row."""

GATHERED_WORK = 3
"""Work per feature if points have no columns."""

Listener = Callable[[], None]

_here = threading.local()


class Abandoned(BaseException):
    """Raised by a listener to abandon the computation. The solver may be inconsistent and must be discarded."""


def rest() -> None:
    """Let other work run. Called between two compiled calls; does nothing unless this thread has a listener."""
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is not None:
        listener()


@contextmanager
def resting(listener: Listener) -> Iterator[None]:
    """Make `rest` call the listener on this thread. The listener may block, and may raise `Abandoned`."""
    former: Listener | None = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = former


def portion(work_each: float) -> int:
    """Return how many pieces of this work one compiled call handles: at least one."""
    return max(1, int(WORK_MAX / max(1.0, work_each)))
