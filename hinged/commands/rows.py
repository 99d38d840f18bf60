"""The options --bad-rows and --dry-run: what becomes of bad rows, and what a file holds."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hinged.client.client import HingedError
from hinged.commands.showing import shown_label
from hinged.commands.writing import write
from hinged.operations.values import encoded
from hinged.readers import STOP, BadRows, Place, SkippedRows, Source, TableSource, UnreadableRow
from hinged.readers.lines import is_sparse
from hinged.readers.table import UNIQUE_SHARE, is_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hinged.client.client import Client

# Number of columns, labels, and texts of a column that a dry run lists.
COLUMNS_MAX, LABELS_MAX, TEXTS_MAX = 20, 20, 5

BAD_ROWS = click.option(
    "--bad-rows",
    metavar="stop|skip|FILE",
    default="stop",
    show_default=True,
    help="At an unreadable or refused row: stop; skip it; or write it to FILE with its place and the reason.",
)


def of_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --bad-rows and --dry-run."""
    dry_run = click.option("--dry-run", is_flag=True, help="Show rows, columns, labels and bad rows, and send nothing.")
    return BAD_ROWS(dry_run(command))


def accepted(wanted: str, source: Path, *, dry_run: bool = False) -> BadRows:
    """Return what becomes of the bad rows of a file, by the value of --bad-rows. A dry run counts the bad rows."""
    if wanted == "skip" or (wanted == "stop" and dry_run):
        return SkippedRows()
    if wanted == "stop":
        return STOP
    path = Path(wanted)
    if path.exists() and source.exists() and path.samefile(source):
        raise click.BadParameter(f"{wanted} is the file to read", param_hint="'--bad-rows'")
    try:
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"expected stop, skip or a file: {error}", param_hint="'--bad-rows'") from error
    return SkippedRows(click.get_current_context().with_resource(file))


class PlacedExample(NamedTuple):
    """An example, and its place in the file; None for an example that stands in no file."""

    place: Place | None
    example: dict[str, Any]


def learned(
    client: Client, model: str, several: Sequence[PlacedExample], bad_rows: BadRows
) -> Iterator[tuple[list[dict[str, Any]], list[Any]]]:
    """Send examples. Yield the examples that are learned, and their results. An example that the server refuses is a
    bad row of its file.
    """
    return sent(lambda examples: client.learn(model, examples)["results"], several, bad_rows)


def sent(
    ask: Callable[[list[dict[str, Any]]], list[Any]], several: Sequence[PlacedExample], bad_rows: BadRows
) -> Iterator[tuple[list[dict[str, Any]], list[Any]]]:
    """Send examples by `ask`. Yield the examples that the server accepts, and their results. Each refused example is a
    bad row, whose error has the server's refusal as its cause. If a bad row is to raise its error, send the examples
    before it first.
    """
    rest, stop = list(several), None
    while rest:
        examples = [example for _, example in rest]
        try:
            results = ask(examples)
        except (HingedError, ValueError) as error:
            index, reason = _refusal(error, examples)
            place, example = rest.pop(index) if isinstance(index, int) else (None, None)
            if place is None:
                raise
            refused = UnreadableRow(place, reason, row=example)
            refused.__cause__ = error
            try:
                bad_rows.take(refused)
            except UnreadableRow as raised:
                rest, stop = rest[:index], raised
        else:
            yield examples, results
            break
    if stop is not None:
        raise stop


def _refusal(error: HingedError | ValueError, examples: Sequence[dict[str, Any]]) -> tuple[Any, str]:
    """Return the index of the example that the server or the client refuses, and why, without the index: the user
    knows only the place. The client refuses what is not JSON.
    """
    if isinstance(error, HingedError):
        said = re.sub(r"^examples\[[0-9]+\](\.|: )", "", error.message)
        return error.details.get("index"), f"{said} ({error.code})"
    for index, example in enumerate(examples):
        try:
            encoded(example)
        except ValueError as problem:
            return index, str(problem)
    return None, str(error)


def tell_bad_rows(bad_rows: BadRows) -> None:
    """Write to stderr how many rows were bad."""
    if told := bad_rows.told():
        write(told, err=True)


def tell_source(source: Source, limit: int | None, bad_rows: BadRows) -> None:
    """Write what a dry run finds in a file, and what its user should see."""
    names = source.columns if isinstance(source, TableSource) and not source.named else ()
    examples = ((example.x, example.y) for example in itertools.islice(source, limit))
    tell_dry_run(source.name, examples, bad_rows, source.features, names)
    for note in source.notes:
        write(note)


def tell_dry_run(
    name: str,
    examples: Iterable[tuple[Any, Any]],
    bad_rows: BadRows,
    features: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
) -> None:
    """Write what a file holds: rows, columns with their kinds, labels, and bad rows.

    Parameters
    ----------
    examples : x and label of each row.
    features : features part of the model that would be created.
    names : names of the columns of an x that is a list.
    """
    rows = 0
    labels: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    columns: dict[str, ColumnValues] = {}
    for x, label in examples:
        rows += 1
        labels[shown_label(label)] += 1
        forms[form_of(x)] += 1
        for column, value in values_of(x, names):
            columns.setdefault(column, ColumnValues()).add(value)
    write(f"{name}: rows {rows:,}, bad rows {bad_rows.count:,}")
    write("x: " + ", ".join(f"{form} in {count:,} rows" for form, count in forms.most_common(COLUMNS_MAX)))
    kinds = {column: part["type"] for column, part in ((features or {}).get("columns") or {}).items()}
    listed = list(columns.items())
    width = max((len(column) for column, _ in listed[:COLUMNS_MAX]), default=0)
    for column, found in listed[:COLUMNS_MAX]:
        write(f"  {column:{width}}  {kinds.get(column) or found.kind:8}  {found.text(rows)}")
    if len(listed) > COLUMNS_MAX:
        write(f"  and {len(listed) - COLUMNS_MAX:,} more columns")
    shown = ", ".join(f"{label} ({count:,})" for label, count in labels.most_common(LABELS_MAX))
    write(f"labels: {len(labels):,}: {shown}" + (", ..." if len(labels) > LABELS_MAX else ""))
    tell_bad_rows(bad_rows)
    write("nothing was sent")


def form_of(x: Any) -> str:
    """Return the form of an x."""
    if x is None:
        return "none"
    if isinstance(x, list):
        return f"{len(x):,} numbers"
    if isinstance(x, str):
        return "text"
    return "sparse" if is_sparse(x) else "named" if isinstance(x, dict) else "invalid"


def values_of(x: Any, names: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """Return the values of an x by column. Columns without names are counted from 0; a sparse x has none."""
    if isinstance(x, list):
        return zip(names or map(str, range(len(x))), x, strict=False)
    return x.items() if isinstance(x, dict) and not is_sparse(x) else ()


class ColumnValues:
    """The values of a column."""

    def __init__(self) -> None:
        self._count = self._numbers = self._booleans = self._moments = 0
        self._low, self._high = float("inf"), float("-inf")
        self._texts: dict[str, None] = {}

    def add(self, value: Any) -> None:
        """Add a value."""
        if value is None:
            return
        self._count += 1
        if isinstance(value, bool):
            self._booleans += 1
        elif isinstance(value, int | float):
            self._numbers += 1
            self._low, self._high = min(self._low, value), max(self._high, value)
        else:
            text = str(value)
            self._moments += is_moment(text)
            if len(self._texts) <= TEXTS_MAX:
                self._texts[text] = None

    @property
    def kind(self) -> str:
        """Return the kind that the values suggest."""
        if self._numbers == self._count:
            return "number"
        if self._booleans == self._count:
            return "boolean"
        return "time" if self._moments > UNIQUE_SHARE * self._count else "category"

    def text(self, rows: int) -> str:
        """Return the number of values, and their range or the first texts."""
        missing = f", {rows - self._count:,} missing" if self._count < rows else ""
        parts = [f"{self._low:g} to {self._high:g}"] if self._numbers else []
        parts += [repr(text[:40]) for text in list(self._texts)[:TEXTS_MAX]]
        more = ", ..." if len(self._texts) > TEXTS_MAX else ""
        return (
            f"{self._count:,} values{missing}: {', '.join(parts)}{more}"
            if parts
            else f"{self._count:,} values{missing}"
        )
