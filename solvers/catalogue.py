"""The list of all solvers by name, which models, estimators and benchmarks use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hinged.solvers.budget.budget import BSCA, BSGD
from hinged.solvers.core.kernels import Kernel
from hinged.solvers.core.parameters import Parameter, declared
from hinged.solvers.core.solver import Solver
from hinged.solvers.dual.batch import SMO
from hinged.solvers.dual.exact import ExactSVM
from hinged.solvers.dual.gap import GapSVM
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.dual.oneclass import OneClassSVM
from hinged.solvers.dual.tracking import TrackingSVM
from hinged.solvers.online.features import FOGD
from hinged.solvers.online.perceptrons import (
    BOGD,
    BPAS,
    OGD,
    RBP,
    AveragedPerceptron,
    BudgetPerceptron,
    Forgetron,
    Perceptron,
)
from hinged.solvers.online.projections import NOGD, Projectron, ProjectronPlusPlus
from hinged.solvers.race.race import Race


@dataclass(frozen=True, slots=True)
class Entry:
    """A solver: its class, the parameters that its name fixes, and parameters for a small trial."""

    make: type[Solver]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    trial: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters that a model of this solver may set, by name.

        C is included if it bounds coefficients.
        """
        hidden = {*self.fixed, *(declared(Solver).keys() - ({"C"} if self.make.bounded else set()))}
        found = {name: each for name, each in declared(self.make).items() if each.is_served and name not in hidden}
        return dict(
            sorted(found.items(), key=lambda each: (each[0] != "budget", each[0] != "C"))
        )  # the order that stored configurations have


_CLEANED = {"idle_max": 0, "clean_every": 1}
_BUDGETED = {"budget": 30}
_UNCLEANED = {"idle_max": None, "clean_every": 1000}
_UNRAMPED = {"ramp_s": -1.0, "ramp_start": 100}

SOLVERS: Mapping[str, Entry] = {
    "auto": Entry(Race),
    "smo": Entry(SMO),
    "lasvm": Entry(LASVM),
    "lasvm-g": Entry(GapSVM, {"loss": "hinge", **_UNRAMPED}, _CLEANED),
    "full": Entry(GapSVM, {"loss": "hinge", **_UNCLEANED, **_UNRAMPED}),
    "lasvm-nc": Entry(GapSVM, {"loss": "ramp"}, _CLEANED),
    "lasvm-i": Entry(GapSVM, {"loss": "filter"}, _CLEANED),
    "tracking-1": Entry(TrackingSVM, {"algorithm": 1}),
    "tracking-2": Entry(TrackingSVM, {"algorithm": 2}),
    "tracking-cached": Entry(TrackingSVM, {"algorithm": "cached"}),
    "tracking-batch": Entry(TrackingSVM, {"algorithm": "batch"}),
    "bsca": Entry(BSCA, {}, _BUDGETED),
    "bsgd": Entry(BSGD, {}, _BUDGETED),
    "exact": Entry(ExactSVM, {"dtype": np.float64}),
    "perceptron": Entry(Perceptron),
    "averaged-perceptron": Entry(AveragedPerceptron),
    "budget-perceptron": Entry(BudgetPerceptron, {}, _BUDGETED),
    "ogd": Entry(OGD),
    "rbp": Entry(RBP, {}, _BUDGETED),
    "forgetron": Entry(Forgetron, {}, _BUDGETED),
    "projectron": Entry(Projectron, {}, _BUDGETED),
    "projectron++": Entry(ProjectronPlusPlus, {}, _BUDGETED),
    "bpas": Entry(BPAS, {}, _BUDGETED),
    "bogd": Entry(BOGD, {}, _BUDGETED),
    "fogd": Entry(FOGD, {}, {"frequencies": 200}),
    "nogd": Entry(NOGD, {}, _BUDGETED),
}

WITHOUT_LABELS: Mapping[str, Entry] = {"one-class": Entry(OneClassSVM, {"dtype": np.float64})}
"""Solvers that learn x without labels. Only estimators use them, because every model of a server has labels."""


def entry_of(name: str) -> Entry:
    """Return the entry of any solver, with or without labels. Raise ValueError if the name is unknown."""
    known = {**SOLVERS, **WITHOUT_LABELS}
    if name not in known:
        raise ValueError(f"solver must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def make_solver(name: str, kernel: Kernel, dim: int, **parameters: Any) -> Solver:
    """Make a solver that has learned no examples.

    Raise ValueError if the name is unknown or a parameter is not allowed.
    """
    entry = entry_of(name)
    wrong = sorted(p for p in entry.fixed.keys() & parameters.keys() if entry.fixed[p] != parameters[p])
    if wrong:
        raise ValueError(f"{wrong[0]} of {name} must be {entry.fixed[wrong[0]]}, got {parameters[wrong[0]]}")
    return entry.make(kernel, dim, **{**parameters, **entry.fixed})
