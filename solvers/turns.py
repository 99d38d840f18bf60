"""Turns of a long computation: where it may rest, so that others get theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Abandoned(BaseException):
    """The computation is given up for good; what it worked on may be torn, and is thrown away."""


_heard = threading.local()


def rest() -> None:
    """Called between two compiled calls; calls whoever listens on this thread."""
    listener = getattr(_heard, "listener", None)
    if listener is not None:
        listener()


@contextmanager
def resting(listener: Callable[[], None]) -> Iterator[None]:
    """Let `rest` call this on this thread."""
    former = getattr(_heard, "listener", None)
    _heard.listener = listener
    try:
        yield
    finally:
        _heard.listener = former
