"""One writer a model: takes what has queued up as a micro-batch, logs it, applies it, publishes, answers.

The order never changes: validate, append durably (one fsync for the whole micro-batch), apply, publish, acknowledge.
Predictions read what was published last and wait for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.answers import Answer
from service.errors import QueueFull, ServiceError, StoreUnavailable, Unavailable
from service.events import Finished, Learned, ModelEvent, decode_event
from service.labels import Label
from service.metrics import UNKNOWN
from service.model import Model, Outcome, Published
from service.plan import Fate, LearnRequest, make_plan
from service.settings import Settings
from service.store.base import Damaged, Event, OutcomeUnknown, PositionTaken, Store
from solvers.solver import Finish

log = logging.getLogger(__name__)

NOT_KEPT = (ServiceError, Damaged, KeyError)
"""What a store may raise where a snapshot is read or written."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """The answer to one learned example; prediction and score are None where no class was known, or no longer are."""

    id: str
    prediction: Label | None
    score: float | None
    duplicate: bool


@dataclass(frozen=True, slots=True)
class LearnAnswer:
    """Answers in the order of the request, and the position at which the model then stood."""

    position: int
    results: list[Learnt]


@dataclass(slots=True)
class _Job:
    """Work that waits: a LearnRequest, or None for the finishing step."""

    work: LearnRequest | None
    future: asyncio.Future[Any]

    @property
    def examples(self) -> int:
        return len(self.work.ids) if self.work else 0


class Worker:
    """Owns a model. Everything that changes the model goes through its queue."""

    def __init__(self, model: Model, store: Store, settings: Settings, executor: Executor) -> None:
        self.model = model
        self.published: Published = model.published()
        self._store = store
        self._settings = settings
        self._executor = executor
        self._jobs: deque[_Job] = deque()
        self._waiting_examples = 0
        self._questions: list[asyncio.Future[Any]] = []  # who waits for figures
        self._wake = asyncio.Event()
        self.predictions_served = 0
        self.snapshots_failed = 0
        self._stopping = False
        self._keep_snapshot = True
        self._failed: str | None = None
        self._unresolved = False  # an append of unknown outcome: the end of the log must be read first
        self._snapshot_learned = model.learned
        self._snapshot: Future[None] | None = None  # the one being written
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

    async def finish(self) -> dict[str, Any]:
        """Run the finishing step; returns its figures."""
        figures: dict[str, Any] = await self._enqueue(None)
        return figures

    async def describe(self) -> dict[str, Any]:
        """The model in figures, as of after what is under way."""
        self._check_running()
        question = asyncio.get_running_loop().create_future()
        self._questions.append(question)
        self._wake.set()
        figures: dict[str, Any] = await question
        return figures

    async def stop(self, *, keep_snapshot: bool = True) -> None:
        """Refuse new work, do what has queued up, keep a snapshot."""
        self._stopping = True
        self._keep_snapshot = keep_snapshot
        self._wake.set()
        await self._task

    def _check_running(self) -> None:
        if self._failed:
            raise Unavailable(f"model {self.model.name} has stopped: {self._failed}")
        if self._stopping:
            raise Unavailable("the server is stopping")

    def _enqueue(self, work: LearnRequest | None) -> asyncio.Future[Any]:
        self._check_running()
        if len(self._jobs) >= self._settings.queue_examples_max:
            raise QueueFull(f"{len(self._jobs)} requests wait for model {self.model.name}")
        job = _Job(work, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._waiting_examples += job.examples
        self._wake.set()
        return job.future

    @property
    def waiting_examples(self) -> int:
        """Examples that have queued up."""
        return self._waiting_examples

    @property
    def waiting_requests(self) -> int:
        """Requests that have queued up."""
        return len(self._jobs)

    @property
    def failed(self) -> bool:
        """Whether it stopped after something unforeseen."""
        return self._failed is not None

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._jobs and not self._questions:
                if self._stopping:
                    break
                self._wake.clear()
                await self._wake.wait()
                continue
            questions, self._questions = self._questions, []
            jobs = self._take() if self._jobs else []
            try:
                if questions:
                    figures = await loop.run_in_executor(self._executor, self.model.describe)
                    _settle_all(questions, [figures] * len(questions))
                outcomes = await loop.run_in_executor(self._executor, self._do, jobs) if jobs else []
            except Exception as error:  # noqa: BLE001  the state may be torn: this model stops, the others go on
                self._fail([*questions, *(job.future for job in jobs)], error)
                continue
            _settle_all([job.future for job in jobs], outcomes)
        # None may outlive the worker: the name could belong to another model by the time it is kept.
        if self._snapshot is not None:
            await asyncio.wait([asyncio.wrap_future(self._snapshot)])
        if self._keep_snapshot and not self._failed:
            await loop.run_in_executor(self._executor, self._snapshot_at_end)

    def _take(self) -> list[_Job]:
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

    def _fail(self, futures: list[asyncio.Future[Any]], error: Exception) -> None:
        log.error("model %s stops", self.model.name, exc_info=error)
        self._failed = f"{type(error).__name__}, see the server's log"
        futures += [*self._questions, *(job.future for job in self._jobs)]
        stopped = Unavailable(f"model {self.model.name} has stopped: {self._failed}")
        _settle_all(futures, [stopped] * len(futures))
        self._jobs.clear()
        self._questions.clear()
        self._waiting_examples = 0

    # -- the work, on a thread of the executor --------------------------------------------------------------------

    def _do(self, jobs: list[_Job]) -> Sequence[Any]:
        try:
            self._resolve()
            requests = [job.work for job in jobs if job.work]
            return self._learn(requests) if requests else [self._finish()]
        except ServiceError as error:
            return [error] * len(jobs)
        except Damaged as error:
            return [StoreUnavailable(f"the log of model {self.model.name} is damaged: {error}")] * len(jobs)

    def _learn(self, requests: list[LearnRequest]) -> list[LearnAnswer | ServiceError]:
        plan = make_plan(self.model, requests, self._find_forgotten, self._settings.classes_max, _now_ms())
        first_new = self.model.learned + 1
        outcomes = self._commit(plan.events)
        predictions = np.concatenate([o.predictions for o in outcomes] or [np.zeros(0, np.int32)]).tolist()
        scores = np.concatenate([o.scores for o in outcomes] or [np.zeros(0)]).tolist()
        self._snapshot_when_due()
        return [self._answer(fates, first_new, predictions, scores) for fates in plan.fates]

    def _answer(
        self, fates: list[Fate] | ServiceError, first_new: int, predictions: list[int], scores: list[float]
    ) -> LearnAnswer | ServiceError:
        if isinstance(fates, ServiceError):
            return fates
        labels = self.model.labels.labels
        results = []
        for fate in fates:
            if fate.answer is not None:
                number, score = fate.answer.prediction, fate.answer.score
            else:
                number, score = predictions[fate.new or 0], scores[fate.new or 0]
            known = number != UNKNOWN
            results.append(
                Learnt(
                    fate.given if fate.given is not None else f"@{first_new + (fate.new or 0)}",
                    labels[number] if known else None,
                    score if known else None,
                    fate.duplicate,
                )
            )
        return LearnAnswer(self.model.position, results)

    def _finish(self) -> dict[str, Any]:
        finish = self._commit([Finished(_now_ms())])[0].finish or Finish(0, converged=True)
        self._snapshot_when_due(at_once=True)  # a recovery need not run the finishing step again
        figures = self.model.describe()
        wanted = ("model", "position", "support_vectors", "points", "duality_gap")
        return {**{name: figures[name] for name in wanted}, **finish._asdict()}

    def _commit(self, events: list[ModelEvent]) -> list[Outcome]:
        """Append events durably, apply them, publish."""
        if not events:
            return []
        model = self.model
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
        outcomes = [model.apply(model.position + 1, event) for event in events]
        self.published = model.published()
        return outcomes

    def _resolve(self) -> None:
        """After an append of unknown outcome: apply what stands in the log behind the model."""
        if not self._unresolved:
            return
        for position, record in self._store.read(self.model.name, self.model.position):
            self.model.apply(position, decode_event(record.kind, record.payload))
        self.published = self.model.published()
        self._unresolved = False

    def _find_forgotten(self, ids: Sequence[str]) -> dict[str, Answer]:
        """From the log, the contents of examples whose first answers the model no longer keeps."""
        if self.model.answers.oldest == 1:
            return {}
        by_position: dict[int, list[str]] = {}
        for given, position in self._store.find(self.model.name, ids).items():
            by_position.setdefault(position, []).append(given)
        found: dict[str, Answer] = {}
        for position, given_ids in by_position.items():
            _, record = next(self._store.read(self.model.name, position - 1))
            event = decode_event(record.kind, record.payload)
            if isinstance(event, Learned):
                contents = dict(zip(event.ids, event.contents, strict=True))
                found |= {given: Answer(contents[given], UNKNOWN, 0.0) for given in given_ids}
        return found

    def _snapshot_when_due(self, *, at_once: bool = False) -> None:
        due = self.model.learned - self._snapshot_learned >= self._settings.snapshot_examples
        if (due or at_once) and (self._snapshot is None or self._snapshot.done()):
            self._snapshot_learned = self.model.learned
            # Taken here, between two micro-batches; written beside the next ones.
            self._snapshot = self._executor.submit(self._write_snapshot, self.model.position, self.model.snapshot())

    def _write_snapshot(self, position: int, state: bytes) -> None:
        try:
            self._store.put_snapshot(self.model.name, position, state)
        except NOT_KEPT:  # the log still has everything
            self.snapshots_failed += 1
            log.warning("snapshot of model %s at %d was not kept", self.model.name, position, exc_info=True)

    def _snapshot_at_end(self) -> None:
        if self._unresolved:
            return
        kept: list[int] = []
        with suppress(*NOT_KEPT):
            kept = self._store.snapshots(self.model.name)
        if self.model.position not in kept:
            self._write_snapshot(self.model.position, self.model.snapshot())


def _settle_all(futures: Sequence[asyncio.Future[Any]], outcomes: Sequence[Any]) -> None:
    for future, outcome in zip(futures, outcomes, strict=True):
        if future.done():  # the client has gone
            continue
        if isinstance(outcome, ServiceError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
