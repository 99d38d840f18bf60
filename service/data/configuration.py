"""Configurations of models: the body of PUT /models/{model}, its defaults and its checks."""

from __future__ import annotations

import json
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter, ValidationError
from pydantic_core import from_json

from hinged.service.data.capacity import check_capacity
from hinged.service.data.classes import check_label, label_key, score_name
from hinged.service.data.exploring import check_explore
from hinged.service.data.features.catalogue import FEATURES
from hinged.service.data.groups import GROUPS
from hinged.service.data.parameters import (
    CONFIGURATION_OF,
    SOLVER_NAMES,
    WITHOUT,
    WITHOUT_ANY,
)
from hinged.service.data.part import AUTO, SCALE, Part
from hinged.service.data.parts import LIVES, POINTS, Configuration, usual_kernel
from hinged.service.data.problems import MISSING, first_problem, shown
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.solvers.core.families import NORM_MAX
from hinged.solvers.core.states import BOUND_MAX

DIM_SPARSE = 2**20
SPANS = ("window", "half_life")
TOLD = frozenset({"solver", "kernel", "features", "C", "points_max"})
"""Parts of a configuration that are always shown. These parts say what the model is, or depend on the server's
settings.
"""
TOLD_OF_FEATURES = frozenset({"type", "dim", "scale"})
"""Parts of the features that are always shown, together with the parts that new models get. Without these parts, the
features that a client names in a change would mean something else.
"""
BESIDE = frozenset(part for group in GROUPS if group["at_once"] for part in group["parts"])
"""Parts that do not affect any solver. These parts change without retraining."""

TO_MAKE = '; show.image needs them, such as {"type": "dense", "dim": 784}'
STAND_IN = [0.0]
"""The x of a model without features, with which its other parts are checked."""


def _kind(value: Any) -> str | None:
    """Return the solver's name, or None if it is unknown."""
    name = value.get("solver", _unnamed(value)) if isinstance(value, dict) else getattr(value, "solver", None)
    return name if isinstance(name, str) and name in CONFIGURATION_OF else None


_LASVM_S = frozenset(CONFIGURATION_OF["lasvm"].model_fields) - Configuration.SHARED


def _unnamed(facts: dict[str, Any]) -> str:
    """Return the solver of a body that names no solver. The solver is a race, unless the body gives C, gamma or another
    part that a race determines itself.
    """
    kernel = facts.get("kernel")
    gamma = kernel.get("gamma") if isinstance(kernel, dict) else None
    found = gamma is None or isinstance(gamma, str)
    return "auto" if found and not _LASVM_S & facts.keys() else "lasvm"


_TAGGED: Any = reduce(or_, (Annotated[kind, Tag(name)] for name, kind in CONFIGURATION_OF.items()))
CONFIGURATIONS: TypeAdapter[Configuration] = TypeAdapter(
    Annotated[
        _TAGGED,
        Discriminator(
            _kind, custom_error_type="solver", custom_error_message=f"must be one of {', '.join(SOLVER_NAMES)}"
        ),
    ]
)


def read_configuration(facts: dict[str, Any]) -> Configuration:
    """Return a configuration from a log or a snapshot. Raise ValueError if the configuration is invalid.

    Parameters that did not exist when the log or snapshot was written get values that leave the behaviour unchanged.
    """
    return CONFIGURATIONS.validate_python(as_written(facts))


def as_written(facts: Any) -> Any:
    """Return an earlier configuration, completed with the parameters that were added later."""
    if not isinstance(facts, dict) or not isinstance(solver := facts.get("solver"), str):
        return facts
    spans = {name: facts[name] for name in SPANS if isinstance(facts.get(name), dict)}
    steps = {name: {"step": None, **span} for name, span in spans.items()}
    return {**WITHOUT_ANY, **WITHOUT.get(solver, {}), **facts, **steps}


def new_configuration(body: bytes | bytearray | str, settings: Settings) -> Configuration:
    """Return the configuration that a client asks for, with the defaults of a new model. The error Invalid says what
    was got and what is allowed.

    Features are scaled, with two exceptions: gamma is a number (which refers to unscaled x), or too many columns would
    be centred. Candidates count as examples of the warm-up. gamma "auto" becomes "scale". A body without a kernel means
    rbf, or linear if the words of a text are counted.
    """
    configuration = _read(body)
    if "kernel" not in configuration.model_fields_set:  # `found_again` needs to know this
        facts = {**dict(configuration), "kernel": usual_kernel(configuration.features.usual_kernel)}
        configuration = type(configuration).model_construct(configuration.model_fields_set, **facts)
    gamma, features = configuration.gamma, configuration.features
    said = features.model_fields_set
    # `found_again` needs to know which parts the client gave.
    of_features = {**features.of_new_model(gamma)} | {name: getattr(features, name) for name in said}
    parts: dict[str, Any] = {"features": type(features).model_construct(said, **of_features)}
    if gamma == AUTO:
        parts["kernel"] = configuration.kernel.model_copy(update={"gamma": SCALE})
    return _checked(configuration.model_copy(update=parts), settings)


def shown_configuration(configuration: Configuration, *, full: bool = False) -> dict[str, Any]:
    """Return a configuration as JSON: the parts that the client gave, and the parts that follow from them. full:
    include every default.

    `new_configuration` makes the same configuration from either form, so sending back either form changes nothing.
    """
    facts = configuration.model_dump(mode="json")
    if full:
        return facts
    usual = _defaults(type(configuration))
    shown = _unusual(facts, usual, always=TOLD)
    features = configuration.features
    shown["features"] = _unusual(
        facts["features"], _defaults(type(features)), always=TOLD_OF_FEATURES | features.NEW.keys()
    )
    if "labels" in shown:
        shown["labels"] = _unusual(facts["labels"], usual["labels"])
    for name in SPANS:
        if name in shown:
            shown[name] = {part: value for part, value in facts[name].items() if part == "step" or value is not None}
    return shown


def differences(configuration: Configuration, former: Configuration) -> list[str]:
    """Return the names of the parts in which two configurations differ. Defaults of different solvers do not count."""
    now, then = shown_configuration(configuration), shown_configuration(former)
    return [part for part in now | then if now.get(part) != then.get(part)]


@cache
def _defaults(kind: type[Part]) -> dict[str, Any]:
    """Return the defaults of a part's parameters, as JSON."""
    found = {name: field.default for name, field in kind.model_fields.items()}
    return {name: value.model_dump(mode="json") if isinstance(value, Part) else value for name, value in found.items()}


def _unusual(facts: dict[str, Any], usual: dict[str, Any], always: frozenset[str] = frozenset()) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name in always or value != usual[name]}


def found_again(asked: Configuration, there: Configuration) -> Configuration:
    """Return what a client asks for if the model already exists. Defaults that have changed since then are taken from
    the model.
    """
    if asked.solver == "auto" and there.solver == "lasvm" and "solver" not in asked.model_fields_set:
        shared = {name: getattr(asked, name) for name in Configuration.SHARED - {"solver"}}
        asked = CONFIGURATION_OF["lasvm"].model_construct(asked.model_fields_set, **shared)
    late = {"kernel", "points_max", "when_full", *WITHOUT_ANY, *WITHOUT.get(asked.solver, {})} - asked.model_fields_set
    parts: dict[str, Any] = {name: getattr(there, name) for name in late if hasattr(there, name)}
    for name in SPANS:
        span, held = getattr(asked, name), getattr(there, name)
        if span is not None and held is not None and "step" not in span.model_fields_set:
            parts[name] = span.model_copy(update={"step": held.step})
    if asked.features.type == there.features.type:
        unsaid = asked.features.of_new_model(None).keys() - asked.features.model_fields_set
        facts = {name: getattr(there.features, name) for name in unsaid}
        parts["features"] = asked.features.model_copy(update=facts)
    if asked.gamma == SCALE and there.gamma == AUTO:
        parts["kernel"] = asked.kernel.model_copy(update={"gamma": AUTO})
    return asked.model_copy(update=parts)


def parse_configuration(body: bytes | str, settings: Settings) -> Configuration:
    """Return a complete configuration, like the configuration of a model. The error Invalid says what was got and what
    is allowed.
    """
    return _checked(_read(body), settings)


def _read(body: bytes | bytearray | str) -> Configuration:
    try:
        return CONFIGURATIONS.validate_json(body)
    except ValidationError as error:
        raise Invalid(f"configuration: {_configuration_problem(error)}") from None


def _checked(configuration: Configuration, settings: Settings) -> Configuration:
    """Return the configuration with defaults for points_max and steps. Raise Invalid if its parts contradict each
    other.
    """
    features, gamma, points_max = configuration.features, configuration.gamma, configuration.points_max
    points_max = points_max or min(POINTS, settings.points_max)
    said = configuration.model_fields_set  # needed by `found_again`
    spans = {name: span.stepping() for name in SPANS if (span := getattr(configuration, name)) is not None}
    facts = {**dict(configuration), "points_max": points_max, **spans}
    configuration = type(configuration).model_construct(said, **facts)
    warmup = configuration.warmup
    features.check(settings.dim_max)
    if isinstance(gamma, str) and warmup == 0:
        raise Invalid(f'kernel.gamma: "{gamma}" needs a warm-up of the features, and this model has none')
    kernel = configuration.kernel
    if isinstance(gamma, str) and features.square_max is None and kernel.family.power is not None:
        raise Invalid(f'kernel.gamma: "{gamma}" with a {kernel.type} kernel needs features.scale "auto", got null')
    if configuration.gamma_max <= 0 or (isinstance(gamma, float) and gamma > configuration.gamma_max):
        raise Invalid(
            f"kernel: with scaled features (gamma |x|^2 + coef0)^degree must be at most {NORM_MAX:g}: gamma at most "
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
        raise Invalid(f"window: {configuration.solver} cannot unlearn, because it keeps no examples")
    if window is not None and window.examples is not None and window.examples < warmup:
        raise Invalid(f"window.examples must be at least features.warmup = {warmup}, got {window.examples}")
    half_life = configuration.half_life
    if half_life is not None and not solver.fades:
        raise Invalid(f"half_life: {configuration.solver} cannot let examples fade")
    if half_life is not None and window is not None:
        raise Invalid("half_life: faded examples are dropped anyway; give either half_life or window")
    if half_life is not None and half_life.examples is not None and LIVES * half_life.examples < warmup:
        raise Invalid(f"half_life.examples must be at least features.warmup / {LIVES}, got {half_life.examples}")
    classes = configuration.classes
    if classes is not None:
        if not 2 <= len(classes) <= settings.classes_max:
            raise Invalid(f"classes must be null or list 2 to {settings.classes_max} labels, got {len(classes)}")
        if len({label_key(label) for label in classes}) < len(classes):
            raise Invalid("classes lists a label twice")
        for index, label in enumerate(classes):
            check_label(label, f"classes[{index}]")
    names = None if classes is None else [score_name(label) for label in classes]
    if configuration.segments and features.type != "named":
        raise Invalid(f"segments need named features, got features of type {features.type}")
    if configuration.parameters.get("goal") == "cost" and configuration.costs is None:
        raise Invalid('goal: "cost" needs costs, got none; set both, or another goal')
    if configuration.capacity is not None:
        check_capacity(configuration.capacity, configuration.costs, names)
    if configuration.explore is not None:
        weighs = not configuration.parameters.get("extra_steps")
        check_explore(configuration.explore, configuration.costs, configuration.capacity or (), names, weighs=weighs)
    for name, weight in (configuration.class_weight or {}).items():
        # The solver would refuse this too, but only after the class is in the log.
        bound = solver.C_max * weight
        if not 0 < bound < BOUND_MAX:
            raise Invalid(f"C times class_weight[{name[:80]!r}] must be > 0 and < 1e15, got {bound:g}")
    return configuration


def configured_anew(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration as JSON with some parts changed. If the solver changes, parameters that mean the same for
    the new solver stay.

    Parameters of the same name with different defaults do not mean the same.
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
    if "features" in changes:
        changes = {**changes, "features": _with_defaults(changes["features"])}
    for name, value in changes.items():
        inner = name in ("kernel", "labels", "show") and isinstance(value, dict) and isinstance(facts.get(name), dict)
        whole = not inner or value.get("type", facts[name].get("type")) != facts[name].get("type")
        facts[name] = value if whole else {**facts[name], **value}
    return facts


def _with_defaults(features: Any) -> Any:
    """Return features as JSON with all their parts. Invalid features stay unchanged."""
    try:
        return FEATURES.validate_python(features).model_dump(mode="json")
    except ValidationError:
        return features


def _configuration_problem(error: ValidationError) -> str:
    """Return the first problem, without the name of the class with which pydantic tried to parse."""
    problem = error.errors(include_url=False)[0]
    if problem["type"] == "solver":
        given = problem["input"].get("solver") if isinstance(problem["input"], dict) else problem["input"]
        return f"solver: {problem['msg']}, got {shown(given)}"
    hint = TO_MAKE if problem["type"] == MISSING and problem["loc"][1:] == ("features",) else ""
    return f"{first_problem(error, CONFIGURATIONS, skip=1)}{hint}"


def default_configuration(template: str, x: Any, settings: Settings) -> Configuration:
    """Return the default model's configuration for its first x. The form of this x determines the features, unless the
    template has them.
    """
    try:
        parts = json.loads(template)
    except ValueError as error:
        raise Invalid(f"HINGED_DEFAULT_MODEL is not JSON: {error}") from None
    if not isinstance(parts, dict):
        raise Invalid(f"HINGED_DEFAULT_MODEL is not a JSON object, got {shown(parts)}")
    return new_configuration(json.dumps({"features": _features_for(x, settings)} | parts), settings)


def template_of(body: bytes | bytearray | str, settings: Settings) -> str | None:
    """Return the configuration of a new model without features, as JSON. The first examples determine the features.

    Return None for a body with features, or with a picture, which needs features. Raise Invalid for invalid parts.
    """
    try:
        facts = from_json(body)
        template = json.dumps(facts, sort_keys=True)
    except ValueError:
        return None
    if not isinstance(facts, dict) or "features" in facts:
        return None
    if isinstance(show := facts.get("show"), dict) and show.get("image") is not None:
        return None
    default_configuration(template, STAND_IN, settings)
    return template


def _features_for(x: Any, settings: Settings) -> dict[str, Any]:
    if isinstance(x, str):
        return {"type": "text"}
    if not isinstance(x, dict):  # checked later
        return {"type": "dense", "dim": max(1, len(x)) if isinstance(x, list) else 1}
    if x.keys() & {"indices", "values"}:
        return {"type": "sparse", "dim": min(DIM_SPARSE, settings.dim_max)}
    return {"type": "named"}
