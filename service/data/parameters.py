"""The parameters of each solver, with their defaults and bounds: a class for those that have the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hinged.service.data.parts import Configuration, Positive

Tolerance = Annotated[float, Field(gt=0, lt=1e3)]
Budget = Annotated[int, Field(gt=1, lt=2**31, description="points, at most; the least useful make way")]
Rate = Annotated[float, Field(gt=0, le=1e6, description="learning rate")]


class BoxConfiguration(Configuration):
    """Of solvers that bound their coefficients."""

    C: Positive = Field(1.0, description="upper bound of a coefficient: the price of an error")


class RaceConfiguration(Configuration):
    """A race of LASVMs and LASVM-NCs that differ in C, gamma and half-life."""

    solver: Literal["auto"] = "auto"


class SMOConfiguration(BoxConfiguration):
    """Batch SMO, solved again as examples come."""

    solver: Literal["smo"]
    tol: Tolerance = Field(1e-3, description="the largest violation of a pair that stays")


class LASVMConfiguration(BoxConfiguration):
    """LASVM."""

    solver: Literal["lasvm"] = "lasvm"
    tol: Tolerance = Field(1e-3, description="of the finishing step: violations below it are none")
    delta_min: float | None = Field(
        None, ge=0, lt=1e3, description="violations left to finishing; null: 0.5 with three classes or more"
    )
    delta_max: float | None = Field(2.0, gt=0, description="repeat REPROCESS until delta is below it; null: do it once")
    second_order: bool = Field(default=False, description="choose REPROCESS's partner by the gain that it promises")
    idle_max: int = Field(
        2000, ge=0, lt=2**31, description="points up to which those without a coefficient are kept; 0: as in the paper"
    )


class FullConfiguration(BoxConfiguration):
    """FULL: paced by the duality gap, keeps all points."""

    solver: Literal["full"]
    tol: Tolerance = Field(1e-3, description="tau: violations below it are none")
    delta_min: float | None = Field(
        None, ge=0, lt=1e3, description="violations left to finishing; null: 0.25 with three classes or more"
    )


class GapConfiguration(FullConfiguration):
    """LASVM-G: paced by the duality gap, points without a coefficient are cleaned away."""

    solver: Literal["lasvm-g"]  # type: ignore[assignment]
    idle_max: int = Field(1000, ge=0, lt=2**31, description="points without a coefficient that CLEAN leaves")
    clean_every: int = Field(1000, gt=0, lt=2**31, description="examples between two CLEANs")


class RampConfiguration(GapConfiguration):
    """LASVM-NC, with the ramp loss, and LASVM-I, with the ramp as a filter."""

    solver: Literal["lasvm-nc", "lasvm-i"]  # type: ignore[assignment]
    ramp_s: float = Field(-1.0, gt=-1e6, lt=1, description="the ramp's left end")
    ramp_start: int = Field(
        100, gt=0, lt=2**31, description="support vectors that a class must have before the ramp counts for it"
    )


class TrackingConfiguration(BoxConfiguration):
    """Averaged tracking: K random coordinate updates an example."""

    solver: Literal["tracking-1", "tracking-2", "tracking-cached", "tracking-batch"]
    tol: Tolerance = Field(1e-3, description="of the finishing step")
    K: int = Field(10, ge=1, le=10_000, description="updates an example; in tracking-batch, rounds at most")
    draws: int = Field(100, ge=1, le=10_000, description="points drawn for an update; the one that gains most is moved")
    delta_max: float | None = Field(
        1.0, gt=0, description="updates before those that are averaged, until none drawn violates by more; null: none"
    )


class ExactConfiguration(BoxConfiguration):
    """Exact incremental and decremental learning."""

    solver: Literal["exact"]
    precision: Literal["float64"] = "float64"


class PerceptronConfiguration(Configuration):
    """The kernel perceptron, and the one that predicts with the average of its coefficients."""

    solver: Literal["perceptron", "averaged-perceptron"]


class BudgetConfiguration(Configuration):
    """Perceptrons on a budget: randomized (rbp), and forgetting the oldest."""

    solver: Literal["rbp", "forgetron"]
    budget: Budget = 500


class BudgetPerceptronConfiguration(BudgetConfiguration):
    """The perceptron that gives up the point it understands best."""

    solver: Literal["budget-perceptron"]  # type: ignore[assignment]
    beta: float = Field(0.0, ge=0, description="examples within this margin are learned")


class MergedConfiguration(BoxConfiguration, BudgetConfiguration):
    """Of solvers whose points merge."""

    solver: Literal["bsgd"]  # type: ignore[assignment]
    maintenance: Literal["merge", "remove", "project"] | None = Field(
        None, description="what keeps the budget; null: merge for the rbf kernel, else project"
    )
    merging: Literal["table", "golden"] = Field("table", description="where a merged point lies: table or search")
    averaging: int | None = Field(1000, gt=0, lt=2**31, description="examples that the predicting average spans")
    nearest: int | None = Field(
        None,
        ge=1,
        le=200,
        description="points that take over what a merge takes from the average; null: 19 up to a budget of 200, else 3",
    )


class BSGDConfiguration(MergedConfiguration):
    """Stochastic gradient descent on a budget."""

    examples: int = Field(10_000, gt=0, lt=2**53, description="n of lambda = 1 / (C n)")
    regularization: float | None = Field(None, gt=0, description="lambda; null: from C and examples")


class BSCAConfiguration(MergedConfiguration):
    """Dual coordinate ascent on a budget."""

    solver: Literal["bsca"]  # type: ignore[assignment]
    step_max: float | None = Field(2.0, gt=0, description="bound of a step at first; null: none")
    step_decay: float = Field(1000.0, gt=0, description="examples over which the bound shrinks")
    step_least: float = Field(0.25, ge=0, description="what the bound shrinks to")
    extra_steps: int = Field(0, ge=0, le=1000, description="steps an example on the reservoir of recent ones")
    reservoir: int = Field(1000, gt=0, le=2**24, description="recent examples kept for extra steps")
    remembered: int = Field(2**17, gt=0, le=2**30, description="examples whose coefficients are remembered")


class ProjectronConfiguration(BudgetConfiguration):
    """Perceptrons that project what is nearly in the span of their points."""

    solver: Literal["projectron", "projectron++"]  # type: ignore[assignment]
    novelty: float = Field(0.1, ge=0.01, lt=1, description="length outside of the span, of 1, that makes a new point")


class BPASConfiguration(BoxConfiguration, BudgetConfiguration):
    """Passive-aggressive learning on a budget."""

    solver: Literal["bpas"]  # type: ignore[assignment]


class OGDConfiguration(Configuration):
    """Online gradient descent."""

    solver: Literal["ogd"]
    eta: Rate = 0.2
    lam: float = Field(0.0, ge=0, description="regularisation; eta lam < 1")


class BOGDConfiguration(BoxConfiguration, BudgetConfiguration, OGDConfiguration):
    """Online gradient descent on a budget."""

    solver: Literal["bogd"]  # type: ignore[assignment]


class FOGDConfiguration(Configuration):
    """Online gradient descent over random Fourier features."""

    solver: Literal["fogd"]
    frequencies: int = Field(1000, ge=1, lt=2**31, description="random frequencies, two features each")
    eta: Rate = 0.2


class NOGDConfiguration(BudgetConfiguration):
    """Online gradient descent over Nystroem features of the first points."""

    solver: Literal["nogd"]  # type: ignore[assignment]
    eta: Rate = 0.2
    rank: int | None = Field(None, ge=1, description="features; null: a fifth of the budget")


KINDS: tuple[type[Configuration], ...] = (
    RaceConfiguration,
    SMOConfiguration,
    LASVMConfiguration,
    FullConfiguration,
    GapConfiguration,
    RampConfiguration,
    TrackingConfiguration,
    ExactConfiguration,
    PerceptronConfiguration,
    BudgetConfiguration,
    BudgetPerceptronConfiguration,
    BSGDConfiguration,
    BSCAConfiguration,
    ProjectronConfiguration,
    BPASConfiguration,
    OGDConfiguration,
    BOGDConfiguration,
    FOGDConfiguration,
    NOGDConfiguration,
)
WITHOUT_ANY: dict[str, Any] = {"calibration": "sigmoid"}
_TRACKING = {"draws": 1, "delta_max": None}
_GAP = {"delta_min": 0.0}
_MERGED = {"nearest": 3}
WITHOUT: dict[str, dict[str, Any]] = {
    "lasvm": {"idle_max": 0, "delta_min": 0.0},
    "full": _GAP,
    "lasvm-g": _GAP,
    "lasvm-nc": _GAP,
    "lasvm-i": _GAP,
    "tracking-1": _TRACKING,
    "tracking-2": _TRACKING,
    "tracking-cached": _TRACKING,
    "tracking-batch": _TRACKING,
    "bsca": _MERGED,
    "bsgd": _MERGED,
}
"""Parameters that came later, of any solver and by solver, with the values that are as if there were none."""

CONFIGURATION_OF = {name: kind for kind in KINDS for name in kind.model_fields["solver"].annotation.__args__}  # type: ignore[union-attr]
SOLVER_NAMES = tuple(CONFIGURATION_OF)
