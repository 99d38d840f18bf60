"""One writer a model: takes what has queued up as a micro-batch, has it done on the model's journal, answers.

This is the side of the event loop: who waits for what, when the journal's thread is given work, and what becomes of a
model whose code has failed. Predictions read what was published last and wait for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hinged.service.commands.answers import ChangeAnswer, known_example
from hinged.service.commands.ask import Command, LabelBudget, Wish
from hinged.service.commands.change import Correct, Forget, Located
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.classes import Label
from hinged.service.engine.follow import Feed, Follower
from hinged.service.engine.history import Obstacle, told
from hinged.service.engine.jobs.background import JobRunner, Shared
from hinged.service.engine.journal import Journal, Question
from hinged.service.engine.learning import LearnAnswer, Learning
from hinged.service.engine.listing import Listing
from hinged.service.engine.patience import Patience
from hinged.service.engine.queue import Queue, Queued, settle
from hinged.service.engine.scheduling.turns import GivenUp
from hinged.service.engine.unlogged import Unlogged
from hinged.service.engine.work import (
    CatchingUp,
    Commanding,
    Finishing,
    Keeping,
    RollingBack,
    SettingAside,
    Settling,
    Snapshotting,
    Swapping,
    Work,
    do,
)
from hinged.service.errors import Invalid, NotFound, StoreUnavailable, Unavailable
from hinged.service.model.model import Model
from hinged.service.model.pending import Made, Prediction
from hinged.service.model.view import Published
from hinged.service.settings import Settings
from hinged.service.store.base import Store

log = logging.getLogger(__name__)

IDLE = Queued(Keeping(), [], 0)
"""What there is to do where nobody waits: predictions are written."""


class Worker:
    """Owns a model. Everything that changes the model goes through its queue. Methods run on one event loop."""

    def __init__(
        self,
        model: Model,
        store: Store,
        settings: Settings,
        executor: Executor,
        shared: Shared | None = None,
        obstacle: Obstacle | None = None,
        *,
        beside: Executor | None = None,
        readers: Executor | None = None,
    ) -> None:
        """executor: runs the model's calls; beside: those of its jobs; readers: of who reads what it published."""
        self.name = model.name
        self.readers = readers or executor
        self.predictions_served = 0
        self.moved: Callable[[int], None] = lambda _: None  # told the position of what was published
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._journal = Journal(
            model, store, settings, executor, obstacle, self._tell_of_snapshot, lambda: self._jobs.busy
        )
        self._jobs = JobRunner(self, self._journal.history, store, beside or executor, shared or Shared(store))
        self._queue = Queue(model.name, settings)
        self._questions: list[tuple[Question, asyncio.Future[Any]]] = []  # who reads the model itself
        self._labels = model.configuration.labels
        self._budget = LabelBudget(model.configuration.seed, self._labels)
        self._unlogged = Unlogged(self._labels.pending_max, settings.pending_flush_s)
        self._wake = asyncio.Event()
        self._stopping = False
        self._leaving: str | None = None
        self._keep_snapshot = True
        self._failed: str | None = None  # why it takes no work
        if obstacle is not None:
            self._failed = obstacle.message
        elif model.jobs.running():
            self._jobs.wake()
        self._task = asyncio.create_task(self._run(), name=f"worker of {model.name}")

    # -- the model ------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model as it stands; between two changes only for what is asked by `read`."""
        return self._journal.model

    @property
    def published(self) -> Published:
        """What predictions read."""
        return self._journal.published

    @property
    def obstacle(self) -> Obstacle | None:
        """The event before which the model stands, if there is one."""
        return self._journal.obstacle

    @property
    def feed(self) -> Feed:
        """Its newest events."""
        return self._journal.feed

    @property
    def snapshots_failed(self) -> int:
        """Snapshots that the store did not take."""
        return self._journal.snapshots.failed

    @property
    def snapshot_age_s(self) -> float:
        """Seconds for which changes have been in no snapshot, at most."""
        return self._journal.snapshots.age_s(self.published.position)

    @property
    def pending_predictions(self) -> int:
        """Predictions that wait for their labels, in the log or not yet."""
        return len(self.model.pending) + len(self._unlogged)

    @property
    def waiting_examples(self) -> int:
        """Examples that have queued up."""
        return self._queue.examples

    @property
    def waiting_requests(self) -> int:
        """Requests that have queued up."""
        return len(self._queue)

    @property
    def stopped(self) -> bool:
        """Whether it takes no more work."""
        return self._stopping or self.failed

    @property
    def failure(self) -> str | None:
        """Why it stopped after something unforeseen, None if it has not."""
        return self._failed

    @property
    def failed(self) -> bool:
        """Whether it stopped after something unforeseen."""
        return self._failed is not None

    # -- what callers use -----------------------------------------------------------------------------------------

    async def learn(self, request: LearnRequest) -> LearnAnswer:
        """Learn a request's examples; returns when they are durable and applied.

        QueueFull where too much waits; the errors of the plan; StoreUnavailable when nothing was acknowledged.
        """
        answer: LearnAnswer = await self._enqueue(Learning([request]))
        return answer

    async def finish(self, epochs: int = 0) -> dict[str, Any]:
        """Learn the log again `epochs` times (Conflict if it is trimmed), then run the finishing step; its figures."""
        figures: dict[str, Any] = await self._enqueue(Finishing(epochs))
        return figures

    async def roll_back(self, position: int) -> dict[str, Any]:
        """Make the state what it was at a position. Invalid, or Conflict where the log does not reach back to it."""
        answer: dict[str, Any] = await self._enqueue(RollingBack(position))
        return answer

    async def set_aside(self, position: int | None) -> dict[str, Any]:
        """Pass over the event before which the model stands, and go on behind it.

        Conflict where it stands before none, or before another than that at `position`.
        """
        answer: dict[str, Any] = await self._enqueue(SettingAside(position), stopped=self.obstacle is not None)
        return answer

    async def snapshot(self, *, first: bool = False) -> int:
        """Keep a snapshot, before what waits if it is to be first; its position once it is durable.

        StoreUnavailable if the store did not take it.
        """
        position, written = await self._enqueue(Snapshotting(), first=first)
        try:  # the shield: a client that goes away must not take it back
            problem = await asyncio.shield(asyncio.wrap_future(written))
        except asyncio.CancelledError:
            if not written.cancelled():
                raise
            raise Unavailable("the snapshot gave way to a change that needs one of its own; try again") from None
        if problem is not None:
            raise problem
        return int(position)

    async def command(self, command: Command) -> dict[str, Any]:
        """What a command answers once its events are durable and applied, with the model's position."""
        answer: dict[str, Any] = await self._enqueue(Commanding(command))
        return answer

    async def change(self, command: Forget | Correct | ChangeAnswer) -> dict[str, Any]:
        """What a change of one example answers, which is looked up in the log beside the worker."""
        self._check_running()
        return await self.command(replace(command, located=await self._locate(command.given)))

    async def example(self, given: str) -> dict[str, Any]:
        """An example that the model or its log knows. NotFound, or Gone where it was forgotten."""
        found = await self.read(partial(known_example, given=given))
        if found is None:
            found = await self.read(partial(known_example, given=given, located=await self._locate(given)))
        if found is None:
            raise NotFound(f"there is no example {given!r}, or its x is known no more", id=given)
        answer: dict[str, Any] = found
        return answer

    def listing(self) -> Listing:
        """What it has learned, to be read a page at a time."""
        return Listing(self._journal.store, self.name, self.read, self.readers)

    async def _locate(self, given: str) -> Located | None:
        find = partial(self._journal.lookup.locate, self.model, given)
        return await self._loop.run_in_executor(self._executor, find)

    async def snapshots(self) -> list[int]:
        """Positions of the snapshots that the store holds, oldest first."""
        self._check_running()
        found = await self._loop.run_in_executor(self.readers, self._journal.store.snapshots, self.name)
        return sorted(found)

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that run, in figures, oldest first."""
        return [{"job": f"/jobs/{self.name}.{at}", **self.job(at)} for at in sorted(self._jobs.running())]

    def job(self, at: int) -> dict[str, Any]:
        """A job in figures. NotFound for one that is none, or ended long ago."""
        return self._jobs.figures(at)

    async def ended(self, at: int, within_s: float | None = None) -> dict[str, Any]:
        """The same, once the job has ended, or so many seconds are over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while at in self._jobs.running():
                    self._check_running()
                    await self._jobs.end_of(at)
        return self.job(at)

    async def keep(self, predictions: list[Prediction], classes: Sequence[Label] = ()) -> None:
        """Let predictions wait for their labels; where the model asks for it, they are durable on return.

        classes: those that the state which made them knew. Where a rollback has undone that state, they do not wait.

        Not those of forgotten examples: their labels will not be taken. Nor where the model stands before an event that
        it cannot take in, unless they are to be durable: Unavailable.
        """
        durable = self.model.configuration.labels.pending_durable
        if self.obstacle is not None and not durable:
            return
        self._check_running()
        tombstones = self.model.tombstones
        made = [Made(prediction, classes) for prediction in predictions if not tombstones.knows(prediction.id)]
        if durable:
            await self._enqueue(Keeping(made))
            return
        if not self._unlogged:
            self._wake.set()
        self._unlogged.add(made)

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Whose labels are wanted of these predictions."""
        return self._budget.wishes(ids, doubtful)

    async def describe(self) -> dict[str, Any]:
        """The model in figures, as of after what is under way."""
        figures: dict[str, Any] = await self.read(lambda model: model.describe(self._journal.now_ms()))
        return figures

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """What a question to the model itself finds, between two changes."""
        if self.obstacle is None:
            self._check_running()
        future = self._loop.create_future()
        self._questions.append((question, future))
        self._wake.set()
        return await future

    def follow(self, after: int | None = None) -> Follower:
        """One who is told of the model's events behind a position, or from now on. Invalid if it is not there yet."""
        self._check_running()
        newest = self.published.position
        if after is not None and not 0 <= after <= newest:
            raise Invalid(f"the log of model {self.name} ends at position {newest}, got {after}")
        read = partial(self._journal.store.read, self.name)
        return Follower(self.feed, read, lambda: self.published.position, newest if after is None else after)

    async def stop(self, *, keep_snapshot: bool = True, why: str | None = None) -> None:
        """Refuse new work, do what has queued up, keep a snapshot. why: what who asks is told, if not the usual."""
        await self._jobs.stop()
        self._stopping = True
        self._leaving = why
        self._journal.history.leave.set()
        self._keep_snapshot = keep_snapshot
        self._wake.set()
        await self._task
        usual = "the server stops" if keep_snapshot else f"model {self.name} was deleted"
        self.feed.end(why or usual, elsewhere=why is not None)

    def _check_running(self) -> None:
        if self._failed:
            raise Unavailable(f"model {self.name} has stopped: {self._failed}{self._way_back()}")
        if self._leaving is not None:
            raise Unavailable(f"{self._leaving}; ask again", retry_after_s=1)
        if self._stopping:
            raise Unavailable("the server is stopping")

    def _way_back(self) -> str:
        if self.obstacle is None:
            return ""
        return f". It serves the state before; to go on without this event: POST /models/{self.name}/skip"

    def _enqueue(self, work: Work, *, first: bool = False, stopped: bool = False) -> asyncio.Future[Any]:
        """Let work wait. first: before all else; stopped: also where the model takes no other work."""
        if not stopped:
            self._check_running()
        future = self._queue.put(work, first=first)
        self._wake.set()
        return future

    # -- the steps of a job (jobs/background.py) ------------------------------------------------------------------

    async def step(self, work: CatchingUp | Swapping | Settling) -> Any:
        """What a step of a job answers, which comes before all that waits."""
        return await self._enqueue(work, first=True)

    # -- the loop -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            if not self._queue and not self._questions:
                if self._stopping and (not self._unlogged or self._failed):
                    break
                if not self._stopping and not await self._woken():
                    continue
            questions, self._questions = self._questions, []
            taken = self._queue.take() if self._queue else IDLE
            futures = [*(future for _, future in questions), *taken.futures]
            try:
                answers = await self._answers([question for question, _ in questions], taken)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  what a model's code raises need be no Exception
                self._fail(futures, error)
                if not isinstance(error, GivenUp):
                    await self._read_again()
                continue
            finally:
                self.feed.publish()
                self.moved(self.published.position)
            if self._journal.read_anew is not None:
                self._stand_anew()
            settle(futures, answers)
            self._look_at_changes()
        await self._end()

    async def _answers(self, questions: list[Question], taken: Queued) -> list[Any]:
        """What the questions find, then what the work answers, for which there is nobody perhaps."""
        journal, answers = self._journal, []
        waiting = self._unlogged.take()
        if questions:
            answers = await self._call(journal.answers, questions)
        if taken.futures or waiting:
            done = await self._call(do, journal, taken.work, waiting)
            answers += done.answers[: len(taken.futures)]
            self._unlogged.put_back([] if self._stopping else done.unlogged)  # at the end there is no next time
        elif self._snapshot_in_s() <= 0:
            await self._call(journal.take_snapshot_if_due)
        return answers

    async def _end(self) -> None:
        self._jobs.release()
        snapshots = self._journal.snapshots
        # None may outlive the worker: the name could belong to another model by the time it is kept.
        if snapshots.newest is not None:
            await asyncio.wait([asyncio.wrap_future(snapshots.newest)])
        if self._keep_snapshot and not self._failed and not self._journal.unresolved:
            await self._call(self._journal.take_last_snapshot)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._loop.run_in_executor(self._executor, function, *args)

    async def _woken(self) -> bool:
        """Wait for work, or until predictions are to be written or a snapshot is due; false where there is nothing."""
        self._wake.clear()
        left_s = min(self._unlogged.due_in_s(), self._snapshot_in_s())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if left_s == math.inf else left_s)
            return bool(self._queue or self._questions)
        return not self._failed

    def _snapshot_in_s(self) -> float:
        """Seconds until a snapshot is due because of its age."""
        return math.inf if self._failed else self._journal.snapshots.due_in_s(self.model)

    def _tell_of_snapshot(self, position: int) -> None:
        self._loop.call_soon_threadsafe(self.feed.tell, position, "snapshot")

    def _look_at_changes(self) -> None:
        """Go by what a change has made of the configuration and the jobs."""
        labels = self.model.configuration.labels
        if labels != self._labels:
            self._labels, self._budget = labels, LabelBudget(self.model.configuration.seed, labels)
            self._unlogged.limit(labels.pending_max)
        self._jobs.look()

    # -- failure, and the way back --------------------------------------------------------------------------------

    def _fail(self, futures: list[asyncio.Future[Any]], error: BaseException) -> None:
        """Take no more work: the state may be torn. The others go on."""
        if isinstance(error, GivenUp):
            self._failed = error.message
        else:
            log.error("model %s stops", self.name, exc_info=error)
            self._failed = f"{told(error)}; see the server's log"
        futures += [*(future for _, future in self._questions), *self._queue.clear()]
        stopped = Unavailable(f"model {self.name} has stopped: {self._failed}")
        settle(futures, [stopped] * len(futures))
        self._questions.clear()
        self._unlogged.clear()
        self._jobs.release()

    async def _read_again(self) -> None:
        """Take the state from store and log instead of the torn one.

        Where the failure was none of the model's, it goes on; where an event cannot be applied, it stands before that,
        and serves but learns nothing until somebody has set it aside. A store that is away is waited for.
        """
        patience = Patience(self.name)
        while not self._stopping:
            try:
                await self._call(self._journal.read_again)
            except asyncio.CancelledError:
                raise
            except StoreUnavailable as error:
                self._wake.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), patience.after(error))
            except GivenUp:
                return
            except BaseException:  # as it was at the failure
                log.exception("the state of model %s cannot be read", self.name)
                return
            else:
                self._stand_anew()
                return

    def _stand_anew(self) -> None:
        self._journal.stand_anew()
        self.moved(self.published.position)
        self._failed = self.obstacle.message if self.obstacle is not None else None
        self._look_at_changes()
