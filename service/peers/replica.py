"""Replicas: copies of another process's models, which this process computes from their logs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from hinged.service import limits
from hinged.service.commands.ask import LabelBudget, Wish
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.positions import LogPosition
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.model.model import Model
from hinged.service.model.pending import Made
from hinged.service.model.view import Published
from hinged.service.settings import Settings
from hinged.service.store.base import Store

log = logging.getLogger(__name__)

RETRY_S = 1.0  # seconds before a replica is loaded again after an error


class NotHere(ServiceError):
    """Raised when only the model's owner can answer. The owner then gets the request, so no client sees this error."""

    def __init__(self) -> None:
        super().__init__("only the owner can answer this")


class Replica:
    """A copy of a model at a position of the model's log. The copy answers predictions (commands.predict.Serving)."""

    def __init__(self, model: Model, history: ModelHistory, executor: Executor) -> None:
        self.model, self.name = model, model.name
        self.published: Published = model.published()
        self.readers = executor
        self.predictions_served = 0
        self._history = history
        self._alone = asyncio.Lock()  # locked while the model itself is changed or read

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """Return the model's answer to a question. The question is asked between two changes of the model."""
        async with self._alone:
            return await asyncio.get_running_loop().run_in_executor(self.readers, question, self.model)

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Return for each prediction whether the server asks for its label. Raise NotHere if a budget must count all
        predictions.
        """
        labels = self.published.configuration.labels
        if labels.budget is not None:
            raise NotHere
        return LabelBudget(0, labels).wishes(ids, doubtful)

    async def keep(self, predictions: list[Made]) -> None:  # noqa: ARG002
        """Raise NotHere: only the owner keeps predictions that wait for their labels."""
        raise NotHere

    async def follow(self, through: int) -> None:
        """Apply the events after the model's position, up to a position that the owner has published. Later events may
        not be durable yet.
        """
        async with self._alone:
            await asyncio.get_running_loop().run_in_executor(self.readers, self._fold, through)

    def _fold(self, through: int) -> None:
        for at, record in self._history.store.read(self.model.name, self.model.position):
            if at > through:
                break
            self.model = self._history.followed(self.model, at, record)
        self.published = self.model.published()


class Replicas:
    """The replicas of one owner's models, by name. Used on one event loop."""

    def __init__(self, store: Store, settings: Settings, executor: Executor) -> None:
        self.settings = settings
        self._store = store
        self._executor = executor
        self._places: dict[str, LogPosition] = {}
        self._behind_since: dict[str, float] = {}  # since when a replica has not been at the model's newest position
        self._loaded: dict[str, tuple[int, Replica]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str) -> Replica:
        """Return the replica of a model. Raise NotHere if there is no replica, or it has lagged for too long."""
        birth, replica = self._loaded.get(name, (0, None))
        place = self._places.get(name)
        if replica is None or place is None or birth != place.birth:
            raise NotHere
        if replica.published.position < place.position:
            behind_s = time.monotonic() - self._behind_since[name]
            if behind_s > limits.FOLLOWER_LAG_S:
                raise NotHere
        return replica

    def lags(self) -> dict[str, int]:
        """Return how many events each replica has not yet applied."""
        return {
            name: place.position - (self._loaded[name][1].published.position if name in self._loaded else 0)
            for name, place in self._places.items()
        }

    def served(self) -> dict[str, int]:
        """Return the number of predictions made with each replica."""
        return {name: replica.predictions_served for name, (_, replica) in self._loaded.items()}

    async def settle(self) -> None:
        """Set the positions to the ends of the owner's logs. Call this after the owner has gone.

        The logs contain everything that the owner acknowledged.
        """
        for name, place in list(self._places.items()):
            try:
                end = await asyncio.get_running_loop().run_in_executor(self._executor, self._store.end, name)
            except StoreUnavailable as error:  # the model is gone, or the store cannot be reached
                log.info("model %s is no longer followed: %s", name, error.message)
                self.note(name, None)
            else:
                self.note(name, LogPosition(place.birth, end))

    def note(self, name: str, place: LogPosition | None) -> None:
        """Record a model's newest position, or that the model is gone."""
        if place is None:
            self._places.pop(name, None)
            self._loaded.pop(name, None)
            self._behind_since.pop(name, None)
            return
        self._places[name] = place
        self._behind_since.setdefault(name, time.monotonic())
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._follow(name), name=f"replica of {name}")

    async def stop(self) -> None:
        """Stop applying events."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()  # a task that had not begun does not remove itself

    async def _follow(self, name: str) -> None:
        try:
            await self._catch_up(name)
        finally:  # remove the task at once, so that the next note starts a new task
            self._tasks.pop(name, None)

    async def _catch_up(self, name: str) -> None:
        while (place := self._places.get(name)) is not None:
            birth, replica = self._loaded.get(name, (0, None))
            try:
                if replica is None or birth != place.birth:
                    loaded = await asyncio.get_running_loop().run_in_executor(
                        self._executor, self._load, name, place.position
                    )
                    if self._places.get(name) is not None:
                        self._loaded[name] = place.birth, loaded
                elif replica.published.position < place.position:
                    await replica.follow(place.position)
                else:
                    self._behind_since.pop(name, None)
                    return
            except asyncio.CancelledError:
                raise
            except BaseException:  # events may be trimmed, erased or set aside, or the store may be unreachable
                log.info("the replica of %s is loaded again", name, exc_info=True)
                self._loaded.pop(name, None)
                await asyncio.sleep(RETRY_S)

    def _load(self, name: str, position: int) -> Replica:
        history = ModelHistory(self._store, name, **self.settings.model_sizes)
        return Replica(history.at(position), history, self._executor)
