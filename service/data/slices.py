"""Work on the event loop that takes long, done in slices: between two of them everybody else is served.

Such work is a generator that yields every few milliseconds and returns what it found. A thread would be no help: what
C code does in one call keeps Python's lock all the while, and the event loop with it.
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
"""How long a slice works on, seconds, before others get the event loop; what is between two yields comes on top."""
SPAN_VALUES, SPAN_ROWS = 100_000, 500
"""Numbers, and rows, that are worked on at once: a millisecond."""
FREED = 20
"""Objects that are let go of at once; each may have 60 KB."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def sliced(work: Slices[T]) -> T:
    """What this work finds. Of all such work of an event loop one slice is done in each turn of the loop."""
    turn = _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        next(work)  # what takes one step waits for nobody
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
    """The same on a thread, where nobody waits: whoever wants Python's lock gets it between two steps of the work."""
    try:
        while True:
            next(work)
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]


def freed(parts: list[Any]) -> Slices[None]:
    """Let go of the parts of a list that nobody else will look at, which takes long at once: 10 ns for each number."""
    while parts:
        del parts[-FREED if isinstance(parts[-1], list | dict) else -SPAN_VALUES :]
        yield


def spans(ends: Array) -> Iterator[tuple[int, int]]:
    """Rows begin..end that are worked on at once; ends: (m + 1,) where each row's values end, after a 0."""
    begin, m = 0, len(ends) - 1
    while begin < m:
        end = int(np.searchsorted(ends, ends[begin] + SPAN_VALUES, side="right")) - 1
        end = min(max(end, begin + 1), begin + SPAN_ROWS, m)
        yield begin, end
        begin = end
