"""Do long work on the event loop in slices. Between two slices, the event loop serves other requests.

Such work is a generator that yields every few milliseconds and finally returns its result. A thread would not help: a
single call of C code holds Python's lock, and so blocks the event loop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, finalize

import numpy as np

Array = np.ndarray[Any, Any]
T = TypeVar("T")
Slices: TypeAlias = Generator[None, None, T]

SLICE_S = 0.002
"""Seconds for which a slice works before other work gets the event loop. A slice may last longer by the time between
two yields. With a larger value, small requests wait longer.
"""
SPAN_VALUES, SPAN_ROWS = 100_000, 500
"""Maximum number of numbers, and of rows, that are processed between two yields. This takes about a millisecond."""
FREED = 20
"""Number of elements of a long list or object that are freed in one step."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def sliced(work: Slices[T]) -> T:
    """Do work in slices, and return its result. Each turn of an event loop runs one slice of all such work."""
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        next(work)  # work of a single step does not wait for its turn
        while True:
            async with turn:
                end = time.perf_counter() + SLICE_S
                while time.perf_counter() < end:
                    next(work)
            await asyncio.sleep(0)
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]
    finally:
        work.close()


def at_once(work: Slices[T]) -> T:
    """Do the work on a thread without pauses, and return its result. Other threads get Python's lock between its
    steps.
    """
    try:
        while True:
            next(work)
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]


class FreedInSlices:
    """Long lists and objects that are freed in slices, once this object is gone.

    Freeing them all at once would take long: 10 ns per number, 100 ns per list. Those that are still in use then are
    left alone. Without an event loop, they are freed as usual.
    """

    def __init__(self) -> None:
        self._long: deque[list[Any] | dict[Any, Any]] = deque()
        with suppress(RuntimeError):
            finalize(self, _free_soon, asyncio.get_running_loop(), self._long).atexit = False

    def add(self, long: list[Any] | dict[Any, Any]) -> None:
        """Add a list or an object. It comes before the lists and objects in it."""
        self._long.append(long)


def _free_soon(loop: asyncio.AbstractEventLoop, long: deque[Any]) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(_free, loop, long)


def _free(loop: asyncio.AbstractEventLoop, long: deque[Any]) -> None:
    end = time.perf_counter() + SLICE_S
    while long and time.perf_counter() < end:
        if not long[0] or sys.getrefcount(long[0]) > 2:  # the deque's reference, and the argument
            long.popleft()
        elif isinstance(long[0], list):
            del long[0][-FREED:]
        else:
            for _ in range(min(FREED, len(long[0]))):
                long[0].popitem()
    if long:
        loop.call_soon(_free, loop, long)


def spans(ends: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, begin to end - 1, to process between two yields. ends: (m + 1,): 0, then the index at which
    the values of each row end.
    """
    begin, m = 0, len(ends) - 1
    while begin < m:
        end = int(np.searchsorted(ends, ends[begin] + SPAN_VALUES, side="right")) - 1
        end = min(max(end, begin + 1), begin + SPAN_ROWS, m)
        yield begin, end
        begin = end
