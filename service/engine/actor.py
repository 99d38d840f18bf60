"""The actor of a model takes queued work as micro-batches, does it on the model's journal, and answers the callers.

This module decides the order of work, when the journal's thread gets work, and what happens when a model's code fails.
The requests that a model accepts are in worker.py.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, TypeVar

from hinged.service import limits
from hinged.service.engine.history import Obstacle, told
from hinged.service.engine.journal import Journal, Question
from hinged.service.engine.patience import PASSING, Patience
from hinged.service.engine.queue import Queue, Queued, settle
from hinged.service.engine.scheduling.turns import GivenUp
from hinged.service.engine.unlogged import Unlogged
from hinged.service.engine.work import Work, do
from hinged.service.errors import Unavailable
from hinged.service.model.model import Model
from hinged.service.model.pending import Made
from hinged.service.model.view import Published

Told = TypeVar("Told")

log = logging.getLogger(__name__)

IDLE = Queued(Journal.commit, [], 0)
"""Work for a turn in which no request waits. It only writes predictions."""


class Actor:
    """Owns a model from its beginning until `stop`; nothing else writes the model. Used on the event loop.

    journal: the model and its log. queue: the waiting work. unlogged: the predictions that are not yet written. failed:
    the reason why the actor accepts no work, or None.
    """

    def __init__(
        self,
        journal: Journal,
        executor: Executor,
        moved: Callable[[int], None] = lambda _: None,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Take the executor that runs the model's calls.

        moved: called with each published position. turn: waits until the model may learn.
        """
        settings, labels = journal.settings, journal.model.configuration.labels
        self.name = journal.model.name
        self.queue = Queue(self.name, settings)
        self.unlogged = Unlogged(labels.pending_max, limits.PENDING_FLUSH_S)
        self.failed: str | None = None if journal.obstacle is None else journal.obstacle.message
        self.journal = journal
        self._executor = executor
        self._moved = moved
        self._turn = turn
        self._questions: list[tuple[Question, asyncio.Future[Any]]] = []  # questions to the model itself
        self._wake = asyncio.Event()
        self._stopping = False
        self._leaving: str | None = None
        self._keep_snapshot = True
        self._task = asyncio.create_task(self._run(), name=f"worker of {self.name}")

    @property
    def model(self) -> Model:
        """Return the model in its current state, perhaps half changed. Use `read` to read it between two changes."""
        return self.journal.model

    @property
    def published(self) -> Published:
        """Return the view that predictions read."""
        return self.journal.published

    @property
    def obstacle(self) -> Obstacle | None:
        """Return the event that the model could not apply, if any. The model stopped before this event."""
        return self.journal.obstacle

    @property
    def stopped(self) -> bool:
        """Return whether the actor takes no more work."""
        return self._stopping or self.failed is not None

    def check_running(self) -> None:
        """Raise Unavailable, with the reason, if the actor takes no more work."""
        if self.failed:
            raise Unavailable(f"model {self.name} has stopped: {self.failed}{self._way_back()}")
        if self._leaving is not None:
            raise Unavailable(f"{self._leaving}; ask again", retry_after_s=1)
        if self._stopping:
            raise Unavailable("the server is stopping")

    def put(self, work: Work, *, first: bool = False, stopped: bool = False) -> asyncio.Future[Any]:
        """Queue work; return the future of its answer.

        first: put it before all other work. stopped: queue it even if the actor takes no work. Raise Unavailable if the
        actor takes no work, QueueFull if too much work is waiting.
        """
        if not stopped:
            self.check_running()
        future = self.queue.put(work, first=first)
        self._wake.set()
        return future

    def read(self, question: Callable[[Model], Told]) -> asyncio.Future[Told]:
        """Return the future of the model's answer to a question, which is asked between two changes of the model."""
        if self.journal.obstacle is None:
            self.check_running()
        future = asyncio.get_running_loop().create_future()
        self._questions.append((question, future))
        self._wake.set()
        return future

    def take_along(self, predictions: list[Made]) -> None:
        """Queue predictions. The actor writes them together with other events."""
        if not self.unlogged:
            self._wake.set()
        self.unlogged.add(predictions)

    async def stop(self, *, keep_snapshot: bool, why: str | None) -> None:
        """Refuse new work, do the queued work, save a snapshot.

        why: the reason given to later requests; None for the usual reason.
        """
        self._stopping = True
        self._leaving = why
        self.journal.history.leave.set()
        self._keep_snapshot = keep_snapshot
        self._wake.set()
        await self._task

    def _way_back(self) -> str:
        if self.journal.obstacle is None:
            return ""
        return f". It serves the state before; to go on without this event: POST /models/{self.name}/skip"

    async def _run(self) -> None:
        while True:
            if not self.queue and not self._questions:
                if self._stopping and (not self.unlogged or self.failed):
                    break
                if not self._stopping and not await self._woken():
                    continue
            async with self._turn() if self.queue.learns else nullcontext():
                await self._work()
        await self._end()

    async def _work(self) -> None:
        """Do the work and answer the questions that wait now."""
        questions, self._questions = self._questions, []
        taken = self.queue.take() if self.queue else IDLE
        futures = [*(future for _, future in questions), *taken.futures]
        try:
            answers = await self._answers([question for question, _ in questions], taken)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  a model may raise errors that are not Exception
            self._fail(futures, error)
            if not isinstance(error, GivenUp):
                await self._read_again()
            return
        finally:
            self.journal.feed.publish()
            self._moved(self.journal.published.position)
        if self.journal.read_anew is not None:
            self._stand_anew()
        settle(futures, answers)
        self.look_at_changes()

    async def _answers(self, questions: list[Question], taken: Queued) -> list[Any]:
        """Return the answers to the questions, then the answers to the work. The work may have no caller."""
        journal, answers = self.journal, []
        waiting = self.unlogged.take()
        if questions:
            answers = await self._call(journal.answers, questions)
        if taken.futures or waiting:
            done = await self._call(do, journal, taken.work, waiting)
            answers += done.answers[: len(taken.futures)]
            self.unlogged.put_back([] if self._stopping else done.unlogged)  # a stopped actor cannot write them later
        elif self._snapshot_in_s() <= 0:
            await self._call(lambda: journal.snapshots.take_if_due(journal.model))
        return answers

    async def _end(self) -> None:
        self.let_go()
        snapshots = self.journal.snapshots
        # No snapshot job may run after the worker has ended. When it saves the snapshot, the name could belong to
        # another model.
        if snapshots.newest is not None:
            await asyncio.wait([asyncio.wrap_future(snapshots.newest)])
        if self._keep_snapshot and not self.failed and not self.journal.unresolved:
            await self._call(lambda: self.journal.snapshots.take_last(self.journal.model))

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    async def _woken(self) -> bool:
        """Wait for work, or until predictions must be written or a snapshot is due. Return false if there is nothing to
        do.
        """
        self._wake.clear()
        left_s = min(self.unlogged.due_in_s(), self._snapshot_in_s())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if left_s == math.inf else left_s)
            return bool(self.queue or self._questions)
        return not self.failed

    def _snapshot_in_s(self) -> float:
        """Return the seconds until the newest snapshot is so old that a new snapshot is due."""
        return math.inf if self.failed else self.journal.snapshots.due_in_s(self.journal.model)

    def look_at_changes(self) -> None:
        """Adapt to changes of the configuration."""
        self.unlogged.limit(self.model.configuration.labels.pending_max)

    def let_go(self) -> None:
        """Release callers that would otherwise wait for ever."""

    # -- failure and recovery ----------------------------------------------------------------------------------------

    def _fail(self, futures: list[asyncio.Future[Any]], error: BaseException) -> None:
        """Take no more work, because an event may be half applied. Other models continue."""
        if isinstance(error, GivenUp):
            self.failed = error.message
        else:
            log.error("model %s stops", self.name, exc_info=error)
            self.failed = f"{told(error)}; see the server's log"
        futures += [*(future for _, future in self._questions), *self.queue.clear()]
        stopped = Unavailable(f"model {self.name} has stopped: {self.failed}")
        settle(futures, [stopped] * len(futures))
        self._questions.clear()
        self.unlogged.clear()
        self.let_go()

    async def _read_again(self) -> None:
        """Replace the half-changed state with the state from the store and its log.

        If the cause of the failure is gone, the model continues. If the model cannot apply an event, it stops before
        the event: it predicts, but learns nothing until an admin sets the event aside. If the store is unavailable, or
        there is no memory, the actor waits.
        """
        patience = Patience(self.name)
        while not self._stopping:
            try:
                await self._call(self.journal.read_again)
            except asyncio.CancelledError:
                raise
            except PASSING as error:
                self._wake.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), patience.after(error))
            except GivenUp:
                return
            except BaseException:  # the model keeps the state that it had at the failure
                log.exception("the state of model %s cannot be read", self.name)
                return
            else:
                self._stand_anew()
                return

    def _stand_anew(self) -> None:
        self.journal.stand_anew()
        self._moved(self.journal.published.position)
        obstacle = self.journal.obstacle
        self.failed = None if obstacle is None else obstacle.message
        self.look_at_changes()
