"""End a server from within, as cleanly as SIGTERM does. The exit status says whether the server should be restarted."""

from __future__ import annotations

import signal
import threading

FAILURE = 1
"""Exit status of a process that failed."""
REFUSED = 3
"""Exit status of a process that cannot start with these settings or this store."""

TAKEN_OVER = 4
"""Exit status of a process after another server has taken over its store."""

_given_up = threading.Event()


def end() -> None:
    """End this process cleanly, as SIGTERM does. Any thread may call this. Log the reason before the call."""
    signal.raise_signal(signal.SIGTERM)


def give_up() -> None:
    """Do the same as `end`, but with the exit status of a failure."""
    _given_up.set()
    end()


def has_given_up() -> bool:
    """Return whether the process ends because of a failure, so that its supervisor should restart it."""
    return _given_up.is_set()
