"""The queue of a model's worker. Queued requests to learn are taken together as one micro-batch."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hinged.service import limits
from hinged.service.engine.learning import Learning
from hinged.service.engine.work import Work
from hinged.service.errors import QueueFull, ServiceError
from hinged.service.settings import Settings


@dataclass(slots=True)
class Queued:
    """Work that waits, and the futures of its callers. examples: number of examples that the work learns."""

    work: Work
    futures: list[asyncio.Future[Any]]
    examples: int


class Queue:
    """The waiting work of one model, in order of arrival. Used on the event loop."""

    def __init__(self, model: str, settings: Settings) -> None:
        self._model = model
        self.examples_max = settings.queue_examples_max  # a single larger piece of work is accepted
        self._waiting: deque[Queued] = deque()
        self.examples = 0  # number of examples in all waiting work
        # Seconds and examples of past micro-batches: sums in which each has half the weight of the next.
        self._seconds = self._learned = 0.0
        self._busy: tuple[float, int] | None = None  # start and size of the work in progress, if more work waits

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, work: Work, *, first: bool = False) -> asyncio.Future[Any]:
        """Queue work; return the future of its answer. Raise QueueFull if too much work is waiting.

        first: put it before all other work and ignore the limits.
        """
        limit, examples = self.examples_max, work.examples if isinstance(work, Learning) else 0
        if examples and self.examples and self.examples + examples > limit:
            raise self._full(f"{self.examples} examples of at most {limit} wait for model {self._model}")
        if not first and len(self._waiting) >= limit:
            raise self._full(f"{len(self._waiting)} requests wait for model {self._model}")
        future = asyncio.get_running_loop().create_future()
        queued = Queued(work, [future], examples)
        if first:
            self._waiting.appendleft(queued)
        else:
            self._waiting.append(queued)
        self.examples += examples
        return future

    @property
    def learns(self) -> bool:
        """Return whether the next piece of work learns."""
        return bool(self._waiting) and isinstance(self._waiting[0].work, Learning)

    def take(self) -> Queued:
        """Take the next work.

        If the work learns, also take the requests to learn that follow it directly, as long as they fit into the
        micro-batch.
        """
        taken = self._waiting.popleft()
        if isinstance(taken.work, Learning):
            taken = self._with_following(taken.work, taken)
        self.examples -= taken.examples
        self._note(taken.examples)
        return taken

    def _note(self, examples: int) -> None:
        """Record how long the last micro-batch took, if this work waited for it."""
        now = asyncio.get_running_loop().time()
        if self._busy is not None and self._busy[1]:
            self._seconds = self._seconds / 2 + now - self._busy[0]
            self._learned = self._learned / 2 + self._busy[1]
        self._busy = (now, examples) if self._waiting else None

    def _full(self, what: str) -> QueueFull:
        """Return the error that refuses work when the queue is full. The error says when most of the queued work
        will be done.
        """
        each_s = self._seconds / self._learned if self._learned else 0.0
        wait_s = math.ceil(round(each_s * self.examples, 6))
        after_s = min(max(1, wait_s), limits.RETRY_AFTER_S_MAX)
        return QueueFull(f"{what}, about {wait_s} s of work" if wait_s else what, retry_after_s=after_s)

    def _with_following(self, first: Learning, taken: Queued) -> Queued:
        requests, futures, examples = list(first.requests), list(taken.futures), taken.examples
        most = limits.MICRO_BATCH_EXAMPLES_MAX
        while self._waiting and examples + self._waiting[0].examples <= most:
            following = self._waiting[0].work
            if not isinstance(following, Learning):
                break
            requests += following.requests
            futures += self._waiting[0].futures
            examples += self._waiting.popleft().examples
        return Queued(Learning(requests), futures, examples)

    def clear(self) -> list[asyncio.Future[Any]]:
        """Drop all queued work; return the futures of its callers."""
        futures = [future for queued in self._waiting for future in queued.futures]
        self._waiting.clear()
        self.examples = 0
        return futures


def settle(futures: Sequence[asyncio.Future[Any]], answers: Sequence[Any]) -> None:
    """Set the answer of each future. An answer may be an error."""
    for future, answer in zip(futures, answers, strict=True):
        if future.done():  # the client has disconnected
            continue
        if isinstance(answer, ServiceError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
