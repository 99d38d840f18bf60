"""Examples, labels and figures as text for a terminal. Users' data is printed without markup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hinged.commands.writing import printable
from hinged.readers.lines import is_sparse

# Maximum number of features of an example that people see.
DENSE_SHOWN = 64
SPARSE_SHOWN = 32
NAMED_SHOWN = 60
SHORT_CHARS = 60


def plain(text: str) -> Text:
    """Return text without markup and without control characters."""
    return Text(printable(text))


def shown_label(label: Any) -> str:
    """Return a label's name. A string stays as it is, unless it looks like another label."""
    if not isinstance(label, str):
        return json.dumps(label)
    return label if parsed_label(label) == label else json.dumps(label, ensure_ascii=False)


def parsed_label(text: str) -> Any:
    """Return the label that a person typed. An integer or a boolean is written as in JSON. Text in quotes, and
    everything else, is a string.
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | str) else text


def same_label(a: Any, b: Any) -> bool:
    """Return whether two labels are equal. true, 1 and "1" are three different labels."""
    return type(a) is type(b) and bool(a == b)


def shown_candidate(candidate: Mapping[str, Any]) -> RenderableType:
    """Render a candidate: its `show` if it has one, otherwise its x."""
    if "show" not in candidate:
        return shown_x(candidate["x"])
    show = candidate["show"]
    return shown_x(show) if isinstance(show, Mapping | str) else plain(json.dumps(show, ensure_ascii=False))


def short_candidate(candidate: Mapping[str, Any]) -> str:
    """Render a candidate in about one line."""
    show = candidate.get("show")
    if show is None or isinstance(show, str):
        return short_x(candidate["x"] if show is None else show)
    return shortened(json.dumps(show, ensure_ascii=False))


def shown_x(x: Any) -> RenderableType:
    """Render an example. Named features become a table, a text stays as it is, and numbers are written compactly."""
    if isinstance(x, str):
        return plain(x)
    if isinstance(x, dict) and not is_sparse(x):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, value in list(x.items())[:NAMED_SHOWN]:
            table.add_row(plain(name), plain(shown_value(value)))
        if len(x) > NAMED_SHOWN:
            table.add_row(f"... {len(x):,} features in all", "")
        return table
    return plain(short_x(x, DENSE_SHOWN, SPARSE_SHOWN))


def shown_value(value: Any) -> str:
    """Return the value of a named feature as text."""
    return value if isinstance(value, str) else json.dumps(value)


def short_x(x: Any, dense: int = 6, sparse: int = 5) -> str:
    """Render an example in about one line."""
    if is_sparse(x):
        pairs = list(zip(x["indices"], x["values"], strict=False))
        text = "  ".join(f"{index}: {number(value)}" for index, value in pairs[:sparse])
        return text + (f"  ... {len(pairs):,} non-zero" if len(pairs) > sparse else "") or "all zero"
    if isinstance(x, Mapping):
        return shortened(", ".join(f"{name}: {shown_value(value)}" for name, value in x.items()))
    if isinstance(x, str):
        return shortened(" ".join(x.split()))
    text = "  ".join(number(value) for value in x[:dense])
    return text + (f"  ... {len(x):,} features" if len(x) > dense else "")


def shortened(text: str) -> str:
    """Return a text, cut to a maximum length."""
    return text if len(text) <= SHORT_CHARS else text[: SHORT_CHARS - 3] + "..."


def number(value: Any) -> str:
    """Return a number as text, or "-" for None."""
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table of rows of text under column names."""
    found = Table(*columns)
    for row in rows:
        found.add_row(*(plain(cell) for cell in row))
    return found
