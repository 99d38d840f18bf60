"""Learned examples as they stand now: as logged when they were learned, with later changes applied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from hinged.service.data.classes import Label, score_name
from hinged.service.data.times import shown_time
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.metrics import SOURCES, UNKNOWN
from hinged.service.model.model import Model

CURSOR = r"^([0-9]{1,18})\.([0-9]{1,18})$"


class Cursor(NamedTuple):
    """The beginning of a page: a row of the event at a position; at position 0, for examples before the log, an
    example's number.
    """

    position: int = 0
    row: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the cursor of a text of the form CURSOR; the beginning for None."""
        if text is None:
            return cls()
        position, row = text.split(".")
        return cls(int(position), int(row))

    def shown(self) -> str:
        """The cursor as it goes over the wire."""
        return f"{self.position}.{self.row}"


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Selects the examples to list, by label (as a key of `scores`), by annotator, and by the time of learning."""

    label: str | None = None
    annotator: str | None = None
    from_ms: float | None = None
    to_ms: float | None = None

    @property
    def timed(self) -> bool:
        """Whether the filter is by time."""
        return self.from_ms is not None or self.to_ms is not None


class LoggedExample(NamedTuple):
    """An example as logged, or as the model knows it. label: its class number then; annotator: who answered last."""

    cursor: Cursor
    number: int
    given: str
    label: int
    source: int | None = None
    annotator: str | None = None
    votes: Sequence[tuple[str, Label]] = ()
    at_ms: int | None = None


Listed = list[tuple[Cursor, dict[str, Any]]]
"""Examples as they are shown, each with its cursor."""


def entries_of(position: int, event: ExamplesLearned, begin: int, most: int) -> list[LoggedExample]:
    """Return at most `most` examples of a learned batch, beginning at a row."""
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
        )
        for row in range(begin, min(len(keys), begin + most))
    ]


def kept_entries(model: Model, begin: int, end: int) -> list[LoggedExample]:
    """Return the examples with numbers from begin to before end that the model knows without its log."""
    labels = [(number, model.answers.label_of(number)) for number in range(begin, end)]
    return [LoggedExample(Cursor(0, n), n, model.id_of(n), label) for n, label in labels if label is not None]


def missing_before(model: Model, first: int) -> int:
    """Return how many examples before number `first` are unknown to both log and model, without those forgotten on
    request.
    """
    oldest = min(model.answers.oldest, first)
    return oldest - 1 - sum(number < oldest for number in model.tombstones.numbers)


def listed(model: Model, entries: Iterable[LoggedExample], wanted: ListFilter) -> Listed:
    """Return the entries that are wanted and not forgotten, as they stand now."""
    answered: dict[str, dict[str, Label]] = defaultdict(dict)  # the newest answers, which may have been changed
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
        found.append((entry.cursor, _shown(model, entry, label, votes)))
    return found


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
