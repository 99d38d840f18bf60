"""The part `capacity` of a configuration: how often decisions may be taken.

A capacity is given by decision: "ask", or a class, named as in `scores`. Each has a number `most` and a period `per`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from hinged.service.data.costs import ASK
from hinged.service.data.problems import refusal, shown
from hinged.service.errors import Invalid

LIMITED_MAX = 8  # maximum number of decisions with a capacity: each has 18 KB of counts
MOST_MAX = 1_000_000  # maximum number of decisions in a period
PER_S_MAX = 366 * 86_400  # maximum length of a period in seconds
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PER = re.compile(r"([1-9][0-9]{0,7})([smhd])")

_refused = partial(refusal, "capacity")


class DecisionLimit(TypedDict):
    """How often a decision may be taken."""

    most: Annotated[int, Field(description="maximum number of decisions in a period")]
    per: Annotated[str, Field(description="length of the period, such as 1d, 8h, 30m or 10s")]


LIMIT_SCHEMA = TypeAdapter(DecisionLimit).json_schema()


def milliseconds_of(per: str) -> int:
    """Return the length of a period that was checked, such as "1d"."""
    return 1000 * int(per[:-1]) * _SECONDS[per[-1]]


def _limit(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != {"most", "per"}:
        raise _refused(f'{name} must be an object such as {{"most": 40, "per": "1d"}}')
    most, per = value["most"], value["per"]
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_MAX:
        raise _refused(f"{name}: most must be a whole number from 1 to {MOST_MAX}")
    known = _PER.fullmatch(per) if isinstance(per, str) else None
    if known is None or milliseconds_of(per) > 1000 * PER_S_MAX:
        allowed = 'a whole number of "s", "m", "h" or "d" of at most 366 days, such as "1d"'
        raise _refused(f"{name}: per must be {allowed}")
    return {"most": most, "per": per}


def _checked(value: Any) -> Any:
    """Return the limits by decision. Raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict) or not value:
        example = '{"ask": {"most": 40, "per": "1d"}}'
        raise _refused(f"capacity must be an object of decisions, such as {example}")
    if len(value) > LIMITED_MAX:
        raise _refused(f"capacity must limit at most {LIMITED_MAX} decisions, got {len(value)}")
    return {name: _limit(shown(name), limit) for name, limit in value.items()}


CapacityPart = Annotated[dict[str, DecisionLimit] | None, BeforeValidator(_checked)]


def check_capacity(capacity: Mapping[str, Any], costs: Mapping[str, Any] | None, classes: Sequence[str] | None) -> None:
    """Raise Invalid if a capacity does not fit the costs or the names of the declared classes."""
    if costs is None:
        raise Invalid("capacity needs costs, got none; set both, or neither")
    if ASK in capacity and ASK not in costs:
        raise Invalid(f'capacity limits "{ASK}", but the costs have no "{ASK}"')
    if classes is not None and not set(classes) - capacity.keys():
        raise Invalid("capacity must leave at least one class without a limit, got a limit for each class")
