"""The system's allocator, so that what is freed goes back to the system however many threads there are.

By itself glibc gives threads heaps of their own, up to eight for each core, and takes ever larger blocks from them.
What one thread frees no other heap can use: of what resident memory grew by under 200 clients, more than half was free.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""As in malloc.h."""

HEAPS = 2
"""Python's own small objects do not come from them, so that threads seldom wait for each other here."""

BLOCK_BYTES = 2**20
"""A block that is larger has pages of its own; so many free bytes at the end of a heap go back."""


def share_heaps() -> None:
    """Let all threads use a few heaps; to be called before there are any. Does nothing where there is no glibc."""
    if (mallopt := _libc("mallopt")) is not None:
        mallopt(M_ARENA_MAX, HEAPS)
        mallopt(M_MMAP_THRESHOLD, BLOCK_BYTES)
        mallopt(M_TRIM_THRESHOLD, BLOCK_BYTES)


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
