"""Annotators: the newest answers, which annotators may still change, and the figures of each annotator."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hinged.service import limits
from hinged.service.data.classes import Label, label_key

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Given:
    """An answer: an annotator's label for a candidate, and the model's prediction at that time, if there was one."""

    id: str
    annotator: str
    label: Label
    prediction: Label | None
    at_ms: int


@dataclass(slots=True)
class Tallied:
    """The figures of an annotator, which hinged/answers/labels.py describes."""

    labelled: int = 0
    skipped: int = 0
    changed: int = 0
    predicted: int = 0
    as_predicted: int = 0
    compared: int = 0
    agreed: int = 0


class Annotators:
    """The newest answers (at most GIVEN_KEPT), and the figures of the annotators who were active last (at most
    ANNOTATORS_KEPT).
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], Given] = OrderedDict()  # by id and annotator, oldest first
        self._tallies: OrderedDict[str, Tallied] = OrderedDict()

    def __iter__(self) -> Iterator[Given]:
        """Iterate over the answers, newest first."""
        return reversed(self._answers.values())

    def find(self, given: str, annotator: str) -> Given | None:
        """Return an annotator's answer to the question with this id. Return None if the answer is no longer kept."""
        return self._answers.get((given, annotator))

    def figures(self) -> dict[str, dict[str, int]]:
        """Return the figures of each annotator, by name."""
        return {name: asdict(tally) for name, tally in sorted(self._tallies.items())}

    # -- changing -------------------------------------------------------------------------------------------------

    def vote(self, given: str, annotator: str, label: Label, at_ms: int) -> None:
        """Record one of several labels of a candidate, or a changed label."""
        self._tally(annotator).changed += (given, annotator) in self._answers
        self._keep(Given(given, annotator, label, None, at_ms))

    def answer(self, answered: Given) -> None:
        """Record a label that was requested and learned at once."""
        self._keep(answered)
        tally = self._tally(answered.annotator)
        tally.labelled += 1
        if answered.prediction is not None:
            tally.predicted += 1
            tally.as_predicted += label_key(answered.prediction) == label_key(answered.label)

    def settle(self, votes: list[tuple[str, Label]], learned: Label) -> None:
        """Record that several annotators' labels led to this learned label."""
        for annotator, label in votes:
            tally = self._tally(annotator)
            tally.labelled += 1
            tally.compared += len(votes) > 1
            tally.agreed += len(votes) > 1 and label_key(label) == label_key(learned)

    def skip(self, annotator: str) -> None:
        """Record that an annotator skipped a question."""
        self._tally(annotator).skipped += 1

    def unskip(self, annotator: str) -> None:
        """Record that an annotator undid a skip."""
        tally = self._tally(annotator)
        tally.skipped = max(0, tally.skipped - 1)

    def correct(self, given: str, annotator: str | None, label: Label) -> None:
        """Record that a learned example has a new label. annotator: the annotator who changed an answer, or None if
        somebody else gave the label.
        """
        answered = self._answers.get((given, annotator)) if annotator is not None else None
        if annotator is not None and answered is not None:
            answered.label = label
            self._tally(annotator).changed += 1

    def forget(self, given: str) -> None:
        """Forget the answers to this example. The counts stay the same."""
        for key in [key for key in self._answers if key[0] == given]:
            del self._answers[key]

    def _keep(self, answered: Given) -> None:
        key = answered.id, answered.annotator
        self._answers[key] = answered
        self._answers.move_to_end(key)
        while len(self._answers) > limits.GIVEN_KEPT:
            self._answers.popitem(last=False)

    def _tally(self, annotator: str) -> Tallied:
        tally = self._tallies.setdefault(annotator, Tallied())
        self._tallies.move_to_end(annotator)
        while len(self._tallies) > limits.ANNOTATORS_KEPT:
            self._tallies.popitem(last=False)
        return tally

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as facts. There are no arrays."""
        facts = {
            "answers": [asdict(answered) for answered in self._answers.values()],
            "tallies": [[name, asdict(tally)] for name, tally in self._tallies.items()],
        }
        return facts, {}

    def load(self, facts: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: ARG002  there are no arrays
        """Restore the state from a result of `state`. Raise ValueError if an entry is repeated, or if there are too
        many.
        """
        self._answers = OrderedDict(((a["id"], a["annotator"]), Given(**a)) for a in facts["answers"])
        self._tallies = OrderedDict((name, Tallied(**tally)) for name, tally in facts["tallies"])
        if len(self._answers) < len(facts["answers"]) or len(self._tallies) < len(facts["tallies"]):
            raise ValueError("an answer or an annotator is listed twice")
        if len(self._answers) > limits.GIVEN_KEPT or len(self._tallies) > limits.ANNOTATORS_KEPT:
            raise ValueError(
                f"there must be at most {limits.GIVEN_KEPT} answers and {limits.ANNOTATORS_KEPT} annotators"
            )
