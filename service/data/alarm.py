"""The part `alarm` of a configuration: the probability that a stream without a change ever causes an alarm."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hinged.service.data.problems import refusal, shown

LEVEL_MIN, LEVEL_MAX = 1e-6, 0.5
_refused = partial(refusal, "alarm")


def _checked(value: Any) -> Any:
    """Return an alarm. Raise an error for anything else."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"level"}:
        raise _refused(f'alarm must be an object with one part, such as {{"level": 0.01}}, got {shown(value)}')
    level = value["level"]
    if isinstance(level, bool) or not isinstance(level, int | float) or not LEVEL_MIN <= level <= LEVEL_MAX:
        raise _refused(f"level must be a probability from {LEVEL_MIN:g} to {LEVEL_MAX}, got {shown(level)}")
    return {"level": float(level)}


AlarmPart = Annotated[dict[Literal["level"], float] | None, BeforeValidator(_checked)]
