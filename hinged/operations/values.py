"""Convert numbers, times and missing values of Python, NumPy and pandas to JSON."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

NO_VALUES = frozenset({"NaTType", "NAType"})
"""pandas types that represent a missing value."""


Examples = Iterable[Mapping[str, Any]] | Mapping[str, Any]
"""Several examples, or a single example."""


class ModelFile(Protocol):
    """A fitted estimator of hinged.sklearn, which can become a model of a server."""

    def to_model_file(self) -> bytes:
        """Return the bytes of a file that a server imports."""


def several(examples: Examples) -> list[Mapping[str, Any]]:
    """Return examples as a list, even if a single example was given. Raise TypeError if one is no object."""
    found = [examples] if isinstance(examples, Mapping) else list(examples)
    for index, example in enumerate(found):
        if not isinstance(example, Mapping):
            raise TypeError(f'examples[{index}]: expected an object such as {{"x": [1, 2]}}, got {example!r:.60}')
    return found


def plain(examples: Examples) -> list[dict[str, Any]]:
    """Return examples as JSON objects."""
    return [dict(example) for example in several(examples)]


def with_ids(examples: Examples) -> list[dict[str, Any]]:
    """Return examples to learn, each with an id."""
    return [with_id(example) for example in several(examples)]


def with_id(example: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example to learn with an id. With an id, the example can safely be sent again."""
    # An example without an x already has an id, so no id is made up.
    if example.get("id") is None and "x" in example:
        return {**example, "id": uuid.uuid4().hex}
    return dict(example)


def given(**parts: Any) -> dict[str, Any]:
    """Return only those parts of a body that the caller gave."""
    return {name: value for name, value in parts.items() if value is not None}


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON. NaN and similar values in an object become null. ValueError and TypeError name the
    place.
    """
    try:
        text = json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):  # rare: the body is converted value by value only in this case
        text = json.dumps(_clean(body, ""), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _plain(value: Any) -> Any:
    """Return the JSON value of a value of another type. Raise TypeError if there is no such value."""
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
    raise TypeError(f"{kind} is not a JSON value and has no tolist()")


def _clean(value: Any, place: str, *, named: bool = False) -> Any:
    """Return the value with replacements for everything that JSON lacks. named: whether the value is a member of an
    object, and so may be missing.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        if math.isnan(value) and named:
            return None
        hint = "; in an object of named features it would count as missing" if math.isnan(value) else ""
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
