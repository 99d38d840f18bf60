"""One writer a model: takes what has queued up as a micro-batch, logs it, applies it, publishes, answers.

The order never changes: validate, append durably (one fsync for the whole micro-batch), apply, publish, acknowledge.
Predictions read what was published last and wait for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from hinged.service.commands.admission import check_events
from hinged.service.commands.ask import (
    Command,
    LabelBudget,
    Offer,
    Wish,
)
from hinged.service.commands.change import Correct, Forget
from hinged.service.commands.learn import (
    Fate,
    Fresh,
    LearnRequest,
    make_plan,
)
from hinged.service.data.classes import Label
from hinged.service.data.examples import SERVER_ID
from hinged.service.engine.background import SWAP_S, Mender, Shared
from hinged.service.engine.follow import Feed, Follower
from hinged.service.engine.history import History, Obstacle, told
from hinged.service.engine.lookup import Lookup
from hinged.service.engine.retraining import Fold
from hinged.service.engine.snapshots import Snapshots
from hinged.service.engine.turns import GivenUp
from hinged.service.engine.work import (
    Catching,
    Finishing,
    Keeping,
    LearnAnswer,
    Learnt,
    Queued,
    RollingBack,
    SettingAside,
    Settling,
    Snapshotting,
    Swapping,
    Work,
)
from hinged.service.errors import (
    UNFORESEEN,
    Conflict,
    InternalError,
    Invalid,
    NotFound,
    QueueFull,
    ServiceError,
    StoreUnavailable,
    Unavailable,
)
from hinged.service.model.events import (
    Finished,
    Learned,
    ModelEvent,
    Predicted,
    RolledBack,
    SetAside,
    Settled,
    Swapped,
    decode_event,
)
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model, Outcome
from hinged.service.model.pending import Made, Prediction
from hinged.service.model.view import Published
from hinged.service.settings import Settings
from hinged.service.store.base import (
    Damaged,
    Event,
    OutcomeUnknown,
    PositionTaken,
    Store,
)
from hinged.solvers.core.solver import Finish

log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1  # until a store that is away is asked again
RETRY_MAX_S = 5.0


class Worker:
    """Owns a model. Everything that changes the model goes through its queue."""

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
        self.model = model
        self.published: Published = model.published()
        self.feed = Feed(model.position, settings.events_kept)
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._settings = settings
        self._executor = executor
        self.readers = readers or executor
        self._jobs: deque[Queued] = deque()
        self._waiting_examples = 0
        self._questions: list[tuple[Callable[[Model], Any], asyncio.Future[Any]]] = []  # who reads the model itself
        self._predicted: deque[Made] = deque(maxlen=model.configuration.labels.pending_max)  # not yet logged
        self._write_at = 0.0  # when they are to be, on the event loop's clock
        self._labels = model.configuration.labels
        self._budget = LabelBudget(model.configuration.seed, model.configuration.labels)
        self._wake = asyncio.Event()
        self.predictions_served = 0
        self._stopping = False
        self._keep_snapshot = True
        self._failed: str | None = None  # why it takes no work
        self.obstacle = obstacle  # the event before which the model stands
        self._found: tuple[Model, Obstacle | None] | None = None  # a state that was read anew, to be taken over
        self._unresolved = False  # an append of unknown outcome: the end of the log must be read first
        self._history = History(store, model.name, cache_bytes=model.cache_bytes, answers_kept=model.answers.kept)
        self._lookup = Lookup(store, model.name)
        self._mender = Mender(self, self._history, store, beside or executor, shared or Shared(store))
        self._snapshots = Snapshots(model, store, settings, executor, self._tell_of_snapshot, lambda: self._mender.busy)
        self._ending: dict[int, list[asyncio.Future[None]]] = {}  # who waits for the end of a job
        if obstacle is not None:
            self._failed = obstacle.message
        elif model.jobs.running():
            self._mender.wake()
        self._task = asyncio.create_task(self._run(), name=f"worker of {model.name}")

    # -- what callers use, on the event loop ----------------------------------------------------------------------

    async def learn(self, request: LearnRequest) -> LearnAnswer:
        """Learn a request's examples; returns when they are durable and applied.

        QueueFull where too much waits; the errors of the plan; StoreUnavailable when nothing was acknowledged.
        """
        limit = self._settings.queue_examples_max
        if self._waiting_examples and self._waiting_examples + len(request.ids) > limit:
            raise QueueFull(f"{self._waiting_examples} examples of at most {limit} wait for model {self.model.name}")
        answer: LearnAnswer = await self._enqueue(request)
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
        answer: dict[str, Any] = await self._enqueue(SettingAside(position))
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
        answer: dict[str, Any] = await self._enqueue(command)
        return answer

    async def change(self, command: Forget | Correct) -> dict[str, Any]:
        """What a change of one example answers, which is looked up in the log beside the worker."""
        self._check_running()
        find = partial(self._lookup.locate, self.model, command.given)
        located = await asyncio.get_running_loop().run_in_executor(self._executor, find)
        return await self.command(replace(command, located=located))

    async def catch_up(self, fold: Fold, seconds: float) -> None:
        """Fold for so long while the model learns nothing."""
        await self._enqueue(Catching(fold, seconds), first=True)

    async def swap(self, fold: Fold) -> int | None:
        """Put the learners of a fold in their places: the position of the new state.

        None where the fold no longer fits, or what it had yet to be taught took too long.
        """
        position: int | None = await self._enqueue(Swapping(fold), first=True)
        return position

    async def settle(self, fold: Fold, unwritten: list[str]) -> None:
        """Note that the jobs of a fold have ended."""
        await self._enqueue(Settling(fold, unwritten), first=True)

    def job(self, at: int) -> dict[str, Any]:
        """A job in figures. NotFound for one that is none, or ended long ago."""
        job = self.model.jobs.find(at)
        if job is None:
            raise NotFound(f"model {self.model.name} has no job {at}, or it ended long ago")
        running = job.state == "running"
        figures: dict[str, Any] = {
            "state": job.state,
            "kind": job.kind,
            "progress": self._mender.progress if running else 1.0,
            "certificate": job.result.get("certificate"),
        }
        if job.result.get("unwritten"):
            figures["unwritten"] = job.result["unwritten"]
        return figures if job.error is None else {**figures, "error": job.error}

    async def ended(self, at: int) -> dict[str, Any]:
        """The same, once the job has ended."""
        while (job := self.model.jobs.find(at)) is not None and job.state == "running":
            self._check_running()
            future = asyncio.get_running_loop().create_future()
            self._ending.setdefault(at, []).append(future)
            await future
        return self.job(at)

    async def keep(self, predictions: list[Prediction], classes: Sequence[Label] = ()) -> None:
        """Let predictions wait for their labels; where the model asks for it, they are durable on return.

        classes: those that the state which made them knew. Where a rollback has undone that state, they do not wait.

        Not those of forgotten examples: their labels will not be taken. Nor where the model stands before an event that
        it cannot take in, unless they are to be durable: Unavailable.
        """
        if self.obstacle is not None and not self.model.configuration.labels.pending_durable:
            return
        self._check_running()
        predictions = [p for p in predictions if not self.model.traces.knows(p.id)]
        if self.model.configuration.labels.pending_durable:
            await self._enqueue(Keeping([Made(p, classes) for p in predictions]))
        else:
            if not self._predicted:
                self._write_at = asyncio.get_running_loop().time() + self._settings.pending_flush_s
                self._wake.set()
            self._predicted.extend(Made(p, classes) for p in predictions)

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Whose labels are wanted of these predictions."""
        return self._budget.wishes(ids, doubtful)

    async def describe(self) -> dict[str, Any]:
        """The model in figures, as of after what is under way."""
        figures: dict[str, Any] = await self.read(lambda model: model.describe(self._now_ms()))
        return figures

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """What a question to the model itself finds, between two changes."""
        if self.obstacle is None:
            self._check_running()
        future = asyncio.get_running_loop().create_future()
        self._questions.append((question, future))
        self._wake.set()
        return await future

    def follow(self, after: int | None = None) -> Follower:
        """One who is told of the model's events behind a position, or from now on. Invalid if it is not there yet."""
        self._check_running()
        newest = self.published.position
        if after is not None and not 0 <= after <= newest:
            raise Invalid(f"the log of model {self.model.name} ends at position {newest}, got {after}")
        read = partial(self._store.read, self.model.name)
        return Follower(self.feed, read, lambda: self.published.position, newest if after is None else after)

    async def stop(self, *, keep_snapshot: bool = True) -> None:
        """Refuse new work, do what has queued up, keep a snapshot."""
        await self._mender.stop()
        self._stopping = True
        self._history.leave.set()
        self._keep_snapshot = keep_snapshot
        self._wake.set()
        await self._task
        self.feed.end("the server stops" if keep_snapshot else f"model {self.model.name} was deleted")

    def _check_running(self) -> None:
        if self._failed:
            raise Unavailable(f"model {self.model.name} has stopped: {self._failed}{self._way_back()}")
        if self._stopping:
            raise Unavailable("the server is stopping")

    def _way_back(self) -> str:
        if self.obstacle is None:
            return ""
        return f". It serves the state before; to go on without this event: POST /models/{self.model.name}/skip"

    def _enqueue(self, work: Work, *, first: bool = False) -> asyncio.Future[Any]:
        """Let work wait; `first` is for the steps of a job, which would else go through the whole queue each."""
        if not (self.obstacle is not None and isinstance(work, SettingAside)):
            self._check_running()
        job = Queued(work, asyncio.get_running_loop().create_future())
        if first:
            self._jobs.appendleft(job)
        elif len(self._jobs) >= self._settings.queue_examples_max:
            raise QueueFull(f"{len(self._jobs)} requests wait for model {self.model.name}")
        else:
            self._jobs.append(job)
        self._waiting_examples += job.examples
        self._wake.set()
        return job.future

    @property
    def snapshots_failed(self) -> int:
        """Snapshots that the store did not take."""
        return self._snapshots.failed

    @property
    def waiting_examples(self) -> int:
        """Examples that have queued up."""
        return self._waiting_examples

    @property
    def waiting_requests(self) -> int:
        """Requests that have queued up."""
        return len(self._jobs)

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

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._jobs and not self._questions:
                if self._stopping and (not self._predicted or self._failed):
                    break
                if not self._stopping and not await self._woken():
                    continue
            questions, self._questions = self._questions, []
            jobs = self._take() if self._jobs else []
            waiting = list(self._predicted)
            self._predicted.clear()
            answers: list[Any] = []
            futures = [*(future for _, future in questions), *(job.future for job in jobs)]
            try:
                if questions:
                    answers = await loop.run_in_executor(self._executor, self._look, [q for q, _ in questions])
                outcomes: Sequence[Any] = []
                if jobs or waiting:
                    outcomes = await loop.run_in_executor(self._executor, self._do, jobs, waiting)
                elif self._snapshot_in_s() <= 0:
                    await loop.run_in_executor(self._executor, self._snapshots.take_if_due, self.model)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  what a model's code raises need be no Exception
                self._fail(futures, error)
                if not isinstance(error, GivenUp):
                    await self._read_again()
                continue
            finally:
                self.feed.publish()
            if self._found is not None:
                self._stand_at(*self._found)
            if self._predicted:
                self._write_at = loop.time() + self._settings.pending_flush_s
            _settle_all(futures, [*answers, *outcomes])
            self._look_after_jobs()
        self._release(list(self._ending))
        # None may outlive the worker: the name could belong to another model by the time it is kept.
        if self._snapshots.newest is not None:
            await asyncio.wait([asyncio.wrap_future(self._snapshots.newest)])
        if self._keep_snapshot and not self._failed and not self._unresolved:
            await loop.run_in_executor(self._executor, self._snapshots.take_last, self.model)

    def _look_after_jobs(self) -> None:
        labels = self.model.configuration.labels
        if labels != self._labels:
            self._labels, self._budget = labels, LabelBudget(self.model.configuration.seed, labels)
            self._predicted = deque(self._predicted, maxlen=labels.pending_max)
        running = {job.at for job in self.model.jobs.running()}
        if running and not self.stopped:
            self._mender.wake()
        self._release([at for at in self._ending if at not in running])

    def _release(self, jobs: list[int]) -> None:
        """Let those go on who wait for the end of these jobs."""
        for at in jobs:
            for future in self._ending.pop(at):
                if not future.done():
                    future.set_result(None)

    async def _woken(self) -> bool:
        """Wait for work, or until predictions are to be written or a snapshot is due; false where there is nothing."""
        self._wake.clear()
        write_in_s = self._write_at - asyncio.get_running_loop().time() if self._predicted else math.inf
        left_s = min(write_in_s, self._snapshot_in_s())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if left_s == math.inf else left_s)
            return bool(self._jobs or self._questions)
        return not self._failed

    def _snapshot_in_s(self) -> float:
        """Seconds until a snapshot is due because of its age."""
        return math.inf if self._failed else self._snapshots.due_in_s(self.model)

    def _tell_of_snapshot(self, position: int) -> None:
        self._loop.call_soon_threadsafe(self.feed.tell, position, "snapshot")

    def _look(self, questions: Sequence[Callable[[Model], Any]]) -> list[Any]:
        """What each question finds; a refusal is an answer as well."""
        found: list[Any] = []
        for question in questions:
            try:
                found.append(question(self.model))
            except ServiceError as error:
                found.append(error)
            except Exception:  # nothing has changed: the model goes on
                log.exception("a question to model %s", self.model.name)
                found.append(InternalError(UNFORESEEN))
        return found

    def _take(self) -> list[Queued]:
        """The next job, and with a learn request all those right behind it that one micro-batch may hold."""
        jobs = [self._jobs.popleft()]
        examples = jobs[0].examples
        while (
            examples
            and self._jobs
            and self._jobs[0].examples
            and examples + self._jobs[0].examples <= self._settings.micro_batch_examples_max
        ):
            jobs.append(self._jobs.popleft())
            examples += jobs[-1].examples
        self._waiting_examples -= examples
        return jobs

    def _fail(self, futures: list[asyncio.Future[Any]], error: BaseException) -> None:
        """Take no more work: the state may be torn. The others go on."""
        if isinstance(error, GivenUp):
            self._failed = error.message
        else:
            log.error("model %s stops", self.model.name, exc_info=error)
            self._failed = f"{told(error)}; see the server's log"
        futures += [*(future for _, future in self._questions), *(job.future for job in self._jobs)]
        stopped = Unavailable(f"model {self.model.name} has stopped: {self._failed}")
        _settle_all(futures, [stopped] * len(futures))
        self._jobs.clear()
        self._questions.clear()
        self._predicted.clear()
        self._waiting_examples = 0
        self._release(list(self._ending))

    async def _read_again(self) -> None:
        """Take the state from store and log instead of the torn one.

        Where the failure was none of the model's, it goes on; where an event cannot be applied, it stands before that,
        and serves but learns nothing until somebody has set it aside. A store that is away is waited for.
        """
        wait_s = RETRY_FIRST_S
        while not self._stopping:
            try:
                model, obstacle = await self._loop.run_in_executor(self._executor, self._reached)
            except asyncio.CancelledError:
                raise
            except StoreUnavailable as error:
                log.warning("model %s waits for the store: %s", self.model.name, error.message)
                self._wake.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)
            except GivenUp:
                return
            except BaseException:  # as it was at the failure
                log.exception("the state of model %s cannot be read", self.model.name)
                return
            else:
                self._stand_at(model, obstacle)
                return

    def _stand_at(self, model: Model, obstacle: Obstacle | None) -> None:
        self.model, self.published, self.obstacle = model, model.published(), obstacle
        self._found, self._unresolved = None, False
        self._failed = obstacle.message if obstacle is not None else None
        self._lookup.forget()
        self.feed.begin_anew(model.position)
        self._look_after_jobs()

    # -- the work, on a thread of the executor --------------------------------------------------------------------

    def _do(self, jobs: list[Queued], waiting: list[Made]) -> Sequence[Any]:
        try:
            work = jobs[0].work if jobs else Keeping([])
            if isinstance(work, SettingAside):
                return [self._set_aside(work)]
            self._resolve()
            waiting = self._to_be_kept(waiting)
            if isinstance(work, Forget):
                others = [made for made in waiting if made.prediction.id != work.given]
                work, waiting = replace(work, waiting=len(others) < len(waiting)), others
            kept = self._predicted_events(waiting)
            match work:
                case LearnRequest():
                    return self._learn([job.work for job in jobs if isinstance(job.work, LearnRequest)], kept)
                case Finishing():
                    return [self._finish(work.epochs, kept)]
                case RollingBack():
                    return [self._roll_back(work.position, kept)]
                case Swapping():
                    return [self._swap(work.fold, kept)]
                case Catching():
                    self._commit(kept)
                    work.fold.advance(self.model.position, work.seconds)
                    return [None]
                case Settling():
                    self._settle(work, kept)
                    return [None]
                case Snapshotting():
                    self._commit(kept)
                    return [self._snapshots.take(self.model)]
                case Keeping():
                    self._commit([*kept, *self._predicted_events(self._to_be_kept(work.predictions))])
                    return [None] * len(jobs)
                case _:
                    return [self._execute(work, kept)]
        except ServiceError as error:
            self._wait_again(waiting)
            return [error] * len(jobs)
        except Damaged as error:
            return [StoreUnavailable(f"the log of model {self.model.name} is damaged: {error}")] * len(jobs)

    def _to_be_kept(self, predictions: list[Made]) -> list[Made]:
        """Predictions in the model's present form, without those of forgotten examples and undone states."""
        model = self.model
        known = [made for made in predictions if not model.traces.knows(made.prediction.id)]
        fitted = [made.fitted(model.labels, model.learner.rows) for made in known]
        return [made for made in fitted if made is not None]

    def _predicted_events(self, waiting: list[Made]) -> list[ModelEvent]:
        return [Predicted([made.prediction for made in waiting], self._now_ms())] if waiting else []

    def _wait_again(self, waiting: list[Made]) -> None:
        """Keep what the store did not take for the next time; at the end there is none."""
        if not self._stopping:
            now_ms = self._now_ms()
            pending = self.model.pending
            again = [made for made in waiting if pending.find(made.prediction.id, now_ms) is not made.prediction]
            room = (self._predicted.maxlen or 0) - len(self._predicted)
            self._predicted.extendleft(reversed(again[max(0, len(again) - room) :]))

    def _learn(self, requests: list[LearnRequest], kept: list[ModelEvent]) -> list[LearnAnswer | ServiceError]:
        waiting = {p.id: p for event in kept if isinstance(event, Predicted) for p in event.predictions}
        classes_max = self._settings.classes_max
        with self._going_on():
            find = partial(self._lookup.first_answers, self.model)
            plan = make_plan(self.model, requests, find, classes_max, self._now_ms(), waiting or None)
        first_new = self.model.learned + 1
        outcomes = self._commit([*kept, *plan.events])
        predictions = np.concatenate([o.predictions for o in outcomes] or [np.zeros(0, np.int32)]).tolist()
        scores = np.concatenate([o.scores for o in outcomes] or [np.zeros(0)]).tolist()
        return [self._answer(fates, first_new, predictions, scores) for fates in plan.fates]

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Whatever goes wrong before anything is written is an answer, and the model goes on."""
        try:
            yield
        except (ServiceError, Damaged):
            raise
        except Exception as error:
            log.exception("a request to model %s", self.model.name)
            raise InternalError(UNFORESEEN) from error

    def _execute(self, command: Command, kept: list[ModelEvent]) -> dict[str, Any]:
        # Predictions come first, for they came first; a command that is refused leaves them in the log.
        if kept:
            self._commit(kept)
        if isinstance(command, Offer):
            command = replace(command, learned=frozenset(self._lookup.first_answers(self.model, command.ids)))
        if isinstance(command, Forget):
            self._lookup.forget()  # it may be among them
        with self._going_on():
            planned = command.plan(self.model, self._now_ms())
        self._commit(planned.events)
        return {"model": self.model.name, "position": self.model.position, **planned.answer(self.model)}

    def _answer(
        self, fates: list[Fate] | Fresh | ServiceError, first_new: int, predictions: list[int], scores: list[float]
    ) -> LearnAnswer | ServiceError:
        if isinstance(fates, ServiceError):
            return fates
        labels = self.model.labels.labels
        if isinstance(fates, Fresh):
            begin, end = fates.begin, fates.begin + len(fates.ids)
            learnt = zip(fates.ids, count(first_new + begin), predictions[begin:end], scores[begin:end], strict=False)
            return LearnAnswer(
                self.model.position,
                [
                    Learnt(given or f"{SERVER_ID}{key}", None, None, duplicate=False)
                    if number == UNKNOWN
                    else Learnt(given or f"{SERVER_ID}{key}", labels[number], score, duplicate=False)
                    for given, key, number, score in learnt
                ],
            )
        results = []
        for fate in fates:
            if fate.answer is not None:
                number, score = fate.answer.prediction, fate.answer.score
            elif fate.new is not None:
                number, score = predictions[fate.new], scores[fate.new]
            else:
                number, score = UNKNOWN, 0.0
            known = number != UNKNOWN
            results.append(
                Learnt(
                    fate.given if fate.given is not None else f"@{first_new + (fate.new or 0)}",
                    labels[number] if known else None,
                    score if known else None,
                    fate.duplicate,
                    fate.votes,
                )
            )
        return LearnAnswer(self.model.position, results)

    def _swap(self, fold: Fold, kept: list[ModelEvent]) -> int | None:
        """Teach the fold the last events, and make what comes of it the state. None where that is not to be."""
        self._commit(kept)
        if not fold.fits(self.model):
            return None
        fold.advance(self.model.position, SWAP_S)
        if fold.position < self.model.position:  # it takes too long, or the server stops
            return None
        with self._going_on():
            sizes = {"cache_bytes": self.model.cache_bytes, "answers_kept": self.model.answers.kept}
            successor = Model.restore(self.model.name, self.model.snapshot(), **sizes)
            fold.put_into(successor)
            if fold.erases:
                successor.floor = self.model.position + 1
            swapped = Swapped(successor.snapshot(), self._now_ms())
            Model.begin(self.model.name, self.model.position + 1, swapped, **sizes)  # what is written can be read
        self._snapshots.let_end()
        self._commit([swapped])
        return self.model.position

    def _settle(self, settling: Settling, kept: list[ModelEvent]) -> None:
        certificate = self.model.solver.certificate()
        now, events = self._now_ms(), list(kept)
        by_error: dict[str | None, list[int]] = {}
        for job in settling.fold.jobs:
            by_error.setdefault(settling.fold.error_of(job), []).append(job.at)
        for error, jobs in by_error.items():
            result: dict[str, Any] = {"certificate": certificate} if error is None else {}
            if settling.unwritten:
                result["unwritten"] = settling.unwritten
            events.append(Settled(jobs, result, error, now))
        self._commit(events)

    def _finish(self, epochs: int, kept: list[ModelEvent]) -> dict[str, Any]:
        if epochs:  # what cannot be read must show before the event is written
            self._snapshots.let_end()  # and no trim may take it away until a snapshot holds what comes of it
            deque(self._history.learned(self.model, self.model.position + 1), maxlen=0)
        finish = self._commit([*kept, Finished(self._now_ms(), epochs)])[-1].finish or Finish(0, converged=True)
        self._snapshots.take(self.model)  # a recovery need not run the finishing step again
        figures = self.model.describe()
        wanted = ("model", "position", "support_vectors", "points", "duality_gap")
        return {**{name: figures[name] for name in wanted}, **finish._asdict()}

    def _roll_back(self, to: int, kept: list[ModelEvent]) -> dict[str, Any]:
        model = self.model
        if not 1 <= to <= model.position:
            raise Invalid(f"position must be from 1 to {model.position}, where the model stands, got {to}")
        if to < model.floor:
            raise Conflict(f"an example was forgotten at {model.floor}: no state from before may come back")
        if not model.counts(to):
            # Ids that were learned, undone and learned again would have two places in the store's index.
            raise Conflict(
                f"event {to} of model {model.name} was undone by a rollback; export the model as of {to} instead, and "
                "import that under another name"
            )
        self._snapshots.let_end()  # no trim may take away what a recovery needs until there is a snapshot behind it
        with self._going_on():
            former = self._history.at(to)
        self._commit([*kept, RolledBack(to, self._now_ms())], former)
        self._snapshots.take(self.model)  # a recovery need not fold the way there again
        return {"model": model.name, "position": model.position, "rolled_back_to": to, "examples": model.learned}

    def _set_aside(self, asked: SettingAside) -> dict[str, Any]:
        """Write that the event before which the model stands counts no longer, and read the state behind it."""
        obstacle, name = self.obstacle, self.model.name
        if obstacle is None:
            raise Conflict(f"model {name} stands before no event that it could not take in")
        if asked.position not in (None, obstacle.position):
            raise Conflict(f"model {name} stands before event {obstacle.position}, got {asked.position}")
        event = SetAside(obstacle.position, obstacle.kind, obstacle.reason, self._now_ms())
        self._store.append(name, self._store.end(name), [Event(event.KIND, event.encode())])
        model, further = self._found = self._reached()
        return {
            "model": name,
            "position": model.position,
            "set_aside": {"position": obstacle.position, "kind": obstacle.kind},
            "error": None if further is None else further.message,
        }

    def _reached(self) -> tuple[Model, Obstacle | None]:
        self._snapshots.let_end()  # no trim may take away what is being read
        return self._history.reached()

    def _commit(self, events: list[ModelEvent], former: Model | None = None) -> list[Outcome]:
        """Append events durably, apply them, publish. former: what a rollback among them goes back to.

        InternalError, before anything is appended, for what the model could not take in.
        """
        if not events:
            return []
        model = self.model
        with self._going_on():
            check_events(model, events)
        records = [Event(e.KIND, e.encode(), e.given_ids if isinstance(e, Learned) else ()) for e in events]
        try:
            self._store.append(model.name, model.position, records)
        except PositionTaken:
            self._unresolved = True
            raise
        except OutcomeUnknown:
            self._unresolved = True
            # If the log holds exactly these events, they are durable and nothing went wrong but the answer.
            if self._store.end(model.name) != model.position + len(events):
                raise
            self._unresolved = False
        outcomes = [self._apply(model.position + 1, event, former) for event in events]
        self.published = model.published()
        self._snapshots.take_if_due(model)
        return outcomes

    def _apply(self, position: int, event: ModelEvent, former: Model | None = None) -> Outcome:
        drifts = self.model.metrics.drift.count
        try:
            outcome = self._history.apply(self.model, position, event, former)
        except (ServiceError, Damaged) as error:  # no refusal: what is in the log is half applied
            raise RuntimeError(f"event {position} of model {self.model.name} could not be applied") from error
        self.feed.note(position, event, drifted=self.model.metrics.drift.count > drifts)
        return outcome

    def _now_ms(self) -> int:
        """The time, milliseconds since 1970; in a log it never falls, whatever the clock does."""
        return max(time.time_ns() // 1_000_000, self.model.at_ms)

    def _resolve(self) -> None:
        """After an append of unknown outcome: apply what stands in the log behind the model."""
        if not self._unresolved:
            return
        for position, record in self._store.read(self.model.name, self.model.position):
            event = decode_event(record.kind, record.payload)
            former = self._history.at(event.to) if isinstance(event, RolledBack) else None
            self._apply(position, event, former)
        self.published = self.model.published()
        self._unresolved = False


def _settle_all(futures: Sequence[asyncio.Future[Any]], outcomes: Sequence[Any]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # the client has gone
            continue
        if isinstance(outcome, ServiceError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
