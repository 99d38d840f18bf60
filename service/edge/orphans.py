"""How a process that another one started ends with it, however that ends.

To be called before the rest is imported, which takes seconds on a busy machine: such a process has the port of the one
that started it from its first moment on, and where that is killed, the next one is to find the port free.
"""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""As in prctl.h."""


def end_with_the_parent() -> None:
    """Have the system send SIGTERM when the process ends that started this one; Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
