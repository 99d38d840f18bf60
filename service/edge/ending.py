"""End a server from within: in order, as at SIGTERM. The exit status says whether it should be started again."""

from __future__ import annotations

import signal
import threading

FAILURE = 1
"""Exit status of a process that failed."""
REFUSED = 3
"""Exit status of a process that cannot start with these settings or this store."""

TAKEN_OVER = 4
"""Exit status of a process whose store another server has taken over."""

_given_up = threading.Event()


def end() -> None:
    """End this process in order, as if asked to. From any thread; log the reason before."""
    signal.raise_signal(signal.SIGTERM)


def give_up() -> None:
    """Like `end`, but with the exit status of a failure."""
    _given_up.set()
    end()


def has_given_up() -> bool:
    """Whether the process ends because it could not go on, so that its supervisor should start it again."""
    return _given_up.is_set()
