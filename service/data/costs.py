"""The part `costs` of a configuration: the costs of wrong decisions.

Costs are given by true class, then by decision, each named as in `scores`. The key "ask" has the cost of a person's
look instead of the costs of a class.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hinged.service.data.names import distinct_names
from hinged.service.data.problems import refusal, shown
from hinged.solvers.core.states import BOUND_MAX

ASK: Literal["ask"] = "ask"
"""The decision that a person should look at an example."""
COSTS_MAX = 1_024  # maximum number of costs in a configuration: each is a multiplication per decision
WATCHED_MAX = 8  # maximum number of watched classes: each has 25 KB of counts


_refused = partial(refusal, "costs")


def _cost(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < BOUND_MAX:
        raise _refused(f"{name} must be a cost from 0 to 1e15")
    return float(value)


def _checked(value: Any) -> Any:
    """Return costs by true class and decision. Raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict) or not value.keys() - {ASK}:
        raise _refused('costs must name the costs of at least one true class, such as {"fraud": {"ok": 50}, "ask": 2}')
    found: dict[str, Any] = {}
    for truth, row in value.items():
        if truth == ASK:
            found[ASK] = _cost('"ask"', row)
        elif isinstance(row, dict):
            found[truth] = {name: _cost(f"{shown(truth)}, {shown(name)}", cost) for name, cost in row.items()}
        else:
            raise _refused(f"{shown(truth)} must be an object of decisions and their costs")
    if sum(len(row) for row in found.values() if isinstance(row, dict)) > COSTS_MAX:
        raise _refused(f"at most {COSTS_MAX} costs are allowed")
    return found


CostsPart = Annotated[dict[str, float | dict[str, float]] | None, BeforeValidator(_checked)]
WatchPart = Annotated[tuple[str, ...] | None, BeforeValidator(distinct_names("watch", "classes", "fraud", WATCHED_MAX))]


def watched_of(costs: dict[str, Any] | None, watch: Iterable[str] | None) -> tuple[str, ...]:
    """Return the classes to watch: first the classes of `watch`, then the classes of `costs`, at most WATCHED_MAX."""
    names = dict.fromkeys([*(watch or ()), *(name for name in costs or () if name != ASK)])
    return tuple(names)[:WATCHED_MAX]
