"""Dates whose day or month comes first, such as 31.12.2025. The server reads only ISO 8601, such as 2025-12-31.

The page reads a file in the same way (service/page/static/dates.js).
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from hinged.readers.base import columns_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DAY_FIRST, MONTH_FIRST, TEXT = "day-first", "month-first", "text"
ORDERS = (DAY_FIRST, MONTH_FIRST)
CHOICES = (*ORDERS, TEXT)
"""The values of --dates. With "text", such dates stay texts."""

_CLOCK = r"([01]?[0-9]|2[0-3])(:[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?)"
_DATE = re.compile(rf"([0-9]{{1,2}})([./-])([0-9]{{1,2}})\2([1-9][0-9]{{3}})(?:(?:[Tt]|,? ){_CLOCK})?")


def iso(text: str, order: str) -> str | None:
    """Return a date, with or without a time, in ISO 8601. Return None if the text is no date in this order."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        return None
    first, second, year = int(found[1]), int(found[3]), int(found[4])
    day, month = (first, second) if order == DAY_FIRST else (second, first)
    try:
        date = dt.date(year, month, day).isoformat()
    except ValueError:
        return None
    return date if found[5] is None else f"{date}T{found[5]:0>2}{found[6]}"


def found_in(values: Mapping[str, Sequence[Any]], chosen: str | None) -> tuple[dict[str, str], str | None]:
    """Return the order in each column of dates, and a note for the user of the file.

    All columns of a file have the same order. It is certain if all values are dates in only one order, because a day is
    above 12. values: the values of each column that are not missing. chosen: a value of --dates, or None.
    """
    found = {name: orders for name, given in values.items() if (orders := orders_of(given))}
    if not found or chosen == TEXT:
        return {}, None
    certain = set.intersection(*found.values())
    if chosen is None and len(certain) != 1:
        both = f"--dates {DAY_FIRST} or --dates {MONTH_FIRST}"
        return {}, f"{columns_named(list(found))} read as texts, not as dates; {both} says which part is the day"
    order = chosen or certain.pop()
    read = {name: order for name, orders in found.items() if order in orders}
    if chosen is not None:
        return read, None
    first, other = ("day", MONTH_FIRST) if order == DAY_FIRST else ("month", DAY_FIRST)
    note = f"{columns_named(list(read))} read as dates with the {first} first"
    return read, f"{note}; --dates {other} or --dates {TEXT} reads them otherwise"


def orders_of(values: Sequence[Any]) -> set[str]:
    """Return the orders in which all values are dates. Without a value this is the empty set."""
    left = set(ORDERS if values else ())
    for value in values:
        left = {order for order in left if isinstance(value, str) and iso(value, order) is not None}
        if not left:
            break
    return left
