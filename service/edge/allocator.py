"""The system's allocator, so that what is freed goes back to the system however many threads there are.

By itself glibc gives threads heaps of their own, up to eight for each core, and takes ever larger blocks from them.
What one thread frees no other heap can use: of what resident memory grew by under 200 clients, more than half was free.

Nor does it give back what is free between blocks that are in use, and a heap that was full of models is held by the few
blocks that came among them. So once a minute all whole free pages are given back.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""As in malloc.h."""

HEAPS = 2
"""Python's own small objects do not come from them, so that threads seldom wait for each other here."""

BLOCK_BYTES = 2**20
"""A block that is larger has pages of its own; so many free bytes at the end of a heap go back."""


GIVE_BACK_S = 60.0
"""Between two times that free pages go back, which takes milliseconds: a thread may wait so long for a block."""


def share_heaps(give_back_s: float = GIVE_BACK_S) -> None:
    """Let all threads use a few heaps, and give free pages back from then on; to be called before there are threads.

    Does nothing where there is no glibc.
    """
    if (mallopt := _libc("mallopt")) is not None:
        mallopt(M_ARENA_MAX, HEAPS)
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, BLOCK_BYTES)
    if (malloc_trim := _libc("malloc_trim")) is not None:
        threading.Thread(target=_give_back, args=(malloc_trim, give_back_s), name="memory", daemon=True).start()


def _give_back(malloc_trim: Callable[..., int], seconds: float) -> None:
    """For ever; ctypes lets other threads run meanwhile."""
    while True:
        time.sleep(seconds)
        malloc_trim(0)


def settle() -> None:
    """Keep the collector from going through what is there for good, and give back what making it took.

    Compilers, routes and loaded models are 300,000 objects: each full collection would stop every thread for 100 ms.
    """
    gc.collect()
    gc.freeze()
    if (malloc_trim := _libc("malloc_trim")) is not None:
        malloc_trim(0)


def _libc(name: str) -> Callable[..., int] | None:
    """A function of the C library, None where it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
