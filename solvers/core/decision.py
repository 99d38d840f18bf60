"""Decision values of an expansion: the view that predictions read, and the points that predictions use.

A view refers to all slots as they were and copies only the coefficients. If only some points have a coefficient, the
view later copies these points together and then uses only them. It does so once enough predictions have been made to be
worth the copy. A kernel value is a function of its two points, and a term of 0 changes no sum (terms.py), so the bits
stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.dense import are_dense, decision_values, dense_parts, dense_rows, dense_scores
from hinged.solvers.core.kernels import Kernel, kernel_row
from hinged.solvers.core.points import POOL_USED, USED, Points, gathered, subset
from hinged.solvers.core.rows import Rows
from hinged.solvers.core.simd.lanes import LANES
from hinged.solvers.core.terms import POINTS, TERM_WORK, TOGETHER, Terms, listed_terms, none_listed
from hinged.solvers.core.turns import GATHERED_WORK, VALUE_WORK
from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

QUICKER = 10
"""If points have columns, kernel values are computed this many times as fast as turns.py assumes."""

SLOT_WORK, HELD_WORK = 0.2, 2.0
"""Work (turns.py) per coefficient: in a sum over all slots, and in a sum over the non-zero coefficients only."""

COPY_WORK = 2  # work (turns.py) of copying one number of a point


@compiled
def decide(kernel, points, n, slots, alpha, terms, b, spread, indptr, indices, values, norms, scores):
    """Compute scores (m, K) = sum_s alpha_s k(x_s, row) + b for each row of a batch and each column, over n points.

    slots: number of slots in the sums. alpha: coefficients of the columns without listed terms, in order.
    """
    m, together = norms.shape[0], TOGETHER if terms.slots.shape[0] > 0 else 1
    rows, lanes = np.empty((together, n), values.dtype), np.empty(LANES * TOGETHER)
    for begin in range(0, m, together):
        end = min(begin + together, m)
        for r in range(begin, end):
            first, last = indptr[r], indptr[r + 1]
            kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, 0, n, spread, rows[r - begin])
        decision_values(alpha, terms, slots, rows, end - begin, b, lanes, scores[begin:end])


def parts_of(rows: Rows, n: int, each: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of parts of a batch, each small enough for one call with kernel values of n points.

    each: work of a row without its kernel values.
    """
    m = len(rows)
    at_once = turns.portion(n * (VALUE_WORK + int(rows.indptr[-1]) // max(m, 1)) + each)
    return ((begin, min(begin + at_once, m)) for begin in range(0, m, at_once))


@dataclass(frozen=True, slots=True)
class Form:
    """The input of a decision value: the points, and the coefficients of each column.

    n: number of points. alpha (K', n): coefficients of the columns without listed terms, in order. blocks (blocks +
    1,): the beginning of each block, and the end of the last block. All points of a block are in the same block of
    slots.
    """

    points: Points
    n: int
    alpha: Array
    terms: Terms
    blocks: Array

    @property
    def each(self) -> int:
        """The work of a row without its kernel values."""
        return self.alpha.size + TERM_WORK * self.terms.slots.size


@dataclass(slots=True)
class Uses:
    """A record of how much a view has been used, and the forms that it has made because of that.

    Several threads may use a view at once. No harm is done if a thread loses a count, or if a form is made twice.
    """

    rows: int = 0
    work: float = 0.0  # work of the kernel values of these rows with all points
    held: Array | None = None  # slots that have a coefficient
    terms: int = 0  # non-zero coefficients of the columns without listed terms
    whole: Form | None = None
    compact: Form | None = None


@dataclass(frozen=True, slots=True)
class ExpansionView:
    """The points at the time when the view was made, and a copy of the coefficients.

    Points are only added after slot `n` or moved to new arrays, so a view stays valid while learning continues. terms:
    coefficients of the columns with few points; None if no column has few points. alpha (K', n): coefficients of all
    other columns, in order.
    """

    kernel: Kernel
    points: Points
    n: int
    alpha: Array
    b: Array
    delta: Array
    dim: int
    terms: Terms | None = None
    asked: Uses = field(default_factory=Uses, init=False, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Number of kernel values computed per row."""
        return self.n if self.asked.compact is None else self.asked.compact.n

    @property
    def gathered(self) -> int:
        """As in `View`."""
        return gathered(self.points)

    def coefficients(self) -> Array:
        """Return the coefficients (K, n) of all columns."""
        if self.terms is None:
            return self.alpha
        full = np.zeros((self.b.size, self.n))
        full[self.terms.length == NONE] = self.alpha
        column = np.repeat(np.arange(self.b.size), np.maximum(self.terms.length, 0))
        full[column, self.terms.slots] = self.terms.values
        return full

    def decision(self, rows: Rows) -> Array:
        """Return the decision values (m, K) of a batch."""
        rows = rows.under(self.kernel)  # the leader of a race may have another kernel than the race
        scores = np.empty((len(rows), self.b.size))
        form = self._form(rows)
        if are_dense(self.kernel, form.points, rows):
            self._decide_dense(form, rows, scores)
            return scores
        spread = np.zeros(self.dim if form.points.columns.shape[0] == 0 else 1, rows.values.dtype)
        for begin, end in parts_of(rows, form.n, form.each):
            decide(
                self.kernel, form.points, form.n, self.n, form.alpha, form.terms, self.b, spread,
                rows.indptr[begin : end + 1], rows.indices, rows.values, rows.norms[begin:end], scores[begin:end],
            )  # fmt: skip
            turns.rest()
        return scores

    def _decide_dense(self, form: Form, rows: Rows, scores: Array) -> None:
        """Compute the decision values of dense rows. Many rows go over the points together, a part at a time."""
        m = len(rows)
        rows_at_once, blocks_at_once = dense_parts(m, form.n, int(rows.indptr[-1]) // m, form.each)
        blocks = form.blocks.size - 1
        for begin in range(0, m, rows_at_once):
            end = min(begin + rows_at_once, m)
            dense = dense_rows(end - begin, self.dim, self.b.size, rows.values.dtype)
            for first in range(0, max(blocks, 1), blocks_at_once):
                dense_scores(
                    self.kernel, form.points, form.blocks, first, min(first + blocks_at_once, blocks), self.n,
                    form.alpha, form.terms, self.b, dense, rows.indptr[begin : end + 1], rows.indices, rows.values,
                    rows.norms[begin:end], scores[begin:end],
                )  # fmt: skip
                turns.rest()

    # -- the points with a coefficient alone ----------------------------------------------------------------------

    def _form(self, rows: Rows) -> Form:
        """Return the points to use for these rows: all, or those with a coefficient if a copy of them is worth it."""
        asked = self.asked
        if asked.compact is None and self.n > 0:
            features = int(rows.indptr[-1]) + VALUE_WORK * len(rows)
            asked.rows += len(rows)
            asked.work += self._work(features, len(rows))
            if self._pays(features * self.n):
                asked.compact = self._compact()
        if asked.compact is not None:
            return asked.compact
        if asked.whole is None:
            blocks = np.append(np.arange(0, self.n, POINTS), self.n)
            asked.whole = Form(self.points, self.n, self.alpha, self.terms or none_listed(self.b.size), blocks)
        return asked.whole

    def _work(self, features: int, m: int) -> float:
        """Return the work of the kernel values of m rows with all points. The rows have `features` features in all.

        The result is an estimate, whereas turns.py counts an upper bound.
        """
        if self.points.columns.shape[0] > 0:
            return self.n * features / QUICKER
        slots, pool = int(self.points.used[USED]), int(self.points.used[POOL_USED])
        return self.n * m * (VALUE_WORK + GATHERED_WORK * pool / max(slots, 1))

    def _pays(self, work: int) -> bool:
        """Return whether copying the points with a coefficient at the start would have made the rows so far cheaper.

        work: work of this call (turns.py). A short call must stay short, because nothing else may run during the call.
        """
        asked, numbers = self.asked, self.alpha.size + (self.terms.slots.size if self.terms is not None else 0)
        if asked.work <= numbers:  # finding the points costs as much
            return False
        held = self._held()
        dim = self.points.ones.shape[0] if self.points.only_ones[0] else self.points.columns.shape[0]
        copying = COPY_WORK * held.size * dim + numbers
        sums = SLOT_WORK * self.alpha.size - HELD_WORK * asked.terms
        saved = asked.work * (1.0 - held.size / self.n) + asked.rows * sums
        return saved > copying and (work > turns.WORK_MAX or copying <= turns.WORK_MAX)

    def _held(self) -> Array:
        """Return the slots that have a coefficient in some column."""
        if self.asked.held is None:
            held = (self.alpha != 0).any(axis=0)
            if self.terms is not None:
                held[self.terms.slots] = True
            self.asked.terms, self.asked.held = int(np.count_nonzero(self.alpha)), np.flatnonzero(held)
        return self.asked.held

    def _compact(self) -> Form:
        """Return the points with a coefficient, and all columns as terms whose places are numbers of these points."""
        held, columns = self._held(), self.b.size
        column, slots = np.nonzero(self.alpha)
        values = self.alpha[column, slots]
        if self.terms is not None:
            length = self.terms.length
            listed = np.repeat(np.arange(columns), np.maximum(length, 0))
            column = np.append(np.flatnonzero(length == NONE)[column], listed)
            order = np.argsort(column, kind="stable")
            column, slots = column[order], np.append(slots, self.terms.slots)[order]
            values = np.append(values, self.terms.values)[order]
        places = np.searchsorted(held, slots).astype(np.int32)
        terms = listed_terms(np.bincount(column, minlength=columns), slots.astype(np.int32), values, places)
        return Form(subset(self.points, held), held.size, np.zeros((0, held.size)), terms, blocks_of(held))


def blocks_of(held: Array) -> Array:
    """Return the beginnings of blocks of these slots, and the end of the last block.

    A block contains whole blocks of slots, and at most POINTS of the slots given.
    """
    ends = np.cumsum(np.bincount(held // POINTS))
    blocks = [0]
    while blocks[-1] < held.size:
        blocks.append(int(ends[np.searchsorted(ends, blocks[-1] + POINTS, side="right") - 1]))
    return np.array(blocks)
