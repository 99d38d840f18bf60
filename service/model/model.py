"""The model: a fold over its log, state = fold(apply, log).

`apply` is deterministic: it does no I/O, reads no clock and uses no random generator except the solver's. The same
events therefore give the same state to the bit, whether they came one by one, in batches, or again after a crash. Only
a further epoch reads earlier parts of the log: the learned batches, which the caller passes in. A rollback, and an
event that contains a whole state, do not change the model but replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from hinged.service import limits
from hinged.service.data.configuration import differences, shown_configuration
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import Inputs, content_of
from hinged.service.data.parts import Configuration
from hinged.service.model.annotators import Given
from hinged.service.model.events import ModelEvent
from hinged.service.model.events.base import Outcome
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.events.states import ModelRolledBack
from hinged.service.model.hooks import Hooks
from hinged.service.model.learner import Epoch, ModelLearner
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.novelty import INPUT_ALARM, Novelty
from hinged.service.model.pending import Prediction
from hinged.service.model.predictions import score_of, together
from hinged.service.model.state import State, was_undone
from hinged.service.model.view import Published

Array = np.ndarray[Any, Any]

OLD_IDS_MIN = 10_000
"""Number of old ids (State.old_ids) that are kept in addition to twice the number of points. When there are more, the
ids of all examples that are not points are dropped together. Old ids are part of the state: if this number is changed,
old logs lead to different states.
"""


class Model(State):
    """The state of one model, with the methods that apply the events of its log."""

    # -- the fold -------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, name: str, position: int, first: ModelEvent, *, cache_bytes: int, answers_kept: int) -> Model:
        """Create the model from the first event of its log, or from the first event of a later part of the log.

        Raise ValueError (BadFrame) if a model cannot begin with this event, or if its state cannot be read.
        """
        return first.begin(cls, name, position, cache_bytes=cache_bytes, answers_kept=answers_kept)

    def apply(self, position: int, event: ModelEvent, epoch: Epoch | None = None) -> Outcome:
        """Apply the event at this position of the log. The event was checked before it was logged.

        epoch: the learned batches before the event, for a finishing step that learns them again.

        Raise ValueError for an event that replaces the model: a rollback (use `come_back`), or an event that contains
        the whole state (use `begin`).
        """
        self._check_next(position)
        self.at_ms = max(self.at_ms, event.at_ms)
        self.pending.expire(self.at_ms)
        learner, self._read_for = self.learner, self.learner.solver
        before = self.noticed
        outcome = event.apply(self, position, epoch)
        self._read_again()
        if self.learner is learner:  # another learner has other counts
            now = self.noticed
            outcome = replace(outcome, noticed=tuple(kind for kind in now if now[kind] > before.get(kind, now[kind])))
        self.position = position
        if event.MARKED:
            self.mark(event.KIND)
        for kind in outcome.noticed:
            self.mark(kind)
        return outcome

    def _check_next(self, position: int) -> None:
        if position != self.position + 1:
            raise ValueError(f"model {self.name} is at position {self.position}, got the event at {position}")

    @property
    def noticed(self) -> dict[str, int]:
        """Return how often something was noticed so far, by kind. Followers get an event of this kind."""
        alarm = None if self.novelty is None else self.novelty.alarm
        return {**self.metrics.noticed, **({} if alarm is None else {INPUT_ALARM: alarm.alarm.count})}

    def _read_again(self) -> None:
        """Let the novelty read x again if the learner's solver was replaced: the columns may have changed, too."""
        if self.learner.solver is not self._read_for:
            self._read_for = self.learner.solver
            if self.novelty is not None:
                self.novelty = self.novelty.for_learner(self.learner.reading)

    def mark(self, kind: str) -> None:
        """Add a mark to the curves at the current position. Hooks of its kind are called with it."""
        self.curves.mark(kind, self.position, self.learned, self.at_ms)
        if self.hooks:
            self.hooks = self.hooks.noted(self.curves.marks[-1])

    def pass_over(self, position: int, kind: str) -> None:
        """Advance past an event that was set aside, as if the event had been undone."""
        self._check_next(position)
        self.undone = [*self.undone, (position - 1, position + 1)]
        self.set_aside = [*self.set_aside, (position, kind)][-limits.SET_ASIDE_KEPT :]
        self.position = position

    def come_back(self, position: int, event: ModelRolledBack) -> None:
        """After the model has returned to an earlier state, advance past the rollback at `position`. The events in
        between are undone. Hooks stay as they were just before the rollback.
        """
        if self.position != event.to or not event.to < position:
            raise ValueError(
                f"a rollback at {position} to {event.to} needs the state at {event.to}, got {self.position}"
            )
        self.undone = [*self.undone, (event.to, position)]
        self.reads_back_at = self.position = position
        self.at_ms = max(self.at_ms, event.at_ms)
        self.pending.expire(self.at_ms)
        self.hooks = Hooks.of(event.hooks)
        self.mark(event.KIND)

    def counts(self, position: int) -> bool:
        """Return whether the event at this position contributes to the state and was not undone."""
        return not was_undone(self.undone, position)

    def configure_waiting(self, former: Configuration) -> None:
        """Adapt waiting candidates and predictions to the current configuration. Drop the candidates and predictions
        whose x the kernel does not accept. The mark of the coming event says what changed.
        """
        self.curves = self.curves.changed_at(self.position + 1, differences(self.configuration, former))
        labels = self.configuration.labels
        self.pool.limit(labels.pool_max, self.at_ms)
        self.pending.limit(labels.pending_max, round(1000 * labels.pending_s), self.at_ms)
        self.rations = self.rations.changed(self.configuration.capacity)
        self.pool.change(self.learner.rows)
        self.pending.change(self.learner.rows)
        if self.configuration.novelty is None:
            self.novelty = None
        elif self.novelty is not None:
            self.novelty = self.novelty.changed(self.learner.rows, self.learner.reading)
            self.novelty = self.novelty.watched(self.configuration.alarm)
        else:
            waiting = {c.id: c.x for c in self.pool} | {p.id: p.x for p in self.pending}
            ids, new = list(waiting), Novelty().watched(self.configuration.alarm)
            self.novelty = new.saw(ids, lambda r: waiting[ids[r]], self.learner.reading)

    def replace_learner(self, learner: ModelLearner) -> None:
        """Let another learner predict from now on."""
        former, self.learner = self.configuration, learner
        self.pending.forget_answers()
        self.configure_waiting(former)
        if self.novelty is not None:
            learner.foresee(self.novelty.ids, self.novelty.xs)
        self._read_again()

    def take_over(self, taught: ModelLearner, shadow: str | None) -> None:
        """Let a retrained learner predict, or make it the challenger of this name. Answers and figures carry over."""
        if shadow is not None:
            former = self.shadows.get(shadow)
            if former is not None and former.configuration == taught.configuration:
                taught.metrics = deepcopy(former.metrics)
            taught.metrics.forget(self.tombstones.numbers)  # an example may have been forgotten meanwhile
            self.shadows[shadow] = taught
            return
        taught.metrics = deepcopy(self.metrics)
        taught.metrics.configure(taught.configuration, taught.labels.names)
        self.replace_learner(taught)

    def unseen(self, ids: Sequence[str]) -> list[int]:
        """Return the indices of the examples that `see` must be told of: those that neither wait in the pool nor for
        their label.
        """
        if self.novelty is None:
            return []
        return [r for r, given in enumerate(ids) if not self.pool.find(given) and not self.pending.find(given, 0)]

    def see(self, unseen: Sequence[int], ids: Sequence[str], x_of: Callable[[int], Inputs]) -> None:
        """Let the novelty see x that came for the first time. x_of: returns the x of an index."""
        self._read_again()
        if self.novelty is not None:
            new = [ids[r] for r in unseen]
            self.novelty = self.novelty.saw(new, lambda n: x_of(unseen[n]), self.learner.reading)

    def keep(self, predictions: Sequence[Prediction]) -> None:
        """Store predictions until their labels come, with what the solver will need then."""
        ids, xs = [prediction.id for prediction in predictions], [prediction.x for prediction in predictions]
        unseen = self.unseen(ids)
        for learner in self.learners:
            learner.foresee(ids, xs)
        self.see(unseen, ids, xs.__getitem__)
        asked = self.learner.answers(xs)
        if asked is not None:
            predictions = [replace(each, asked=then) for each, then in zip(predictions, asked, strict=True)]
        self.pending.keep(predictions)

    def learn(self, event: ExamplesLearned) -> Outcome:
        """Predict each example of a batch, then learn it."""
        m = len(event.ids)
        event = event.with_inputs(self.learner.rows(event.inputs))
        if event.first > self.learned + 1:  # the examples in between were set aside
            self._remember(self.answers.pass_over(event.first - 1))
            self.learned = event.first - 1
        numbers, scores = np.full(m, UNKNOWN, np.int32), np.zeros(m)
        ids = [given for given in event.ids if given is not None]
        late = self._late(event) if self.pending else {}
        asked = [late[r].asked if r in late else None for r in range(m)] if late else None
        names = [event.id_of(r) for r in range(m)] if self.novelty is not None else []
        unseen, begin = self.unseen(names), 0
        for columns, found in together(self.learner.learn(event, asked)):
            end = begin + found.size
            numbers[begin:end] = found
            if columns.shape[1]:
                scores[begin:end] = score_of(columns, found)
            # A prediction that is only the most frequent class does not count.
            counted = found if columns.shape[1] else np.full(found.size, UNKNOWN, np.int32)
            self._count(event, begin, columns, counted, late)
            begin = end
        for r, prediction in late.items():
            numbers[r], scores[r] = prediction.number, 0.0
            if prediction.columns.size:
                scores[r] = score_of(prediction.columns[None], numbers[r : r + 1])[0]
        forgotten = self.answers.add(event, numbers, scores)
        self._remember(forgotten)
        self._note_answers(event, numbers)
        if self.pool or self.pending:
            for given in ids:
                self.pool.answer(given)
                self.pending.pop(given)
        self.alerts = self.alerts.without(ids)
        self.learned += m
        self.see(unseen, names, event.inputs.row)
        for shadow in self.shadows.values():
            shadow.challenge(event)
        return Outcome(numbers, scores)

    def _note_answers(self, event: ExamplesLearned, numbers: Array) -> None:
        """Record the annotators' answers while the pool still has the votes."""
        labels = self.labels.labels
        for r, annotator in enumerate(event.annotators):
            given = event.ids[r]
            if annotator is None or given is None:
                continue
            candidate, label = self.pool.find(given), labels[event.classes[r]]
            if candidate is not None and candidate.votes:
                self.annotators.settle(candidate.votes, label)
            else:
                said = None if numbers[r] == UNKNOWN else labels[numbers[r]]
                self.annotators.answer(Given(given, annotator, label, said, event.at_ms))

    def _late(self, event: ExamplesLearned) -> dict[int, Prediction]:
        """Return, by row, the predictions that have waited for exactly these examples' labels."""
        found = {}
        for r, given in enumerate(event.ids):
            prediction = self.pending.find(given, self.at_ms) if given is not None else None
            if prediction is not None:
                label = self.labels.labels[event.classes[r]]
                if content_of(prediction.digest, label) == event.contents[r]:
                    found[r] = prediction
        return found

    def _count(
        self, event: ExamplesLearned, begin: int, columns: Array, numbers: Array, late: dict[int, Prediction]
    ) -> None:
        """Count a part of a batch in the metrics, in order. For a late label, the prediction that waited for the label
        counts.
        """
        end, at = begin + numbers.size, begin
        for r in [r for r in late if begin <= r < end] + [end]:
            part = slice(at - begin, r - begin)
            told = event.classes[at:r], event.sources[at:r]
            self.metrics.add(columns[part], numbers[part], *told, event=event, begin=at)
            if r < end:
                then = late[r]
                number = then.number if then.columns.size else UNKNOWN
                self.metrics.add(
                    then.columns[None],
                    np.array([number], np.int32),
                    event.classes[r : r + 1],
                    event.sources[r : r + 1],
                    then.promised,
                    then.weight,
                    event,
                    r,
                    0.0 if self.configuration.labels.budget is None else then.chance,
                )
            at = r + 1

    def _remember(self, forgotten: Sequence[tuple[int, str]]) -> None:
        """Keep the ids of examples that may still be points of the model or of a challenger."""
        self.old_ids.update(forgotten)
        solvers = [learner.solver for learner in self.learners]
        if len(self.old_ids) > 2 * sum(solver.live for solver in solvers) + OLD_IDS_MIN:
            live = set(chain.from_iterable(solver.keys().tolist() for solver in solvers))
            self.old_ids = {number: given for number, given in self.old_ids.items() if number in live}

    def id_of(self, number: int) -> str:
        """Return the id of an example: the client's id if it is known, otherwise the server's id."""
        return self.answers.id_of(number) or self.old_ids.get(number) or f"{SERVER_ID}{number}"

    # -- reading --------------------------------------------------------------------------------------------------

    def published(self) -> Published:
        """Return the current state, for predictions."""
        seen = None if self.novelty is None else self.novelty.compared
        return Published.of(self.learner, self.position, self.learned, seen)

    def describe(self, now_ms: int = 0, *, full: bool = False) -> dict[str, Any]:
        """Return the figures of the model. now_ms: the time at which leases are checked, or the newest event's time if
        that is later.

        full: whether to include every default of the configuration.
        """
        certificate = self.solver.certificate()
        figures = {
            "model": self.name,
            "configuration": shown_configuration(self.configuration, full=full),
            "position": self.position,
            "examples": self.learned,
            "classes": list(self.labels.labels),
            "support_vectors": certificate["support_vectors"],
            "points": certificate["points"],
            "duality_gap": certificate["gap"],
            "certificate": certificate,
            "metrics": self.metrics.figures(self.labels.labels),
            "pool": self.pool.figures(max(now_ms, self.at_ms)),
            "pending": len(self.pending),
            "memory_bytes": self.memory_bytes(),
        }
        if self.rations:
            figures["capacity"] = self.rations.figures(max(now_ms, self.at_ms))
        if self.novelty is not None:
            figures["novelty"] = self.novelty.figures()
        if self.alerts:
            figures["alerts"] = {"waiting": len(self.alerts.waiting), "raised": self.alerts.raised}
        if self.set_aside:
            figures["set_aside"] = [{"position": at, "kind": kind} for at, kind in self.set_aside]
        encoder = self.learner.warmup.encoder
        if encoder is not None:
            warnings = encoder.warnings(self.learned)
            told = {"warnings": warnings} if warnings else {}
            figures["features"] = {**encoder.figures(), "gamma": self.learner.gamma_used, **told}
        arms = self.solver.arms_in_figures()
        if arms is not None:
            figures["arms"] = arms
        discarded = self.solver.discarded
        if discarded is not None:
            figures["discards"] = {
                name: {"wrong": wrong, "sure": sure}
                for name, (wrong, sure) in zip(self.labels.names, discarded.tolist(), strict=True)
            }
        return figures
