"""Let a child process end with its parent, however the parent ends.

Call it before other imports, which take seconds on a busy machine: the child holds the parent's port from its first
moment, and if the parent is killed, its successor must find the port free.
"""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl, from prctl.h."""


def end_with_the_parent() -> None:
    """Have Linux send this process SIGTERM when its parent ends; other systems cannot."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
