"""Let a test have the machine for itself, while the tests of the other processes wait.

A test that measures the server needs this if a busy machine has disturbed its measurement. Every test holds a shared
lock while it runs, and a test that wants to be alone waits for an exclusive lock.
"""

import fcntl
from contextlib import contextmanager, nullcontext, suppress


class Turns:
    """Locks in a folder that all processes of this test run share."""

    def __init__(self, folder):
        self._next, self._running = ((folder / name).open("wb") for name in ("next.lock", "running.lock"))

    @contextmanager
    def together(self):
        """Run a test while other processes run theirs."""
        fcntl.flock(self._next, fcntl.LOCK_SH)  # wait for a test that wants to be alone
        fcntl.flock(self._running, fcntl.LOCK_SH)
        fcntl.flock(self._next, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._running, fcntl.LOCK_UN)

    @contextmanager
    def alone(self):
        """Wait for the tests of all other processes, and let no other begin. The caller runs `together`."""
        fcntl.flock(self._next, fcntl.LOCK_EX)
        fcntl.flock(self._running, fcntl.LOCK_EX)  # gives up the shared lock first
        try:
            yield
        finally:
            fcntl.flock(self._running, fcntl.LOCK_SH)
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def close(self):
        """Close the files."""
        self._next.close()
        self._running.close()


_turns = None


def begin(folder):
    """Use this folder from now on."""
    global _turns  # noqa: PLW0603  a process of tests has one
    _turns = Turns(folder)


def end():
    """Close the files, if there are any."""
    with suppress(AttributeError):
        _turns.close()


def together():
    """Return the context in which a test runs."""
    return _turns.together() if _turns else nullcontext()


def alone():
    """Return the context in which no other process runs a test."""
    return _turns.alone() if _turns else nullcontext()
