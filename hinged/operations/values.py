"""Values as JSON has them: what Python, NumPy and pandas have for numbers, moments and what is missing."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

NO_VALUES = frozenset({"NaTType", "NAType"})
"""Types of pandas for what is missing."""


Examples = Iterable[Mapping[str, Any]] | Mapping[str, Any]
"""Several, or one."""


class ModelFile(Protocol):
    """A fitted estimator of hinged.sklearn: what can become a model of a server."""

    def to_model_file(self) -> bytes:
        """The bytes of a file that a server imports."""


def several(examples: Examples) -> Iterable[Mapping[str, Any]]:
    """Examples, also where one was given alone."""
    return [examples] if isinstance(examples, Mapping) else examples


def plain(examples: Examples) -> list[dict[str, Any]]:
    """Examples as JSON has them."""
    return [dict(example) for example in several(examples)]


def with_ids(examples: Examples) -> list[dict[str, Any]]:
    """Examples to learn."""
    return [with_id(example) for example in several(examples)]


def with_id(example: Mapping[str, Any]) -> dict[str, Any]:
    """An example to learn with an id, so that it may be sent again."""
    # Without an x the id is what tells the example: there is none to invent.
    if example.get("id") is None and "x" in example:
        return {**example, "id": uuid.uuid4().hex}
    return dict(example)


def given(**parts: Any) -> dict[str, Any]:
    """Those parts of a body that are not left to the server's default."""
    return {name: value for name, value in parts.items() if value is not None}


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON; in an object NaN and the like are null. ValueError and TypeError name the place."""
    try:
        text = json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):  # few bodies need to be looked at piece by piece
        text = json.dumps(_clean(body, ""), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _plain(value: Any) -> Any:
    """What JSON has for a value of another type. TypeError where there is nothing."""
    kind = type(value).__name__
    if kind in NO_VALUES:
        return None
    if kind == "datetime64":
        return None if str(value) == "NaT" else str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "__float__"):  # Decimal, Fraction
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{kind} is no JSON value and has no tolist()")


def _clean(value: Any, place: str, *, named: bool = False) -> Any:
    """The same with all that JSON lacks replaced; named: it is a part of an object, which may lack it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        if math.isnan(value) and named:
            return None
        hint = "; in an object of named features it would be missing" if math.isnan(value) else ""
        raise ValueError(f"{place} must be a finite number, got {value}{hint}")
    if isinstance(value, Mapping):
        inside = place.endswith(".x")
        return {str(k): _clean(part, f"{place}.{k}".lstrip("."), named=inside) for k, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part, f"{place}[{k}]") for k, part in enumerate(value)]
    try:
        plain = _plain(value)
    except TypeError as error:
        raise TypeError(f"{place}: {error}") from None
    return _clean(plain, place, named=named)
