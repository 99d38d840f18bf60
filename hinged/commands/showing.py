"""Examples, labels and figures as people read them in a terminal. What comes from outside is printed as text alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from hinged.commands.writing import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

# Features of one example that a person is shown.
DENSE_SHOWN = 64
SPARSE_SHOWN = 32
NAMED_SHOWN = 60
SHORT_CHARS = 60


def plain(text: str) -> Text:
    """Text without markup and without what would steer a terminal."""
    return Text(printable(text))


def shown_label(label: Any) -> str:
    """A label by name: a string as it is, unless it could be taken for another label."""
    if not isinstance(label, str):
        return json.dumps(label)
    return label if parsed_label(label) == label else json.dumps(label, ensure_ascii=False)


def parsed_label(text: str) -> Any:
    """The label that a person typed: an integer or a boolean as JSON has them, "..." or anything else a string."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | str) else text


def shown_candidate(candidate: Mapping[str, Any]) -> RenderableType:
    """A candidate to look at: what came with it to be shown, else its x."""
    if "show" not in candidate:
        return shown_x(candidate["x"])
    show = candidate["show"]
    return shown_x(show) if isinstance(show, Mapping | str) else plain(json.dumps(show, ensure_ascii=False))


def short_candidate(candidate: Mapping[str, Any]) -> str:
    """The same in a line or so."""
    show = candidate.get("show")
    if show is None or isinstance(show, str):
        return short_x(candidate["x"] if show is None else show)
    return shortened(json.dumps(show, ensure_ascii=False))


def shown_x(x: Any) -> RenderableType:
    """One example to look at: named features as a table, a text as it is, numbers compactly."""
    if isinstance(x, str):
        return plain(x)
    if isinstance(x, Mapping) and not is_sparse(x):
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, value in list(x.items())[:NAMED_SHOWN]:
            table.add_row(plain(name), plain(shown_value(value)))
        if len(x) > NAMED_SHOWN:
            table.add_row(f"... {len(x):,} features in all", "")
        return table
    return plain(short_x(x, DENSE_SHOWN, SPARSE_SHOWN))


def shown_value(value: Any) -> str:
    """A named feature's value."""
    return value if isinstance(value, str) else json.dumps(value)


def short_x(x: Any, dense: int = 6, sparse: int = 5) -> str:
    """One example in a line or so."""
    if isinstance(x, Mapping) and is_sparse(x):
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
    """A text of at most so many characters."""
    return text if len(text) <= SHORT_CHARS else text[: SHORT_CHARS - 3] + "..."


def is_sparse(x: Mapping[str, Any]) -> bool:
    """Whether an x is indices and values, and not named features of these names."""
    return set(x) == {"indices", "values"} and isinstance(x["indices"], Sequence)


def number(value: Any) -> str:
    """A feature, a score, a probability; "-" where there is none."""
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Rows of text under their names."""
    found = Table(*columns)
    for row in rows:
        found.add_row(*(plain(cell) for cell in row))
    return found
