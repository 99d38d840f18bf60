"""Stream examples into a model. Show live figures, a final table, and commands to try next."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from hinged.commands.questions import batches
from hinged.commands.rows import learned
from hinged.commands.showing import same_label
from hinged.readers import STOP, BadRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from hinged.client.client import Client
    from hinged.commands.rows import PlacedExample
    from hinged.readers.base import Source

T = TypeVar("T")

# Seconds between two requests for the support vectors and the gap, and between two plain lines of output.
POLL_S = 0.5
LINE_S = 2.0
# Maximum length of a command line that a person would copy, in characters.
CURL_CHARS_MAX = 1500


@dataclass
class StreamTally:
    """The figures of a stream so far."""

    learned: int = 0
    duplicates: int = 0
    predicted: int = 0
    right: int = 0
    support_vectors: int | None = None
    duality_gap: float | None = None
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """Return the number of examples that the server has answered."""
        return self.learned + self.duplicates

    @property
    def accuracy(self) -> float | None:
        """Return the share of correct predictions. Each prediction was made before its example was learned."""
        return self.right / self.predicted if self.predicted else None

    @property
    def examples_per_s(self) -> float | None:
        """Return the number of answered examples per second."""
        return self.done / self.seconds if self.seconds > 0.0 else None

    def count(self, labels: Sequence[Any], results: Sequence[Mapping[str, Any]]) -> None:
        """Add the answer to one batch."""
        for label, result in zip(labels, results, strict=True):
            if result.get("duplicate"):
                self.duplicates += 1
            else:
                self.learned += 1
            if result["prediction"] is not None:
                self.predicted += 1
                self.right += same_label(label, result["prediction"])

    def text(self) -> str:
        """Return the figures on one line."""
        parts = [
            f"{percent(self.accuracy)} right",
            f"{number(self.support_vectors)} SV",
            f"gap {scientific(self.duality_gap)}",
            f"{number(self.examples_per_s)}/s",
        ]
        if self.duplicates:
            parts.append(f"{self.duplicates:,} known")
        return "  ".join(parts)


@dataclass(frozen=True)
class StreamResult:
    """The figures of a model, or of a batch SVM, at one moment. The figures form one column of the final table."""

    title: str
    prequential_accuracy: float | None = None
    recent_accuracy: float | None = None
    held_out_accuracy: float | None = None
    support_vectors: int | None = None
    duality_gap: float | None = None
    seconds: float | None = None
    examples_per_s: float | None = None


def stream_and_finish(
    client: Client,
    model: str,
    examples: Iterable[PlacedExample],
    *,
    rows: int,
    held_out: Source | None,
    batch: int,
    finish: bool,
    console: Console,
    bad_rows: BadRows = STOP,
) -> list[StreamResult]:
    """Learn examples in batches, test on the held-out part, finish, and test again. Return the figures after learning
    and after finishing.
    """
    tally = learn(client, model, examples, rows=rows, batch=batch, console=console, bad_rows=bad_rows)
    if tally.duplicates:
        say(console, f"{tally.duplicates:,} of {tally.done:,} examples had been learned before")
    standings = [
        StreamResult(
            "streamed",
            prequential_accuracy=tally.accuracy,
            held_out_accuracy=test(client, model, held_out, batch=batch, console=console),
            support_vectors=tally.support_vectors,
            duality_gap=tally.duality_gap,
            seconds=tally.seconds,
            examples_per_s=tally.examples_per_s,
        )
    ]
    if finish:
        started = time.perf_counter()
        with Waiting(console, "finishing"):
            answer = client.finish(model)
        standings.append(
            StreamResult(
                "finished",
                seconds=time.perf_counter() - started,
                support_vectors=answer["support_vectors"],
                duality_gap=answer["duality_gap"],
                held_out_accuracy=test(client, model, held_out, batch=batch, console=console),
            )
        )
    return standings


def learn(
    client: Client,
    model: str,
    examples: Iterable[PlacedExample],
    *,
    rows: int,
    batch: int,
    console: Console,
    bad_rows: BadRows,
) -> StreamTally:
    """Send the examples with their ids, and show the figures."""
    tally = StreamTally()
    started = polled = time.perf_counter()
    with Meter(console, "learning", rows) as meter:
        for chunk in batches(examples, batch):
            for sent, results in learned(client, model, chunk, bad_rows):
                tally.count([example["y"] for example in sent], results)
            now = time.perf_counter()
            tally.seconds = now - started
            if now - polled >= POLL_S:
                look(client, model, tally)
                polled = time.perf_counter()
            meter.update(tally.done, tally.text())
        look(client, model, tally)
        meter.update(tally.done, tally.text(), total=tally.done)
    return tally


def look(client: Client, model: str, tally: StreamTally) -> None:
    """Ask for the figures that the answers to batches do not contain."""
    state = client.model(model)
    tally.support_vectors = state["support_vectors"]
    tally.duality_gap = state["duality_gap"]


def test(client: Client, model: str, held_out: Source | None, *, batch: int, console: Console) -> float | None:
    """Return the accuracy on the held-out part."""
    if held_out is None or held_out.rows == 0:
        return None
    done = right = 0
    with Meter(console, "testing", held_out.rows) as meter:
        for chunk in batches(held_out, batch):
            rows = [{"id": f"test:{example.row}", "x": example.x} for example in chunk]
            results = client.predict(model, rows)["results"]
            done += len(chunk)
            right += sum(
                same_label(example.y, result["prediction"]) for example, result in zip(chunk, results, strict=True)
            )
            meter.update(done, f"{percent(right / done)} right")
    return right / done if done else None


class Meter:
    """A progress bar on a terminal. Elsewhere, a line is printed now and then."""

    def __init__(self, console: Console, title: str, total: int) -> None:
        self._console, self._title, self._total = console, title, total
        self._line = ""
        self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=console,
            expand=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, figures="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._bar.stop()
        if kind is None and self._line and not self._console.is_terminal:
            say(self._console, self._line)

    def update(self, done: int, figures: str, total: int | None = None) -> None:
        """Update the bar. `total` corrects an earlier estimate."""
        self._total = max(total or self._total, done)
        self._bar.update(self._task, completed=done, total=self._total, figures=figures)
        if self._console.is_terminal:
            return
        self._line = f"{self._title} {done:,}/{self._total:,}  {figures}"
        if time.monotonic() - self._printed >= LINE_S:
            say(self._console, self._line)
            self._line = ""
            self._printed = time.monotonic()


class Waiting:
    """A spinner that shows the elapsed seconds. Without a terminal, a single line is printed."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text = console, text
        self._spinner = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._spinner.add_task(text, total=None)

    def __enter__(self) -> Self:
        if not self._console.is_terminal:
            say(self._console, f"{self._text} ...")
        self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._spinner.stop()

    def now(self, text: str) -> None:
        """Change the text next to the spinner."""
        self._spinner.update(self._task, description=text)


def await_model(client: Client, model: str, made: Mapping[str, Any], console: Console) -> None:
    """Wait until the solver of a model is compiled. made: the answer to the creation of the model."""
    if made.get("state") == "compiling":
        solver = made["configuration"]["solver"]
        with Waiting(console, f"compiling {solver}, once on this machine"):
            client.model(model)


def say(console: Console, text: str) -> None:
    """Print text without markup and without wrapping, so that it can be copied."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_table(console: Console, standings: Sequence[StreamResult]) -> None:
    """Print the figures side by side. Leave out empty rows."""
    rows = [
        ("prequential accuracy", [percent(s.prequential_accuracy) for s in standings]),
        ("accuracy, newest 1,000", [percent(s.recent_accuracy) for s in standings]),
        ("held-out accuracy", [percent(s.held_out_accuracy) for s in standings]),
        ("support vectors", [number(s.support_vectors) for s in standings]),
        ("duality gap", [scientific(s.duality_gap) for s in standings]),
        ("seconds", [seconds(s.seconds) for s in standings]),
        ("examples/s", [number(s.examples_per_s) for s in standings]),
    ]
    table = Table("", *(s.title for s in standings), box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for title, cells in rows:
        if set(cells) != {"-"}:
            table.add_row(title, *cells)
    console.print()
    console.print(table, highlight=False)
    console.print()


def show_curl(console: Console, url: str, model: str, *, x: Any = None, y: Any = None) -> None:
    """Print command lines to try next. The command lines contain a real row if the row is short enough."""
    base = f"{url}/models/{model}"
    lines = []
    if x is not None:
        example = {"id": "try-1", "x": _short(x)}
        lines.append(_post(f"{base}/predict", {"examples": [example]}))
        lines.append(_post(f"{base}/learn", {"examples": [{**example, "y": y}]}))
    lines = [line for line in lines if len(line) <= CURL_CHARS_MAX]
    lines.append(f"curl -s {shlex.quote(base)}")
    say(console, "Try next:\n  " + "\n  ".join(lines))


def _short(x: Any) -> Any:
    """Return x with whole numbers written without a fraction."""
    if isinstance(x, dict):
        return {key: _short(values) for key, values in x.items()}
    if isinstance(x, list):
        return [_short(value) for value in x]
    return int(x) if isinstance(x, float) and x.is_integer() else x


def _post(url: str, body: Any) -> str:
    text = json.dumps(body, separators=(",", ":"))
    return f"curl -s {shlex.quote(url)} -H 'content-type: application/json' -d {shlex.quote(text)}"


def percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return "-" if share is None else f"{100.0 * share:.2f} %"


def number(count: float | None) -> str:
    """Return a count or a rate, with thousands separators."""
    return "-" if count is None else f"{count:,.0f}"


def scientific(value: float | None) -> str:
    """Return a gap as its order of magnitude."""
    return "-" if value is None else f"{value:.2e}"


def seconds(value: float | None) -> str:
    """Return a duration as text."""
    return "-" if value is None else f"{value:,.2f}"
