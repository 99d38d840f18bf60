"""The parameters of the solvers. A solver's `__init__` declares the type, bounds, meaning and default of each.

    def __init__(self, kernel, dim, *, budget: Annotated[int, Ge(2), "points, at most"] = 500, **shared): ...

`declared` reads these annotations. A model's configuration, the checks of the estimators and the table in
docs/reference/solvers.md follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from inspect import signature
from numbers import Integral, Real
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Le, Lt


@dataclass(frozen=True, slots=True)
class Since:
    """A parameter was added later: models created before it go on as with the value `without`."""

    without: Any


class Unserved:
    """Marks a parameter of the solver alone: a model's configuration does not have it."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A test of a value, and what it allows in words."""

    fits: Callable[[Any], bool]
    allowed: str

    def __or__(self, other: Constraint) -> Constraint:
        """A value passes if either constraint allows it."""
        return Constraint(lambda value: self.fits(value) or other.fits(value), f"{self.allowed} or {other.allowed}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as a solver declares it.

    annotation: the type with its bounds, which pydantic reads as well. since: for a parameter that was added later, the
    value that models created before it use.
    """

    name: str
    annotation: Any
    default: Any
    meaning: str
    rule: Constraint
    since: Since | None
    is_served: bool


def number(
    *, above: float = -math.inf, least: float = -math.inf, below: float = math.inf, most: float = math.inf
) -> Constraint:
    """A finite number within bounds; `above` and `below` themselves are not allowed."""
    bounds = [
        *([f"> {above:g}"] if above > -math.inf else []),
        *([f">= {least:g}"] if least > -math.inf else []),
        *([f"< {below:g}"] if below < math.inf else []),
        *([f"<= {most:g}"] if most < math.inf else []),
    ]

    def fits(value: Any) -> bool:
        return _is(Real, value) and _is_finite(value) and above < value < below and least <= value <= most

    return Constraint(fits, " ".join(["a number", " and ".join(bounds)]).strip())


def integer(least: int, most: int | None = None) -> Constraint:
    """A whole number within bounds, both included."""

    def fits(value: Any) -> bool:
        return _is(Integral, value) and value >= least and (most is None or value <= most)

    return Constraint(fits, f"an integer >= {least}" if most is None else f"an integer from {least} to {most}")


def one_of(*allowed: Any) -> Constraint:
    """One of a few values."""
    names = ", ".join(map(str, allowed))
    words = f"one of {names}" if len(allowed) > 1 else repr(allowed[0])
    return Constraint(lambda value: any(_alike(value, each) for each in allowed), words)


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # the integer is too large for a float
        return False


def _alike(value: Any, allowed: Any) -> bool:
    """Whether the value equals an allowed value, in Python's type or in NumPy's."""
    if allowed is None:
        return value is None
    kind = str if isinstance(allowed, str) else Integral
    return _is(kind, value) and bool(value == allowed)


NONE = one_of(None)
FLAG = Constraint(lambda value: isinstance(value, bool | np.bool_), "True or False")


def check(values: Mapping[str, Any], rules: Mapping[str, Constraint]) -> None:
    """Refuse the first value that its rule does not allow. Names without a rule may have any value."""
    for name, value in values.items():
        rule = rules.get(name)
        if rule is not None and not rule.fits(value):
            raise ValueError(f"{name} must be {rule.allowed}, got {value!r}")


@cache
def declared(make: type) -> Mapping[str, Parameter]:
    """The parameters that a class and its base classes declare, the most general first."""
    found: dict[str, Parameter] = {}
    for kind in reversed(make.__mro__):
        init = vars(kind).get("__init__")
        if init is None or kind is object:
            continue
        hints = get_type_hints(init, include_extras=True)
        for name, given in signature(init).parameters.items():
            if get_origin(hints.get(name)) is Annotated:
                found[name] = _read(name, hints[name], given.default)
    return found


@cache
def rules_of(make: type) -> Mapping[str, Constraint]:
    """The rule of each parameter of a class."""
    return {name: parameter.rule for name, parameter in declared(make).items()}


def _read(name: str, annotation: Any, default: Any) -> Parameter:
    kind, *said = get_args(annotation)
    meaning = " ".join(each for each in said if isinstance(each, str))
    since = next((each for each in said if isinstance(each, Since)), None)
    return Parameter(name, annotation, default, meaning, _rule(kind, said), since, Unserved not in said)


def rule_of(annotation: Any) -> Constraint:
    """The rule of an annotated type with bounds."""
    kind, *said = get_args(annotation)
    return _rule(kind, said)


def _rule(kind: Any, said: list[Any]) -> Constraint:
    """The rule of a type and its bounds."""
    if get_origin(kind) in (Union, UnionType):
        parts = sorted(get_args(kind), key=lambda part: part is not NoneType)
        return reduce(or_, (_rule(part, said) for part in parts))
    if kind is NoneType:
        return NONE
    if kind is bool:
        return FLAG
    if get_origin(kind) is Literal:
        return one_of(*get_args(kind))
    above, least = _bound(said, Gt, "gt"), _bound(said, Ge, "ge")
    below, most = _bound(said, Lt, "lt"), _bound(said, Le, "le")
    if kind is int:
        lowest = least if least is not None else above + 1
        highest = most if most is not None else None if below is None else below - 1
        return integer(lowest, highest)
    assert kind is float, kind  # noqa: S101  no other type is declared
    bounds = {"above": above, "least": least, "below": below, "most": most}
    return number(**{side: bound for side, bound in bounds.items() if bound is not None})


def _bound(said: list[Any], kind: type, side: str) -> Any:
    return next((getattr(each, side) for each in said if isinstance(each, kind)), None)
