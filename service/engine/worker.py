"""A worker is the only writer of a model. This module contains the requests that a model accepts, and their answers.

A change of the model becomes work, which the actor (actor.py) does one piece at a time. Predictions read the newest
published view and never wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from hinged.service.commands.answers import ChangeAnswer, known_example
from hinged.service.commands.ask import Command, LabelBudget, Wish
from hinged.service.commands.change import Correct, Forget, Located
from hinged.service.commands.planned import LearnRequest
from hinged.service.engine import work
from hinged.service.engine.actor import Actor
from hinged.service.engine.follow import Follower
from hinged.service.engine.history import Obstacle
from hinged.service.engine.hooks.delivery import Deliveries
from hinged.service.engine.jobs.background import JobRunner, Shared
from hinged.service.engine.journal import Journal
from hinged.service.engine.learning import LearnAnswer, Learning
from hinged.service.engine.listing import Listing
from hinged.service.engine.receipts.proofs import Proofs
from hinged.service.errors import Invalid, NotFound, Unavailable
from hinged.service.model.model import Model
from hinged.service.model.pending import Made
from hinged.service.settings import Settings
from hinged.service.store.base import Store


class Worker(Actor):
    """The requests that a model accepts, as methods. They run on one event loop."""

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
        moved: Callable[[int], None] = lambda _: None,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Take the executor that runs the model's calls.

        beside: the executor that runs the calls of the model's jobs. readers: the executor that runs calls that read
        published views. moved: called with each published position. turn: waits until the model may learn.
        """
        self._event_loop = asyncio.get_running_loop()
        journal = Journal(model, store, settings, executor, obstacle, self._tell_of_snapshot, lambda: self._jobs.busy)
        super().__init__(journal, executor, moved, turn)
        self.readers = readers or executor
        self.predictions_served = 0
        self._jobs = JobRunner(self, journal.history, store, beside or executor, shared or Shared(store))
        self._labels = model.configuration.labels
        self._budget = LabelBudget(model.configuration.seed, self._labels)
        self.hooks = Deliveries(self, settings)
        self.proofs = Proofs(store, model.name)
        if obstacle is None and model.jobs.running():
            self._jobs.wake()
        self.hooks.look()

    # -- requests -------------------------------------------------------------------------------------------------

    def learn(self, request: LearnRequest) -> asyncio.Future[LearnAnswer]:
        """Queue a request's examples; its future is done when they are durable and applied.

        Raise QueueFull if too much work is waiting. The future raises StoreUnavailable if nothing was acknowledged, or
        the errors of the plan.
        """
        return self.put(Learning([request]))

    def finish(self, epochs: int = 0) -> asyncio.Future[dict[str, Any]]:
        """Learn the log again `epochs` times, then run the finishing step; return the future of the model's
        description. It raises Conflict if the log is trimmed.
        """
        return self.put(partial(work.finish, epochs=epochs))

    def roll_back(self, position: int) -> asyncio.Future[dict[str, Any]]:
        """Restore the state at a position.

        The future raises Invalid if there is no such position, Conflict if the log no longer reaches back to it.
        """
        return self.put(partial(work.roll_back, to=position))

    def set_aside(self, position: int | None) -> asyncio.Future[dict[str, Any]]:
        """Skip the event that the model could not apply, and continue after it.

        The future raises Conflict if there is no such event, or if its position is not `position`.
        """
        return self.put(partial(work.set_aside, position=position), stopped=self.obstacle is not None)

    async def snapshot(self, *, first: bool = False) -> int:
        """Save a snapshot; return its position once the snapshot is durable. first: whether to do so before all other
        work.

        Raise StoreUnavailable if the store did not accept the snapshot.
        """
        position, written = await self.put(work.snapshot, first=first)
        try:  # shielded: a client that disconnects must not cancel the snapshot
            problem = await asyncio.shield(asyncio.wrap_future(written))
        except asyncio.CancelledError:
            if not written.cancelled():
                raise
            raise Unavailable("the snapshot gave way to a change that needs its own snapshot; try again") from None
        if problem is not None:
            raise problem
        return int(position)

    def command(self, command: Command) -> asyncio.Future[dict[str, Any]]:
        """Queue a command; return the future of its answer, which comes once its events are durable and applied."""
        return self.put(partial(work.carry_out, command=command))

    async def change(self, command: Forget | Correct | ChangeAnswer) -> dict[str, Any]:
        """Change an example and return the answer. The example is first looked up in the log while the worker
        continues.
        """
        self.check_running()
        return await self.command(replace(command, located=await self._locate(command.given)))

    async def forget(self, given: str) -> dict[str, Any]:
        """Forget an example and return the answer, even if the model has dropped it and only the log names it."""
        try:
            return await self.change(Forget(given))
        except NotFound:
            names = partial(self.journal.lookup.names, given)
            if not await self._event_loop.run_in_executor(self.readers, names):
                raise
        return await self.change(Forget(given, named=True))

    async def example(self, given: str) -> dict[str, Any]:
        """Return an example that the model or its log contains. Raise NotFound if neither contains it, Gone if it was
        forgotten.
        """
        found = await self.read(partial(known_example, given=given))
        if found is None:
            found = await self.read(partial(known_example, given=given, located=await self._locate(given)))
        if found is None:
            raise NotFound(f"there is no example {given!r}, or its x is no longer known", id=given)
        return found

    def listing(self) -> Listing:
        """Return an object that lists the learned examples, a page at a time."""
        return Listing(self.journal.store, self.name, self.read, self.readers)

    async def _locate(self, given: str) -> Located | None:
        find = partial(self.journal.lookup.locate, self.model, given)
        return await self._event_loop.run_in_executor(self._executor, find)

    async def snapshots(self) -> list[int]:
        """Return the positions of the snapshots in the store, oldest first."""
        self.check_running()
        found = await self._event_loop.run_in_executor(self.readers, self.journal.store.snapshots, self.name)
        return sorted(found)

    def jobs(self) -> list[dict[str, Any]]:
        """Return descriptions of the running jobs, oldest first."""
        return [{"job": f"/jobs/{self.name}.{at}", **self.job(at)} for at in sorted(self._jobs.running())]

    def job(self, at: int) -> dict[str, Any]:
        """Return the description of a job. Raise NotFound if there is no such job, or it ended long ago."""
        return self._jobs.figures(at)

    async def ended(self, at: int, within_s: float | None = None) -> dict[str, Any]:
        """Wait until a job has ended, or for `within_s` seconds; return the description of the job."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while at in self._jobs.running():
                    self.check_running()
                    await self._jobs.looked.wait()
        return self.job(at)

    async def keep(self, predictions: list[Made]) -> None:
        """Let predictions wait for their labels. If the model's settings ask for it, the predictions are durable on
        return.

        Predictions of a state that a rollback has undone do not wait, and neither do predictions of forgotten examples,
        because their labels will be refused. If the model stopped before an event that it cannot apply, predictions do
        not wait either. If they must be durable, raise Unavailable instead.
        """
        durable = self.model.configuration.labels.pending_durable
        if self.obstacle is not None and not durable:
            return
        self.check_running()
        if durable:
            await self.put(partial(work.keep, predictions=predictions))
            return
        self.take_along(predictions)

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Return for each prediction whether the server would like its label."""
        return self._budget.wishes(ids, doubtful)

    async def describe(self, *, full: bool = False) -> dict[str, Any]:
        """Describe the model after the current work. full: include every default of its configuration."""
        return await self.read(lambda model: model.describe(self.journal.now_ms(), full=full))

    def follow(self, after: int | None = None) -> Follower:
        """Return a follower of the model's events after a position, or from now on.

        Raise Invalid if the log does not reach the position yet.
        """
        self.check_running()
        newest = self.published.position
        if after is not None and not 0 <= after <= newest:
            raise Invalid(f"the log of model {self.name} ends at position {newest}, got {after}")
        read = partial(self.journal.store.read, self.name)
        return Follower(self.journal.feed, read, lambda: self.published.position, newest if after is None else after)

    async def stop(self, *, keep_snapshot: bool = True, why: str | None = None) -> None:
        """Refuse new work, do the queued work, save a snapshot.

        why: the reason given to later requests; None for the usual reason.
        """
        await self._jobs.stop()
        await self.hooks.stop(record=keep_snapshot)
        await super().stop(keep_snapshot=keep_snapshot, why=why)
        usual = "the server stops" if keep_snapshot else f"model {self.name} was deleted"
        self.journal.feed.end(why or usual, elsewhere=why is not None)

    # -- called by the actor ---------------------------------------------------------------------------------------

    def look_at_changes(self) -> None:
        """Adapt to changes of the configuration, the jobs and the hooks."""
        super().look_at_changes()
        labels = self.model.configuration.labels
        if labels != self._labels:
            self._labels, self._budget = labels, LabelBudget(self.model.configuration.seed, labels)
        self._jobs.look()
        self.hooks.look()

    def let_go(self) -> None:
        """Release callers that would otherwise wait for ever."""
        self._jobs.release()

    def _tell_of_snapshot(self, position: int) -> None:
        self._event_loop.call_soon_threadsafe(self.journal.feed.tell, position, "snapshot")
