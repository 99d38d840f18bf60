"""A fitted estimator as a file: a frame (hinged/frames.py) that says all, holds no code, and that a server imports too.

facts   version, estimator (the class's name), parameters, labels and their NumPy type, feature names, and
machine: what a server makes a model of, with numbers of examples from 0 on
arrays  solver.NAME, those of the solver's state; scale.NAME, those of the scale; heard.scores and heard.classes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.frames import encode
from hinged.solvers.core.families import KERNELS, NAME_OF
from hinged.solvers.core.kernels import Kernel, make_kernel

if TYPE_CHECKING:
    from hinged.solvers.estimators.classifier import SolverClassifier

Array = np.ndarray[Any, Any]

KIND = "estimator"
VERSION = 1
SCALE_PARTS = ("columns", "middle", "unit", "mean", "scale")
OF_A_PLACE = frozenset({"cache_bytes", "seed", "dtype"})
"""Parameters of a solver that stand elsewhere in the file, or belong to the machine that it runs on."""


def pack(estimator: SolverClassifier) -> bytes:
    """The file of a fitted estimator. ValueError for a parameter or a label that no file can hold."""
    learner, scale = estimator._learner, estimator._scale  # noqa: SLF001
    solver, (scores, classes) = learner.solver, learner.heard
    parameters = {name: value for name, value in learner.parameters.items() if name not in OF_A_PLACE}
    machine = {
        "solver": learner.name,
        "kernel": kernel_facts(solver.kernel),
        "dim": solver.dim,
        "sparse": estimator._sparse,  # noqa: SLF001
        "precision": np.dtype(solver.dtype).name,
        "parameters": {name: plain(name, value) for name, value in parameters.items()}
        | ({"C": solver.C} if "C" in parameters else {}),
        "seed": int(learner.parameters["seed"]),
        "labels": [plain("a label", label) for label in estimator.classes_],
        "learned": learner.numbered,
        "fading": solver.fading,
        "scale": None if scale is None else {"form": scale.form, "rest": scale.rest},
    }
    facts = {
        "version": VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {name: _parameter(name, value) for name, value in estimator.get_params(deep=False).items()},
        "labels_type": estimator.classes_.dtype.str,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "machine": machine,
    }
    arrays = {f"solver.{name}": array for name, array in solver.state().items()}
    arrays |= {"heard.scores": scores, "heard.classes": classes}
    if scale is not None:
        arrays |= {f"scale.{name}": getattr(scale, name) for name in SCALE_PARTS}
    return encode(KIND, facts, arrays)


def plain(name: str, value: Any) -> Any:
    """A value as JSON holds it."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError(f"{name} of an estimator in a file must be text, a number or True or False, got {value!r}")
    return value


def _parameter(name: str, value: Any) -> Any:
    """The same, of a parameter; a dict by class is a list of pairs, for its names may be numbers."""
    if isinstance(value, dict):
        return [[plain(name, label), plain(name, weight)] for label, weight in value.items()]
    return plain(name, value)


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """A kernel by its name, with the parameters that it has."""
    name = NAME_OF[kernel.code]
    return {"type": name, **{parameter: getattr(kernel, parameter) for parameter in KERNELS[name].parameters}}


def kernel_of(facts: dict[str, Any]) -> Kernel:
    """The kernel of such facts."""
    rest = {name: value for name, value in facts.items() if name != "type"}
    return make_kernel(facts["type"], **rest)


def renumbered(state: dict[str, Array], by: int) -> dict[str, Array]:
    """A solver's state with other numbers of the examples: a server counts from 1, an estimator the rows of X."""
    found = dict(state)
    for name, array in state.items():
        match name.rpartition(".")[2]:
            case "key":  # -2 - number where points were merged
                found[name] = np.where(array >= 0, array + by, np.where(array < -1, array - by, array))
            case "memory_key":  # at its place modulo the number of places
                found[name] = np.roll(np.where(array >= 0, array + by, array), by)
            case "memory_alpha":
                found[name] = np.roll(array, by, axis=1)
            case "recent_key":
                found[name] = array + by
    return found


def part(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin so, without that."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
