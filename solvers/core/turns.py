"""Turns: long computations stop now and then, so that other work gets on.

A call into compiled code cannot be interrupted. So a long computation is cut into calls of bounded work, and the Python
code between two calls invokes `rest`. The code that runs computations side by side listens (`resting`); it decides at
each rest whether other work comes first, or whether this computation is abandoned.

Work is counted, never timed: a computation is cut at places that depend on its own numbers alone, and no bit of its
result depends on where it was cut. The unit is about one multiplication and addition of a vectorised loop: half a
nanosecond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WORK_MAX = 6_000_000
"""Work of one compiled call: some milliseconds. A piece that cannot be cut, such as one kernel row, may be larger."""

VALUE_WORK = 4
"""Work of a kernel value, besides 1 for each non-zero feature of its row."""

GATHERED_WORK = 3
"""Work of a feature where points keep no columns."""

Listener = Callable[[], None]

_here = threading.local()


class Abandoned(BaseException):
    """A listener raises it to abandon the computation. The solver may be torn and must be thrown away."""


def rest() -> None:
    """Let other work get on; called between two compiled calls. Does nothing unless this thread has a listener."""
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is not None:
        listener()


@contextmanager
def resting(listener: Listener) -> Iterator[None]:
    """Have `rest` call the listener on this thread. The listener may block, and may raise `Abandoned`."""
    former: Listener | None = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = former


def portion(work_each: float) -> int:
    """How many pieces of this work one compiled call takes: at least one."""
    return max(1, int(WORK_MAX / max(1.0, work_each)))
