"""Records: the named form of x, {"age": 39, "workclass": "State-gov", "member": true, "note": null}.

In canonical form names ascend, nulls are left out, and a whole number is an int where a float64 holds it exactly, any
other number a float. Equal records have equal JSON, whatever way they were spelled: in any order of names, null or
absent, 1 or 1.0 or 1e0. true, 1, "1" and "true" are four values. Numbers are float64: digits beyond are lost.
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
"""The one name in the record of an x that is a text."""

FIELDS_MAX = 1000
NAME_CHARS_MAX = 200
STRING_CHARS_MAX = 1000
TEXT_CHARS_MAX = 50_000  # of a name that is declared to hold texts; no kind of column takes more
NUMBER_MAX = LARGEST
SCALE_MAX = 1.001 * NUMBER_MAX  # a deviation is no larger than the numbers, but for rounding
EXACT_MAX = 2**53  # whole numbers to here are floats too


def canonical(x: Any, chars_max: int = STRING_CHARS_MAX) -> Record:
    """An x off the wire in canonical form. PydanticCustomError tells the first thing that is wrong.

    chars_max: of a string.
    """
    if not isinstance(x, dict):
        raise _wrong("x is an object of names and values", x)
    if len(x) > FIELDS_MAX:
        raise _wrong(f"x has at most {FIELDS_MAX} names", len(x))
    record: Record = {}
    for name in sorted(x):
        value = x[name]
        kind = type(value)
        if kind is str:
            if len(value) > chars_max:
                raise too_long(name, value, chars_max)
        elif kind is float or kind is int:
            if not -NUMBER_MAX <= value <= NUMBER_MAX:  # refuses NaN too
                raise _wrong(f"{name[:80]!r}: a number is finite and at most {NUMBER_MAX:g} from 0", float_of(value))
            value = float(value)
            if value.is_integer() and abs(value) <= EXACT_MAX:
                value = int(value)
        elif value is None:
            continue
        elif kind is not bool:
            raise _wrong(f"{name[:80]!r}: a value is a number, a string, a boolean or null", value)
        if len(name) > NAME_CHARS_MAX:
            raise _wrong(f"a name has at most {NAME_CHARS_MAX} characters", len(name))
        record[name] = value
    return record


def text_record(x: Any) -> Record:
    """A text off the wire as a record. PydanticCustomError where it is none."""
    if type(x) is not str:
        raise _wrong("x is a text", x)
    if len(x) > TEXT_CHARS_MAX:
        raise _wrong(f"a text has at most {TEXT_CHARS_MAX} characters", len(x))
    return {TEXT: x}


def too_long(name: str, value: str, most: int) -> PydanticCustomError:
    """What is wrong with a string of more than so many characters."""
    return _wrong(f"{name[:80]!r}: a string has at most {most} characters", len(value))


def float_of(value: float) -> float:
    """The number as a float, infinite where it is too large."""
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

How long a string of each name may be the configuration says; named.py looks.
"""

TextX = Annotated[Record, PlainValidator(text_record), WithJsonSchema({"type": "string", "maxLength": TEXT_CHARS_MAX})]
"""The same of a text."""


def pack_records(records: Sequence[Record]) -> dict[str, Any]:
    """Records as JSON that names each set of names once, for events and snapshots.

    names: the sets of names that occur. rows: of each record the number of its set, then its values.
    """
    numbers: dict[tuple[str, ...], int] = {}
    rows = [[numbers.setdefault(tuple(record), len(numbers)), *record.values()] for record in records]
    return {"names": [list(names) for names in numbers], "rows": rows}


def unpack_records(packed: dict[str, Any]) -> list[Record]:
    """The records of `pack_records`, as they were. ValueError if it is none of its results."""
    try:
        names = packed["names"]
        records = [dict(zip(names[row[0]], row[1:], strict=True)) for row in packed["rows"]]
        if any(canonical(record, TEXT_CHARS_MAX) != record for record in records):
            raise ValueError("a record is not in canonical form")
    except (KeyError, IndexError, TypeError, AttributeError, PydanticCustomError) as error:
        raise ValueError(f"these are no packed records: {error!r}") from None
    return records
