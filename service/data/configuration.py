"""What a model is made of: the body of PUT /models/{model}, with its defaults and its checks."""

from __future__ import annotations

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter, ValidationError

from hinged.service.data.classes import check_label, label_key
from hinged.service.data.parts import (
    AUTO,
    CENTRED_MAX,
    LIVES,
    POINTS,
    SCALE,
    Configuration,
    Features,
    NamedFeatures,
    PolynomialKernel,
    Positive,
    TextFeatures,
)
from hinged.service.data.problems import first_problem, shown
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.solvers.core.kernels import NORM_MAX
from hinged.solvers.core.solver import BOUND_MAX

DIM_SPARSE = 2**20

Tolerance = Annotated[float, Field(gt=0, lt=1e3)]
Budget = Annotated[int, Field(gt=1, lt=2**31, description="points, at most; the least useful make way")]
Rate = Annotated[float, Field(gt=0, le=1e6, description="learning rate")]


class BoxConfiguration(Configuration):
    """Of solvers that bound their coefficients."""

    C: Positive = Field(1.0, description="upper bound of a coefficient: the price of an error")


class RaceConfiguration(Configuration):
    """A race of LASVMs that differ in C, gamma and half-life."""

    solver: Literal["auto"] = "auto"


class SMOConfiguration(BoxConfiguration):
    """Batch SMO, solved again as examples come."""

    solver: Literal["smo"]
    tol: Tolerance = Field(1e-3, description="the largest violation of a pair that stays")


class LASVMConfiguration(BoxConfiguration):
    """LASVM."""

    solver: Literal["lasvm"] = "lasvm"
    tol: Tolerance = Field(1e-3, description="tau: violations below it are none")
    delta_max: float | None = Field(2.0, gt=0, description="repeat REPROCESS until delta is below it; null: do it once")
    second_order: bool = Field(default=False, description="choose REPROCESS's partner by the gain that it promises")
    idle_max: int = Field(
        2000, ge=0, lt=2**31, description="points up to which those without a coefficient are kept; 0: as in the paper"
    )


class FullConfiguration(BoxConfiguration):
    """FULL: paced by the duality gap, keeps all points."""

    solver: Literal["full"]
    tol: Tolerance = Field(1e-3, description="tau: violations below it are none")


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
_TRACKING = {"draws": 1, "delta_max": None}
WITHOUT: dict[str, dict[str, Any]] = {
    "lasvm": {"idle_max": 0},
    "tracking-1": _TRACKING,
    "tracking-2": _TRACKING,
    "tracking-cached": _TRACKING,
    "tracking-batch": _TRACKING,
}
"""Parameters that came later, by solver, with the values that are as if there were none."""

CONFIGURATION_OF = {name: kind for kind in KINDS for name in kind.model_fields["solver"].annotation.__args__}  # type: ignore[union-attr]
SOLVER_NAMES = tuple(CONFIGURATION_OF)


def _kind(value: Any) -> str | None:
    """The class that the solver's name asks for."""
    name = value.get("solver", _unnamed(value)) if isinstance(value, dict) else getattr(value, "solver", None)
    kind = CONFIGURATION_OF.get(name) if isinstance(name, str) else None
    return None if kind is None else kind.__name__


_LASVM_S = frozenset(LASVMConfiguration.model_fields) - Configuration.SHARED


def _unnamed(facts: dict[str, Any]) -> str:
    """The solver of a body that names none: a race, unless C, gamma or more is said, which a race finds by itself."""
    kernel = facts.get("kernel")
    gamma = kernel.get("gamma") if isinstance(kernel, dict) else None
    found = gamma is None or isinstance(gamma, str)
    return "auto" if found and not _LASVM_S & facts.keys() else "lasvm"


_TAGGED: Any = reduce(or_, (Annotated[kind, Tag(kind.__name__)] for kind in KINDS))
CONFIGURATIONS: TypeAdapter[Configuration] = TypeAdapter(
    Annotated[
        _TAGGED,
        Discriminator(
            _kind, custom_error_type="solver", custom_error_message=f"must be one of {', '.join(SOLVER_NAMES)}"
        ),
    ]
)


def read_configuration(facts: dict[str, Any]) -> Configuration:
    """The configuration that a log or a snapshot holds. ValueError if it is none.

    Parameters that a solver did not have when it was written have the values that are as if there were none.
    """
    return CONFIGURATIONS.validate_python(as_written(facts))


def as_written(facts: Any) -> Any:
    """A configuration that was written earlier, with the parameters that came later."""
    if not isinstance(facts, dict) or not isinstance(solver := facts.get("solver"), str):
        return facts
    return {**WITHOUT.get(solver, {}), **facts}


def new_configuration(body: bytes | str, settings: Settings) -> Configuration:
    """What a client asks for, with the defaults of a new model. Invalid says what was got and what is allowed.

    Features are scaled, unless gamma is a number (which speaks of x as it is) or too many columns would be centred;
    and candidates count for the warm-up. A gamma "auto" says "scale".
    """
    configuration = _read(body)
    gamma, features = configuration.gamma, configuration.features
    said, defaults = features.model_fields_set, dict[str, Any](warmup_candidates=True)
    if isinstance(features, NamedFeatures):
        defaults["times"] = True
    if isinstance(features, Features):
        wide = features.type == "dense" and features.dim > CENTRED_MAX
        defaults["scale"] = None if wide or isinstance(gamma, float) else AUTO
    # What was said is still to be known (`found_again`).
    facts = defaults | {name: getattr(features, name) for name in said}
    parts: dict[str, Any] = {"features": type(features).model_construct(said, **facts)}
    if gamma == AUTO:
        parts["kernel"] = configuration.kernel.model_copy(update={"gamma": SCALE})
    return _checked(configuration.model_copy(update=parts), settings)


def found_again(asked: Configuration, there: Configuration) -> Configuration:
    """What a client asks for, where a model is there already: defaults that were others once are as it has them."""
    if asked.solver == "auto" and there.solver == "lasvm" and "solver" not in asked.model_fields_set:
        shared = {name: getattr(asked, name) for name in Configuration.SHARED - {"solver"}}
        asked = LASVMConfiguration.model_construct(asked.model_fields_set, **shared)
    late = {"points_max", "when_full", *WITHOUT.get(asked.solver, {})} - asked.model_fields_set
    parts: dict[str, Any] = {name: getattr(there, name) for name in late if hasattr(there, name)}
    if asked.features.type == there.features.type:
        unsaid = {"scale", "times", "warmup_candidates"} - asked.features.model_fields_set
        facts = {name: getattr(there.features, name) for name in unsaid if hasattr(there.features, name)}
        parts["features"] = asked.features.model_copy(update=facts)
    if asked.gamma == SCALE and there.gamma == AUTO:
        parts["kernel"] = asked.kernel.model_copy(update={"gamma": AUTO})
    return asked.model_copy(update=parts)


def parse_configuration(body: bytes | str, settings: Settings) -> Configuration:
    """A configuration that says all, as a model's own does. Invalid says what was got and what is allowed."""
    return _checked(_read(body), settings)


def _read(body: bytes | str) -> Configuration:
    try:
        return CONFIGURATIONS.validate_json(body)
    except ValidationError as error:
        raise Invalid(f"configuration: {_configuration_problem(error)}") from None


def _checked(configuration: Configuration, settings: Settings) -> Configuration:
    """The configuration with the server's points_max where it says none. Invalid where its parts do not fit."""
    features, gamma, points_max = configuration.features, configuration.gamma, configuration.points_max
    points_max = points_max or min(POINTS, settings.points_max)
    said = configuration.model_fields_set  # is still to be known (`found_again`)
    configuration = type(configuration).model_construct(said, **{**dict(configuration), "points_max": points_max})
    warmup = configuration.warmup
    if features.dim > settings.dim_max:
        raise Invalid(_too_wide(features, settings.dim_max))
    if configuration.scaled and features.type == "dense" and features.dim > CENTRED_MAX:
        raise Invalid(
            f'features.scale: "auto" centres dense features, at most {CENTRED_MAX} of them, got dim {features.dim}; '
            "sparse ones it does not"
        )
    if isinstance(gamma, str) and warmup == 0:
        raise Invalid(f'kernel.gamma: "{gamma}" comes from the warm-up of the features, and there is none here')
    plain = isinstance(features, Features) and not configuration.scaled
    if isinstance(gamma, str) and plain and isinstance(configuration.kernel, PolynomialKernel):
        raise Invalid(f'kernel.gamma: of a polynomial "{gamma}" needs features.scale "auto", got null')
    if configuration.gamma_max <= 0 or (isinstance(gamma, float) and gamma > configuration.gamma_max):
        raise Invalid(
            f"kernel: of scaled features (gamma |x|^2 + coef0)^degree may be at most {NORM_MAX:g}: gamma at most "
            f"{configuration.gamma_max:g}, got {gamma}"
        )
    if warmup > points_max and configuration.when_full == "refuse":
        raise Invalid(f"features.warmup must be at most points_max = {points_max}, got {warmup}")
    if points_max > settings.points_max:
        raise Invalid(f"points_max must be at most {settings.points_max}, got {points_max}")
    try:
        solver = configuration.build_solver(cache_bytes=0)
    except ValueError as error:
        raise Invalid(f"configuration: {error}") from None
    window = configuration.window
    if window is not None and not solver.forgets:
        raise Invalid(f"window: {configuration.solver} cannot unlearn: it keeps no examples")
    if window is not None and window.examples is not None and window.examples < warmup:
        raise Invalid(f"window.examples must be at least features.warmup = {warmup}, got {window.examples}")
    half_life = configuration.half_life
    if half_life is not None and not solver.fades:
        raise Invalid(f"half_life: {configuration.solver} cannot let what it has learned fade")
    if half_life is not None and window is not None:
        raise Invalid("half_life: what has faded leaves by itself; give either half_life or window")
    if half_life is not None and half_life.examples is not None and LIVES * half_life.examples < warmup:
        raise Invalid(f"half_life.examples must be at least features.warmup / {LIVES}, got {half_life.examples}")
    classes = configuration.classes
    if classes is not None:
        if not 2 <= len(classes) <= settings.classes_max:
            raise Invalid(f"classes must be null or list 2 to {settings.classes_max} labels, got {len(classes)}")
        if len({label_key(label) for label in classes}) < len(classes):
            raise Invalid("classes lists a label twice")
        for index, label in enumerate(classes):
            check_label(label, f"classes[{index}]", settings.label_chars_max)
    for name, weight in (configuration.class_weight or {}).items():
        # The solver would refuse it, but only once the class is in the log.
        bound = solver.C_max * weight
        if not 0 < bound < BOUND_MAX:
            raise Invalid(f"C times class_weight[{name[:80]!r}] must be > 0 and < 1e15, got {bound:g}")
    return configuration


def _too_wide(features: Features | NamedFeatures | TextFeatures, most: int) -> str:
    """What is wrong with features of more than so many columns."""
    if not isinstance(features, NamedFeatures):
        return f"features.dim must be at most {most}, got {features.dim}"
    texts = features.dim - features.columns_max
    more = f": a column of texts needs {texts} more" if texts else ""
    return f"features.columns_max must be at most {most - texts}, got {features.columns_max}{more}"


def configured_anew(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration as JSON with some parts changed; of another solver, the parameters that mean the same there stay.

    Parameters of one name whose defaults differ do not mean the same.
    """
    solver = changes.get("solver", base["solver"])
    kind = CONFIGURATION_OF.get(solver) if isinstance(solver, str) else None
    facts = dict(base)
    if kind is not None:
        there, here = kind.model_fields, CONFIGURATION_OF[base["solver"]].model_fields
        same = {name for name in base if name in there and there[name].default == here[name].default}
        facts = {name: value for name, value in base.items() if name in Configuration.SHARED | same}
    if solver == "exact":
        facts.pop("precision", None)
    kernel = changes.get("kernel")
    if isinstance(kernel, dict) and kernel.get("gamma") == AUTO != base["kernel"].get("gamma"):
        changes = {**changes, "kernel": {**kernel, "gamma": SCALE}}
    for name, value in changes.items():
        inner = name in ("kernel", "labels", "show") and isinstance(value, dict) and isinstance(facts.get(name), dict)
        whole = not inner or value.get("type", facts[name].get("type")) != facts[name].get("type")
        facts[name] = value if whole else {**facts[name], **value}
    return facts


def _configuration_problem(error: ValidationError) -> str:
    """The first thing that is wrong, without the name of the class that was tried."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] == "solver":
        given = problem["input"].get("solver") if isinstance(problem["input"], dict) else problem["input"]
        return f"solver: {problem['msg']}, got {shown(given)}"
    return first_problem(error, CONFIGURATIONS, skip=1)


def default_configuration(template: str, dense: bool, dim: int, settings: Settings) -> Configuration:
    """The configuration that the first example gives to the default model: the form and the width of x."""
    try:
        parts = json.loads(template)
    except ValueError as error:
        raise Invalid(f"HINGED_DEFAULT_MODEL is not JSON: {error}") from None
    if not isinstance(parts, dict):
        raise Invalid(f"HINGED_DEFAULT_MODEL is not a JSON object, got {shown(parts)}")
    dim_sparse = min(DIM_SPARSE, settings.dim_max)
    parts.setdefault("features", {"type": "dense", "dim": dim} if dense else {"type": "sparse", "dim": dim_sparse})
    return new_configuration(json.dumps(parts), settings)
