"""Independent computations on several cores. The result has the same bits whatever the number of cores is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_here = threading.local()


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Let `on_each` use up to this many threads, when it is called on this thread.

    Compiled code does not hold Python's lock, so it runs on several cores at once. The threads have no listener
    (turns.py): their computations do not rest.
    """
    former: ThreadPoolExecutor | None = getattr(_here, "pool", None)
    with ThreadPoolExecutor(count) if count > 1 else nullcontext() as pool:
        _here.pool = pool
        try:
            yield
        finally:
            _here.pool = former


def on_each(call: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of the calls, in the order of the items. The calls must not change anything that they share.

    If calls raise, the error of the first of these items is raised after all calls have ended.
    """
    pool: ThreadPoolExecutor | None = getattr(_here, "pool", None)
    if pool is None or len(items) < 2:
        return [call(item) for item in items]
    futures = [pool.submit(call, item) for item in items]
    wait(futures)
    return [future.result() for future in futures]
