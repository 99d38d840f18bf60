"""The parts of a configuration that all solvers share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from hinged.service.data.capacity import LIMIT_SCHEMA, CapacityPart
from hinged.service.data.classes import Label, label_key, score_name
from hinged.service.data.costs import ASK, CostsPart, WatchPart, watched_of
from hinged.service.data.exploring import ExplorePart
from hinged.service.data.features.catalogue import FeaturesPart
from hinged.service.data.features.records import NAME_CHARS_MAX
from hinged.service.data.groups import FIXED, GROUPS
from hinged.service.data.names import distinct_names
from hinged.service.data.part import AUTO, Part
from hinged.service.data.promises import AlarmPart, NoveltyPart, PromisePart
from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.elementary import exp, log
from hinged.solvers.core.families import KERNELS, NORM_MAX, Family
from hinged.solvers.core.kernels import PARAMETERS, Kernel, make_kernel
from hinged.solvers.core.solver import Solver
from hinged.solvers.core.states import BOUND_MAX

POINTS = 10_000
"""Default maximum number of points in a model."""

LIVES = 5  # number of half-lives after which an example is dropped; its weight is then 1/32
WINDOW_STEPS, FADING_STEPS = 20, 16  # number of steps in which a window, or a half-life, of examples passes

Positive = Annotated[float, Field(gt=0, lt=BOUND_MAX)]


def _one_reason(value: Any, check: Any) -> Any:
    try:
        return check(value)
    except ValidationError:  # pydantic reports an error for each possible form
        raise PydanticCustomError("gamma", 'Input should be a number > 0 and < 1e15, or "scale"') from None


SEGMENTS_MAX = 4  # maximum number of features: each multiplies what the model's figures list
SegmentsPart = Annotated[
    tuple[Annotated[str, Field(max_length=NAME_CHARS_MAX)], ...] | None,
    BeforeValidator(distinct_names("segments", "names in x", "country", SEGMENTS_MAX)),
]

Gamma = Annotated[
    Positive | Literal["scale", "auto"],
    WrapValidator(_one_reason),
    Field(description='"scale": determined by the warm-up; "auto" means the same'),
]


_kernel = lru_cache(maxsize=1024, typed=True)(make_kernel)
"""Cached, because each batch that is read or learned needs the kernel of its model."""


class ModelKernel(Part):
    """A kernel and its parameters, as a configuration gives them (solvers/core/families.py)."""

    if TYPE_CHECKING:

        @property
        def type(self) -> str: ...  # noqa: D102

    @property
    def family(self) -> Family:
        """Return the kernel's family, which is the same for all values of its parameters."""
        return KERNELS[self.type]

    @property
    def said(self) -> float | str | None:
        """Return gamma as the configuration gives it. Return None if the kernel has no gamma."""
        gamma: float | str | None = self.__dict__.get("gamma")
        return gamma

    def build(self, auto: float = 1.0) -> Kernel:
        """Return the kernel for the solvers. `auto` is the number to use for gamma "auto" or "scale"."""
        said = self.__dict__  # a plain dict is faster, and every batch calls this method
        gamma = said.get("gamma", 1.0)
        gamma = auto if isinstance(gamma, str) else gamma
        if len(said) < 3:  # for most kernels, a cache look-up with fewer arguments is faster
            return _kernel(said["type"], gamma)
        return _kernel(said["type"], gamma, said.get("degree", 3), said.get("coef0", 0.0))

    def gamma_max(self, square_max: float) -> float:
        """Return the largest gamma for which k(x, x) stays within NORM_MAX if x.x is at most square_max."""
        power = self.family.power
        if power is None:
            return math.inf
        # Half of the limit leaves room for rounding.
        root = float(exp(log(NORM_MAX / 2) / (self.__dict__[power] if isinstance(power, str) else power)))  # type: ignore[no-untyped-call]
        return (root - float(self.__dict__.get("coef0", 0.0))) / square_max


def _kernel_part(names: tuple[str, ...], title: str) -> type[ModelKernel]:
    """Return the class for kernels that have the same parameters."""
    families = [KERNELS[name] for name in names]
    fields: dict[str, Any] = {"type": (Literal[names], ...)}
    for name, default in families[0].parameters.items():
        fields[name] = (Gamma if name == "gamma" else PARAMETERS[name], default)
    formulas = (f"k(x, z) = {family.formula}." for family in families)
    meaning = " ".join(formulas if len(names) == 1 else map(": ".join, zip(names, formulas, strict=True)))
    return create_model(f"{title}Kernel", __base__=ModelKernel, __module__=__name__, __doc__=meaning, **fields)


def _kernel_parts() -> Iterator[type[ModelKernel]]:
    radial = tuple(name for name, family in KERNELS.items() if family.distance is not None)
    yield from (_kernel_part((name,), name.capitalize()) for name in KERNELS if name not in radial)
    yield _kernel_part(radial, "Radial")


if TYPE_CHECKING:
    KernelPart = ModelKernel
else:
    KernelPart = Annotated[reduce(or_, _kernel_parts()), Field(discriminator="type")]


def usual_kernel(name: str) -> ModelKernel:
    """Return the kernel of this name, with the usual parameters."""
    kernel: ModelKernel = TypeAdapter(KernelPart).validate_python({"type": name})
    return kernel


class Labelling(Part):
    """How the server asks for labels, and how long predictions wait for their labels."""

    pool_max: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="candidates in the pool; beyond that, the oldest idle candidates are dropped",
    )
    overlap: int = Field(
        1, ge=1, le=99, description="labels by different annotators that a candidate needs; usual: 1 to 3"
    )
    tie_breakers: int = Field(
        1,
        ge=0,
        le=99,
        description="further annotators to ask, one after another, while no label leads; then the first label counts",
    )
    combine: Literal["majority", "reliability"] = Field(
        "majority",
        description="how several labels become one: the most frequent, or the most probable if annotators are weighed "
        "by how often they are right",
    )
    explore: float = Field(0.05, ge=0, le=1, description="share of the questions that are drawn at random")
    budget: float | None = Field(
        None,
        gt=0,
        le=1,
        description="share of the predictions whose label may be asked for; usual: 0.01 to 0.2; null: no limit",
    )
    pending_max: int = Field(10_000, ge=0, le=10_000_000, description="predictions that wait for their labels")
    pending_s: float = Field(86_400.0, gt=0, le=1e9, description="seconds that a prediction waits for its label")
    pending_durable: bool = Field(False, description="whether a prediction that waits is on disk before it is answered")
    guide: str | None = Field(
        None,
        max_length=5000,
        description="instructions for annotators, which they read beside each question; a line that begins with a "
        "label and a colon describes the label",
    )


Side = Annotated[int, Field(ge=1, le=1024)]


class Show(Part):
    """How people see an x. Learning ignores this part."""

    image: Annotated[tuple[Side, Side], Field(strict=False)] | None = Field(
        None, description="rows and columns of the picture that a dense x shows"
    )
    origins: tuple[Annotated[str, Field(max_length=256, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$")], ...] = Field(
        (), max_length=16, strict=False, description="origins whose URLs in features are shown as links"
    )


class Span(Part):
    """A length of the stream: a number of examples, or of seconds.

    step: the number of examples between two times at which examples leave or fade. The step is None if seconds are
    given. The step is also None in models from before steps existed, so that these models behave as before.
    """

    STEPS: ClassVar[int]

    examples: int | None = None
    seconds: float | None = None
    step: int | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.examples is None) == (self.seconds is None):
            raise PydanticCustomError("span", "Input should have either examples or seconds")
        if self.step is not None and (self.examples is None or self.step > self.examples):
            allowed = "no step beside seconds" if self.examples is None else f"a step of at most {self.examples}"
            raise PydanticCustomError("step", "Input should have {allowed}", {"allowed": allowed})
        return self

    def stepping(self) -> Self:
        """Return the span with a default step. A given step stays, even if it is null."""
        if self.examples is None or "step" in self.model_fields_set:
            return self
        step = max(1, self.examples // self.STEPS)
        # `found_again` needs to know which parts the client gave.
        facts = {**dict(self), "step": step}
        return cast("Self", type(self).model_construct(self.model_fields_set, **facts))


class Window(Span):
    """The maximum age of examples, in examples or in seconds. As the stream goes on, the model unlearns older
    examples.
    """

    STEPS: ClassVar[int] = WINDOW_STEPS

    examples: int | None = Field(
        None, ge=1, lt=2**53, description="the newest examples that count; usual: 1,000 to 50,000"
    )
    seconds: float | None = Field(None, gt=0, le=1e9, description="how long an example counts")
    step: int | None = Field(
        None,
        ge=1,
        description="examples by which the window moves at once; by default a 20th of the window; null: a 100th",
    )


class HalfLife(Span):
    """After this many examples, or seconds, an example has half its weight. After five half-lives it is dropped."""

    STEPS: ClassVar[int] = FADING_STEPS

    examples: int | None = Field(
        None, ge=10, lt=2**50, description="examples after which an example counts half; usual: 250 to 10,000"
    )
    seconds: float | None = Field(None, gt=0, le=2e8, description="seconds after which an example counts half")
    step: int | None = Field(
        None, ge=1, description="examples between two fadings; by default a 16th of the half-life; null: a 64th"
    )

    @property
    def window(self) -> Window:
        """Return the maximum age of an example, after which it is dropped."""
        examples, seconds = self.examples and LIVES * self.examples, self.seconds and LIVES * self.seconds
        return Window(examples=examples, seconds=seconds, step=self.step)


def _described(schema: dict[str, Any]) -> None:
    """Add the groups of the parts to a configuration's JSON schema. A client may leave out `features`."""
    schema |= {"x-groups": list(GROUPS), "x-fixed": list(FIXED)}
    schema["required"] = [name for name in schema.get("required", ()) if name != "features"]


class Configuration(Part):
    """A model's configuration. A configuration is immutable; a change makes a new configuration. Each solver adds its
    parameters.
    """

    model_config = ConfigDict(json_schema_extra=_described)

    SHARED: ClassVar[frozenset[str]]

    solver: str
    kernel: KernelPart = Field(
        usual_kernel("rbf"), description="k(x, z); by default rbf, or linear if the words of a text are counted"
    )
    features: FeaturesPart = Field(description="what an x is, and what the server made of its parts")
    classes: Annotated[tuple[StrictBool | StrictInt | StrictStr, ...], Field(fail_fast=True, strict=False)] | None = (
        Field(None, description="the labels that may come; null: they are discovered")
    )
    class_weight: dict[str, Positive] | None = Field(
        None, description="factor of C by class, named as in `scores`; by default 1"
    )
    precision: Literal["float32", "float64"] = Field("float32", description="precision of points and kernel values")
    points_max: int | None = Field(
        None, gt=1, description="points that the model may hold; null: 10,000, or the server's limit if that is less"
    )
    when_full: Literal["refuse", "remove"] = Field(
        "remove", description='at points_max: "remove" the points that matter least, or "refuse" to learn'
    )
    window: Window | None = Field(None, description="how old an example may be; null: any age")
    half_life: HalfLife | None = Field(None, description="how soon an example counts half; null: never")
    calibration: Literal["auto", "sigmoid"] = Field(
        "auto",
        description='how scores of three and more classes become probabilities: "auto", by the method of several that '
        'has predicted best lately, or "sigmoid", by a sigmoid per class, divided by their sum',
    )
    costs: CostsPart = Field(
        None,
        description="what wrong decisions cost: by true class, then by decision, named as in `scores`; 1 for an error "
        'that is not listed. "ask": what a person\'s look costs',
        json_schema_extra={"properties": {"ask": {"type": "number"}}, "x-keys": ["true class", "decision"]},
    )
    capacity: CapacityPart = Field(
        None,
        description='how often decisions may be taken, by decision: "ask", or a class, named as in `scores`',
        json_schema_extra={"properties": {ASK: LIMIT_SCHEMA}, "x-keys": ["decision"]},
    )
    explore: ExplorePart = Field(
        None,
        description="share of the decisions for a class, named as in `scores`, that are not taken, so that the label "
        "comes; this label weighs 1 / share",
        json_schema_extra={"x-keys": ["decision"]},
    )
    watch: WatchPart = Field(
        None, description="classes, named as in `scores`, whose figures also come from a long memory; at most 8"
    )
    segments: SegmentsPart = Field(
        None, description="names in x by whose values the figures are also kept; at most 4, of named features"
    )
    promise: PromisePart = Field(
        None,
        description="how often the set of labels in an answer may miss the true label: one rate, or a rate by class, "
        "named as in `scores`; usual: 0.01 to 0.1",
    )
    alarm: AlarmPart = Field(
        None,
        description="with which probability a stream whose errors never become more frequent may ever cause an alarm; "
        "usual: 0.001 to 0.05",
    )
    novelty: NoveltyPart = Field(
        None,
        description="compare each x with a sample of the x seen before; true, or the level at which an x is novel: the "
        "share of usual x that may count as novel. decide then asks",
    )
    labels: Labelling = Labelling()
    show: Show | None = Field(None, description="how an x is shown to people; null: as names and numbers")
    receipts: bool = Field(
        False,
        description="add each event to a Merkle tree; answers to learn, correct and forget then carry receipts",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="seed of all random numbers")

    @property
    def chooses(self) -> bool:
        """Return whether, with three or more classes, the best of several calibrations gives the probabilities."""
        return self.calibration == AUTO

    @property
    def watched(self) -> tuple[str, ...]:
        """Return the names of the classes of `watch` and `costs`, which have a long memory."""
        return watched_of(self.costs, self.watch)

    @property
    def dtype(self) -> type:
        """Return NumPy's type for points and kernel values."""
        return np.float64 if self.precision == "float64" else np.float32

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the solver's own parameters."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in self.SHARED}

    @property
    def gamma(self) -> float | str | None:
        """Return the kernel's gamma as the configuration gives it. Return None for a linear kernel."""
        return self.kernel.said

    @property
    def scaled(self) -> bool:
        """Return whether dense or sparse features are scaled."""
        return self.features.scaled

    @property
    def warmup(self) -> int:
        """Return the number of examples of the warm-up. Return 0 if no warm-up is needed."""
        return self.features.examples_of_warmup(self)

    @property
    def gamma_max(self) -> float:
        """Return the largest gamma for which every x within -CLIP..CLIP has a valid kernel value with itself."""
        square_max = self.features.square_max
        return math.inf if square_max is None else self.kernel.gamma_max(square_max)

    def weight_of(self, label: Label) -> float:
        """Return the factor of C for a class."""
        return (self.class_weight or {}).get(score_name(label), 1.0)

    @model_validator(mode="after")
    def _picture_fits(self) -> Self:
        image = self.show.image if self.show is not None else None
        if image is not None and not self.features.is_picture(*image):
            raise PydanticCustomError(
                "show",
                "show.image: rows times columns must be the width of dense features, {dim}, got {rows} x {columns}",
                {"dim": self.features.dim, "rows": image[0], "columns": image[1]},
            )
        return self

    def same_as(self, other: Configuration) -> bool:
        """Return whether both configurations mean the same. `==` would not distinguish the labels true and 1."""
        mine, theirs = ([label_key(label) for label in c.classes or ()] for c in (self, other))
        return self == other and mine == theirs

    def build_solver(self, cache_bytes: int, gamma: float = 1.0) -> Solver:
        """Return a new solver that has learned nothing. `gamma` is the number to use for "auto" or "scale". Raise
        ValueError if its parameters contradict each other.
        """
        solver = make_solver(
            self.solver,
            self.kernel.build(gamma),
            self.features.dim,
            points_max=self.points_max or 2,
            when_full=self.when_full,
            cache_bytes=cache_bytes,
            seed=self.seed,
            dtype=self.dtype,
            **self.parameters,
        )
        solver.fading = self.half_life is not None
        return solver


Configuration.SHARED = frozenset(Configuration.model_fields)
