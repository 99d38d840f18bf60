"""Doing what a model still has to do, beside its worker: teach learners anew, swap them in, erase what is forgotten.

A round takes up all jobs that run. Whatever it has done when a crash comes, the next start begins the round again: the
events that began the jobs are in the log, and each step can be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from service.erasure import redact
from service.errors import ServiceError
from service.folding import Fold
from service.model import Model
from service.recovery import History
from service.store.base import Damaged, Store
from service.traces import Traces

log = logging.getLogger(__name__)

LAG_MAX = 256  # events that the worker folds at the swap, while its model learns nothing
RETRY_FIRST_S = 0.5
RETRY_MAX_S = 60.0


class Owner(Protocol):
    """What the worker of a model offers."""

    model: Model

    @property
    def stopped(self) -> bool:
        """Whether it takes no more work."""

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """What a question to the model finds, between two changes."""

    async def swap(self, fold: Fold) -> int | None:
        """Put the learners of a fold in their places; the position of the new state, None if the jobs have changed."""

    async def snapshot(self) -> int:
        """Keep a snapshot."""

    async def settle(self, fold: Fold, unwritten: list[str]) -> None:
        """Note that the jobs of a fold have ended."""


class Mender:
    """The jobs of one model."""

    def __init__(
        self, owner: Owner, history: History, store: Store, executor: Executor, folding: asyncio.Semaphore
    ) -> None:
        self._owner = owner
        self._history = history
        self._store = store
        self._executor = executor
        self._folding = folding
        self._fold: Fold | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = False

    def wake(self) -> None:
        """Begin, or look again before leaving off."""
        self._woken = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"mender of {self._history.name}")

    @property
    def progress(self) -> float:
        """The part of the log that the round has been through."""
        fold = self._fold
        return 0.0 if fold is None else min(1.0, fold.position / max(1, self._owner.model.position))

    async def stop(self) -> None:
        """Leave off; the next start takes the jobs up again."""
        if self._fold is not None:
            self._fold.stopped = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
            except Exception as error:
                unforeseen = not isinstance(error, ServiceError | Damaged)
                log.warning("jobs of model %s wait: %s", self._history.name, error, exc_info=unforeseen)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)

    async def _round(self) -> None:
        fold: Fold = await self._owner.read(lambda model: Fold(self._history, model))
        self._fold = fold
        try:
            async with self._folding:
                while fold.position < (end := self._owner.model.position) - LAG_MAX or fold.position == 0:
                    await self._call(fold.advance, end)
            position = await self._owner.swap(fold)
            if position is None:
                return
            unwritten: list[str] = []
            if fold.erases:
                await self._owner.snapshot()  # a recovery should not need the state in the log
                traces: Traces = await self._owner.read(lambda model: model.traces.copy())
                await self._call(redact, self._store, self._history.name, traces, position)
                unwritten = await self._call(self._store.purge)
            await self._owner.settle(fold, unwritten)
        finally:
            self._fold = None

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
