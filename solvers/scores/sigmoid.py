"""Platt's sigmoid, fitted along a stream: class probabilities from decision values.

J. Platt, Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized Likelihood Methods, 1999,
fitted by the Newton method of H.-T. Lin, C.-J. Lin and R. C. Weng, A Note on Platt's Probabilistic Outputs for Support
Vector Machines, Machine Learning 68, 2007 (algorithm 1).

    P(y = +1 | f) = 1 / (1 + exp(A f + B)),   A and B minimise   -sum_i t_i log p_i + (1 - t_i) log(1 - p_i)

over the newest WINDOW examples, with t_i = (N+ + 1) / (N+ + 2) for the N+ positive examples and 1 / (N- + 2) for the N-
negative examples. The fit is repeated whenever a tenth of the window is new, or a tenth of the examples since the
column was added. Each score was made just before its example was learned. So the fit needs no held-out data, whereas
batch learning needs cross-validation.

There is one sigmoid per column. With one column the second class is its positive side. With three or more columns, the
probabilities of the classes are the sigmoids' values divided by their sum: normalised sigmoids. calibrations.py also
fits other calibrations: a softmax with such A and B, where P(y = c | f) is exp(-(A_c f_c + B_c)) divided by the sum
over all classes.

fit      (K, 2) float64        A, B of each column.
scores   (K, WINDOW) float32   decision values, a ring; ABSENT for examples older than the column.
classes  (WINDOW,) int32       class numbers, a ring.
seen     (1,) int64            examples learned.
since    (K,) int64            number of examples when the column was added.
due      (K,) int64            number of examples at the column's next fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.elementary import exp, log, log1p
from hinged.solvers.core.states import COUNT_MAX, State, StateReader
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.jit.handed import handed
from hinged.solvers.scores.venn_abers import VennAbers

Array = np.ndarray[Any, Any]

WINDOW = 1000
ABSENT = -1.0  # the decision value that a hinge-loss column gives to a point of another class
SCORE_MAX = 1e30  # scores are clipped to this size, so that float32 can represent them
SCORE_LIMIT = float(np.float32(SCORE_MAX))  # slightly more
ITERATIONS_MAX = 50
GRADIENT_TOL = 1e-4  # relative to the mean loss, with scores in units of their root mean square
STEP_MIN = 1e-10
FIT_MAX = 1e100  # limit of A and B: scores may be as small as float32 allows
RIDGE = 1e-12


BY_COLUMN = ("fit", "scores", "since", "due")


@handed
class Sigmoids(NamedTuple):
    """The arrays in the form that compiled code uses; see the module's docstring."""

    fit: Array
    scores: Array
    classes: Array
    seen: Array
    since: Array
    due: Array


@compiled
def positive_part(A, B, f):
    """Return P(y = +1 | f) and P(y = -1 | f), each in full precision."""
    z = A * min(max(f, -SCORE_MAX), SCORE_MAX) + B
    e = exp(-abs(z))
    small, large = e / (1.0 + e), 1.0 / (1.0 + e)
    return (small, large) if z >= 0.0 else (large, small)


@compiled
def class_probabilities(fit, f, out):
    """Write the probability of each class, from the decision values f of one example, to the front of `out`.

    f may have fewer columns than there are now, if it was computed before a class was announced.
    """
    columns = f.shape[0]
    if columns == 1:
        second = min(fit.shape[0], 2) - 1  # the second class's current column
        out[1], out[0] = positive_part(fit[second, 0], fit[second, 1], f[0])
        return
    total = 0.0
    for c in range(columns):
        out[c], _ = positive_part(fit[c, 0], fit[c, 1], f[c])
        total += out[c]
    for c in range(columns):
        out[c] = out[c] / total if total > 0.0 else 1.0 / columns


@compiled
def loss_and_derivatives(f, classes, positive, high, low, inverse, a, b):
    """Return loss, gradient and Hessian at (a, b), summed over the examples. f is multiplied by `inverse`."""
    loss, g_a, g_b, h_aa, h_ab, h_bb = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(f.shape[0]):
        x = np.float64(f[i]) * inverse
        t = high if classes[i] == positive else low
        z = a * x + b
        e = exp(-abs(z))
        loss += (t * z if z >= 0.0 else (t - 1.0) * z) + log1p(e)
        p = (e if z >= 0.0 else 1.0) / (1.0 + e)
        d1, d2 = t - p, p * (1.0 - p)
        g_a += x * d1
        g_b += d1
        h_aa += x * x * d2
        h_ab += x * d2
        h_bb += d2
    return loss, g_a, g_b, h_aa + RIDGE, h_ab, h_bb + RIDGE


@compiled
def fit_column(f, classes, positive, A, B):
    """Return A and B for scores f (n,). Examples of class `positive` are +1. The fit starts from the given A and B."""
    n = f.shape[0]
    n_positive = 0
    square = 0.0
    for i in range(n):
        n_positive += classes[i] == positive
        square += np.float64(f[i]) * np.float64(f[i])
    scale = np.sqrt(square / n)
    if not scale > 0.0:
        scale = 1.0
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n - n_positive + 2.0)
    a, b = A * scale, B
    loss, g_a, g_b, h_aa, h_ab, h_bb = loss_and_derivatives(f, classes, positive, high, low, 1.0 / scale, a, b)
    # If the start of algorithm 1, the best constant p, is better, use it: the scores may have changed since.
    constant_b = log((n - n_positive + 1.0) / (n_positive + 1.0))
    p = (n_positive + 1.0) / (n + 2.0)
    targets = n_positive * high + (n - n_positive) * low
    if not loss <= -targets * log(p) - (n - targets) * log(1.0 - p):
        a, b = 0.0, constant_b
        loss, g_a, g_b, h_aa, h_ab, h_bb = loss_and_derivatives(f, classes, positive, high, low, 1.0 / scale, a, b)
    for _ in range(ITERATIONS_MAX):
        if abs(g_a) < GRADIENT_TOL * n and abs(g_b) < GRADIENT_TOL * n:
            break
        determinant = h_aa * h_bb - h_ab * h_ab
        if not determinant > 0.0:
            break
        d_a = -(h_bb * g_a - h_ab * g_b) / determinant
        d_b = -(h_aa * g_b - h_ab * g_a) / determinant
        slope = g_a * d_a + g_b * d_b
        step = 1.0
        found = False
        while step >= STEP_MIN and not found:
            there = loss_and_derivatives(f, classes, positive, high, low, 1.0 / scale, a + step * d_a, b + step * d_b)
            found = there[0] < loss + 1e-4 * step * slope
            if not found:
                step /= 2.0
        if not found:
            break
        a, b = a + step * d_a, b + step * d_b
        loss, g_a, g_b, h_aa, h_ab, h_bb = there
    return a / scale, b


@compiled
def learn_scores(sigmoids, columns, classes, out):
    """For each example in order, write its probabilities by the fit so far, then store its score and its class."""
    fit, scores, ring, seen, since, due = sigmoids
    known = columns.shape[1]
    for i in range(columns.shape[0]):
        class_probabilities(fit, columns[i], out[i])
        place = seen[0] % WINDOW
        for c in range(scores.shape[0]):
            f = ABSENT
            if known == 1 and c < 2:
                # The second class keeps the single column; the first gets its negation once there are more columns.
                f = columns[i, 0] if c == min(scores.shape[0], 2) - 1 else -columns[i, 0]
            elif c < known:
                f = columns[i, c]
            scores[c, place] = min(max(f, -SCORE_MAX), SCORE_MAX)
        ring[place] = classes[i]
        seen[0] += 1
        n = min(seen[0], WINDOW)
        for c in range(scores.shape[0]):
            if seen[0] == due[c]:
                positive = 1 if scores.shape[0] == 1 else c
                fit[c, 0], fit[c, 1] = fit_column(scores[c, :n], ring[:n], positive, fit[c, 0], fit[c, 1])
                due[c] += max(1, min(seen[0] - since[c], WINDOW) // 10)


@compiled
def probabilities_of_numbers(fit, columns, numbers, row, out):
    """Write the probability of class numbers[i] of each example; out[i] is unchanged if numbers[i] is negative."""
    for i in range(columns.shape[0]):
        if numbers[i] >= 0:
            class_probabilities(fit, columns[i], row)
            out[i] = row[numbers[i]]


@compiled
def probabilities_of(fit, columns, out):
    """Compute the probabilities of many examples, without learning."""
    for i in range(columns.shape[0]):
        class_probabilities(fit, columns[i], out[i])


@compiled
def softmax_of(fit, columns, out):
    """Compute the probabilities by a softmax of A f + B, with three or more columns in the fit."""
    known = columns.shape[1]
    for i in range(columns.shape[0]):
        if known == 1:  # the first class has the negated column
            f, A, B = columns[i, 0], fit[0, 0] + fit[1, 0], fit[1, 1] - fit[0, 1]
            out[i, 1], out[i, 0] = positive_part(A, B, f)
            continue
        most, total = -np.inf, 0.0
        for c in range(known):
            out[i, c] = -(fit[c, 0] * min(max(columns[i, c], -SCORE_MAX), SCORE_MAX) + fit[c, 1])
            most = max(most, out[i, c])
        for c in range(known):
            out[i, c] = exp(out[i, c] - most)
            total += out[i, c]
        for c in range(known):
            out[i, c] /= total


class Calibration:
    """A fit of A and B, which never changes after it is made."""

    def __init__(self, fit: Array, *, softmax: bool = False) -> None:
        """fit (K, 2): A and B of each column; K = 0 before the first example.

        softmax: use a softmax instead of normalised sigmoids.
        """
        self._fit, self._softmax = fit, softmax

    def __call__(self, columns: Array, numbers: Array) -> Array:
        """Return (m,) the probability of class `numbers` (m,), by decision values (m, K); NaN for a negative number."""
        out = np.full(numbers.size, np.nan)
        k = columns.shape[1]
        if self._softmax:
            found = np.flatnonzero(numbers >= 0)
            out[found] = self.classes(columns)[found, numbers[found]]
        elif 0 < k <= self._fit.shape[0]:
            row = np.empty(max(k, 2))
            probabilities_of_numbers(self._fit, np.array(columns, np.float64, order="C"), numbers, row, out)
        return out

    def classes(self, columns: Array) -> Array:
        """Return probabilities (m, classes) for decision values (m, K); two classes for one column.

        NaN without a fit.
        """
        m, k = columns.shape
        out = np.full((m, max(k, 2)), np.nan)
        if 0 < k <= self._fit.shape[0]:
            fitted = softmax_of if self._softmax else probabilities_of
            fitted(self._fit, np.array(columns, np.float64, order="C"), out)
        return out


class Sigmoid:
    """A sigmoid for each column of a solver; `widen` adds columns."""

    def __init__(self) -> None:
        self._arrays = _empty(0)

    @property
    def columns(self) -> int:
        """Number of columns that have a sigmoid."""
        return int(self._arrays.fit.shape[0])

    @property
    def seen(self) -> int:
        """Number of examples learned."""
        return int(self._arrays.seen[0])

    def widen(self, columns: int) -> None:
        """Add columns.

        From one to three columns, the second class keeps its sigmoid; the first gets its mirror image.
        """
        old, new = self._arrays, _empty(columns)
        new.classes[:], new.seen[:] = old.classes, old.seen
        n = min(self.seen, WINDOW)
        new.fit[:, 1] = log(n + 1.0)  # no example so far belongs to the new column's class
        new.scores[:, :n] = ABSENT
        new.since[:], new.due[:] = self.seen, self.seen + 1
        sources = [0, 0] if self.columns == 1 < columns else range(self.columns)
        for c, source in enumerate(sources):
            for name in BY_COLUMN:
                getattr(new, name)[c] = getattr(old, name)[source]
        if self.columns == 1 < columns:
            new.fit[0, 1] *= -1.0
            new.scores[0] *= -1.0
        self._arrays = new

    def learn(self, columns: Array, classes: Array) -> Array:
        """Learn scores (m, K) with classes (m,) in order; return the probabilities from just before each was learned.

        The result is (m, K), or (m, 2) for one column. K may be smaller than now, for scores computed before a class
        was announced. Raises ValueError before anything changes.
        """
        self.check(columns, classes)
        m, k = columns.shape
        out = np.empty((m, max(k, 2)))
        learn_scores(self._arrays, np.array(columns, np.float64, order="C"), classes.astype(np.int32), out)
        return out

    def check(self, columns: Array, classes: Array) -> None:
        """Refuse (ValueError) arguments that are invalid for `learn`."""
        m, k = columns.shape
        if not 0 < k <= self.columns:
            raise ValueError(f"columns must be from 1 to {self.columns}, got {k}")
        if classes.shape != (m,) or (m and not 0 <= classes.min() <= classes.max() <= max(1, self.columns - 1)):
            raise ValueError(f"classes must be {m} numbers from 0 to {max(1, self.columns - 1)}, got {classes}")

    def newest(self, n: int) -> tuple[Array, Array]:
        """Return scores (n, K) float64 and classes (n,) of the newest n examples, at most WINDOW, the oldest first."""
        places = np.arange(self.seen - n, self.seen) % WINDOW
        return np.ascontiguousarray(self._arrays.scores[:, places].T, np.float64), self._arrays.classes[places]

    def interval(self, number: int) -> VennAbers | None:
        """Return the interval of a class's probability, by the newest scores; None if the class has no column.

        Examples that are older than the column do not count.
        """
        arrays, column = self._arrays, number if self.columns > 1 else 0
        if number >= (2 if self.columns == 1 else self.columns):
            return None
        n = min(self.seen - int(arrays.since[column]), WINDOW)
        places = np.arange(self.seen - n, self.seen) % WINDOW
        scores = arrays.scores[column, places]
        mirrored = self.columns == 1 and number == 0  # the first class has the negated column
        return VennAbers(-scores if mirrored else scores, arrays.classes[places] == number)

    @property
    def fit(self) -> Array:
        """The current A and B of each column (K, 2)."""
        return self._arrays.fit

    def calibration(self) -> Calibration:
        """Return the current fit. Before the first example it is empty."""
        return Calibration(self._arrays.fit.copy() if self.seen else np.zeros((0, 2)))

    def state(self) -> State:
        """Return copies of the arrays."""
        return {name: array.copy() for name, array in self._arrays._asdict().items()}

    def load(self, state: State) -> None:
        """Load a state that `state` returned. Raise ValueError if an array does not fit the rest."""
        read = StateReader(state)
        fit = read.take("fit", np.float64, (None, 2), -FIT_MAX, FIT_MAX)
        k = fit.shape[0]
        seen = read.take("seen", np.int64, (1,), 0, COUNT_MAX)
        at = int(seen[0])
        self._arrays = Sigmoids(
            fit,
            read.take("scores", np.float32, (k, WINDOW), -SCORE_LIMIT, SCORE_LIMIT),
            read.take("classes", np.int32, (WINDOW,), 0, max(1, k - 1)),
            seen,
            read.take("since", np.int64, (k,), 0, at),
            read.take("due", np.int64, (k,), at + 1, at + max(1, WINDOW // 10)),
        )


def _empty(columns: int) -> Sigmoids:
    return Sigmoids(
        fit=np.zeros((columns, 2)),
        scores=np.zeros((columns, WINDOW), np.float32),
        classes=np.zeros(WINDOW, np.int32),
        seen=np.zeros(1, np.int64),
        since=np.zeros(columns, np.int64),
        due=np.ones(columns, np.int64),
    )
