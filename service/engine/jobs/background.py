"""Run a model's jobs at the same time as its worker: retrain learners, swap them in, erase forgotten examples.

One round does all running jobs. After a crash, the next start begins the round again: the events that began the jobs
are in the log, and each step can be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from hinged.service.engine.history import ModelHistory
from hinged.service.engine.jobs.erasure import redact
from hinged.service.engine.jobs.purging import Purging
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.work import catch_up, settle_jobs, swap
from hinged.service.errors import NotFound, ServiceError
from hinged.service.store.base import Damaged, Store

if TYPE_CHECKING:
    from hinged.service.engine.worker import Worker

log = logging.getLogger(__name__)

LAG_MAX = 16
"""Maximum number of events with which the worker trains at the swap. Meanwhile the model learns nothing. With a smaller
limit, a retraining never catches up with a fast stream."""
BESIDE_S, BESIDE_MIN_S = 1.0, 0.05
"""Seconds for which a retraining runs before the job checks whether the retraining catches up with the stream: at first
BESIDE_S, then halved each time that it does not catch up. Below BESIDE_MIN_S only the worker trains."""
TURN_S, TURN_MAX_S = 0.2, 2.0
"""If the retraining does not catch up, the worker trains for this many seconds per turn: at first TURN_S, then doubled
up to TURN_MAX_S. The model learns nothing meanwhile."""
RETRY_FIRST_S, RETRY_MAX_S = 0.5, 60.0
"""Seconds before a job is retried after its store was unavailable: at first RETRY_FIRST_S, then doubled up to
RETRY_MAX_S. Shorter waits would flood the server's log."""


class Shared:
    """Resources that all models of a server share: slots for retraining, and purges of the store."""

    def __init__(self, store: Store, retrainings: int = 1) -> None:
        self.places = asyncio.Semaphore(retrainings)
        self._patient = asyncio.Semaphore(max(1, retrainings - 1))
        self.purging = Purging(store)

    @asynccontextmanager
    async def turn(self, retraining: Retraining) -> AsyncIterator[None]:
        """Wait for a free slot and occupy it during the block. One slot is reserved for urgent retraining."""
        async with AsyncExitStack() as held:
            if not retraining.urgent:
                await held.enter_async_context(self._patient)
            await held.enter_async_context(self.places)
            yield


class JobRunner:
    """Runs the jobs of one model."""

    def __init__(self, owner: Worker, history: ModelHistory, store: Store, executor: Executor, shared: Shared) -> None:
        self._owner = owner
        self._history = history
        self._store = store
        self._executor = executor
        self._shared = shared
        self._retraining: Retraining | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = False
        self._stopped = False
        self._step: asyncio.Future[Any] | None = None  # the call that runs on a thread
        self._swapped: tuple[Retraining, int] | None = None  # a round after its swap, before its end
        self.looked = asyncio.Event()
        """Is set, and replaced, after each change of the model, and when the model accepts no more work."""

    def running(self) -> set[int]:
        """Return the log positions at which the unfinished jobs began."""
        return {job.at for job in self._owner.model.jobs.running()}

    def figures(self, at: int) -> dict[str, Any]:
        """Return the description of a job. Raise NotFound if there is no such job, or it ended long ago."""
        job = self._owner.model.jobs.find(at)
        if job is None:
            raise NotFound(f"model {self._history.name} has no job {at}, or it ended long ago")
        figures: dict[str, Any] = {
            "state": job.state,
            "kind": job.kind,
            "progress": self._progress() if job.state == "running" else 1.0,
            "certificate": job.result.get("certificate"),
        }
        if job.result.get("unwritten"):
            figures["unwritten"] = job.result["unwritten"]
        return figures if job.error is None else {**figures, "error": job.error}

    def look(self) -> None:
        """React to a change of the model: start jobs, and let callers that wait for the end of a job look again."""
        if self.running() and not self._owner.stopped:
            self.wake()
        self.release()

    def release(self) -> None:
        """Let all callers that wait for the end of a job look again."""
        self.looked.set()
        self.looked = asyncio.Event()

    def wake(self) -> None:
        """Start the task of the jobs. If it already runs, make it look for jobs again before it ends."""
        self._woken = True
        if self._stopped:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"jobs of {self._history.name}")

    def _progress(self) -> float:
        """Return the share of the log that the round has read, from 0 to 1."""
        retraining = self._retraining
        return 0.0 if retraining is None else min(1.0, retraining.position / max(1, self._owner.model.position))

    @property
    def busy(self) -> bool:
        """Return whether a retraining is reading the log."""
        return self._retraining is not None

    async def stop(self) -> None:
        """Stop; the next start resumes the jobs. When this returns, no part of a job runs."""
        self._stopped = True
        if self._retraining is not None:
            self._retraining.stopped = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._step is not None:  # a thread cannot be cancelled
            await asyncio.wait([self._step])

    async def _run(self) -> None:
        wait_s = RETRY_FIRST_S
        while not self._owner.stopped:
            try:
                self._woken = False
                if await self._owner.read(lambda model: bool(model.jobs.running())):
                    await self._round()
                elif not self._woken:
                    break
                wait_s = RETRY_FIRST_S
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # a solver may raise errors that are not Exception
                unforeseen = not isinstance(error, ServiceError | Damaged)
                log.warning("jobs of model %s wait: %s", self._history.name, error, exc_info=unforeseen)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _round(self) -> None:
        if self._swapped is None:
            await self._teach_and_swap()
        if self._swapped is None:
            return
        retraining, position = self._swapped
        unwritten: list[str] = []
        if retraining.erases:
            await self._owner.snapshot(first=True)  # so that a recovery does not need the state in the log
            tombstones = await self._owner.read(lambda model: model.tombstones.copy())
            sealed = await self._owner.read(lambda model: model.receipts is not None)
            redacting = partial(redact, sealed=sealed)
            await self._call(redacting, self._store, self._history.name, tombstones, position, lambda: self._stopped)
            unwritten = await self._shared.purging.purge(self._call)
        await self._do_first(settle_jobs, retraining, unwritten)
        self._swapped = None

    async def _teach_and_swap(self) -> None:
        retraining = await self._owner.read(lambda model: Retraining(self._history, model))
        self._retraining = retraining
        try:
            async with self._shared.turn(retraining):
                position = None
                while position is None and not retraining.stopped and await self._owner.read(retraining.fits):
                    if not await self._drawn_near(retraining):
                        return
                    position = await self._do_first(swap, retraining)
            if position is not None:
                self._swapped = retraining, position
        finally:
            self._retraining = None

    async def _drawn_near(self, retraining: Retraining) -> bool:
        """Train until few events are left for the swap; return whether that succeeded.

        A retraining catches up if it learns at least twice as many events as arrive meanwhile. If it does not catch up,
        the worker also trains, in longer and longer turns. If the solver is still too slow, the retraining continues
        until the stream slows down, or an urgent job must go first.
        """
        beside_s, turn_s = BESIDE_S, 0.0
        while (behind := self._owner.model.position - retraining.position) > LAG_MAX or retraining.position == 0:
            reached = retraining.position
            if beside_s >= BESIDE_MIN_S or not turn_s:
                await self._call(retraining.advance, self._owner.model.position, beside_s)
            if turn_s:
                await self._do_first(catch_up, retraining, turn_s)
            came = self._owner.model.position - reached - behind
            if 2 * came > retraining.position - reached:
                beside_s, turn_s = max(beside_s, BESIDE_MIN_S) / 2, min(max(TURN_S, 2 * turn_s), TURN_MAX_S)
            elif turn_s:
                turn_s = turn_s / 2 if turn_s > TURN_S else 0.0
            else:
                beside_s = min(2 * beside_s, BESIDE_S)
            if turn_s and await self._owner.read(retraining.gives_way):
                return False
        return True

    async def _do_first(self, step: Callable[..., Any], *args: Any) -> Any:
        """Let the worker do a step of a job before all other waiting work; return the step's answer. Otherwise each
        step would wait for the whole queue.
        """
        return await self._owner.put(lambda journal: step(journal, *args), first=True)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        self._step = asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
        self._step.add_done_callback(lambda step: step.cancelled() or step.exception())  # the caller may have ended
        return await asyncio.shield(self._step)
