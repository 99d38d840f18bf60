"""Make a child process end when its parent ends, however the parent ends.

Call this before other imports, which take seconds on a busy machine. The child has the parent's port open from the
beginning. If the parent is killed, the next server must find the port free.
"""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl, from prctl.h."""


def end_with_the_parent() -> None:
    """Tell Linux to send this process SIGTERM when its parent ends. Other systems cannot do this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
