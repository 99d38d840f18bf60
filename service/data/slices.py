"""Long work on the event loop, done in slices, between which other requests are served.

Such work is a generator that yields every few milliseconds and returns its result. A thread would not help: a single
call of C code holds Python's lock, and so blocks the event loop.
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
"""Seconds that a slice works before other work gets the event loop. The time between two yields comes on top. More
makes small requests wait longer."""
SPAN_VALUES, SPAN_ROWS = 100_000, 500
"""Numbers, and rows, that are worked on between two yields: a millisecond."""
FREED = 20
"""Objects that are freed between two yields; each may have 60 KB."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def sliced(work: Slices[T]) -> T:
    """Do work in slices, and return its result. In each turn of an event loop, one slice of all such work is done."""
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
    """Do the work on a thread without pauses; return its result. Other threads get Python's lock between its steps."""
    try:
        while True:
            next(work)
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]


def freed(parts: list[Any]) -> Slices[None]:
    """Free the parts of a list that nobody else uses. Freeing them all at once takes long: 10 ns for each number."""
    while parts:
        del parts[-FREED if isinstance(parts[-1], list | dict) else -SPAN_VALUES :]
        yield


def spans(ends: Array) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, begin to before end, that are worked on between two yields. ends: (m + 1,) 0, and where
    each row's values end.
    """
    begin, m = 0, len(ends) - 1
    while begin < m:
        end = int(np.searchsorted(ends, ends[begin] + SPAN_VALUES, side="right")) - 1
        end = min(max(end, begin + 1), begin + SPAN_ROWS, m)
        yield begin, end
        begin = end
