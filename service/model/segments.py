"""Figures by the values of named features, over the newest SEGMENTED_MAX predictions whose labels have come.

Every entry has the number of its example, so a forgotten example leaves nothing here. F features, n entries.

numbers  (n,) int64     numbers of the examples, which ascend
truths   (n,) int32     true classes
answers  (n,) int32     predicted classes
costs    (n,) float64   costs of the decisions; NaN without a decision by the present costs
codes    (F, n) int64   which of the values an example has; UNSEEN if the feature was no segment yet
values   (bytes,) uint8 the values as JSON, one a line, in the order in which `codes` first names them
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hinged.service import limits
from hinged.service.data.inputs import Records
from hinged.service.model.decisions.rare import OF_CLASS
from hinged.solvers.core.solver import CLASSES_MAX
from hinged.solvers.core.states import BOUND_MAX, COUNT_MAX, State, StateReader

if TYPE_CHECKING:  # it imports this module
    from hinged.service.model.events.learning import ExamplesLearned

Array = np.ndarray[Any, Any]
Figures = dict[str, Any]

UNSEEN = -1
SLACK = 2  # the list of values has at most this many times the values that the entries can have


class Segments:
    """The entries of one learner. features: the names whose values divide the stream."""

    def __init__(self, features: Sequence[str]) -> None:
        self.features = tuple(features)
        self.numbers, self.costs = np.zeros(0, np.int64), np.zeros(0)
        self.truths, self.answers = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.codes = np.zeros((len(self.features), 0), np.int64)
        self.values: dict[str, int] = {}

    def changed(self, features: Sequence[str]) -> Segments:
        """Return the segments by other features. A feature that stays keeps its figures."""
        found = Segments(features)
        found.numbers, found.costs, found.truths, found.answers = self.numbers, self.costs, self.truths, self.answers
        found.codes = np.full((len(found.features), self.numbers.size), UNSEEN)
        for f, name in enumerate(found.features):
            if name in self.features:
                found.codes[f] = self.codes[self.features.index(name)]
        found.values = dict(self.values)
        found._keep(np.arange(self.numbers.size))
        return found

    def forget_costs(self) -> None:
        """Forget what decisions cost, because the costs have changed."""
        self.costs = np.full(self.costs.size, np.nan)

    def add(self, event: ExamplesLearned, rows: Array, truths: Array, answers: Array, costs: Array | None) -> None:
        """Count these rows (m,) of an event in order. costs (m,): None if nothing was decided."""
        assert isinstance(event.inputs, Records)  # noqa: S101  only named features have segments
        records = [event.inputs.records[r] for r in rows.tolist()]
        coming = [[self._code(record.get(name)) for record in records] for name in self.features]
        costs = np.full(rows.size, np.nan) if costs is None else costs
        begin = max(self.numbers.size + rows.size - limits.SEGMENTED_MAX, 0)
        self.numbers = np.concatenate((self.numbers, event.keys[rows]))[begin:]
        self.truths = np.concatenate((self.truths, truths.astype(np.int32)))[begin:]
        self.answers = np.concatenate((self.answers, answers.astype(np.int32)))[begin:]
        self.costs = np.concatenate((self.costs, costs))[begin:]
        self.codes = np.concatenate((self.codes, np.array(coming, np.int64)), axis=1)[:, begin:]
        if len(self.values) > SLACK * self.codes.shape[0] * limits.SEGMENTED_MAX:
            self._keep(np.arange(self.numbers.size))

    def _code(self, value: Any) -> int:
        shown = value[: limits.SEGMENT_CHARS_MAX] if isinstance(value, str) else value
        return self.values.setdefault(json.dumps(shown), len(self.values))

    def forget(self, numbers: Collection[int]) -> None:
        """Remove these examples, and the values that no other example has."""
        self._keep(np.flatnonzero(np.isin(self.numbers, list(numbers), invert=True)))

    def _keep(self, wanted: Array) -> None:
        """Keep these entries and their values. The values get the numbers 0, 1, ... in the order of `codes`."""
        self.numbers, self.costs, self.codes = self.numbers[wanted], self.costs[wanted], self.codes[:, wanted]
        self.truths, self.answers = self.truths[wanted], self.answers[wanted]
        different, first = np.unique(self.codes, return_index=True)
        there = np.argsort(first[different != UNSEEN], kind="stable")
        order = different[different != UNSEEN][there]
        texts = list(self.values)
        self.values = {texts[code]: k for k, code in enumerate(order.tolist())}
        renamed = np.full(len(texts) + 1, UNSEEN)  # the last entry is for UNSEEN
        renamed[order] = np.arange(order.size)
        self.codes = renamed[self.codes]

    # -- reading --------------------------------------------------------------------------------------------------

    def figures(self, watched: Mapping[str, int]) -> Figures:
        """Return the figures by feature and value, the most frequent values first. watched: class numbers by name."""
        return {name: self._of_feature(codes, watched) for name, codes in zip(self.features, self.codes, strict=True)}

    def _of_feature(self, codes: Array, watched: Mapping[str, int]) -> Figures:
        known = np.flatnonzero(codes != UNSEEN)
        different, first, places, counts = np.unique(
            codes[known], return_index=True, return_inverse=True, return_counts=True
        )
        shown = np.lexsort((first, -counts))[: limits.SEGMENTS_SHOWN]
        groups = np.full(different.size, shown.size)
        groups[shown] = np.arange(shown.size)
        found = self._of_groups(known, groups[places], shown.size + 1, watched)
        texts, others = list(self.values), different.size - shown.size
        return {
            "values": [
                {"value": json.loads(texts[code]), **each}
                for code, each in zip(different[shown].tolist(), found, strict=False)
            ],
            "other": {"values": others, **found[-1]} if others else None,
        }

    def _of_groups(self, known: Array, groups: Array, n: int, watched: Mapping[str, int]) -> list[Figures]:
        truths, answers, costs = self.truths[known], self.answers[known], self.costs[known]

        def counted(chosen: Array, weights: Array | None = None) -> list[float]:
            return list(np.bincount(groups[chosen], None if weights is None else weights[chosen], minlength=n).tolist())

        decided = ~np.isnan(costs)
        columns = counted(known >= 0), counted(truths == answers), counted(decided), counted(decided, costs)
        found: list[Figures] = [
            {"examples": m, "accuracy": right / m if m else None, "cost": spent / k if k else None}
            for m, right, k, spent in zip(*columns, strict=True)
        ]
        for name, c in watched.items():
            told = counted((truths == c) & (answers == c)), counted(truths == c), counted(answers == c)
            for each, *of_class in zip(found, *told, strict=True):
                rates = {figure: of(*of_class) for figure, of in OF_CLASS.items()}
                each.setdefault("classes", {})[name] = {"examples": of_class[1], **rates}
        return found

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state as arrays. It contains only values that an entry has."""
        kept = self.changed(self.features)
        values = np.frombuffer("\n".join(kept.values).encode(), np.uint8).copy()
        arrays = {name: getattr(kept, name) for name in ("numbers", "truths", "answers", "costs", "codes")}
        return {**arrays, "values": values}

    def load(self, state: State, classes: int) -> None:
        """Load a result of `state` for this number of classes. Raise ValueError if the arrays do not fit."""
        read = StateReader(state)
        numbers = read.take("numbers", np.int64, (None,), 1, COUNT_MAX)
        n = numbers.size
        costs = np.array(state["costs"])
        fits = costs.dtype == np.float64 and costs.shape == (n,) and not ((costs < 0) | (costs > BOUND_MAX)).any()
        if n > limits.SEGMENTED_MAX or (np.diff(numbers) <= 0).any() or not fits:
            raise ValueError(f"segments need at most {limits.SEGMENTED_MAX} examples in order, with costs, got {n}")
        most = min(classes, CLASSES_MAX) - 1
        truths, answers = (read.take(name, np.int32, (n,), 0, max(most, 0)) for name in ("truths", "answers"))
        texts = read.take("values", np.uint8, (None,), 10, 126).tobytes().decode().split("\n")
        texts = [] if texts == [""] else texts
        codes = read.take("codes", np.int64, (len(self.features), n), UNSEEN, max(len(texts) - 1, UNSEEN))
        if len(set(texts)) < len(texts) or not all(_is_value(text) for text in texts):
            raise ValueError("the values of segments must be different strings, numbers, booleans or nulls")
        self.numbers, self.costs, self.truths, self.answers, self.codes = numbers, costs, truths, answers, codes
        self.values = {text: k for k, text in enumerate(texts)}
        self._keep(np.arange(n))
        if list(self.values) != texts:
            raise ValueError("the values of segments must be in the order in which the examples have them")


def _is_value(text: str) -> bool:
    value = json.loads(text)
    is_finite = isinstance(value, float) and bool(np.isfinite(value))
    is_scalar = is_finite or value is None or isinstance(value, str | bool | int)
    short = not isinstance(value, str) or len(value) <= limits.SEGMENT_CHARS_MAX
    return is_scalar and short and json.dumps(value) == text
