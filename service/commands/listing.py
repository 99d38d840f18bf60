"""List the learned examples in their current state: as logged when they were learned, with later changes applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from hinged.service.data.classes import Label, score_name
from hinged.service.data.features.base import Features
from hinged.service.data.inputs import Inputs
from hinged.service.data.times import shown_time
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.metrics import SOURCES, UNKNOWN
from hinged.service.model.model import Model

CURSOR = r"^([0-9]{1,18})\.([0-9]{1,18})$"


class Cursor(NamedTuple):
    """The beginning of a page: a position of the log and a row of the event there. For examples that are older than the
    log, the position is 0 and the row is the example's number.
    """

    position: int = 0
    row: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read a cursor from a text of the form CURSOR. For None, return the cursor of the beginning."""
        if text is None:
            return cls()
        position, row = text.split(".")
        return cls(int(position), int(row))

    def shown(self) -> str:
        """Return the cursor as text, in the form that clients get."""
        return f"{self.position}.{self.row}"


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Selects the examples to list by label (a key of `scores`), by annotator, and by the time of learning."""

    label: str | None = None
    annotator: str | None = None
    from_ms: float | None = None
    to_ms: float | None = None

    @property
    def timed(self) -> bool:
        """Return whether the filter uses the time."""
        return self.from_ms is not None or self.to_ms is not None


class LoggedExample(NamedTuple):
    """An example as stored in the log, or in the model. label: its class number at that time. annotator: the last
    annotator who answered. inputs: the batch whose row `row` is the example's x, None if the log does not contain it.
    """

    cursor: Cursor
    number: int
    given: str
    label: int
    source: int | None = None
    annotator: str | None = None
    votes: Sequence[tuple[str, Label]] = ()
    at_ms: int | None = None
    inputs: Inputs | None = None
    row: int = 0
    weight: float = 1.0


Listed = list[tuple[LoggedExample, dict[str, Any]]]
"""Examples as stored, each as clients see it."""


def entries_of(position: int, event: ExamplesLearned, begin: int, most: int) -> list[LoggedExample]:
    """Return at most `most` examples of a learned batch, starting at a row."""
    keys = event.keys.tolist()
    return [
        LoggedExample(
            Cursor(position, row),
            keys[row],
            event.id_of(row),
            int(event.classes[row]),
            int(event.sources[row]) if event.sources.size else 0,
            event.annotators[row] if event.annotators else None,
            event.votes[row] if event.votes else (),
            event.at_ms,
            event.inputs,
            row,
            1.0 if event.weights is None else float(event.weights[row]),
        )
        for row in range(begin, min(len(keys), begin + most))
    ]


def kept_entries(model: Model, begin: int, end: int) -> list[LoggedExample]:
    """Return the examples with numbers begin to end - 1 that are stored in the model itself, not in its log."""
    labels = [(number, model.answers.label_of(number)) for number in range(begin, end)]
    return [LoggedExample(Cursor(0, n), n, model.id_of(n), label) for n, label in labels if label is not None]


def missing_before(model: Model, first: int) -> int:
    """Return how many examples before number `first` are in neither the log nor the model, without counting forgotten
    examples.
    """
    oldest = min(model.answers.oldest, first)
    return oldest - 1 - sum(number < oldest for number in model.tombstones.numbers)


def listed(model: Model, entries: Iterable[LoggedExample], wanted: ListFilter) -> Listed:
    """Return the current state of the entries that match the filter and are not forgotten."""
    answered: dict[str, dict[str, Label]] = defaultdict(dict)  # the newest answers, which annotators may have changed
    for answer in model.annotators:
        answered[answer.id][answer.annotator] = answer.label
    found = []
    for entry in entries:
        undone = entry.cursor.position and not model.counts(entry.cursor.position)  # rolled back since it was read
        if undone or entry.number in model.tombstones.numbers:
            continue
        label = model.labels.labels[model.corrections.get(entry.number, entry.label)]
        votes = dict(entry.votes)
        if entry.annotator is not None:
            votes.setdefault(entry.annotator, model.labels.labels[entry.label])
        votes |= answered.get(entry.given, {})
        if wanted.label is not None and score_name(label) != wanted.label:
            continue
        if wanted.annotator is not None and wanted.annotator not in votes:
            continue
        found.append((entry, _shown(model, entry, label, votes)))
    return found


def with_points(model: Model, found: Listed) -> tuple[Features, Listed]:
    """Return the model's features, and the entries with the points and weights that only the model still has."""
    # With an encoder, the rows in the solver are not the client's x.
    has_x = model.learner.warmup.encoder is None
    solver = model.solver
    return model.configuration.features, [
        (entry, told)
        if entry.inputs is not None
        else (
            entry._replace(
                inputs=solver.row_of(entry.number) if has_x else None, weight=solver.weight_of(entry.number)
            ),
            told,
        )
        for entry, told in found
    ]


def with_x(features: Features, found: Listed, most: int) -> Listed:
    """Add x and weight to the first examples, at least one, until their x have `most` values in total."""
    kept: Listed = []
    values = 0
    for entry, told in found:
        x = None if entry.inputs is None else features.shown(entry.inputs, entry.row)
        values += 2 * len(x["values"]) if isinstance(x, dict) and "values" in x else len(x or ())
        if kept and values > most:
            break
        kept.append((entry, {**told, "x": x, "weight": entry.weight}))
    return kept


def _shown(model: Model, entry: LoggedExample, label: Label, votes: dict[str, Label]) -> dict[str, Any]:
    answer = model.answers.first(entry.number)
    said = None if answer is None or answer.prediction == UNKNOWN else model.labels.labels[answer.prediction]
    return {
        "id": entry.given,
        "number": entry.number,
        "label": label,
        "prediction": said,
        "source": None if entry.source is None else SOURCES[entry.source],
        "answers": [{"annotator": annotator, "label": given} for annotator, given in votes.items()],
        "corrected": entry.number in model.corrections,
        "at": None if entry.at_ms is None else shown_time(entry.at_ms),
    }
