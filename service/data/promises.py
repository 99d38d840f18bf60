"""The parts `promise`, `alarm` and `novelty` of a configuration: how often an answer or an alarm may be wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from hinged.service.data.problems import refusal, shown

ERROR_MIN, ERROR_MAX = 0.001, 0.5
"""The least and the largest rate that can be promised. The thresholds remember about 1,000 scores, too
few for a smaller rate.
"""
PROMISED_MAX = 32  # maximum number of classes with a rate of their own: each has 12 KB of counts
LEVEL_MIN, LEVEL_MAX = 1e-6, 0.5  # of an alarm
NOVEL_MIN, NOVEL_MAX, NOVEL = 0.002, 0.5, 0.01
"""The least and the largest level of novelty, and its default. The least p-value is 1/513."""


def _rate(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not ERROR_MIN <= value <= ERROR_MAX:
        raise refusal("promise", f"{name} must be a rate from {ERROR_MIN} to {ERROR_MAX}, got {shown(value)}")
    return float(value)


def _checked_promise(value: Any) -> Any:
    """Return a promise: how often the set of labels in an answer may miss the true label.

    `error` is one rate for all examples, or a rate for each class, named as in `scores`. Raise an error for anything
    else.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"error"}:
        raise refusal("promise", 'promise must be an object with one part, such as {"error": 0.05}')
    error = value["error"]
    if not isinstance(error, dict):
        return {"error": _rate("error", error)}
    if not 0 < len(error) <= PROMISED_MAX:
        raise refusal("promise", f"error must be a rate, or an object with the rates of 1 to {PROMISED_MAX} classes")
    return {"error": {name: _rate(f"error of {shown(name)}", rate) for name, rate in error.items()}}


PromisePart = Annotated[dict[Literal["error"], float | dict[str, float]] | None, BeforeValidator(_checked_promise)]


def _checked_alarm(value: Any) -> Any:
    """Return an alarm: the probability that a stream without a change ever causes an alarm. Raise an error for anything
    else.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"level"}:
        raise refusal("alarm", 'alarm must be an object with one part, such as {"level": 0.01}')
    level = value["level"]
    if isinstance(level, bool) or not isinstance(level, int | float) or not LEVEL_MIN <= level <= LEVEL_MAX:
        raise refusal("alarm", f"level must be a probability from {LEVEL_MIN:g} to {LEVEL_MAX}, got {shown(level)}")
    return {"level": float(level)}


def _checked_novelty(value: Any) -> Any:
    """Return the level at which an x is novel: the share of usual x that may count as novel. True means the default.
    Raise an error for anything else.
    """
    if value is None or value is False:
        return None
    given = {"level": NOVEL} if value is True else value
    level = given["level"] if isinstance(given, dict) and given.keys() == {"level"} else None
    if isinstance(level, bool) or not isinstance(level, int | float) or not NOVEL_MIN <= level <= NOVEL_MAX:
        allowed = f"true, false, or an object with a level from {NOVEL_MIN} to {NOVEL_MAX}"
        raise refusal("novelty", f'novelty must be {allowed}, such as {{"level": {NOVEL}}}')
    return {"level": float(level)}


NoveltyPart = Annotated[
    dict[Literal["level"], float] | None,
    BeforeValidator(_checked_novelty, json_schema_input_type=bool | dict[Literal["level"], float] | None),
]
AlarmPart = Annotated[dict[Literal["level"], float] | None, BeforeValidator(_checked_alarm)]
