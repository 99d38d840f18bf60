"""How a server ends by itself: in order, as at SIGTERM; its exit status tells whether it is to be started again."""

from __future__ import annotations

import signal
import threading

FAILURE = 1
REFUSED = 3
"""Of a process that cannot begin, as the settings or its store are."""

TAKEN_OVER = 4
"""Of a process whose store another server has now."""

_given_up = threading.Event()


def end() -> None:
    """End this process in order, as one that was asked to. From any thread; the reason is logged before."""
    signal.raise_signal(signal.SIGTERM)


def give_up() -> None:
    """The same, as one that has failed."""
    _given_up.set()
    end()


def has_given_up() -> bool:
    """Whether it ends because it could not go on, so that whoever watches it is to start it again."""
    return _given_up.is_set()
