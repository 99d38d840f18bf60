"""What waits for a model's worker: pieces of work, of which those that learn are taken together as a micro-batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hinged.service.engine.learning import Learning
from hinged.service.engine.work import Work
from hinged.service.errors import QueueFull, ServiceError
from hinged.service.settings import Settings


@dataclass(slots=True)
class Queued:
    """Work that waits, and who waits for it. examples: that it teaches."""

    work: Work
    futures: list[asyncio.Future[Any]]
    examples: int


class Queue:
    """The work of one model, in order. Used on the event loop."""

    def __init__(self, model: str, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._waiting: deque[Queued] = deque()
        self.examples = 0  # that wait

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, work: Work, *, first: bool = False) -> asyncio.Future[Any]:
        """Let work wait: the future of its answer. QueueFull where too much does.

        first: before all else, without a limit: for the steps of a job, which would else go through the queue each.
        """
        limit, examples = self._settings.queue_examples_max, work.examples
        if examples and self.examples and self.examples + examples > limit:
            raise QueueFull(f"{self.examples} examples of at most {limit} wait for model {self._model}")
        if not first and len(self._waiting) >= limit:
            raise QueueFull(f"{len(self._waiting)} requests wait for model {self._model}")
        future = asyncio.get_running_loop().create_future()
        queued = Queued(work, [future], examples)
        if first:
            self._waiting.appendleft(queued)
        else:
            self._waiting.append(queued)
        self.examples += examples
        return future

    def take(self) -> Queued:
        """The next piece of work, and if it learns, all those right behind it that one micro-batch may hold."""
        taken = self._waiting.popleft()
        if isinstance(taken.work, Learning):
            taken = self._with_following(taken.work, taken)
        self.examples -= taken.examples
        return taken

    def _with_following(self, first: Learning, taken: Queued) -> Queued:
        requests, futures, examples = list(first.requests), list(taken.futures), taken.examples
        most = self._settings.micro_batch_examples_max
        while self._waiting and examples + self._waiting[0].examples <= most:
            following = self._waiting[0].work
            if not isinstance(following, Learning):
                break
            requests += following.requests
            futures += self._waiting[0].futures
            examples += self._waiting.popleft().examples
        return Queued(Learning(requests), futures, examples)

    def clear(self) -> list[asyncio.Future[Any]]:
        """Drop all that waits; who has waited for it."""
        futures = [future for queued in self._waiting for future in queued.futures]
        self._waiting.clear()
        self.examples = 0
        return futures


def settle(futures: Sequence[asyncio.Future[Any]], answers: Sequence[Any]) -> None:
    """Hand each his answer, which may be an error."""
    for future, answer in zip(futures, answers, strict=True):
        if future.done():  # the client has gone
            continue
        if isinstance(answer, ServiceError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
