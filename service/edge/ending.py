"""How a server ends that cannot go on: in order, as at SIGTERM, but with an exit status that tells."""

from __future__ import annotations

import signal
import threading

FAILURE = 1

_given_up = threading.Event()


def give_up() -> None:
    """End this process in order, as one that has failed. From any thread; the reason is logged before."""
    _given_up.set()
    signal.raise_signal(signal.SIGTERM)


def has_given_up() -> bool:
    """Whether it ends because it could not go on: nobody asked it to, and whoever watches it is to start it again."""
    return _given_up.is_set()
