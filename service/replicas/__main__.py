"""A reader: `python -m hinged.service.replicas FOLDER DESCRIPTOR`, started by the server (processes.py).

It has the server's port from its first moment on. So before it imports the rest, which takes seconds on a busy machine,
it asks the system to be ended with the server: where that is killed, the next one finds the port free.
"""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""As in prctl.h."""


def end_with_the_server() -> None:
    """Have the system send SIGTERM when the server ends, however that comes about; Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    end_with_the_server()
    from hinged.service.replicas.reader import main

    main()
