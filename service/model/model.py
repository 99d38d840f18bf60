"""A model is a fold over its log: state = fold(apply, log).

`apply` is deterministic and does no I/O, reads no clock and draws from no generator but the solver's own, so the same
events give the same state to the bit, whether they came one by one, in batches, or again after a crash. A further epoch
alone reads what is before it, the learned batches, which whoever applies it hands over. A rollback and an event that
holds the whole state change no model but make another, which takes the place of the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from hinged.frames import BadFrame
from hinged.service.data.configuration import read_configuration
from hinged.service.data.examples import SERVER_ID
from hinged.service.data.inputs import content_of
from hinged.service.model.curves import Curves
from hinged.service.model.decisions import score_of, together
from hinged.service.model.description import described
from hinged.service.model.events import (
    ClassAdded,
    Corrected,
    Created,
    Erased,
    Finished,
    Forgotten,
    Imported,
    Intended,
    Learned,
    Leased,
    ModelEvent,
    Offered,
    Predicted,
    Promoted,
    Reconfigured,
    Released,
    Renewed,
    Retired,
    RolledBack,
    SetAside,
    Settled,
    Shown,
    Skipped,
    Swapped,
    Unskipped,
    Voted,
)
from hinged.service.model.jobs import Job, Jobs, Kind
from hinged.service.model.labelling import note_answers, take_in
from hinged.service.model.learner import Epoch, Learner
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.pending import Prediction
from hinged.service.model.state import State, was_undone
from hinged.service.model.view import Published
from hinged.solvers.core.reports import Finish

Array = np.ndarray[Any, Any]

OLD_IDS_MIN = 10_000
SET_ASIDE_KEPT = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `apply` found: for a learned batch the class numbers and scores from right before each example."""

    predictions: Array
    scores: Array
    finish: Finish | None = None


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


class Model(State):
    """The state of one model, and what the events of its log make of it."""

    # -- the fold -------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, name: str, position: int, first: ModelEvent, *, cache_bytes: int, answers_kept: int) -> Model:
        """The model of the event that its log, or a stretch of it, begins with.

        ValueError (BadFrame) if that is none, or its state cannot be read.
        """
        sizes = {"cache_bytes": cache_bytes, "answers_kept": answers_kept}
        match first:
            case Swapped():
                model = cls.restore(name, first.state, **sizes)
                if model.position != position - 1:
                    raise BadFrame(f"the event at {position} holds the state at {model.position}")
                model.position, model.at_ms = position, max(model.at_ms, first.at_ms)
                if first.champion:
                    model.mark(Swapped.KIND)
            case Created():
                model = cls(name, read_configuration(first.configuration), **sizes)
                model.apply(1, first)
            case Imported():
                model = cls.restore(name, first.state, **sizes)
                model.position, model.at_ms = 1, max(model.at_ms, first.at_ms)
                # Positions of another log.
                model.undone, model.reads_back_at, model.floor, model.jobs = [], 0, 0, Jobs()
                model.set_aside, model.curves = [], Curves()
            case _:
                raise BadFrame(f"a log begins with {Created.KIND!r} or {Imported.KIND!r}, got {first.KIND!r}")
        return model

    def apply(self, position: int, event: ModelEvent, epoch: Epoch | None = None) -> Outcome:
        """Take in the event at this position of the log. It was validated before it was logged.

        epoch: the learned batches before it, for a finishing step that goes over them again. ValueError for an event
        that makes another model of this one: a rollback (`come_back`) and one that holds the whole state (`begin`).
        """
        if position != self.position + 1:
            raise ValueError(f"model {self.name} stands at position {self.position}, got the event of {position}")
        if not isinstance(event, ClassAdded):  # the only one without a time
            self.at_ms = max(self.at_ms, event.at_ms)
            self.pending.expire(self.at_ms)
        outcome, marks, drifts = NOTHING, list[str](), self.metrics.drift.count
        match event:
            case Created():
                pass
            case Imported():
                raise ValueError(f"model {self.name} is there: a state is imported by a log's first event alone")
            case Erased():
                raise ValueError(f"the event at {position} is erased: what is before a {Swapped.KIND!r} is not folded")
            case Swapped() | RolledBack():
                raise ValueError(f"the event at {position}, {event.KIND!r}, makes another model of {self.name}")
            case ClassAdded():
                for learner in self.learners:
                    learner.add_class(event.label)
            case Learned():
                outcome = self._learn(event)
                self.curves.note(position, self.learned, self.at_ms, self.learner, self.shadows)
                if self.metrics.drift.count > drifts:
                    marks.append("drift")
            case Finished():
                outcome = Outcome(NOTHING.predictions, NOTHING.scores, self._finish(event.epochs, epoch))
                self.reads_back_at = position if event.epochs else self.reads_back_at
                marks.append(event.KIND)
            case Predicted():
                self.pending.keep(event.predictions)
            case Offered() | Shown() | Leased() | Renewed() | Released() | Skipped() | Unskipped() | Voted():
                take_in(self, event)
            case _:
                self._change(position, event)
                if isinstance(event, Promoted | Reconfigured | SetAside):
                    marks.append(event.KIND)
        self.position = position
        for kind in marks:
            self.mark(kind)
        return outcome

    def mark(self, kind: str) -> None:
        """Note on the curves that this has happened here."""
        self.curves.mark(kind, self.position, self.learned, self.at_ms)

    def pass_over(self, position: int, kind: str) -> None:
        """Stand behind an event that was set aside, as if it had been undone."""
        if position != self.position + 1:
            raise ValueError(f"model {self.name} stands at position {self.position}, got the event of {position}")
        self.undone = [*self.undone, (position - 1, position + 1)]
        self.set_aside = [*self.set_aside, (position, kind)][-SET_ASIDE_KEPT:]
        self.position = position

    def come_back(self, position: int, event: RolledBack) -> None:
        """Stand behind a rollback at `position` to where the model stands: what came between is undone."""
        if self.position != event.to or not event.to < position:
            raise ValueError(f"a rollback at {position} to {event.to} got the state at {self.position}")
        self.undone = [*self.undone, (event.to, position)]
        self.reads_back_at = self.position = position
        self.at_ms = max(self.at_ms, event.at_ms)
        self.pending.expire(self.at_ms)
        self.mark(event.KIND)

    def counts(self, position: int) -> bool:
        """Whether the event at this position is a part of what the model is, and was not undone."""
        return not was_undone(self.undone, position)

    def _change(
        self,
        position: int,
        event: Forgotten | Corrected | Intended | Reconfigured | Settled | Retired | Promoted | SetAside,
    ) -> None:
        match event:
            case Forgotten():
                self._forget(position, event)
            case Corrected():
                self._correct(position, event)
            case Intended():
                kind: Kind = "configure" if event.shadow is None else "shadow"
                job = Job(position, kind, folds=True, configuration=event.configuration, shadow=event.shadow)
                self.jobs.add(job)
            case Reconfigured():
                self.learner.reconfigure(read_configuration(event.configuration))
                self._configure_waiting()
            case Settled():
                self.jobs.settle(event.jobs, event.result, event.error)
            case SetAside():
                pass  # what it is about was passed over when its turn came
            case Retired():
                self.shadows.pop(event.shadow, None)
                self._give_up(event.shadow, "the challenger was retired")
            case Promoted():
                shadow = self.shadows.pop(event.shadow)
                shadow.stopped = None
                self.learner = shadow
                self._configure_waiting()

    def _give_up(self, shadow: str, why: str) -> None:
        self.jobs.settle([job.at for job in self.jobs.running() if job.shadow == shadow], {}, why)

    def _forget(self, position: int, event: Forgotten) -> None:
        self.tombstones.add(event.salt, event.mark, event.number)
        self.floor = position

        def forgotten(ids: Iterable[str]) -> set[str]:
            return {given for given in ids if self.tombstones.mark_of(given) == event.mark}

        for given in forgotten(candidate.id for candidate in self.pool):
            self.pool.forget(given)
        for given in forgotten(answer.id for answer in self.annotators):
            self.annotators.forget(given)
        for given in forgotten(prediction.id for prediction in self.pending):
            self.pending.pop(given)
        folds = False
        for learner in self.learners:
            learner.forget_candidates(forgotten(given for given in learner.warmup.ids if given is not None))
            # It may have been among those from which the columns were found.
            folds |= learner.warmup.candidates > 0 and not learner.warmup.active
        if event.number is not None:
            self.answers.forget(event.number)
            self.old_ids.pop(event.number, None)
            self.corrections.pop(event.number, None)
            for learner in self.learners:
                if learner.exact:
                    learner.forget([event.number])
                else:
                    folds = True
        self.jobs.add(Job(position, "forget", folds, event.number))

    def _correct(self, position: int, event: Corrected) -> None:
        former = self.corrections.get(event.number, self.answers.label_of(event.number))
        self.corrections[event.number] = event.label
        given = self.id_of(event.number)
        self.annotators.correct(given, event.annotator, self.labels.labels[event.label])
        if former == event.label:  # somebody has seen it, and it is right
            return
        self.answers.correct(event.number, event.label, bytes.fromhex(event.content))
        folds = False
        for learner in self.learners:
            if learner.exact:
                learner.relabel(event.number, event.label)
            else:
                folds = True
        if folds:
            self.jobs.add(Job(position, "correct", folds, event.number))

    def _configure_waiting(self) -> None:
        """Let what waits fit the present configuration; an x that the kernel does not take waits no longer."""
        labels = self.configuration.labels
        self.pool.limit(labels.pool_max, self.at_ms)
        self.pending.limit(labels.pending_max, round(1000 * labels.pending_s), self.at_ms)
        self.pool.change(self.learner.rows)
        self.pending.change(self.learner.rows)

    def take_over(self, taught: Learner, shadow: str | None) -> None:
        """Let a learner that was taught anew predict, or challenge under this name. Answers and figures carry over."""
        if shadow is not None:
            former = self.shadows.get(shadow)
            if former is not None and former.configuration == taught.configuration:
                taught.metrics = deepcopy(former.metrics)
            self.shadows[shadow] = taught
            return
        taught.metrics = deepcopy(self.metrics)
        taught.metrics.choose(choosing=taught.configuration.chooses)
        self.learner = taught
        self._configure_waiting()

    def _finish(self, epochs: int, epoch: Epoch | None) -> Finish:
        for shadow in self.shadows.values():
            if shadow.stopped is None:
                shadow.finish(epochs, epoch)
        return self.learner.finish(epochs, epoch)

    def _learn(self, event: Learned) -> Outcome:
        m = len(event.ids)
        event = event.with_inputs(self.learner.rows(event.inputs))
        if event.first > self.learned + 1:  # what came between was set aside
            self._remember(self.answers.pass_over(event.first - 1))
            self.learned = event.first - 1
        numbers, scores = np.full(m, UNKNOWN, np.int32), np.zeros(m)
        ids = [given for given in event.ids if given is not None]
        late = self._late(event) if self.pending else {}
        begin = 0
        for columns, found in together(self.learner.learn(event)):
            end = begin + found.size
            numbers[begin:end] = found
            if columns.shape[1]:
                scores[begin:end] = score_of(columns, found)
            # What nothing but the most frequent class said does not count.
            counted = found if columns.shape[1] else np.full(found.size, UNKNOWN, np.int32)
            self._count(event, begin, columns, counted, late)
            begin = end
        for r, prediction in late.items():
            numbers[r], scores[r] = prediction.number, 0.0
            if prediction.columns.size:
                scores[r] = score_of(prediction.columns[None], numbers[r : r + 1])[0]
        forgotten = self.answers.add(event, numbers, scores)
        self._remember(forgotten)
        note_answers(self, event, numbers)
        if self.pool or self.pending:
            for given in ids:
                self.pool.answer(given)
                self.pending.pop(given)
        self.learned += m
        for shadow in self.shadows.values():
            shadow.challenge(event)
        return Outcome(numbers, scores)

    def _late(self, event: Learned) -> dict[int, Prediction]:
        """By row the predictions that have waited for these very examples' labels."""
        found = {}
        for r, given in enumerate(event.ids):
            prediction = self.pending.find(given, self.at_ms) if given is not None else None
            if prediction is not None:
                label = self.labels.labels[event.classes[r]]
                if content_of(prediction.digest, label) == event.contents[r]:
                    found[r] = prediction
        return found

    def _count(self, event: Learned, begin: int, columns: Array, numbers: Array, late: dict[int, Prediction]) -> None:
        """Feed the metrics with a part of a batch, in order; what was predicted before counts as it was then."""
        end, at = begin + numbers.size, begin
        for r in [r for r in late if begin <= r < end] + [end]:
            part = slice(at - begin, r - begin)
            self.metrics.add(columns[part], numbers[part], event.classes[at:r], event.sources[at:r])
            if r < end:
                then = late[r]
                number = then.number if then.columns.size else UNKNOWN
                self.metrics.add(
                    then.columns[None],
                    np.array([number], np.int32),
                    event.classes[r : r + 1],
                    event.sources[r : r + 1],
                )
            at = r + 1

    def _remember(self, forgotten: Sequence[tuple[int, str]]) -> None:
        """Keep the ids of what may still be a point, of the model or of a challenger."""
        self.old_ids.update(forgotten)
        solvers = [learner.solver for learner in self.learners]
        if len(self.old_ids) > 2 * sum(solver.live for solver in solvers) + OLD_IDS_MIN:
            live = set(chain.from_iterable(solver.keys().tolist() for solver in solvers))
            self.old_ids = {number: given for number, given in self.old_ids.items() if number in live}

    def id_of(self, number: int) -> str:
        """The id of an example: the client's, where it is known, else the server's."""
        return self.answers.id_of(number) or self.old_ids.get(number) or f"{SERVER_ID}{number}"

    # -- reading --------------------------------------------------------------------------------------------------

    def published(self) -> Published:
        """The present state for predictions."""
        return Published.of(self.learner, self.position, self.learned)

    def describe(self, now_ms: int = 0) -> dict[str, Any]:
        """The model in figures. now_ms: the time by which leases are open, that of the newest event if it is later."""
        return described(self, now_ms)
