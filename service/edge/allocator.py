"""Tune glibc's allocator, so that freed memory returns to the system even if there are many threads.

By default glibc gives threads their own heaps, up to eight per core, and takes ever larger blocks from them. Other
heaps cannot use memory that a thread frees. With 200 clients, more than half of the memory growth was free memory.

glibc also does not return free memory between blocks in use. If a few blocks were allocated among the models in a heap,
the heap stays allocated after the models are deleted. So the server returns all free pages once a minute.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt, from malloc.h."""

HEAPS = 2
"""Number of heaps. Python's small objects do not use them, so threads seldom wait for each other here."""

BLOCK_BYTES = 2**20
"""Bytes from which a block gets its own pages, and from which the free end of a heap is returned."""


GIVE_BACK_S = 60.0
"""Seconds between two returns of free pages. A return takes milliseconds, during which a thread may wait for memory."""


def share_heaps(give_back_s: float = GIVE_BACK_S) -> None:
    """Let all threads share a few heaps, and return free pages from now on. Call this before threads start.

    This function has no effect without glibc.
    """
    if (mallopt := _libc("mallopt")) is not None:
        mallopt(M_ARENA_MAX, HEAPS)
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, BLOCK_BYTES)
    if (malloc_trim := _libc("malloc_trim")) is not None:
        threading.Thread(target=_give_back, args=(malloc_trim, give_back_s), name="memory", daemon=True).start()


def _give_back(malloc_trim: Callable[..., int], seconds: float) -> None:
    """Return free pages to the system every `seconds`, without end. ctypes lets other threads run meanwhile."""
    while True:
        time.sleep(seconds)
        malloc_trim(0)


def settle() -> None:
    """Exempt the existing objects from garbage collection, and return memory that is no longer needed.

    Compilers, routes and loaded models are 300,000 objects. Without this, each full collection would stop every thread
    for 100 ms.
    """
    gc.collect()
    gc.freeze()
    if (malloc_trim := _libc("malloc_trim")) is not None:
        malloc_trim(0)


def _libc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if the library has no function of this name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
