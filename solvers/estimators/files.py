"""A fitted estimator as a file: a frame (hinged/frames.py) with all data but no code. A server can import the file too.

facts   version, estimator (name of the class), parameters, labels and their NumPy type, feature names, and `machine`:
        the data that a server needs for a model, with examples numbered from 0
arrays  solver.NAME: the solver's state; scale.NAME: the scale; heard.scores and heard.classes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.frames import encode
from hinged.solvers.core.families import KERNELS, NAME_OF
from hinged.solvers.core.kernels import Kernel, make_kernel

if TYPE_CHECKING:
    from hinged.solvers.estimators.estimator import SolverEstimator

Array = np.ndarray[Any, Any]

KIND = "estimator"
VERSION = 1
SCALE_PARTS = ("columns", "middle", "unit", "mean", "scale")
OF_A_PLACE = frozenset({"cache_bytes", "seed", "dtype"})
"""Parameters of a solver that the file contains elsewhere, or that depend on the computer."""


def pack(estimator: SolverEstimator) -> bytes:
    """Make the file of a fitted estimator. Raise ValueError for a parameter or a label that a file cannot contain."""
    learner, scale = estimator._learner, estimator._scale  # noqa: SLF001
    solver, (scores, classes) = learner.solver, learner.heard
    labels = estimator._labels  # noqa: SLF001
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
        "labels": [plain("a label", label) for label in labels],
        "learned": learner.numbered,
        "fading": solver.fading,
        "scale": None if scale is None else {"form": scale.form, "rest": scale.rest},
    }
    facts = {
        "version": VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {name: _parameter(name, value) for name, value in estimator.get_params(deep=False).items()},
        "labels_type": labels.dtype.str,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", ())],
        "machine": machine,
    }
    arrays = {f"solver.{name}": array for name, array in solver.state().items()}
    arrays |= {"heard.scores": scores, "heard.classes": classes}
    if scale is not None:
        arrays |= {f"scale.{name}": getattr(scale, name) for name in SCALE_PARTS}
    return encode(KIND, facts, arrays)


def plain(name: str, value: Any) -> Any:
    """Return a value in a form for JSON."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError(f"{name} of an estimator in a file must be text, a number or True or False, got {value!r}")
    return value


def _parameter(name: str, value: Any) -> Any:
    """Return the value of a parameter for JSON.

    A dict by class becomes a list of pairs, because labels may be numbers.
    """
    if isinstance(value, dict):
        return [[plain(name, label), plain(name, weight)] for label, weight in value.items()]
    return plain(name, value)


def kernel_facts(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as its name and its parameters."""
    name = NAME_OF[kernel.code]
    return {"type": name, **{parameter: getattr(kernel, parameter) for parameter in KERNELS[name].parameters}}


def kernel_of(facts: dict[str, Any]) -> Kernel:
    """Return the kernel of these facts."""
    rest = {name: value for name, value in facts.items() if name != "type"}
    return make_kernel(facts["type"], **rest)


def renumbered(state: dict[str, Array], by: int) -> dict[str, Array]:
    """Return a solver's state with renumbered examples: a server counts from 1, an estimator from 0, like rows of X."""
    found = dict(state)
    for name, array in state.items():
        match name.rpartition(".")[2]:
            case "key":  # -2 - number for a merged point
                found[name] = np.where(array >= 0, array + by, np.where(array < -1, array - by, array))
            case "memory_key":  # its place is its number modulo the number of places
                found[name] = np.roll(np.where(array >= 0, array + by, array), by)
            case "memory_alpha":
                found[name] = np.roll(array, by, axis=1)
            case "recent_key":
                found[name] = array + by
    return found
