"""The part `explore` of a configuration: how often a decision is not taken, so that its label comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator

from hinged.service.data.costs import ASK
from hinged.service.data.problems import refusal, shown
from hinged.service.errors import Invalid

LEAST_SHARE = 0.001  # a label then weighs 1,000
EXPLORED_MAX = 8  # maximum number of decisions with a share

_refused = partial(refusal, "explore")


def _checked(value: Any) -> Any:
    """Return the shares by decision. Raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict) or not value or len(value) > EXPLORED_MAX:
        example = '{"fraud": 0.02}'
        raise _refused(f"explore must be an object of 1 to {EXPLORED_MAX} classes and shares, such as {example}")
    for name, share in value.items():
        is_number = isinstance(share, int | float) and not isinstance(share, bool)
        if not is_number or not LEAST_SHARE <= share <= 1:
            raise _refused(f"{shown(name)} must be a share from {LEAST_SHARE} to 1")
    return {name: float(share) for name, share in value.items()}


ExplorePart = Annotated[dict[str, float] | None, BeforeValidator(_checked)]


def check_explore(
    explore: Mapping[str, float],
    costs: Mapping[str, Any] | None,
    limited: Collection[str],
    classes: Sequence[str] | None,
    *,
    weighs: bool,
) -> None:
    """Raise Invalid if the shares do not fit the costs, the capacity, the names of the declared classes, or the solver.

    limited: the decisions with a capacity. weighs: whether the solver takes weights of examples.
    """
    if costs is None:
        raise Invalid("explore needs costs, got none; set both, or neither")
    if ASK in explore:
        raise Invalid(f'explore takes classes, got "{ASK}": the label of a question comes in any case')
    if both := sorted(explore.keys() & set(limited)):
        raise Invalid(
            f"{both[0][:80]!r} must have a share in explore or a capacity, got both; labels of refused "
            "decisions come in any case"
        )
    if classes is not None and not set(classes) - explore.keys():
        raise Invalid("explore must leave at least one class without a share, got a share for each class")
    if not weighs:
        raise Invalid("explore weighs labels, but bsca with extra_steps > 0 takes no weights; set extra_steps to 0")
