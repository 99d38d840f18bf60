"""The learning curves of a model: its figures along its log, thinned as they grow, with marks at notable events.

A micro-batch adds a point only if at least `stride` examples have come since the last point. In addition, either
PAUSE_MS must have passed in the log's time, or a twentieth of all examples must have come since the last point. When a
curve has POINTS_MAX points, every other point is removed and the stride doubles. A curve therefore has bounded memory
and spans the whole life of its model. A curve costs only a few points per second, however fast examples come. Curves
depend on the log alone.

points: (n, len(FIELDS)) float64, oldest first; UNKNOWN where a figure is undefined or nothing was counted yet. A state
omits the last figure, `goal`, if it is nowhere known.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from hinged.service import limits
from hinged.service.model.learner import ModelLearner
from hinged.service.model.metrics import ALL, SOURCES
from hinged.solvers.core.solver import Solver
from hinged.solvers.core.states import COUNT_MAX, StateReader
from hinged.solvers.dual.tracking import TrackingSVM

Array = np.ndarray[Any, Any]

# Curves are part of the state: if these constants are changed, old logs lead to different curves.
POINTS_MAX = 512  # number of points at which every other point is removed
PAUSE_MS = 200  # milliseconds between two points
PART = 20  # the pause does not matter once a twentieth (1 / PART) of all examples have come
UNKNOWN = -1.0  # a placeholder: no figure of a curve is negative
WHERE = ("position", "examples", "at_ms")
FIGURES = ("accuracy", "fading", *SOURCES, "log_loss", "support_vectors", "points", "gap", "goal")
FIELDS = WHERE + FIGURES
FIGURE_MAX = 1e300  # maximum value of a figure, because JSON has no infinity


MARKED: Mapping[str, str] = {
    "drift": "more errors (drift)",
    "alarm": "more errors (alarm)",
    "input_alarm": "other inputs (alarm)",
    "finished": "finishing step",
    "swapped": "retrained",
    "promoted": "challenger promoted",
    "reconfigured": "settings changed",
    "rolled_back": "taken back",
    "set_aside": "event set aside",
}
"""The words that people read about each kind of mark."""
WARNING = frozenset({"drift", "alarm", "input_alarm"})
"""Kinds of marks that need somebody's attention."""


class CurveMark(NamedTuple):
    """A notable event on a curve."""

    kind: str
    position: int
    examples: int
    at_ms: int


class LearningCurve:
    """The figures of one learner."""

    def __init__(self) -> None:
        self.stride = 1  # minimum number of examples between two points
        self.points: list[tuple[float, ...]] = []

    def due(self, examples: int, at_ms: int) -> bool:
        """Return whether the curve needs a point at this number of examples and this time."""
        if not self.points:
            return True
        _, last_examples, last_ms, *_ = self.points[-1]
        more = examples - last_examples
        return more >= self.stride and (at_ms - last_ms >= PAUSE_MS or more >= examples / PART)

    def add(self, point: tuple[float, ...]) -> None:
        """Add a point, whose values are in the order of FIELDS. If there are too many points, remove every other
        point.
        """
        points = [*self.points, point]
        if len(points) >= POINTS_MAX:
            points, self.stride = points[1::2], 2 * self.stride
        self.points = points  # replace the whole array, because other threads read it

    def columns(self, after: int = 0, now: tuple[float, ...] | None = None) -> dict[str, list[Any]]:
        """Return the figures of the points after a position, by name. Unknown figures are None. now: one more point,
        for the present.
        """
        points = [point for point in [*self.points, *([now] if now else [])] if point[0] > after]
        found: dict[str, list[Any]] = {name: [int(p[i]) for p in points] for i, name in enumerate(WHERE)}
        for i, name in enumerate(FIGURES, len(WHERE)):
            found[name] = [None if p[i] == UNKNOWN else p[i] for p in points]
        return found

    def check(self, position: int, examples: int, at_ms: int) -> None:
        """Raise ValueError if the last point is later than this state."""
        last = self.points[-1] if self.points else (0.0, 0.0, 0.0)
        if last[0] > position or last[1] > examples or last[2] > at_ms:
            raise ValueError(f"a curve has a point after position {position}")


class Curves:
    """The model's own curve, the curves of its challengers by name, and the newest marks."""

    def __init__(self) -> None:
        self.own = LearningCurve()
        self.shadows: dict[str, LearningCurve] = {}
        self.marks: list[CurveMark] = []
        self.changed: dict[int, list[str]] = {}  # by position of a mark, the parts of the configuration that changed

    def note(
        self, position: int, examples: int, at_ms: int, learner: ModelLearner, shadows: Mapping[str, ModelLearner]
    ) -> None:
        """After a micro-batch was learned, add the points that are due."""
        if self.own.due(examples, at_ms):
            self.own.add((position, examples, at_ms, *figures_of(learner)))
        if shadows or self.shadows:
            self.shadows = {name: self.shadows.get(name) or LearningCurve() for name in shadows}
            for name, shadow in shadows.items():
                if shadow.stopped is None and self.shadows[name].due(examples, at_ms):
                    self.shadows[name].add((position, examples, at_ms, *figures_of(shadow)))

    def mark(self, kind: str, position: int, examples: int, at_ms: int) -> None:
        """Add a mark."""
        self.marks = [*self.marks, CurveMark(kind, position, examples, at_ms)][-limits.MARKS_KEPT :]

    def changed_at(self, position: int, parts: list[str]) -> Curves:
        """Return the curves with the parts of the configuration that the event at a position changes."""
        curves, first = copy(self), self.marks[0].position if self.marks else 0
        kept = {at: found for at, found in self.changed.items() if at >= first}
        curves.changed = {**kept, position: parts} if parts else kept
        return curves

    def challenged(self, name: str, curve: LearningCurve) -> Curves:
        """Return the curves with the curve of a new challenger, which learned from the log."""
        curves = copy(self)
        curves.shadows = {**self.shadows, name: curve}
        return curves

    def told(self) -> list[dict[str, Any]]:
        """Return the marks as people read them."""
        said = {at: f": {', '.join(parts)}".replace("_", " ") for at, parts in self.changed.items()}
        return [
            {**mark._asdict(), "text": MARKED[mark.kind] + said.get(mark.position, ""), "warns": mark.kind in WARNING}
            for mark in self.marks
        ]

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts and arrays."""
        facts = {
            "stride": self.own.stride,
            "shadows": {name: curve.stride for name, curve in self.shadows.items()},
            "marks": [list(mark) for mark in self.marks],
            **({"changed": [*self.changed.items()]} if self.changed else {}),
        }
        arrays = {"own": _array(self.own)} | {f"shadows/{name}": _array(c) for name, c in self.shadows.items()}
        return facts, arrays

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore the curves from a result of `state`. Raise ValueError if the state is invalid."""
        self.own = _read(facts["stride"], arrays, "own")
        self.shadows = {name: _read(stride, arrays, f"shadows/{name}") for name, stride in facts["shadows"].items()}
        self.marks = [CurveMark(*mark) for mark in facts["marks"][-limits.MARKS_KEPT :]]
        self.changed = dict(facts.get("changed", [])[-limits.MARKS_KEPT :])

    def check(self, position: int, examples: int, at_ms: int) -> None:
        """Raise ValueError if a curve or a mark is later than this state."""
        for curve in (self.own, *self.shadows.values()):
            curve.check(position, examples, at_ms)
        late = any(mark.position > position or mark.examples > examples for mark in self.marks)
        if late or max(self.changed, default=0) > position + 1:  # the state in an event is the state before it
            raise ValueError(f"a mark is after position {position}")


def figures_of(learner: ModelLearner) -> tuple[float, ...]:
    """Return a learner's figures for a point, in the order of FIGURES."""
    metrics, (support_vectors, gap) = learner.metrics, _solution(learner.solver)
    glances = {glance.source: glance for glance in metrics.glance()}
    everything = glances[ALL]
    accuracies = [glances[source].accuracy if source in glances else np.nan for source in SOURCES]
    fading = metrics.fading_accuracy
    found: tuple[Any, ...] = (
        everything.accuracy,
        np.nan if fading is None else fading,
        *accuracies,
        everything.log_loss,
        support_vectors,
        points_held(learner.solver),
        np.nan if gap is None else gap,
        _of_goal(learner),
    )
    # Rounding may make a log loss slightly negative.
    return tuple(min(max(float(v), 0.0), FIGURE_MAX) if np.isfinite(v) else UNKNOWN for v in found)


def _of_goal(learner: ModelLearner) -> float:
    """Return the balanced accuracy or the mean cost of the newest 1,000 predictions, if that is the model's goal."""
    metrics, configuration = learner.metrics, learner.configuration
    goal, costs = configuration.parameters.get("goal"), configuration.costs
    if goal == "cost" and costs is not None:
        found = metrics.costs_of_newest(costs)
        found = found[~np.isnan(found)]
        return float(found.mean()) if found.size else np.nan
    if goal == "balanced" and metrics.predicted:
        right, classes = metrics.newest_right(), metrics.newest_classes()
        return float(np.mean([right[classes == number].mean() for number in np.unique(classes)]))
    return np.nan


def points_held(solver: Solver) -> int:
    """Return the number of points, in a race of the leader: `live` would count the points of the largest arm."""
    arms = solver.arms_in_figures() or []
    return next((int(arm["points"]) for arm in arms if arm["leads"]), solver.live)


def _solution(solver: Solver) -> tuple[int, float | None]:
    """Return the number of support vectors, and the duality gap if it can be computed without kernel values."""
    if isinstance(solver, TrackingSVM):  # it would have to recompute the gradients of its averages
        return int((solver.smooth[:, : solver.slots] != 0).any(axis=0).sum()), None
    certificate = solver.certificate()
    return int(certificate["support_vectors"] or 0), certificate["gap"]


def _array(curve: LearningCurve) -> Array:
    points = np.array(curve.points, np.float64).reshape(len(curve.points), len(FIELDS))
    return points[:, :-1].copy() if (points[:, -1] == UNKNOWN).all() else points


def _read(stride: int, arrays: dict[str, Array], name: str) -> LearningCurve:
    checked, width = StateReader(arrays), len(FIELDS)
    if np.shape(arrays.get(name, ()))[1:] == (width - 1,):
        points = checked.take(name, np.float64, (None, width - 1), UNKNOWN, FIGURE_MAX)
        points = np.column_stack((points, np.full(len(points), UNKNOWN)))
    else:
        points = checked.take(name, np.float64, (None, width), UNKNOWN, FIGURE_MAX)
    where = points[:, : len(WHERE)]
    if len(points) >= POINTS_MAX or (where < 0).any() or (where > COUNT_MAX).any() or (where % 1 != 0).any():
        raise ValueError(f"a curve must have fewer than {POINTS_MAX} points, each at a position, got {len(points)}")
    if (np.diff(where, axis=0) < 0).any() or stride < 1:
        raise ValueError("a curve's points must ascend, by a stride of 1 or more")
    curve = LearningCurve()
    curve.stride, curve.points = stride, [tuple(point) for point in points.tolist()]
    return curve
