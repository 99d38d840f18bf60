"""What a model says of how good it is: the certificate of its solution, leave-one-out error, its challengers."""

from __future__ import annotations

from typing import Any

from hinged.service.errors import Conflict
from hinged.service.model.learner import Learner
from hinged.service.model.model import Model
from hinged.solvers.dual.exact import ExactSVM


def certificate(model: Model) -> tuple[int, dict[str, Any]]:
    """The position of the state, and how good its solution is."""
    return model.position, model.solver.certificate()


def copy_of_exact(model: Model) -> tuple[int, Learner]:
    """The position of the state, and a copy of its learner for `left_out`. Conflict unless the solver is exact."""
    if not isinstance(model.solver, ExactSVM):
        raise Conflict(f"leave-one-out needs the exact solver; this model's is {model.configuration.solver}")
    facts, arrays = model.learner.state()
    return model.position, Learner.restore(facts, arrays, model.cache_bytes)


def left_out(learner: Learner) -> tuple[int, int]:
    """Examples, and how many of them the machine without it takes for another class."""
    solver = learner.solver
    assert isinstance(solver, ExactSVM)  # noqa: S101  checked where it was copied
    if not solver.live:
        return 0, 0
    error = solver.leave_one_out_error()
    return solver.live, round(error * solver.live)


def challengers(model: Model) -> dict[str, Any]:
    """The model and its challengers, each with the metrics of its own predictions."""
    return {
        "model": model.name,
        "position": model.position,
        "champion": _figures(model.learner),
        "shadows": {name: {**_figures(s), "stopped": s.stopped} for name, s in sorted(model.shadows.items())},
    }


def _figures(learner: Learner) -> dict[str, Any]:
    return {
        "configuration": learner.configuration.model_dump(mode="json"),
        "examples": learner.learned,
        "certificate": learner.solver.certificate(),
        "metrics": learner.metrics.figures(learner.labels.labels),
    }
