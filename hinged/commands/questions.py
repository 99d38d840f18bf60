"""`hinged models`, `predict` and `query`: print a table for people, or one JSON object per line for programs."""

from __future__ import annotations

import functools
import itertools
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hinged.commands.answered import ranked, write_answers
from hinged.commands.options import EXIT_INTERRUPTED, asks, of_tables
from hinged.commands.rows import BAD_ROWS, accepted, tell_bad_rows
from hinged.commands.showing import number, plain, short_candidate, shown_label, table
from hinged.commands.writing import PlainConsole, write
from hinged.readers import BadRows, TableColumns, TableSource, UnreadableRow, fingerprint, format_of, open_source
from hinged.readers.lines import json_of, json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hinged.client.client import Client

T = TypeVar("T")

TABLES = ("csv", "tsv", "parquet", "arrow")  # files with tables; JSON lines contain examples instead
OUTSIDE_SHOWN = 10  # maximum number of columns named in a line
STRATEGIES = ("active", "random", "gradient", "autoactive")

as_lines = click.option("--json", "as_json", is_flag=True, help="Write JSON lines even to a terminal.")


@click.command()
@as_lines
@asks
def models(client: Client, *, as_json: bool) -> None:
    """List the models of a server."""
    show(
        client.models(),
        as_json,
        {
            "model": lambda m: m["model"],
            "solver": lambda m: m["configuration"]["solver"],
            "kernel": lambda m: m["configuration"]["kernel"]["type"],
            "features": lambda m: width_of(m["configuration"]),
            "classes": lambda m: names(m["classes"]),
            "examples": lambda m: f"{m['examples']:,}",
            "position": lambda m: f"{m['position']:,}",
        },
        broken=_without_figures,
    )


def _without_figures(model: Mapping[str, Any]) -> list[str] | None:
    """Return the cells of a model that is not serving: loading, compiling, waiting or stopped."""
    if "error" in model:
        return [model["model"], f"cannot be loaded: {model['error']}"]
    return None if "position" in model else [model["model"], model["state"]]


@click.command()
@click.argument("model")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path), default="-")
@of_tables
@click.option("--x", "x", metavar="JSON", help="One example, instead of FILE.")
@click.option(
    "--explain", type=click.IntRange(1), metavar="K", help="Add the K support vectors with the largest contributions."
)
@click.option("--batch", type=click.IntRange(1), default=100, show_default=True, help="Examples a request.")
@BAD_ROWS
@click.option("--decide", is_flag=True, help="Decide by the model's costs. Questions go to the pool.")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV: the columns of FILE, or id, then the answers.")
@as_lines
@asks
def predict(
    client: Client,
    *,
    model: str,
    file: Path,
    x: str | None,
    explain: int | None,
    batch: int,
    bad_rows: str,
    decide: bool,
    as_csv: bool,
    as_json: bool,
    columns: TableColumns,
    form: dict[str, Any],
) -> None:
    """Predict the examples of FILE, or of stdin: one a line, as JSON.

    A line is an x, such as [0.1, 0.9], or an example {"x": ..., "id": ...}. The model keeps an example with an id until
    its label comes. FILE may also be a table, as hinged replay reads it (.csv, .tsv, .parquet, .arrow).
    """
    if decide and explain is not None:
        raise click.UsageError("--explain is for predictions, and --decide takes decisions")
    of_texts = functools.cache(lambda: form_of(client, model) == "text")
    source: TableSource | None = None
    bad = accepted(bad_rows, file)
    if x is not None:
        examples = iter([option_example(x, of_texts)])
    elif format_of(file) in TABLES:
        source = table_of(client, model, file, columns, {**form, "bad_rows": bad})
        examples = rows_of(source, fingerprint(file) if decide else None)
    else:
        examples = read_examples(file, of_texts, bad)
    # The server lists the classes one by one if they are few, and so does a file.
    few = as_csv and client.model(model)["metrics"]["confusion"] is not None
    ask: Callable[..., Any] = client.decide if decide else functools.partial(client.predict, explain=explain)
    outside: Counter[str | int] = Counter()

    def answered() -> Iterator[list[Any]]:
        for several in batches(examples, batch):
            results = ask(model, several, probabilities=few or None)["results"]
            outside.update(column for result in results for column in result.get("outside", ()))
            yield results

    answers = answered()
    first = next(answers, None)
    if first is None:
        tell_bad_rows(bad)
        raise click.ClickException(f"{'<stdin>' if str(file) == '-' else file} holds no examples")
    answers = itertools.chain([first], answers)
    if as_csv:
        write_answers(ranked(answers) if decide else answers, source)
    else:
        for results in answers:
            show(results, as_json, DECIDED if decide else PREDICTED if explain is None else PREDICTED | EXPLAINED)
    tell_bad_rows(bad)
    if outside:
        columns_outside = ", ".join(f"{column} ({count:,})" for column, count in outside.most_common(OUTSIDE_SHOWN))
        more = ", ..." if len(outside) > OUTSIDE_SHOWN else ""
        write(f"names, texts or ranges that the model has not learned: {columns_outside}{more}", err=True)


PREDICTED: dict[str, Callable[[Any], str]] = {
    "id": lambda r: r["id"] or "",
    "prediction": lambda r: label_name(r["prediction"]),
    "score": lambda r: number(max(r["scores"].values(), default=None)),
    "probability": lambda r: number(r.get("probability")),
    "label wanted": lambda r: "yes" if r.get("label", {}).get("wanted") else "",
}
EXPLAINED: dict[str, Callable[[Any], str]] = {
    "because of": lambda r: "  ".join(
        f"{vector['id']} ({label_name(vector['label'])}) {vector['contribution']:+.3g}"
        for vector in r["support_vectors"]
    )
}
DECIDED: dict[str, Callable[[Any], str]] = {
    "id": lambda r: r["id"] or "",
    "decision": lambda r: label_name(r["decision"]),
    "probability": lambda r: number(r["probability"]),
    "cost": lambda r: number(r["cost"]),
    "reason": lambda r: r["reason"],
    "gain": lambda r: number(r.get("gain")),
}
"""The columns of a terminal's table of predictions, of explanations beside them, and of decisions."""


def width_of(configuration: Mapping[str, Any]) -> str:
    """Return the form of x, with its width if it has one."""
    features = configuration["features"]
    return " ".join(str(features[key]) for key in ("type", "dim") if key in features)


def form_of(client: Client, model: str) -> str:
    """Return the type of a model's features."""
    return str(client.model(model)["configuration"]["features"]["type"])


@click.command()
@click.argument("model")
@click.option("-n", type=click.IntRange(1), default=1, show_default=True, help="Examples to lease.")
@click.option("--annotator", required=True, metavar="NAME", help="Name of the annotator.")
@click.option("--strategy", type=click.Choice(STRATEGIES), default="active", show_default=True, help="How to choose.")
@click.option("--lease", "lease_s", type=click.IntRange(1), metavar="SECONDS", help="Seconds until the leases expire.")
@as_lines
@asks
def query(
    client: Client, *, model: str, n: int, annotator: str, strategy: Any, lease_s: int | None, as_json: bool
) -> None:
    """Lease the candidates whose labels are worth most. Open leases come first."""
    found = client.query(model, n=n, annotator=annotator, strategy=strategy, lease_s=lease_s)["queries"]
    if not found and not as_json:
        write("nothing to ask: the pool has no free candidate", err=True)
        return
    show(
        found,
        as_json,
        {
            "id": lambda q: q["id"],
            "x": short_candidate,
            "score": lambda q: number(q["score"]),
            "reason": lambda q: q["reason"],
            "lease": lambda q: q["lease"],
            "expires at": lambda q: q["expires_at"],
        },
    )


@click.command()
@click.argument("model")
@click.option(
    "--from", "after", type=click.IntRange(0), help="Begin after this position of the log; 0 is the whole log."
)
@as_lines
@asks
def events(client: Client, *, model: str, after: int | None, as_json: bool) -> None:
    """Print a model's events, one a line, until Ctrl-C."""
    lines = as_json or not sys.stdout.isatty()
    try:
        for event in client.events(model, after=after):
            write(json.dumps(event, ensure_ascii=False) if lines else told(event))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


def told(event: Mapping[str, Any]) -> str:
    """Return an event as a line for people."""
    rest = {name: value for name, value in event.items() if name not in ("position", "kind", "at", "configuration")}
    facts = "  ".join(f"{name} {label_name(value)}" for name, value in rest.items())
    return f"{event['position']:>8}  {event.get('at', ''):24}  {event['kind']:12} {facts}".rstrip()


def show(
    objects: Sequence[Mapping[str, Any]],
    as_json: bool,
    columns: Mapping[str, Callable[[Any], str]],
    broken: Callable[[Any], list[str] | None] = lambda _: None,
) -> None:
    """Write objects as a table on a terminal, and as JSON lines elsewhere."""
    if as_json or not sys.stdout.isatty():
        for found in objects:
            write(json.dumps(found, ensure_ascii=False))
        return
    rows = [broken(found) or [cell(found) for cell in columns.values()] for found in objects]
    PlainConsole().print(table(list(columns), rows))


def tell(answer: Mapping[str, Any], as_json: bool, text: str) -> None:
    """Write an answer: a sentence on a terminal, and a JSON line elsewhere."""
    if as_json or not sys.stdout.isatty():
        write(json.dumps(answer, ensure_ascii=False))
        return
    write(plain(text).plain)


def batches(examples: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of this many items. The last list may be shorter, as may the list before an unreadable row."""
    several: list[T] = []
    try:
        for example in examples:
            several.append(example)
            if len(several) == size:
                yield several
                several = []
    except UnreadableRow:
        if several:
            yield several
        raise
    if several:
        yield several


def table_of(
    client: Client,
    model: str,
    file: Path,
    columns: TableColumns,
    form: Mapping[str, Any],
    show: tuple[str, ...] = (),
) -> TableSource:
    """Open a table whose rows have the form of the model's x, and no labels."""
    found = client.model(model)
    has = found["configuration"]["features"]
    times = {each["name"]: "time" for each in found.get("features", {}).get("fields", ()) if each.get("time")}
    choice = replace(
        columns,
        named=has["type"] in ("named", "text") if columns.named is None else columns.named,
        labelled=False,
        show=show,
        known=times | {name: column["type"] for name, column in (has.get("columns") or {}).items()},
        whole=has["type"] == "text",
    )
    source = open_source(file, choice=choice, **form)
    assert isinstance(source, TableSource)  # noqa: S101  the callers look at the format
    return source


def rows_of(source: TableSource, prefix: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as examples. prefix: the prefix of generated ids."""
    for example in source:
        given = example.id if prefix is None or example.id is not None else f"{prefix}:{example.row}"
        told = {} if example.show is None else {"show": example.show}
        yield {"x": example.x, **({} if given is None else {"id": given}), **told}


def read_examples(file: Path, of_texts: Callable[[], bool], bad_rows: BadRows) -> Iterator[dict[str, Any]]:
    """Yield the examples of JSON lines. Skip empty lines. of_texts: see `example_of`."""
    with click.open_file(str(file), "rb") as lines:
        for _, _, value in json_values(lines, lines.name):
            if isinstance(value, UnreadableRow):
                bad_rows.take(value)
            else:
                yield example_of(value, of_texts)


def option_example(text: str, of_texts: Callable[[], bool] = lambda: False) -> dict[str, Any]:
    """Return the example of the option --x."""
    try:
        return example_of(json_of(text.encode()), of_texts)
    except ValueError as error:
        raise click.ClickException(f"--x: expected JSON: {error}") from error


def example_of(value: Any, of_texts: Callable[[], bool]) -> dict[str, Any]:
    """Return an example from a value, which is either an example, or only its x. If it has an `x` with a plain value,
    `x` is a named feature.

    of_texts: a function that returns whether the model learns from texts. The function is called only if x is a string.
    """
    x = value.get("x") if isinstance(value, dict) else None
    if isinstance(x, dict | list) or (isinstance(x, str) and of_texts()):
        return value  # type: ignore[no-any-return]
    return {"x": value}


def names(labels: Sequence[Any], shown: int = 6) -> str:
    """Return several labels as a cell."""
    return ", ".join(map(label_name, labels[:shown])) + (f", ... {len(labels)}" if len(labels) > shown else "")


def label_name(label: Any) -> str:
    """Return a label as a cell."""
    return "-" if label is None else shown_label(label)
