"""Doing what a model still has to do, beside its worker: teach learners anew, swap them in, erase what is forgotten.

A round takes up all jobs that run. Whatever it has done when a crash comes, the next start begins the round again: the
events that began the jobs are in the log, and each step can be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from hinged.service.engine.history import ModelHistory
from hinged.service.engine.jobs.erasure import redact
from hinged.service.engine.jobs.purging import Purging
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.work import CatchingUp, Settling, Swapping
from hinged.service.errors import NotFound, ServiceError
from hinged.service.model.model import Model
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Damaged, Store

log = logging.getLogger(__name__)

LAG_MAX = 16
"""Events that the worker teaches at the swap. Its model learns nothing meanwhile; with fewer a fast stream is never
caught up with."""
BESIDE_S, BESIDE_MIN_S = 1.0, 0.05
"""Seconds that a retraining goes on beside the worker before it is looked at whether it gains on the stream. They are
halved each time that it does not; below the least of them the worker only teaches."""
TURN_S, TURN_MAX_S = 0.2, 2.0
"""Seconds that the worker itself teaches at a time where the retraining does not gain, doubled each time. The model
learns nothing meanwhile."""
RETRY_FIRST_S, RETRY_MAX_S = 0.5, 60.0
"""Seconds until a job whose store was away is tried again, doubled each time up to the second. Less fills the log."""


class JobHost(Protocol):
    """What the worker of a model offers."""

    @property
    def model(self) -> Model:
        """The model as it stands."""

    @property
    def stopped(self) -> bool:
        """Whether it takes no more work."""

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """What a question to the model finds, between two changes."""

    async def step(self, work: CatchingUp | Swapping | Settling) -> Any:
        """What a step of a job answers, which comes before all that waits."""

    async def snapshot(self, *, first: bool = False) -> int:
        """Keep a snapshot, before what waits if it is to be first."""


class Shared:
    """What the models of a server share: how many are taught anew at once, and purges."""

    def __init__(self, store: Store, retrainings: int = 1) -> None:
        self.places = asyncio.Semaphore(retrainings)
        self._patient = asyncio.Semaphore(max(1, retrainings - 1))
        self.purging = Purging(store)

    @asynccontextmanager
    async def turn(self, retraining: Retraining) -> AsyncIterator[None]:
        """Wait for one of the places, of which one is kept for what is urgent."""
        async with AsyncExitStack() as held:
            if not retraining.urgent:
                await held.enter_async_context(self._patient)
            await held.enter_async_context(self.places)
            yield


class JobRunner:
    """The jobs of one model."""

    def __init__(self, owner: JobHost, history: ModelHistory, store: Store, executor: Executor, shared: Shared) -> None:
        self._owner = owner
        self._history = history
        self._store = store
        self._executor = executor
        self._shared = shared
        self._retraining: Retraining | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = False
        self._stopped = False
        self._step: asyncio.Future[Any] | None = None  # what runs on a thread
        self._swapped: tuple[Retraining, int] | None = None  # a round that is not through, behind its swap
        self._ending: dict[int, list[asyncio.Future[None]]] = {}  # who waits for the end of a job

    def running(self) -> set[int]:
        """The positions of the jobs that have not ended."""
        return {job.at for job in self._owner.model.jobs.running()}

    def figures(self, at: int) -> dict[str, Any]:
        """A job in figures. NotFound for one that is none, or ended long ago."""
        job = self._owner.model.jobs.find(at)
        if job is None:
            raise NotFound(f"model {self._history.name} has no job {at}, or it ended long ago")
        figures: dict[str, Any] = {
            "state": job.state,
            "kind": job.kind,
            "progress": self.progress if job.state == "running" else 1.0,
            "certificate": job.result.get("certificate"),
        }
        if job.result.get("unwritten"):
            figures["unwritten"] = job.result["unwritten"]
        return figures if job.error is None else {**figures, "error": job.error}

    async def end_of(self, at: int) -> None:
        """Wait until a job may have ended: until it has, or the model takes no more work."""
        future = asyncio.get_running_loop().create_future()
        self._ending.setdefault(at, []).append(future)
        await future

    def look(self) -> None:
        """After a change of the model: begin where jobs run, and let those go on who wait for one that does not."""
        running = self.running()
        if running and not self._owner.stopped:
            self.wake()
        for at in [at for at in self._ending if at not in running]:
            self._release(at)

    def release(self) -> None:
        """Let all go on who wait for the end of a job."""
        for at in list(self._ending):
            self._release(at)

    def _release(self, at: int) -> None:
        for future in self._ending.pop(at):
            if not future.done():
                future.set_result(None)

    def wake(self) -> None:
        """Begin, or look again before leaving off."""
        self._woken = True
        if self._stopped:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"jobs of {self._history.name}")

    @property
    def progress(self) -> float:
        """The part of the log that the round has been through."""
        retraining = self._retraining
        return 0.0 if retraining is None else min(1.0, retraining.position / max(1, self._owner.model.position))

    @property
    def busy(self) -> bool:
        """Whether the log is being read."""
        return self._retraining is not None

    async def stop(self) -> None:
        """Leave off; the next start takes the jobs up again. Nothing of it runs when this returns."""
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
            except BaseException as error:  # what a solver raises need be no Exception
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
            await self._owner.snapshot(first=True)  # a recovery should not need the state in the log
            tombstones: Tombstones = await self._owner.read(lambda model: model.tombstones.copy())
            await self._call(redact, self._store, self._history.name, tombstones, position, lambda: self._stopped)
            unwritten = await self._shared.purging.purge(self._call)
        await self._owner.step(Settling(retraining, unwritten))
        self._swapped = None

    async def _teach_and_swap(self) -> None:
        retraining: Retraining = await self._owner.read(lambda model: Retraining(self._history, model))
        self._retraining = retraining
        try:
            async with self._shared.turn(retraining):
                position = None
                while position is None and not retraining.stopped and await self._owner.read(retraining.fits):
                    if not await self._drawn_near(retraining):
                        return
                    position = await self._owner.step(Swapping(retraining))
            if position is not None:
                self._swapped = retraining, position
        finally:
            self._retraining = None

    async def _drawn_near(self, retraining: Retraining) -> bool:
        """Teach until few events are left for the swap; whether it came to that.

        A retraining that learns twice as much as comes meanwhile will end. Else the worker takes turns with it, longer
        ones until that is so. That may not be enough for a solver that cannot keep up with the stream: then it goes on
        until the stream leaves it time, or something is to be put right first.
        """
        beside_s, turn_s = BESIDE_S, 0.0
        while (behind := self._owner.model.position - retraining.position) > LAG_MAX or retraining.position == 0:
            reached = retraining.position
            if beside_s >= BESIDE_MIN_S or not turn_s:
                await self._call(retraining.advance, self._owner.model.position, beside_s)
            if turn_s:
                await self._owner.step(CatchingUp(retraining, turn_s))
            if not self._gains(retraining, reached, behind):
                beside_s, turn_s = max(beside_s, BESIDE_MIN_S) / 2, min(max(TURN_S, 2 * turn_s), TURN_MAX_S)
            elif turn_s:
                turn_s = turn_s / 2 if turn_s > TURN_S else 0.0
            else:
                beside_s = min(2 * beside_s, BESIDE_S)
            if turn_s and await self._owner.read(retraining.gives_way):
                return False
        return True

    def _gains(self, retraining: Retraining, reached: int, behind: int) -> bool:
        """Whether fewer than half as many events came as were reached since it stood at `reached`, so far behind."""
        came = self._owner.model.position - reached - behind
        return 2 * came <= retraining.position - reached

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        self._step = asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
        self._step.add_done_callback(lambda step: step.cancelled() or step.exception())  # who waits may be gone
        return await asyncio.shield(self._step)
