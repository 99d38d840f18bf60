"""Records: the named form of x, {"age": 39, "workclass": "State-gov", "member": true, "note": null}.

In canonical form names ascend, nulls are left out, and a whole number is an int if a float64 holds it exactly; any
other number is a float. Equal records have equal JSON, however they were spelled: names in any order, null or absent, 1
or 1.0 or 1e0. true, 1, "1" and "true" are four values. Numbers are float64; further digits are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from hinged.service.data.problems import shown
from hinged.solvers.estimators.scaling import LARGEST

Record: TypeAlias = dict[str, float | int | str | bool]
TEXT = "text"
"""The only name in the record of an x that is a text."""

FIELDS_MAX = 1000
NAME_CHARS_MAX = 200
STRING_CHARS_MAX = 1000
TEXT_CHARS_MAX = 50_000  # of a name that is declared to hold texts; no kind of column allows more
NUMBER_MAX = LARGEST
SCALE_MAX = 1.001 * NUMBER_MAX  # a deviation is no larger than the numbers, up to rounding
EXACT_MAX = 2**53  # whole numbers up to here are exact floats


def canonical(x: Any, chars_max: int = STRING_CHARS_MAX) -> Record:
    """Return an x off the wire in canonical form. PydanticCustomError names the first problem.

    chars_max: of a string.
    """
    if not isinstance(x, dict):
        raise _wrong("x must be an object of names and values", x)
    if len(x) > FIELDS_MAX:
        raise _wrong(f"x must have at most {FIELDS_MAX} names", len(x))
    record: Record = {}
    for name in sorted(x):
        value = x[name]
        kind = type(value)
        if kind is str:
            if len(value) > chars_max:
                raise too_long(name, value, chars_max)
        elif kind is float or kind is int:
            if not -NUMBER_MAX <= value <= NUMBER_MAX:  # refuses NaN too
                raise _wrong(
                    f"{name[:80]!r}: a number must be finite and at most {NUMBER_MAX:g} from 0", float_of(value)
                )
            value = float(value)
            if value.is_integer() and abs(value) <= EXACT_MAX:
                value = int(value)
        elif value is None:
            continue
        elif kind is not bool:
            raise _wrong(f"{name[:80]!r}: a value must be a number, a string, a boolean or null", value)
        if len(name) > NAME_CHARS_MAX:
            raise _wrong(f"a name must have at most {NAME_CHARS_MAX} characters", len(name))
        record[name] = value
    return record


def text_record(x: Any) -> Record:
    """Return a text off the wire as a record. PydanticCustomError if it is not a text."""
    if type(x) is not str:
        raise _wrong("x must be a text", x)
    if len(x) > TEXT_CHARS_MAX:
        raise _wrong(f"a text must have at most {TEXT_CHARS_MAX} characters", len(x))
    return {TEXT: x}


def too_long(name: str, value: str, most: int) -> PydanticCustomError:
    """Return the error for a string that is too long."""
    return _wrong(f"{name[:80]!r}: a string must have at most {most} characters", len(value))


def float_of(value: float) -> float:
    """Return the number as a float, infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _wrong(reason: str, got: Any) -> PydanticCustomError:
    return PydanticCustomError("record", "{reason}, got {got}", {"reason": reason, "got": shown(got)})


RecordX = Annotated[
    Record,
    PlainValidator(partial(canonical, chars_max=TEXT_CHARS_MAX)),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": FIELDS_MAX,
            "additionalProperties": {
                "anyOf": [
                    {"type": "number", "minimum": -NUMBER_MAX, "maximum": NUMBER_MAX},
                    {"type": "string", "maxLength": TEXT_CHARS_MAX},
                    {"type": "boolean"},
                    {"type": "null"},
                ]
            },
        }
    ),
]
"""A record as a part of a body: checked and brought to canonical form while the body is parsed.

The configuration says how long a string of each name may be; named.py checks it."""

TextX = Annotated[Record, PlainValidator(text_record), WithJsonSchema({"type": "string", "maxLength": TEXT_CHARS_MAX})]
"""A text as a part of a body, as a record."""


def pack_records(records: Sequence[Record]) -> dict[str, Any]:
    """Return records as JSON that lists each set of names once, for events and snapshots.

    names: the sets of names that occur. rows: for each record the number of its set, then its values.
    """
    numbers: dict[tuple[str, ...], int] = {}
    rows = [[numbers.setdefault(tuple(record), len(numbers)), *record.values()] for record in records]
    return {"names": [list(names) for names in numbers], "rows": rows}


def unpack_records(packed: dict[str, Any]) -> list[Record]:
    """Return the records that `pack_records` packed. ValueError if it could not have packed them."""
    try:
        names = packed["names"]
        records = [dict(zip(names[row[0]], row[1:], strict=True)) for row in packed["rows"]]
        if any(canonical(record, TEXT_CHARS_MAX) != record for record in records):
            raise ValueError("a record is not in canonical form")
    except (KeyError, IndexError, TypeError, AttributeError, PydanticCustomError) as error:
        raise ValueError(f"these are not packed records: {error!r}") from None
    return records
