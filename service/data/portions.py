"""Read a long body of examples in slices. The examples come in portions, and each portion is a body of its own.

In this way, the same functions check long and short bodies. An error names the place of the first wrong example in the
whole body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from hinged.service.data.examples import Body
from hinged.service.data.features.base import Features
from hinged.service.data.parts import Configuration
from hinged.service.data.problems import first_problem, shown
from hinged.service.data.slices import Slices, at_once
from hinged.service.data.trees import SMALL_BYTES, Long, tree
from hinged.service.errors import Invalid
from hinged.service.settings import Settings

Parsed = TypeVar("Parsed")

PORTION = 50
"""Number of examples of a parsed frame that are checked in one step. For 1 MiB, a step takes a few milliseconds."""
PARTS_MAX = 100
"""Maximum number of parts in an example, or in a row of numbers. A valid example has fewer parts. A problem may be
reported for each part, so the limit also bounds the time of a report.
"""
ELEMENTS_MAX = 2**16
"""Maximum number of elements in a long array for which there is no other limit."""
LISTED = 5
"""Number of elements of other lists that are checked in one step. Each element may be as long as a window
(trees.py).
"""
OF_LIST = re.compile(r"^\[(\d+)\]")
PLACE = re.compile(r"examples\[(\d+)\]")


def is_long(body: Body) -> bool:
    """Return whether a body is read and checked in slices."""
    return isinstance(body, Long) or (not isinstance(body, dict) and len(body) > SMALL_BYTES)


def limits_of(configuration: Configuration | None, settings: Settings) -> Mapping[str, int]:
    """Return the maximum lengths of the arrays of examples. configuration: None if the model will be made from the
    examples.
    """
    dim = settings.dim_max
    if configuration is not None:
        dim = configuration.features.dim if configuration.features.IN_ROWS else 0
    return {"": ELEMENTS_MAX, "examples": settings.batch_examples_max, "x": dim, "indices": dim, "values": dim}


def parse_portions(
    body: Body,
    configuration: Configuration,
    settings: Settings,
    parse: Callable[[Body, int, Features], Parsed],
    take: Callable[[Body, Parsed], Slices[None]],
) -> Slices[Parsed]:
    """Parse a short body at once, or a long body in portions, and call `take` with each portion and what was parsed
    from it. Return what was parsed last: it has all parts of the body beside the examples. Raise Invalid.
    """
    most, features = settings.batch_examples_max, configuration.features
    last: list[Parsed] = []

    def work(portion: Body) -> Slices[None]:
        last[:] = [parse(portion, most, features)]
        yield from take(portion, last[0])

    if not is_long(body):
        at_once(work(body))
        return last[0]
    in_rows = features.IN_ROWS
    first: list[Any] = []
    told: Any

    def work_on(begin: int, examples: list[Any]) -> Slices[None]:
        if not begin:
            if first:
                raise Invalid("examples is given twice")
            first.append(examples[0])
        with standing_at(begin):
            for index, example in enumerate(examples):
                if type(example) is dict and (len(example) > PARTS_MAX or type(example.get("x")) is dict):
                    _check_example(example, f"examples[{index}]", in_rows=in_rows)
            yield from work({"examples": examples})

    if isinstance(body, dict):
        told = dict(body)
        examples = told.get("examples")
        if isinstance(examples, list) and examples:
            told["examples"] = []
            if len(examples) > settings.batch_examples_max:
                raise Invalid(f"examples must be 1 to {settings.batch_examples_max}, got {len(examples)}")
            for begin in range(0, len(examples), PORTION):
                yield from work_on(begin, examples[begin : begin + PORTION])
                yield
    else:
        told = yield from tree(body, limits_of(configuration, settings), {"examples": work_on})
    if not isinstance(told, dict):
        raise Invalid(f"body must be an object, got {shown(told)}")
    _check_example(told, "", in_rows=in_rows)
    yield
    if not first:
        yield from work(told)
    elif told["examples"]:
        raise Invalid("examples is given twice")
    elif len(told) > 1:  # other parts may follow the examples in the body
        return parse({**told, "examples": first}, most, features)
    return last[0]


def _check_example(example: Any, place: str, *, in_rows: bool) -> None:
    """Refuse an example with so many parts that reporting a problem for each part would take long."""
    if type(example) is not dict:
        return
    _check_parts(example, place or "body")
    if in_rows:
        _check_parts(example.get("x"), f"{place}.x".lstrip("."))


def _check_parts(value: Any, place: str) -> None:
    if type(value) is dict and len(value) > PARTS_MAX:
        raise Invalid(f"{place}: at most {PARTS_MAX} parts are allowed, got {len(value)}")


@contextmanager
def standing_at(begin: int) -> Iterator[None]:
    """Correct the places in errors about a portion, so that the places refer to the whole body. The portion starts at
    index `begin` of that body.
    """
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
    """Check the long lists of a body in slices. Return the body without these lists, and the lists. Raise Invalid."""
    found: dict[str, list[Any]] = {}
    for name, adapter in lists.items():
        given = told.get(name)
        if not isinstance(given, list):
            continue
        checked: list[Any] = []
        for begin in range(0, len(given), LISTED):
            checked += checked_list(given[begin : begin + LISTED], name, begin, adapter)
            yield
        found[name] = checked
    return {**told, **{name: [] for name in found}}, found


def checked_list(given: list[Any], name: str, begin: int, adapter: TypeAdapter[Any]) -> list[Any]:
    """Check some elements of a list, and return them. begin: the index of the first element. Raise Invalid."""
    try:
        return adapter.validate_python(given)  # type: ignore[no-any-return]
    except ValidationError as error:
        problem = first_problem(error, adapter)
        message = OF_LIST.sub(lambda place: f"[{int(place[1]) + begin}]", problem, count=1)
        raise Invalid(f"{name}{message}") from None
