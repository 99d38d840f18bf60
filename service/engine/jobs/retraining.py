"""Retrain learners from a model's log while the model continues to serve and learn.

A new learner is trained from the log in three cases: an example was forgotten or got another label, the configuration
changed, or a challenger was added. The old state is not changed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator

from hinged.service.data.configuration import BESIDE, read_configuration
from hinged.service.data.inputs import Inputs, join_inputs
from hinged.service.data.parts import Configuration
from hinged.service.engine.history import ModelHistory, Taught, as_it_should_be
from hinged.service.errors import Conflict
from hinged.service.model.curves import LearningCurve, figures_of
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, TrainingFinished
from hinged.service.model.jobs import Job
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from hinged.solvers.warm import warm_up

log = logging.getLogger(__name__)

URGENT = ("forget", "correct")


class Retraining:
    """The learners that a model's running jobs need. The key None is the model's own learner; the other keys name
    challengers.
    """

    def __init__(self, history: ModelHistory, model: Model) -> None:
        self.history = history
        self.jobs = _due(model.jobs.running())
        self.position = 0
        self.undone = model.undone
        self.learners: dict[str | None, ModelLearner] = {}
        self._curves: dict[str, LearningCurve] = {}  # of the challengers
        self.failed: dict[str | None, str] = {}
        self.stopped = False  # set when the server stops
        self.whole = True  # whether the log contains everything that was learned
        self._labels = list(model.labels.labels)
        self._forgotten = frozenset(model.tombstones.numbers)
        self._tombstones = model.tombstones.copy()
        self._corrections = dict(model.corrections)
        for name, configuration in _wanted(model, self.jobs).items():
            self.learners[name] = ModelLearner(configuration, model.cache_bytes)

    @property
    def urgent(self) -> bool:
        """Return whether any job forgets or corrects an example."""
        return any(job.kind in URGENT for job in self.jobs)

    def gives_way(self, model: Model) -> bool:
        """Return whether an urgent job of the model must go before this retraining."""
        return not self.urgent and any(job.kind in URGENT for job in model.jobs.running())

    @property
    def erases(self) -> bool:
        """Return whether examples must be erased from the log."""
        return any(job.kind == "forget" for job in self.jobs)

    def advance(self, through: int, seconds: float = math.inf) -> None:
        """Train from the log up to and including position `through`, for at most `seconds`. The model is
        not changed.
        """
        end = time.monotonic() + seconds
        if not self.learners or not self.whole:
            self.position = through
            return
        for learner in self.learners.values():
            warm_up(learner.configuration.solver, learner.configuration.dtype)
        try:
            for at, event in self.history.taught(self.undone, through + 1, self.position):
                self._teach(at, event)
                if self.stopped:  # a learner may have stopped within the event
                    return
                self.position = at
                if time.monotonic() > end:
                    return
        except Conflict as error:
            log.info("model %s: %s", self.history.name, error.message)
            self.whole = False
        self.position = through

    def _teach(self, at: int, event: Taught) -> None:
        if isinstance(event, ExamplesLearned):
            event = as_it_should_be(event, self._forgotten, self._corrections)
        if isinstance(event, CandidatesOffered):
            if not any(learner.warmup.active for learner in self.learners.values()):
                return
            event = event.without(self._tombstones.known(event.ids))
        for name, learner in self.learners.items():
            if name in self.failed:
                continue
            try:
                match event:
                    case ClassAdded() if learner.labels.number(event.label) is None:
                        learner.add_class(event.label)
                    case CandidatesOffered() if event.ids:
                        learner.offer(event.inputs, event.ids)
                    case ExamplesLearned() if event.ids:
                        while len(learner.labels) <= int(event.classes.max()):  # the class's event may follow later
                            learner.add_class(self._labels[len(learner.labels)])
                        learner.follow(event)
                        self._note(at, event.at_ms, name)
                    case TrainingFinished():
                        learner.finish(event, lambda: self._epoch(at))
            except ValueError as error:
                self.failed[name] = str(error)

    def _note(self, at: int, at_ms: int, name: str | None) -> None:
        """Add a point to the curve of a challenger if it is due."""
        if name is not None:
            curve, learner = self._curves.setdefault(name, LearningCurve()), self.learners[name]
            if curve.due(learner.learned, at_ms):
                curve.add((at, learner.learned, at_ms, *figures_of(learner)))

    def _epoch(self, before: int) -> Iterator[ExamplesLearned]:
        for _, event in self.history.taught(self.undone, before):
            if self.stopped:
                return
            if isinstance(event, ExamplesLearned):
                rest = as_it_should_be(event, self._forgotten, self._corrections)
                if rest.ids:
                    yield rest

    def fits(self, model: Model) -> bool:
        """Return whether the retraining still fits the model, apart from changes that the swap can apply afterwards.

        If examples were forgotten or corrected meanwhile, the retraining still fits if their own jobs run or all
        learners are exact.
        """
        running = {job.at for job in model.jobs.running()}
        if self.undone != model.undone or not all(job.at in running for job in self.jobs):
            return False  # after a rollback, or when a challenger was removed
        mended = {job.number for job in model.jobs.running() if job.folds}
        if not self._changed(model) <= mended and not all(learner.exact for learner in self.learners.values()):
            return False
        wanted = _wanted(model, self.jobs)
        return wanted.keys() == self.learners.keys() and all(
            _alike(learner.configuration, wanted[name]) for name, learner in self.learners.items()
        )

    def _changed(self, model: Model) -> set[int]:
        """Return the numbers of the examples that were forgotten or corrected since the retraining began."""
        corrected = {n for n, label in model.corrections.items() if self._corrections.get(n) != label}
        return (model.tombstones.numbers - self._forgotten) | corrected

    def swapped(self, model: Model) -> Model:
        """Return a successor of the model, at the model's position, that has the retrained learners.

        If the log no longer contained everything, the successor drops the points of forgotten examples, and learns
        points with a corrected label again. The model itself is not changed.
        """
        mended = self._left_out()
        stay = {name for name, learner in _learners(model) if learner.exact and name not in self.learners}
        successor = model.draft({*mended, *stay})
        self._put_into(successor, mended)
        if self.erases:
            successor.floor = model.position + 1
        return successor

    def _put_into(self, model: Model, mended: list[str | None]) -> None:
        wanted = _wanted(model, self.jobs)
        for name, learner in self.learners.items():
            if name in mended:
                continue
            learner.configuration = wanted[name]  # settings that do not concern the solver may have changed meanwhile
            former = None if name is None else model.shadows.get(name)
            if name in self._curves and (former is None or former.configuration != learner.configuration):
                model.curves = model.curves.challenged(name, self._curves[name])
            model.take_over(learner, name)
        late = self._changed(model) | {job.number for job in self.jobs if job.number is not None}
        for _, present in _learners(model):
            if present.exact:
                _make_good(present, model, late)
        for name in mended:
            held = model.learner if name is None else model.shadows.get(name)
            if held is not None:
                self._mend(held, [candidate.x for candidate in model.pool])

    def _mend(self, learner: ModelLearner, candidates: list[Inputs]) -> None:
        """Drop and relabel points in place, because the log no longer contains every event that trained the learner."""
        for job in self.jobs:
            if job.kind == "forget" and job.number is not None:
                learner.forget_words(job.number, self.history.x_of(job.number, self.undone))
                learner.forget([job.number])
            if job.kind == "forget" and job.number is None:
                learner.forget_strange_words(join_inputs(candidates) if candidates else None)
            if job.kind == "correct" and job.number is not None and job.number in self._corrections:
                learner.learn_again(job.number, self._corrections[job.number])

    def _left_out(self) -> list[str | None]:
        """Return the names of the learners that must be corrected in place."""
        return [name for name in self.learners if name in self.failed or not self.whole]

    def error_of(self, job: Job) -> str | None:
        """Return why a job has failed; None if it has not. Forgetting never fails."""
        if job.kind in URGENT:
            return None
        if not self.whole:
            return "the log does not hold all that was learned: it was trimmed, or begins with an import"
        return self.failed.get(job.shadow)


def _due(running: list[Job]) -> list[Job]:
    """Return the jobs of one round: all urgent jobs; or, without urgent jobs, one new configuration and all
    challengers.
    """
    urgent = [job for job in running if job.kind in URGENT]
    if urgent:
        return urgent
    configure = [job for job in running if job.kind == "configure"][:1]
    return configure + [job for job in running if job.kind == "shadow"]


def _learners(model: Model) -> list[tuple[str | None, ModelLearner]]:
    return [(None, model.learner), *model.shadows.items()]


def _make_good(learner: ModelLearner, model: Model, numbers: set[int]) -> None:
    """Forget and correct these examples in place, if the learner still has them."""
    held = set(learner.solver.keys().tolist()) & numbers
    learner.forget(sorted(held & model.tombstones.numbers))
    for number in sorted(held - model.tombstones.numbers):
        if number in model.corrections:
            learner.relabel(number, model.corrections[number])


def _alike(one: Configuration, other: Configuration) -> bool:
    """Return whether training gives the same learner with either configuration."""
    return one == other.model_copy(update={part: getattr(one, part) for part in BESIDE})


def _wanted(model: Model, jobs: list[Job]) -> dict[str | None, Configuration]:
    """Return the configuration of each learner that must be retrained."""
    wanted: dict[str | None, Configuration] = {}
    if any(job.folds and job.kind in URGENT for job in jobs):
        wanted = {name: learner.configuration for name, learner in _learners(model) if not learner.exact}
    for job in jobs:  # if there are several configurations, the newest is used
        if job.configuration is not None:
            wanted[job.shadow] = read_configuration(job.configuration)
    return wanted
