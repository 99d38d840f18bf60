"""The examples of a log as one data set, over which a solver may finish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from hinged.service import limits
from hinged.service.data.inputs import join_long
from hinged.service.data.slices import at_once
from hinged.solvers.core.rows import Rows

if TYPE_CHECKING:  # it imports the learner, which imports this module
    from hinged.service.model.events.learning import ExamplesLearned

Array = np.ndarray[Any, Any]
Some: TypeAlias = "tuple[Rows, Array, Array, Array | None]"
"""Rows, classes, keys and weights of examples. The weights are None if each weight is 1."""


def some_of(rows: Rows, event: ExamplesLearned, wanted: Array) -> Some:
    """Return some examples of a batch. wanted (m,) bool."""
    these = np.flatnonzero(wanted)
    weights = None if event.weights is None else event.weights[these]
    return rows.take(these), event.classes[these], event.keys[these], weights


class DataSet:
    """Collects the batches of a log, as long as they have at most limits.WHOLE_NUMBERS_MAX numbers."""

    def __init__(self) -> None:
        self._batches: list[Some] = []
        self._numbers = 0

    def add(self, batch: Some, columns: int) -> None:
        """Add a batch, whose examples have a decision value in each of the solver's columns."""
        self._numbers += batch[0].values.size + len(batch[0]) * columns
        if self._numbers <= limits.WHOLE_NUMBERS_MAX:
            self._batches.append(batch)
        else:
            self._batches.clear()

    def joined(self) -> tuple[Rows, Array, Array, Array] | None:
        """Return all rows, classes, keys and weights. None for no examples, or for too many."""
        if not self._batches:
            return None
        rows, classes, keys, weights = zip(*self._batches, strict=True)
        own = [np.ones(each.size) if given is None else given for each, given in zip(keys, weights, strict=True)]
        all_rows = cast("Rows", at_once(join_long(rows)))
        return all_rows, np.concatenate(classes), np.concatenate(keys), np.concatenate(own)
