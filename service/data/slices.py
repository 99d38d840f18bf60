"""Do long work on the event loop in slices. Between two slices, the event loop serves other requests.

Such work is a generator that yields every few milliseconds and finally returns its result. A thread would not help: a
single call of C code holds Python's lock, and so blocks the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

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
"""Number of objects that are freed between two yields. Each object may have 60 KB."""

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


def freed(parts: list[Any]) -> Slices[None]:
    """Free those parts of a list that nobody else uses. Freeing all at once would take long: 10 ns per number."""
    while parts:
        del parts[-FREED if isinstance(parts[-1], list | dict) else -SPAN_VALUES :]
        yield


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
