"""Online learning in the span of few points, with a projection matrix that all columns share.

    Projectron, ProjectronPlusPlus   Orabona, Keshet and Caputo, JMLR 10, 2009
    NOGD                             Lu, Hoi, Wang, Zhao and Liu, JMLR 17, 2016

An example x that does not become a point changes f by the projection P k(x, .) instead of by k(x, .). The projection is
P k(x, .) = sum_i d_i k(x_i, .), where d = K^-1 k and k = (k(x_i, x)). The lost part is delta, with
|delta|^2 = k(x, x) - k.d. There is no bias. Only `drop` removes points.

inverse  (m, m) float64  K^-1 of the n <= m points; in NOGD the pseudo-inverse of rank k of their Gram matrix.

NOGD's features are D^-1/2 V' k, with the largest eigenvalues D and their eigenvectors V. A gradient step on weights of
these features is alpha += eta y V D^-1 V' k on the coefficients of the points. So NOGD is an expansion too, and
predicts from n kernel values without a product with V.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from hinged.solvers.core import turns
from hinged.solvers.core.coefficients import VALUES, enter, sign_of
from hinged.solvers.core.counts import DONE, LEARNED, NEEDS_REST, NEEDS_ROOM, NONE, STEPS
from hinged.solvers.core.kernels import (
    Kernel,
    inner_columns,
    kernel_row,
    point_row,
)
from hinged.solvers.core.points import (
    SLOTS_MIN,
    USED,
    append_point,
    has_room,
)
from hinged.solvers.core.rows import LabelledRows
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.states import MAGNITUDE_MAX, State, StateReader
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.jit.handed import handed
from hinged.solvers.online.online import OnlineExpansion
from hinged.solvers.online.rules import ETA_MAX, UpdateRule, learn_rows, scratch_of
from hinged.solvers.online.spectrum import largest_eigenvectors

Array = np.ndarray[Any, Any]

BUDGET_MAX = 2_000  # largest budget: `inverse` then needs 32 MB, and its decomposition takes a few seconds
INVERSE_TOL = 1e-2  # tolerance of `inverse` in `examine`: larger than its rounding errors
NOVELTY_MIN = 0.01  # below it, rounding errors of float32 kernel values are as large as delta


@handed
class Projection(NamedTuple):
    """The parameters in which these algorithms differ.

    margin: an example with y f(x) <= margin changes its column by eta y. novelty: minimum |delta| / |k(x, .)| of an
    example that becomes a point, as long as there are fewer than `budget` points. plus: learn from small margins too.
    """

    margin: float
    eta: float
    novelty: float
    plus: bool
    budget: int


@compiled
def extend_inverse(inverse, n, d, rest):
    """Update K^-1 after a point was added, from its d (n,) and rest = |delta|^2."""
    for i in range(n):
        for j in range(n):
            inverse[i, j] += d[i] * d[j] / rest
        inverse[i, n] = inverse[n, i] = -d[i] / rest
    inverse[n, n] = 1.0 / rest


@compiled
def shorten_inverse(inverse, n, k):
    """Update K^-1 of n points after the k-th was removed."""
    for i in range(n):
        if i != k:
            factor = inverse[i, k] / inverse[k, k]
            for j in range(n):
                if j != k:
                    inverse[i, j] -= factor * inverse[k, j]
    for i in range(n):
        to = i - (i > k)
        for j in range(n):
            if i != k and j != k:
                inverse[to, j - (j > k)] = inverse[i, j]
    for i in range(n):
        inverse[i, n - 1] = inverse[n - 1, i] = 0.0


@compiled
def margin_step(loss, projected, rest, least, weight):
    """Return how much of the projection Projectron++ adds for 0 < y f(x) < 1: at most the class weight.

    This is the largest step that the loss asks for and that does not increase the distance to a perfect f (of norm at
    most 1 / least). projected = |P k|^2, rest = |delta|^2, least = the |delta| from which a misclassified example
    becomes a point.
    """
    gain = loss - np.sqrt(rest) / least
    if not (gain > 0.0 and projected > 0.0):
        return 0.0
    return min(weight, min(loss, 2.0 * gain) / projected)


@compiled
def learn_in_span(
    kernel,
    points,
    machine,
    inverse,
    projection,
    weights,
    seen,
    batch,
    begin,
    spread,
    value_work,
    work_max,
    scores,
):
    """Learn the rows of a batch from `begin` on; return (rows done, why it stopped). Arguments: as in dual/lasvm.py.

    An example that is already a point is its own projection, so it changes its own coefficient. The function stops
    before a row with NEEDS_REST when work_max is reached. value_work: work of a kernel value.
    """
    indptr, indices, values, norms, selves, classes, keys, again = batch
    columns = machine.alpha.shape[0]
    row = np.empty(points.start.shape[0], values.dtype)
    d, step, loss = np.zeros(inverse.shape[0]), np.zeros(columns), np.zeros(columns)
    begun, swept = machine.counts[VALUES], 0
    for r in range(begin, classes.shape[0]):
        if swept + value_work * (machine.counts[VALUES] - begun) > work_max:
            return r, NEEDS_REST
        first, last = indptr[r], indptr[r + 1]
        own, n = classes[r], points.used[USED]
        if n < projection.budget and (n == inverse.shape[0] or not has_room(points, last - first)):
            return r, NEEDS_ROOM
        if not again:
            seen[own] += 1
            machine.counts[LEARNED] += 1
        kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, 0, n, spread, row)
        machine.counts[VALUES] += n
        k = row[:n]
        mistakes, small_margins = 0, 0
        for c in range(columns):
            y = sign_of(own, c, columns)
            scores[r, c] = dot(machine.alpha[c, :n], k)
            step[c] = y * projection.eta * weights[own] if y * scores[r, c] <= projection.margin else 0.0
            loss[c] = 1.0 - y * scores[r, c] if projection.plus and step[c] == 0.0 else 0.0
            mistakes += step[c] != 0.0
            small_margins += loss[c] > 0.0
        if mistakes + small_margins == 0 or selves[r] <= 0.0:
            continue
        swept += 2 * n * n
        for i in range(n):
            d[i] = dot(inverse[i, :n], k)
        self_value = np.float64(selves[r])
        projected = max(dot(d[:n], k), 0.0)
        rest = max(self_value - projected, 0.0)
        least = projection.novelty * np.sqrt(self_value)
        enters = mistakes > 0 and n < projection.budget and rest > least * least
        if enters:
            s = append_point(points, indices[first:last], values[first:last], norms[r], selves[r])
            enter(machine, s, own, keys[r])
            extend_inverse(inverse, n, d, rest)
        for c in range(columns):
            if enters and step[c] != 0.0:
                machine.alpha[c, n] = step[c]
                machine.counts[STEPS] += 1
                continue
            if loss[c] > 0.0:
                step[c] = sign_of(own, c, columns) * margin_step(loss[c], projected, rest, least, weights[own])
            if step[c] != 0.0:
                machine.counts[STEPS] += 1
                for i in range(n):
                    machine.alpha[c, i] += step[c] * d[i]
    return classes.shape[0], DONE


@compiled
def gram(kernel, points, n, spread, row, begin, end, out):
    """Compute out[begin:end] (n, n) = k(x_i, x_j) of the first n points."""
    for i in range(begin, end):
        point_row(kernel, points, i, points, 0, n, spread, row)
        for j in range(n):
            out[i, j] = row[j]


@compiled
def put_into_span(values, V, inverse, alpha):
    """Compute inverse (n, n) = V' diag(1 / values) V, and replace alpha (K, cap) of the n points by alpha V' V.

    V (rank, n).
    """
    n, rank = inverse.shape[0], values.shape[0]
    every, parts, part = np.arange(rank).astype(np.int32), np.empty(rank), np.empty(n)
    for i in range(n):
        for p in range(rank):
            parts[p] = V[p, i] / values[p]
        inner_columns(False, every, parts, V, 0, n, inverse[i])
    for c in range(alpha.shape[0]):
        for p in range(rank):
            parts[p] = dot(V[p], alpha[c, :n])
        inner_columns(False, every, parts, V, 0, n, part)
        for i in range(n):
            alpha[c, i] = part[i]


class SpanExpansion(OnlineExpansion):
    """An expansion that learns by a `Projection`."""

    forgets = False  # most examples move the coefficients of other points
    full_rank: ClassVar[bool] = True
    projection: Projection
    inverse: Array

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        budget: Annotated[int, Ge(2), Lt(2**31), "maximum number of points; later examples are projected"] = 500,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self._set_budget(budget, BUDGET_MAX)
        self.inverse = np.zeros((0, 0))

    def _learn_rows(self, batch: LabelledRows, begin: int, scores: Array) -> tuple[int, int]:
        done, reason = learn_in_span(
            self.kernel, self.points, self.machine, self.inverse, self.projection, self.factors, self.seen,
            batch, begin, self._spread(), self.value_work, turns.WORK_MAX, scores,
        )  # fmt: skip
        return done, reason

    def _take_out(self, slots: Array) -> None:
        if self.inverse.size:
            for p, s in enumerate(slots[::-1]):
                shorten_inverse(self.inverse, self.slots - p, int(s))
                turns.rest()
        super()._take_out(slots)

    def _inverse_size(self, points: int) -> int:
        """Return the side of `inverse` for this number of points."""
        return points

    def memory_bytes(self) -> int:
        """Return the memory of points, coefficients and the inverse, in bytes."""
        return super().memory_bytes() + self.inverse.nbytes

    def state(self) -> State:
        """Return everything that the next prediction or update depends on, as arrays."""
        m = self._inverse_size(self.slots)
        return super().state() | {"inverse": self.inverse[:m, :m].copy()}

    def load(self, state: State) -> None:
        """Load a state that `state` returned.

        Raise ValueError if an array does not fit the rest or this configuration.
        """
        checked = StateReader(state)
        class_of = checked.take("class_of", np.int32, (None,))
        if (class_of == NONE).any():
            raise ValueError("class_of names a hole; this solver has none")
        m = self._inverse_size(class_of.size)
        inverse = checked.take("inverse", np.float64, (m, m), -MAGNITUDE_MAX, MAGNITUDE_MAX)
        super().load(state)
        self.inverse = inverse

    def examine(self) -> None:
        """Refuse a state that learning cannot reach (Solver.examine): `inverse` must be an inverse on its own span.

        The checks are inverse K inverse = inverse and, if `inverse` has full rank, inverse K = 1.
        """
        super().examine()
        inverse = self.inverse[: self.slots, : self.slots]
        if not inverse.size:
            return
        K = self._kernel_rows(np.arange(self.slots))
        there = inverse @ K @ inverse
        if not np.abs(there - inverse).max() <= INVERSE_TOL * np.abs(inverse).max():
            raise ValueError("inverse must be the inverse of the kernel values between the points")
        if self.full_rank and not np.abs(inverse @ K - np.eye(self.slots)).max() <= INVERSE_TOL:
            raise ValueError("inverse must be the inverse of the kernel values between the points")


class Projectron(SpanExpansion):
    """The perceptron in which a misclassified example becomes a point only if it is far from the span of the points.

    novelty: sine of the angle to the span (the paper's eta, in units of |k(x, .)|), from 0.01 to below 1. budget:
    number of points from which on every misclassified example is projected (Lu et al. 2016); at most 2,000.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        novelty: Annotated[
            float,
            Ge(NOVELTY_MIN),
            Lt(1),
            "an example becomes a point if at least this part of its length is outside the span",
        ] = 0.1,
        plus: bool = False,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        self.projection = Projection(0.0, 1.0, float(novelty), plus, self.full_at)

    def make_room(self, nnz: int) -> None:
        """Enlarge the arrays if needed, so that a row of nnz non-zeros fits."""
        super().make_room(nnz)
        n = self.inverse.shape[0]
        if self.slots == n:
            size = min(max(2 * n, SLOTS_MIN), self.full_at)
            larger = np.zeros((size, size))
            larger[:n, :n] = self.inverse
            self.inverse = larger


class ProjectronPlusPlus(Projectron):
    """Projectron that also learns from margins below 1, if the projection certainly improves f."""

    def __init__(self, kernel: Kernel, dim: int, **shared: Any) -> None:
        super().__init__(kernel, dim, plus=True, **shared)


class NOGD(SpanExpansion):
    """Nystroem online gradient descent: OGD up to `budget` points, then learning in the span of their main directions.

    eta: learning rate, > 0. rank: number of features, at most the budget; None for a fifth of it.
    """

    full_rank = False

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        *,
        eta: Annotated[float, Gt(0), Le(ETA_MAX), "learning rate"] = 0.2,
        rank: Annotated[int | None, Ge(1), Lt(2**31), "number of features; null: a fifth of the budget"] = None,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, dim, **shared)
        rank = max(1, self.full_at // 5) if rank is None else rank
        if rank > self.full_at:
            raise ValueError(f"rank must be at most budget = {self.full_at}, got {rank}")
        self.rank = int(rank)
        self.projection = Projection(1.0, float(eta), 0.0, False, self.full_at)

    def _take_out(self, slots: Array) -> None:
        """Remove points and discard the features; OGD continues until there are `budget` points again."""
        self.inverse = np.zeros((0, 0))
        super()._take_out(slots)

    def _inverse_size(self, points: int) -> int:
        return points if points == self.full_at else 0

    def _learn_rows(self, batch: LabelledRows, begin: int, scores: Array) -> tuple[int, int]:
        if self.live == self.full_at:
            return super()._learn_rows(batch, begin, scores)
        end = min(batch.classes.size, begin + self.full_at - self.live)
        rule = UpdateRule(margin=1.0, eta=self.projection.eta)
        done, reason = learn_rows(
            self.kernel, self.points, self.machine, np.zeros((self.columns, 2)), rule, self.factors,
            self.bounds, self.seen, self.random, self.full_at, batch._replace(classes=batch.classes[:end]), begin,
            self._spread(), self.value_work, turns.WORK_MAX, *scratch_of(self.points, self.columns, rule), scores,
        )  # fmt: skip
        if self.live == self.full_at:
            self._make_features()
        return done, reason

    def _make_features(self) -> None:
        """Decompose the points' Gram matrix and project the coefficients onto the span of its main directions."""
        n = self.slots
        K = np.empty((n, n))
        row, at_once = np.empty(n, self.dtype), turns.portion(n * self.value_work)
        for begin in range(0, n, at_once):
            gram(self.kernel, self.points, n, self._spread(), row, begin, min(begin + at_once, n), K)
            turns.rest()
        self.machine.counts[VALUES] += n * n
        values, vectors = largest_eigenvectors(K, self.rank)
        turns.rest()
        main = values > n * np.finfo(self.dtype).eps * values[0]
        self.inverse = np.empty((n, n))
        V = np.ascontiguousarray(vectors[:, main].T)
        put_into_span(values[main], V, self.inverse, self.machine.alpha)
