"""Figures that show how good a model is: its certificate, leave-one-out error, curves and challengers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hinged.service.data.classes import score_name
from hinged.service.data.configuration import shown_configuration
from hinged.service.errors import Conflict, Invalid
from hinged.service.model.comparison import compared
from hinged.service.model.curves import POINTS_MAX, UNKNOWN, WHERE, LearningCurve, figures_of, points_held
from hinged.service.model.decisions.costs import CostTable
from hinged.service.model.decisions.margins import BINS, bins_of, isotonic
from hinged.service.model.decisions.memory import DUE_MIN
from hinged.service.model.decisions.rare import scores_of
from hinged.service.model.decisions.thresholds import thresholds
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from hinged.solvers.dual.exact import ExactSVM

SPARK_POINTS = 64  # number of points of a curve in an overview


def glance(model: Model, queue: int, queue_max: int) -> dict[str, Any]:
    """Return the figures of a model that are cheap to compute, without waiting for the model.

    The figures may come from before or after the newest example of the model, or be a mixture. queue, queue_max: the
    number of examples that wait to be learned, and its maximum.
    """
    metrics, points = model.metrics, model.curves.own.points
    accuracy = metrics.glance()[0].accuracy
    accuracies = [point[len(WHERE)] for point in points]
    if points and points[-1][1] < model.learned:
        accuracies.append(UNKNOWN if math.isnan(accuracy) else accuracy)
    step = max(1, -(-len(accuracies) // SPARK_POINTS))
    return {
        "solver": model.configuration.solver,
        "accuracy": None if math.isnan(accuracy) else accuracy,
        "curve": [None if a == UNKNOWN else a for a in accuracies[(len(accuracies) - 1) % step :: step]],
        "points": points_held(model.solver),
        "drifts": metrics.drift.count,
        "drifted": metrics.drifted,
        "alarmed": metrics.alarmed,
        "input_alarmed": model.novelty is not None and model.novelty.alarmed,
        "queue": queue,
        "queue_max": queue_max,
        "pool": len(model.pool),
        "conflicts": model.pool.conflicts,
        "jobs": len(model.jobs.running()),
    }


def curves_of(model: Model, after: int) -> dict[str, Any]:
    """Return the learning curves, starting after a position of the log and ending now, with all marks."""
    curves, alarm = model.curves, model.metrics.alarm
    about_inputs = None if model.novelty is None else model.novelty.alarm

    def columns(curve: LearningCurve, learner: ModelLearner) -> dict[str, list[Any]]:
        now = present(curve) if curve.points and learner.stopped is None else None
        return curve.columns(after, None if now is None else (*now, *figures_of(learner)))

    def present(curve: LearningCurve) -> tuple[int, int, int] | None:
        """Return the present position, unless the last point of the curve is already at this position."""
        if curve.points[-1][1] < model.learned:
            return model.position, model.learned, model.at_ms
        mark = curves.marks[-1] if curves.marks else None  # a finishing step, for example, changes what was learned
        return (mark.position, model.learned, mark.at_ms) if mark and mark.position > curve.points[-1][0] else None

    return {
        "model": model.name,
        "position": model.position,
        "points_max": POINTS_MAX,
        "stride": curves.own.stride,
        "curve": columns(curves.own, model.learner),
        "shadows": {  # a challenger that has learned nothing since its start has no point yet
            name: columns(curves.shadows.get(name) or LearningCurve(), shadow)
            for name, shadow in sorted(model.shadows.items())
        },
        "marks": curves.told(),
        **({} if alarm is None else {"alarm": alarm.columns()}),
        **({} if about_inputs is None else {"input_alarm": about_inputs.alarm.columns()}),
    }


def thresholds_of(model: Model, wanted: str | None, beta: float) -> dict[str, Any]:
    """Return what each threshold on the probability of a class would have meant. Raise Conflict unless there are two
    classes.

    wanted: the name of the class; None: the class whose misses cost more, else the less frequent class. beta: of
    F-beta. The long memory is counted, unless it is younger than the window of the newest predictions.
    """
    metrics, names = model.metrics, [score_name(label) for label in model.learner.labels.labels]
    if len(names) != 2:
        raise Conflict(f"only a model of two classes has thresholds; model {model.name} knows {len(names)}")
    if wanted is not None and wanted not in names:
        raise Invalid(f"class must be {names[0]!r} or {names[1]!r}, got {wanted!r}")
    window, memory = metrics.window, metrics.memory
    known = [] if memory is None else [name for name in memory.watched if name in names]
    table = CostTable.of(model.configuration.costs or {}, names)
    costs = table.matrix()
    missed = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    dearer = missed[1] > missed[0] if missed[0] != missed[1] else window.classes.sum() * 2 < window.classes.size
    number = int(dearer) if wanted is None else names.index(wanted)
    scores = scores_of(window.scores.T, number)
    there = ~np.isnan(scores)
    counts = np.zeros((2, BINS))
    np.add.at(counts, ((window.classes[there] == number).astype(np.int64), bins_of(scores[there])), 1.0)
    chances = isotonic(counts)
    if memory is not None and known and memory.seen >= DUE_MIN:
        kept = memory.counts[memory.watched.index(known[0])] / memory.weight
        if kept.sum() >= counts.sum():
            counts, chances = kept, memory.fits[memory.watched.index(known[0])]
            if names.index(known[0]) != number:
                counts, chances = counts[::-1, ::-1], (1.0 - chances)[::-1]
    found = thresholds(counts, chances, table, number, beta)
    return {
        "model": model.name,
        "position": model.position,
        "class": names[number],
        "other": names[1 - number],
        **found,
    }


def certificate(model: Model) -> tuple[int, dict[str, Any]]:
    """Return the position of the state, and figures that show how good its solution is."""
    return model.position, model.solver.certificate()


def copy_of_exact(model: Model) -> tuple[int, ModelLearner]:
    """Return the position of the state and a copy of its learner, for `left_out`. Raise Conflict unless the solver is
    exact.
    """
    if not isinstance(model.solver, ExactSVM):
        raise Conflict(f"leave-one-out needs the exact solver; this model's is {model.configuration.solver}")
    facts, arrays = model.learner.state()
    return model.position, ModelLearner.restore(facts, arrays, model.cache_bytes)


def left_out(learner: ModelLearner) -> tuple[int, int]:
    """Return the number of examples, and the number of errors. An error is an example that the machine without the
    example assigns to a wrong class.
    """
    solver = learner.solver
    assert isinstance(solver, ExactSVM)  # noqa: S101  checked when it was copied
    if not solver.live:
        return 0, 0
    error = solver.leave_one_out_error()
    return solver.live, round(error * solver.live)


def challengers(model: Model, *, full: bool = False) -> dict[str, Any]:
    """Return the model and its challengers, each with the metrics of its own predictions.

    full: whether to include every default of their configurations.
    """
    balanced = model.configuration.parameters.get("goal") == "balanced"
    return {
        "model": model.name,
        "position": model.position,
        "champion": _figures(model.learner, full=full),
        "shadows": {
            name: {
                **_figures(shadow, full=full),
                "stopped": shadow.stopped,
                # A challenger that has stopped predicts nothing that the champion predicts now.
                "compared": None
                if shadow.stopped is not None
                else compared(shadow.metrics, model.metrics, balanced=balanced),
            }
            for name, shadow in sorted(model.shadows.items())
        },
    }


def _figures(learner: ModelLearner, *, full: bool) -> dict[str, Any]:
    return {
        "configuration": shown_configuration(learner.configuration, full=full),
        "examples": learner.learned,
        "certificate": learner.solver.certificate(),
        "metrics": learner.metrics.figures(learner.labels.labels),
    }
