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
    """Work that waits, and who waits for it."""

    work: Work
    futures: list[asyncio.Future[Any]]


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
        limit = self._settings.queue_examples_max
        if work.examples and self.examples and self.examples + work.examples > limit:
            raise QueueFull(f"{self.examples} examples of at most {limit} wait for model {self._model}")
        if not first and len(self._waiting) >= limit:
            raise QueueFull(f"{len(self._waiting)} requests wait for model {self._model}")
        future = asyncio.get_running_loop().create_future()
        queued = Queued(work, [future])
        if first:
            self._waiting.appendleft(queued)
        else:
            self._waiting.append(queued)
        self.examples += work.examples
        return future

    def take(self) -> Queued:
        """The next piece of work, and if it learns, all those right behind it that one micro-batch may hold."""
        taken = self._waiting.popleft()
        if isinstance(taken.work, Learning):
            examples, requests, futures = taken.work.examples, list(taken.work.requests), list(taken.futures)
            while (
                self._waiting
                and isinstance(following := self._waiting[0].work, Learning)
                and examples + following.examples <= self._settings.micro_batch_examples_max
            ):
                futures += self._waiting.popleft().futures
                requests += following.requests
                examples += following.examples
            taken = Queued(Learning(requests), futures)
        self.examples -= taken.work.examples
        return taken

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
