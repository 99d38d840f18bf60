"""Run one of several server processes: `python -m hinged.service NUMBER DESCRIPTOR`. The supervisor starts such a
process.
"""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl, from prctl.h."""


def end_with_the_parent() -> None:
    """Tell Linux to send this process SIGTERM when its parent ends, however it ends. Other systems cannot do this.

    Call this before other imports, which take seconds on a busy machine. The child has the parent's port open from the
    beginning. If the parent is killed, the next server must find the port free.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    end_with_the_parent()
    from hinged.service.process import main

    main()
