"""Models that another process owns, folded from their logs here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from hinged.service import limits
from hinged.service.commands.ask import LabelBudget, Wish
from hinged.service.data.classes import Label
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.positions import LogPosition
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.view import Published
from hinged.service.settings import Settings
from hinged.service.store.base import Store

log = logging.getLogger(__name__)

PUBLISH_S = 0.1
"""While many events are folded, predictions see a new state so often."""
RETRY_S = 1.0


class NotHere(ServiceError):
    """What only the model's owner can answer, who is asked instead: no client sees it."""

    def __init__(self) -> None:
        super().__init__("only the owner can answer this")


class Replica:
    """A model as of some position of its log, for predictions (commands.predict.Serving)."""

    def __init__(self, model: Model, history: ModelHistory, executor: Executor) -> None:
        self.model = model
        self.published: Published = model.published()
        self.readers = executor
        self.predictions_served = 0
        self._history = history
        self._alone = asyncio.Lock()  # whoever folds or reads the model itself

    async def read(self, question: Callable[[Model], Any]) -> Any:
        """What a question to the model itself finds, between two changes."""
        async with self._alone:
            return await asyncio.get_running_loop().run_in_executor(self.readers, question, self.model)

    def wishes(self, ids: Sequence[str | None], doubtful: Sequence[bool]) -> list[Wish]:
        """Whose labels are wanted. NotHere where a budget counts all predictions."""
        labels = self.published.configuration.labels
        if labels.budget is not None:
            raise NotHere
        return LabelBudget(0, labels).wishes(ids, doubtful)

    async def keep(self, predictions: list[Prediction], classes: Sequence[Label] = ()) -> None:  # noqa: ARG002
        """NotHere: predictions that wait for their labels are the owner's."""
        raise NotHere

    async def follow(self) -> None:
        """Fold what the log has behind the model."""
        async with self._alone:
            await asyncio.get_running_loop().run_in_executor(self.readers, self._fold)

    def _fold(self) -> None:
        shown = time.monotonic()
        for at, record in self._history.store.read(self.model.name, self.model.position):
            self.model = self._history.followed(self.model, at, record)
            if time.monotonic() > shown + PUBLISH_S:
                self.published, shown = self.model.published(), time.monotonic()
        self.published = self.model.published()


class Replicas:
    """The replicas of one owner's models, by name. On one event loop."""

    def __init__(self, store: Store, settings: Settings, executor: Executor) -> None:
        self.settings = settings
        self._store = store
        self._executor = executor
        self._places: dict[str, LogPosition] = {}
        self._behind_since: dict[str, float] = {}
        self._loaded: dict[str, tuple[int, Replica]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str) -> Replica:
        """The replica of a model. NotHere where there is none, or it is behind for too long."""
        birth, replica = self._loaded.get(name, (0, None))
        place = self._places.get(name)
        if replica is None or place is None or birth != place.birth:
            raise NotHere
        if replica.published.position < place.position and self.behind_s(name) > limits.FOLLOWER_LAG_S:
            raise NotHere
        return replica

    def behind_s(self, name: str) -> float:
        """Seconds since a model was last seen at its newest position."""
        since = self._behind_since.get(name)
        return 0.0 if since is None else time.monotonic() - since

    def lags(self) -> dict[str, int]:
        """Events that each model is behind."""
        return {
            name: place.position - (self._loaded[name][1].published.position if name in self._loaded else 0)
            for name, place in self._places.items()
        }

    def served(self) -> dict[str, int]:
        """Predictions that were made with each model here."""
        return {name: replica.predictions_served for name, (_, replica) in self._loaded.items()}

    async def settle(self) -> None:
        """The owner is gone: be where its logs end, which hold all that it has acknowledged."""
        for name, place in list(self._places.items()):
            try:
                end = await asyncio.get_running_loop().run_in_executor(self._executor, self._store.end, name)
            except StoreUnavailable as error:  # the model is gone, or the store is
                log.info("model %s is followed no more: %s", name, error.message)
                self.note(name, None)
            else:
                self.note(name, LogPosition(place.birth, end))

    def note(self, name: str, place: LogPosition | None) -> None:
        """A model is at this place now, or there no more."""
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
        """Fold no more."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()  # one that had not begun does not end in order

    async def _follow(self, name: str) -> None:
        try:
            await self._catch_up(name)
        finally:  # at once: whoever notes something next must find that nobody follows
            self._tasks.pop(name, None)

    async def _catch_up(self, name: str) -> None:
        while (place := self._places.get(name)) is not None:
            birth, replica = self._loaded.get(name, (0, None))
            try:
                if replica is None or birth != place.birth:
                    loaded = await asyncio.get_running_loop().run_in_executor(self._executor, self._load, name)
                    if self._places.get(name) is not None:
                        self._loaded[name] = place.birth, loaded
                elif replica.published.position < place.position:
                    await replica.follow()
                else:
                    self._behind_since.pop(name, None)
                    return
            except asyncio.CancelledError:
                raise
            except BaseException:  # its events may be trimmed, taken out or set aside, or the store be away
                log.info("the replica of %s is read anew", name, exc_info=True)
                self._loaded.pop(name, None)
                await asyncio.sleep(RETRY_S)

    def _load(self, name: str) -> Replica:
        history = ModelHistory(self._store, name, **self.settings.model_sizes)
        model, _ = history.reached()
        return Replica(model, history, self._executor)
