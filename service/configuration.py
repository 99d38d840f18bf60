"""What a model is made of: the body of PUT /models/{model}, with its defaults and its checks."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
)

from service.errors import Invalid
from service.labels import Label, check_label, label_key, score_name
from service.settings import Settings
from solvers.kernels import Kernel, make_kernel
from solvers.lasvm import LASVM

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DIM_SPARSE = 2**20

BOUND_MAX = 1e15

Positive = Annotated[float, Field(gt=0, lt=BOUND_MAX)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class LinearKernel(_Part):
    """k(x, z) = x.z."""

    type: Literal["linear"]

    def build(self) -> Kernel:
        """The kernel for the solvers."""
        return make_kernel("linear")


class PolynomialKernel(_Part):
    """k(x, z) = (gamma x.z + coef0)^degree."""

    type: Literal["polynomial"]
    gamma: Positive = 1.0
    degree: int = Field(3, ge=1, le=16)
    coef0: float = Field(0.0, ge=0, lt=1e15)

    def build(self) -> Kernel:
        """The kernel for the solvers."""
        return make_kernel("polynomial", self.gamma, self.degree, self.coef0)


class RadialKernel(_Part):
    """rbf: k(x, z) = exp(-gamma |x - z|^2). laplacian: k(x, z) = exp(-gamma |x - z|_1)."""

    type: Literal["rbf", "laplacian"]
    gamma: Positive

    def build(self) -> Kernel:
        """The kernel for the solvers."""
        return make_kernel(self.type, self.gamma)


class Features(_Part):
    """The width of x, and the form in which it usually comes; either form is taken."""

    type: Literal["dense", "sparse"]
    dim: int = Field(gt=0)


KernelPart = Annotated[LinearKernel | PolynomialKernel | RadialKernel, Field(discriminator="type")]


class Configuration(_Part):
    """A model's configuration. It never changes; another one is another model."""

    solver: Literal["lasvm"] = "lasvm"
    kernel: KernelPart
    C: Positive = 1.0
    tol: float = Field(1e-3, gt=0, lt=1e3, description="tau: violations below it are none")
    delta_max: float | None = Field(None, gt=0, description="repeat REPROCESS until delta is below it")
    features: Features
    classes: Annotated[tuple[StrictBool | StrictInt | StrictStr, ...], Field(fail_fast=True)] | None = Field(
        None, description="the labels that may come; null: they are discovered"
    )
    class_weight: dict[str, Positive] | None = Field(
        None, description="factor of C by class, named as in `scores`; 1 where none is given"
    )
    precision: Literal["float32", "float64"] = Field("float32", description="of points and kernel values")
    points_max: int | None = Field(None, gt=1, description="points that the model may hold; null: the server's")
    seed: int = Field(0, ge=0, lt=2**63)

    @field_validator("classes", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @property
    def dtype(self) -> type:
        """NumPy's type of points and kernel values."""
        return np.float64 if self.precision == "float64" else np.float32

    def weight_of(self, label: Label) -> float:
        """The class's factor of C."""
        return (self.class_weight or {}).get(score_name(label), 1.0)

    def same_as(self, other: Configuration) -> bool:
        """Whether both say the same. `==` would take the labels true and 1 for one."""
        mine, theirs = ([label_key(label) for label in c.classes or ()] for c in (self, other))
        return self == other and mine == theirs

    def build_solver(self, cache_bytes: int) -> LASVM:
        """An untaught solver."""
        return LASVM(
            self.kernel.build(),
            self.features.dim,
            C=self.C,
            tol=self.tol,
            delta_max=self.delta_max,
            points_max=self.points_max or 2,
            cache_bytes=cache_bytes,
            seed=self.seed,
            dtype=self.dtype,
        )


def parse_configuration(body: bytes | str, settings: Settings) -> Configuration:
    """A configuration with every default filled in. Invalid says what was got and what is allowed."""
    try:
        configuration = Configuration.model_validate_json(body)
    except ValidationError as error:
        raise Invalid(f"configuration: {first_problem(error)}") from None
    if configuration.features.dim > settings.dim_max:
        raise Invalid(f"features.dim must be at most {settings.dim_max}, got {configuration.features.dim}")
    points_max = configuration.points_max or settings.points_max
    if points_max > settings.points_max:
        raise Invalid(f"points_max must be at most {settings.points_max}, got {points_max}")
    if configuration.delta_max is not None and not configuration.delta_max > configuration.tol:
        raise Invalid(f"delta_max must be > tol = {configuration.tol}, got {configuration.delta_max}")
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
        bound = configuration.C * weight
        if not 0 < bound < BOUND_MAX:
            raise Invalid(f"C times class_weight[{name[:80]!r}] must be > 0 and < 1e15, got {bound:g}")
    return configuration.model_copy(update={"points_max": points_max})


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, in one sentence: where, what is allowed, what was got."""
    problem = error.errors(include_url=False)[0]
    return f"{place(problem['loc']) or 'body'}: {problem['msg']}, got {shown(problem['input'])}"


def place(loc: tuple[int | str, ...]) -> str:
    """Where in a body something stands, as a.b[3]."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")


def shown(value: Any) -> str:
    """What was got, cut to a length that a message bears."""
    got = repr(value)
    return got if len(got) <= 80 else got[:77] + "..."


def default_configuration(template: str, dense: bool, dim: int, gamma: float, settings: Settings) -> Configuration:
    """The configuration that the first example gives to the default model: its width, and gamma where it says scale."""
    try:
        parts = json.loads(template)
    except ValueError as error:
        raise Invalid(f"HINGED_DEFAULT_MODEL is not JSON: {error}") from None
    if not isinstance(parts, dict):
        raise Invalid(f"HINGED_DEFAULT_MODEL is not a JSON object, got {shown(parts)}")
    kernel = parts.get("kernel")
    if isinstance(kernel, dict) and kernel.get("gamma") == "scale":
        kernel["gamma"] = gamma
    dim_sparse = min(DIM_SPARSE, settings.dim_max)
    parts.setdefault("features", {"type": "dense", "dim": dim} if dense else {"type": "sparse", "dim": dim_sparse})
    return parse_configuration(json.dumps(parts), settings)
