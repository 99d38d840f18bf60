"""A long body of examples, read in slices: first as a tree, then its examples in portions, each as a body of its own.

So a long body is checked by the very functions that check a short one, and a client learns of the first example that
is wrong in which place it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hinged.service.data.examples import Body
from hinged.service.data.parts import Configuration, Features
from hinged.service.data.problems import first_problem, shown
from hinged.service.data.slices import Slices
from hinged.service.data.trees import SMALL_BYTES, tree
from hinged.service.errors import Invalid
from hinged.service.settings import Settings

PORTION = 8_000
"""Numbers, names and examples that are checked at once: 1 to 3 ms, as long as others wait meanwhile."""
EXAMPLE_PARTS = 20
"""What an example counts for beside its numbers, so that a portion has at most 400 small ones."""
PARTS_MAX = 100
"""Of an example, or of a row of numbers: far more than there are, and so few that each may be complained of."""
ELEMENTS_MAX = 2**16
"""Of a long array of which nothing else is known."""
LISTED = 5
"""Elements of another list that are checked at once. Each may be a window long (trees.py)."""
OF_LIST = re.compile(r"^\[(\d+)\]")
PLACE = re.compile(r"examples\[(\d+)\]")


class Long(dict[str, Any]):
    """What a long body says, read in slices: it is checked in slices, too."""


def is_long(body: Body) -> bool:
    """Whether a body is read and checked in slices."""
    return isinstance(body, Long) or (isinstance(body, bytes) and len(body) > SMALL_BYTES)


def long_body(body: bytes, most: Mapping[str, int]) -> Slices[Any]:
    """What a long body says. most: as in trees.py."""
    told = yield from tree(body, most)
    return Long(told) if isinstance(told, dict) else told


def limits_of(configuration: Configuration | None, settings: Settings) -> Mapping[str, int]:
    """How long the arrays of examples may be; no configuration: of a model that is to be made of them."""
    dim = settings.dim_max
    if configuration is not None:
        dim = configuration.features.dim if isinstance(configuration.features, Features) else 0
    return {"": ELEMENTS_MAX, "examples": settings.batch_examples_max, "x": dim, "indices": dim, "values": dim}


def portions(
    body: Body, configuration: Configuration | None, settings: Settings
) -> Slices[list[tuple[int, dict[str, Any]]]]:
    """Bodies that together have the examples of a long one, and the place of the first of each. Invalid.

    configuration: of the model; None of one that is to be made.
    """
    named = configuration is not None and not isinstance(configuration.features, Features)
    told = (yield from long_body(body, limits_of(configuration, settings))) if isinstance(body, bytes) else body
    if not isinstance(told, dict):
        raise Invalid(f"body: an object is expected, got {shown(told)}")
    _check_parts(told, "body")
    examples = told.get("examples")
    if not isinstance(examples, list) or not examples:
        if not named:
            _check_parts(told.get("x"), "x")
        return [(0, told)]
    most = settings.batch_examples_max
    if len(examples) > most:
        raise Invalid(f"examples must be 1 to {most}, got {len(examples)}")
    found: list[tuple[int, dict[str, Any]]] = []
    begin = size = 0
    for end, example in enumerate(examples):
        more = EXAMPLE_PARTS + _size(example, end, named=named)
        if size + more > PORTION and end > begin:
            found.append((begin, {**told, "examples": examples[begin:end]}))
            begin, size = end, 0
            yield
        size += more
    found.append((begin, {**told, "examples": examples[begin:]}))
    return found


def _size(example: Any, index: int, *, named: bool) -> int:
    """About how many numbers and names an example has. Invalid for one of too many parts."""
    if type(example) is not dict:
        return 1
    if len(example) > PARTS_MAX:
        _check_parts(example, f"examples[{index}]")
    x = example.get("x")
    if type(x) is not dict:
        return len(x) if type(x) is list else 1
    if not named and len(x) > PARTS_MAX:
        _check_parts(x, f"examples[{index}].x")
    indices, values = x.get("indices"), x.get("values")
    return len(x) + sum(len(numbers) for numbers in (indices, values) if type(numbers) is list)


def _check_parts(value: Any, place: str) -> None:
    if isinstance(value, dict) and len(value) > PARTS_MAX:
        raise Invalid(f"{place}: at most {PARTS_MAX} parts are allowed, got {len(value)}")


@contextmanager
def standing_at(begin: int) -> Iterator[None]:
    """What is wrong with a portion is told of the body: its examples begin there."""
    try:
        yield
    except Invalid as error:
        if not begin:
            raise
        message = PLACE.sub(lambda place: f"examples[{int(place[1]) + begin}]", error.message, count=1)
        details: dict[str, Any] = {**error.details}
        if "index" in details:
            details["index"] += begin
        raise Invalid(message, **details) from None


def checked_lists(
    told: dict[str, Any], lists: Mapping[str, TypeAdapter[Any]]
) -> Slices[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """A body whose long lists were taken out, and these, checked in slices. Invalid."""
    found: dict[str, list[Any]] = {}
    for name, adapter in lists.items():
        given = told.get(name)
        if not isinstance(given, list):
            continue
        checked: list[Any] = []
        for begin in range(0, len(given), LISTED):
            try:
                checked += adapter.validate_python(given[begin : begin + LISTED])
            except ValidationError as error:
                problem = first_problem(error, adapter)
                message = OF_LIST.sub(lambda place: f"[{int(place[1]) + begin}]", problem, count=1)  # noqa: B023
                raise Invalid(f"{name}{message}") from None
            yield
        found[name] = checked
    return {**told, **{name: [] for name in found}}, found
