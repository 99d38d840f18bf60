"""Snapshots of one model. This module decides when to take a snapshot, writes it while the worker continues, and then
trims the log.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress

from hinged.frames import BadFrame, decode
from hinged.service import limits
from hinged.service.engine.patience import NO_MEMORY
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.model.model import Model
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.service.store.base import SNAPSHOTS_KEPT, Damaged, Store

log = logging.getLogger(__name__)

NOT_KEPT = (ServiceError, Damaged, KeyError, *NO_MEMORY)
"""Errors that may occur when a snapshot is read or written."""


class Snapshots:
    """Takes the snapshots of one model, at most one at a time. Callers pass the model in its current state.

    tell: called with the position of each saved snapshot, on the thread that wrote the snapshot. log_is_read: whether
    the log must not be trimmed now.
    """

    def __init__(
        self,
        model: Model,
        store: Store,
        settings: Settings,
        executor: Executor,
        tell: Callable[[int], None],
        log_is_read: Callable[[], bool],
    ) -> None:
        self.failed = 0
        self.newest: Future[ServiceError | None] | None = None  # its result: the reason why the snapshot was not saved
        self._name = model.name
        self._store = store
        self._settings = settings
        self._executor = executor
        self._tell = tell
        self._log_is_read = log_is_read
        self._learned, self._position = model.learned, model.position
        self._at = time.monotonic()
        self._kept, self._kept_at = self._position, self._at

    def age_s(self, position: int) -> float:
        """Return the seconds since the newest snapshot was saved, or the model was loaded; 0 if nothing has changed
        since.
        """
        return 0.0 if position <= self._kept else time.monotonic() - self._kept_at

    def due_in_s(self, model: Model) -> float:
        """Return the seconds until the newest snapshot is so old that a new snapshot is due."""
        if model.position == self._position:
            return math.inf
        return self._at + limits.SNAPSHOT_S - time.monotonic()

    def take_if_due(self, model: Model) -> None:
        """Begin a snapshot if enough has changed, or the last snapshot is old enough."""
        examples, events = model.learned - self._learned, model.position - self._position
        aged = self.due_in_s(model) <= 0
        if max(examples, events) < self._settings.snapshot_examples and not aged:
            return
        if self.newest is None or self.newest.done():
            self._begin(model)
        elif aged:  # the snapshot in progress is slow: wait for it
            self._at = time.monotonic()

    def take(self, model: Model) -> tuple[int, Future[ServiceError | None]]:
        """Begin a snapshot, even if none is due; return its position and the future of its outcome."""
        written, position = self.newest, self._position
        if written is None or position != model.position or (written.done() and written.result() is not None):
            self.let_end()
            written, position = self._begin(model), model.position
        return position, written

    def let_end(self) -> None:
        """Wait until no snapshot is being written and no log is being trimmed.

        A snapshot that has not begun is given up, because it may wait for the thread that runs this.
        """
        if self.newest is not None and not self.newest.cancel():
            self.newest.result()
        self.newest = None

    def take_last(self, model: Model) -> None:
        """Write the snapshot of a model that learns nothing more, unless the store has it."""
        kept: list[int] = []
        with suppress(*NOT_KEPT):
            kept = self._store.snapshots(self._name)
        if model.position not in kept:
            self._write(model.position, model.snapshot(), model.reads_back_at)

    def _begin(self, model: Model) -> Future[ServiceError | None]:
        """Copy the state now, between two micro-batches. The copy is written during the next micro-batches."""
        self._learned, self._position = model.learned, model.position
        self._at = time.monotonic()
        self.newest = self._executor.submit(self._write, model.position, model.snapshot(), model.reads_back_at)
        return self.newest

    def _write(self, position: int, state: bytes, reads_back_at: int) -> ServiceError | None:
        """Save a snapshot, then trim the log before it. Return why the snapshot was not saved, or None."""
        try:
            self._store.put_snapshot(self._name, position, state)
            self._kept, self._kept_at = position, time.monotonic()
            self._tell(position)
        except NOT_KEPT as error:  # the log still contains everything
            self.failed += 1
            log.warning("snapshot of model %s at %d was not kept: %r", self._name, position, error)
            return error if isinstance(error, ServiceError) else StoreUnavailable(f"the snapshot was not kept: {error}")
        try:
            self._trim(reads_back_at)
        except (*NOT_KEPT, BadFrame) as error:  # the next snapshot tries again
            log.warning("the log of model %s was not trimmed: %r", self._name, error)
        return None

    def _trim(self, reads_back_at: int) -> None:
        """Trim the events that neither of the two snapshots needs. Also keep as many events as the settings ask for."""
        if self._settings.log_kept is None or self._log_is_read():
            return
        snapshots = self._store.snapshots(self._name)
        older = min(snapshots, default=0)
        # Trim only if the older snapshot is later than every event that reads earlier events. Such an event could not
        # be applied again.
        if len(snapshots) >= SNAPSHOTS_KEPT and older >= reads_back_at and older > self._settings.log_kept:
            decode(self._store.get_snapshot(self._name, older), SNAPSHOT)  # check it: only it keeps these events
            self._store.trim(self._name, older - self._settings.log_kept)
