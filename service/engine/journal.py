"""A journal keeps a model in memory and writes its log. It checks, appends and applies events, and publishes a view.

The order of these four steps never changes, and an event is acknowledged only after all four. A journal runs on the
thread of the model's worker. The event loop reads `model`, `published` and `obstacle`; each is always replaced in one
assignment.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

from hinged.service import limits
from hinged.service.data.inputs import sizes_of
from hinged.service.data.times import now_ms
from hinged.service.engine.follow import Feed
from hinged.service.engine.history import ModelHistory, Obstacle
from hinged.service.engine.lookup import Lookup
from hinged.service.engine.receipts.sealing import seal, signing_key
from hinged.service.engine.snapshots import Snapshots
from hinged.service.errors import UNFORESEEN, InternalError, ServiceError, StoreUnavailable
from hinged.service.model.admission import check_events
from hinged.service.model.events import ModelEvent, decode_event
from hinged.service.model.events.base import NOTHING, Outcome
from hinged.service.model.events.learning import PredictionsMade, TrainingFinished
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.model import Model
from hinged.service.model.pending import Made, Prediction, fitted_prediction
from hinged.service.model.view import Published
from hinged.service.settings import Settings
from hinged.service.store.base import (
    Damaged,
    NoModel,
    OutcomeUnknown,
    PositionTaken,
    Store,
)

log = logging.getLogger(__name__)

Question = Callable[[Model], Any]

EVENT_NUMBERS = 2**18
"""Numbers in an event of predictions, about 2 MB. The store and the network copy an event in calls that keep Python's
lock: 13 MB, 10,000 predictions in 150 classes, would keep it for 15 ms each time."""


class Journal:
    """Owns a model and writes its log.

    obstacle: the event that the model could not apply, and before which it stopped. unresolved: whether an
    append had an unknown outcome; then the end of the log must be read first. read_anew: a reloaded state, which
    `stand_anew` will use.
    """

    def __init__(
        self,
        model: Model,
        store: Store,
        settings: Settings,
        executor: Executor,
        obstacle: Obstacle | None,
        tell_of_snapshot: Callable[[int], None],
        log_is_read: Callable[[], bool],
    ) -> None:
        """Take the model. For executor, tell_of_snapshot and log_is_read, see Snapshots."""
        self.model = model
        self.published: Published = model.published()
        self.obstacle = obstacle
        self.store = store
        self.settings = settings
        self.feed = Feed(model.position, limits.EVENTS_KEPT)
        self.history = ModelHistory(store, model.name, cache_bytes=model.cache_bytes, answers_kept=model.answers.kept)
        self.lookup = Lookup(store, model.name)
        self.snapshots = Snapshots(model, store, settings, executor, tell_of_snapshot, log_is_read)
        self.unresolved = False
        self.read_anew: tuple[Model, Obstacle | None] | None = None
        self.sealed: EventsSealed | None = None  # of the newest append
        self._key = signing_key(settings.receipt_key)
        self.along: list[Made] = []  # predictions to be written with the next append
        self._along_ms = 0
        self._lead_ms = 0  # by how much the log's time is ahead of the monotonic clock; 0 unless the clock is behind
        self._told_of_loss = False

    def now_ms(self) -> int:
        """Return the milliseconds since 1970. Within a log the time never decreases: it runs on from the newest event
        as long as the clock is behind that event.
        """
        clock, newest = now_ms(), self.model.at_ms
        if clock >= newest:
            self._lead_ms = 0
            return clock
        steady = round(1000 * time.monotonic())
        now = max(newest, steady + self._lead_ms)
        self._lead_ms = now - steady
        return now

    # -- writing --------------------------------------------------------------------------------------------------

    def begin(self, along: Sequence[Made]) -> None:
        """Prepare a piece of work: apply events at the end of the log that are not yet applied.

        along: predictions to write with the first append.
        """
        self.along = list(along)
        self._resolve()
        self.along, self._along_ms = self.to_be_kept(along), self.now_ms()

    def leave_behind(self, given: str) -> list[Made]:
        """Remove the predictions with this id from the predictions to write; return the removed predictions."""
        found = [made for made in self.along if made.prediction.id == given]
        self.along = [made for made in self.along if made.prediction.id != given]
        return found

    def to_be_kept(self, predictions: Sequence[Made]) -> list[Made]:
        """Return the predictions in the model's current form, which wait from now. Leave out predictions of forgotten
        examples and undone states, whose classes may differ.
        """
        model, left = self.model, []
        for _, run in groupby(predictions, key=lambda made: id(made.classes)):  # they come in runs of one state
            same = list(run)
            if model.labels.begin_with(same[0].classes):
                left += [made for made in same if not model.tombstones.knows(made.prediction.id)]
        fitted = [fitted_prediction(made.prediction, model.learner.rows) for made in left]
        now = self.now_ms()  # by the clock, which may be behind the log, they could be too old at once
        return [
            Made(replace(each, at_ms=now), made.classes)
            for each, made in zip(fitted, left, strict=True)
            if each is not None
        ]

    @property
    def next_position(self) -> int:
        """Return the position of the first event of the next append. Waiting predictions are written before
        this event.
        """
        return self.model.position + 1 + len(_predicted(self.along, self._along_ms))

    def commit(self, events: Sequence[ModelEvent] = (), successor: Model | None = None) -> list[Outcome]:
        """Append events durably, after the waiting predictions; apply them and publish. Return the outcome of each
        event.

        successor: the model after the last event, if that event replaces the model. Raise InternalError, before
        anything is appended, for events that the model could not apply.
        """
        along = _predicted(self.along, self._along_ms)
        every, self.sealed = [*along, *events], None
        if not every:
            return []
        model = self.model
        with self.going_on():
            check_events(model, every)
        records = [event.record() for event in every]
        sealed = seal(self.store, model, records, self.now_ms(), self._key)
        if sealed is not None:
            records.append(sealed.record())
        try:
            self.store.append(model.name, model.position, records)
        except (PositionTaken, NoModel) as error:
            self.unresolved = True
            self._tell_of_loss(error)
            raise
        except OutcomeUnknown:
            self.unresolved = True
            # If the log contains exactly these events, they are durable, and only the store's answer was lost.
            if self.store.end(model.name) != model.position + len(records):
                raise
            self.unresolved = False
        self._told_of_loss = False
        self.along = []
        outcomes = [self._apply(model.position + 1, event) for event in every[:-1]]
        outcomes.append(self._apply(model.position + 1, every[-1], successor))
        if sealed is not None:
            self._apply(self.model.position + 1, sealed)
            self.sealed = sealed
        self.published = self.model.published()
        self.snapshots.take_if_due(self.model)
        return outcomes[len(along) :]

    def keep(self, predictions: Sequence[Made]) -> None:
        """Write predictions durably. They wait for their labels."""
        self.commit(_predicted(self.to_be_kept(predictions), self.now_ms()))

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Turn any error in the block into an answer, so that the model continues. The block must not append."""
        try:
            yield
        except (ServiceError, Damaged):
            raise
        except Exception as error:
            log.exception("a request to model %s failed", self.model.name)
            raise InternalError(UNFORESEEN) from error

    def _apply(self, position: int, event: ModelEvent, successor: Model | None = None) -> Outcome:
        try:
            if successor is not None:
                assert successor.position == position  # noqa: S101  the successor was made for this event
                self.model, outcome = successor, NOTHING
            elif isinstance(event, TrainingFinished) and event.epochs:
                outcome = self.history.apply(self.model, position, event)
            else:
                outcome = self.model.apply(position, event)
        except (ServiceError, Damaged) as error:  # not only refused: a logged event is half applied
            raise RuntimeError(f"event {position} of model {self.model.name} could not be applied") from error
        self.feed.note(position, event, outcome.noticed)
        return outcome

    def _tell_of_loss(self, error: StoreUnavailable) -> None:
        """Log once that the store has lost acknowledged events."""
        if not self._told_of_loss:
            self._told_of_loss = True
            log.error("model %s is at %d and acknowledges nothing: %s", self.model.name, self.model.position, error)

    def _resolve(self) -> None:
        """After an append of unknown outcome, apply the events that follow the model's position in the log."""
        if not self.unresolved:
            return
        for position, record in self.store.read(self.model.name, self.model.position):
            event = decode_event(record.kind, record.payload)
            self._apply(position, event, self.history.successor(position, event))
        self.published = self.model.published()
        self.unresolved = False

    # -- reading --------------------------------------------------------------------------------------------------

    def answers(self, questions: Sequence[Question]) -> list[Any]:
        """Return the model's answer to each question. An error that refuses a question also counts as an answer."""
        found: list[Any] = []
        for question in questions:
            try:
                found.append(question(self.model))
            except ServiceError as error:
                found.append(error)
            except Exception:  # nothing has changed, so the model continues
                log.exception("a question to model %s failed", self.model.name)
                found.append(InternalError(UNFORESEEN))
        return found

    # -- recovery -------------------------------------------------------------------------------------------------

    def read_again(self) -> tuple[Model, Obstacle | None]:
        """Read the state from the store and its log, for `stand_anew`. Return the model and the event that it could not
        apply.
        """
        self.snapshots.let_end()  # a trim must not remove events during the read
        self.read_anew = self.history.reached()
        return self.read_anew

    def stand_anew(self) -> None:
        """Use the state that `read_again` has read. Runs on the event loop, while the worker's thread does nothing."""
        assert self.read_anew is not None  # noqa: S101  callers check it
        self.model, self.obstacle = self.read_anew
        self.published = self.model.published()
        self.read_anew, self.unresolved = None, False
        self.lookup.forget()
        self.feed.begin_anew(self.model.position)


def _predicted(predictions: list[Made], at_ms: int) -> list[ModelEvent]:
    """Return events with these predictions, each with at most about EVENT_NUMBERS numbers."""
    events: list[ModelEvent] = []
    piece: list[Prediction] = []
    numbers = 0
    for prediction, _ in predictions:
        piece.append(prediction)
        numbers += prediction.columns.size + sizes_of(prediction.x)[0]
        if numbers >= EVENT_NUMBERS:
            events.append(PredictionsMade(piece, at_ms))
            piece, numbers = [], 0
    return [*events, PredictionsMade(piece, at_ms)] if piece else events
