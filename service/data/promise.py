"""The part `promise` of a configuration: how often the set of labels in an answer may miss the true label.

`error` is one rate for all examples, or a rate for each class, named as in `scores`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hinged.service.data.problems import refusal, shown

ERROR_MIN, ERROR_MAX = 0.001, 0.5
"""The least and the largest rate that can be promised. The thresholds remember about 1,000 scores, too
few for a smaller rate.
"""
PROMISED_MAX = 32  # maximum number of classes with a rate of their own: each has 12 KB of counts


_refused = partial(refusal, "promise")


def _rate(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not ERROR_MIN <= value <= ERROR_MAX:
        raise _refused(f"{name} must be a rate from {ERROR_MIN} to {ERROR_MAX}, got {shown(value)}")
    return float(value)


def _checked(value: Any) -> Any:
    """Return a promise. Raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"error"}:
        raise _refused('promise must be an object with one part, such as {"error": 0.05}')
    error = value["error"]
    if not isinstance(error, dict):
        return {"error": _rate("error", error)}
    if not 0 < len(error) <= PROMISED_MAX:
        raise _refused(f"error must be a rate, or an object with the rates of 1 to {PROMISED_MAX} classes")
    return {"error": {name: _rate(f"error of {shown(name)}", rate) for name, rate in error.items()}}


PromisePart = Annotated[dict[Literal["error"], float | dict[str, float]] | None, BeforeValidator(_checked)]
