"""Selection of the examples worth learning, or worth labelling, from a solver's decision values.

A. Bordes, S. Ertekin, J. Weston and L. Bottou, Fast Kernel Classifiers with Online and Active Learning, JMLR 6, 2005,
section 4. The functions need only a solver's view, decision values (m, K) and delta (K,), so they work with all
solvers.

    random      any example not learned yet (section 4.4)
    gradient    the most misclassified: the smallest y f(x), which needs its label (section 4.1, eq. 12)
    active      the closest to the decision boundary: the smallest |f(x)|, without its label (section 4.2, eq. 13)
    autoactive  as active, in a sample that ends with its fifth example inside the margin (sections 4.3, 4.4)

With one column, f(x) is its decision value and y the sign of the example's class in it. With K >= 3 columns, y f(x) is
(f_y - largest other f_c) / 2 and |f(x)| is (best - second best) / 2. These are halves of a difference of two columns,
so two classes in columns f and -f would give the same as one column. The step of eq. 13, |f(x)| = max over y of y f(x),
is valid for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hinged.solvers.core.kernels import Kernel, point_row
from hinged.solvers.core.points import points_from_rows
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rows import Rows
from hinged.solvers.jit.compiled import compiled

Array = np.ndarray[Any, Any]

RANDOM, GRADIENT, ACTIVE, AUTOACTIVE = STRATEGIES = ("random", "gradient", "active", "autoactive")
AUTO_SEARCHED = 100  # maximum number of examples that autoactive compares per choice
AUTO_WANTED = 5  # number of examples inside the margin at which autoactive ends its sample
AUTO_CHUNK = 10
TINY = 1e-30  # makes a point at the origin of a linear kernel similar to itself and dissimilar to every other point


def distances(scores: Array) -> Array:
    """Return (m,) |f(x)|, the distance from the decision boundary, for decision values (m, K); 0 without a column."""
    if scores.shape[1] == 0:
        return np.zeros(scores.shape[0])
    if scores.shape[1] == 1:
        return np.asarray(np.abs(scores[:, 0]))
    return _halved_gaps(scores, *_two_best(scores))


def _two_best(scores: Array) -> tuple[Array, Array]:
    """Return (m,) the columns of the largest and of the second largest decision value. Of equal values the first wins.

    A partial sort would select either of two equal values, depending on the processor.
    """
    best = scores.argmax(axis=1)
    others = scores.copy()
    others[np.arange(scores.shape[0]), best] = -np.inf
    return best, others.argmax(axis=1)


def _halved_gaps(scores: Array, best: Array, second: Array) -> Array:
    each = np.arange(scores.shape[0])
    return np.asarray((scores[each, best] - scores[each, second]) / 2)


def margins(scores: Array, classes: Array) -> Array:
    """Return (m,) y f(x) for decision values (m, K). It is negative if the example is misclassified."""
    if scores.shape[1] == 0:
        return np.zeros(scores.shape[0])
    if scores.shape[1] == 1:
        return np.where(classes == 1, scores[:, 0], -scores[:, 0])
    each = np.arange(scores.shape[0])
    others = scores.copy()
    others[each, classes] = -np.inf
    return np.asarray((scores[each, classes] - others.max(axis=1)) / 2)


def is_wanted(scores: Array, delta: Array) -> Array:
    """Return (m,) whether |f(x)| < 1 + delta / 2: then the example may become a support vector, whatever its label is.

    See section 3.5, eq. 11, with the worse label. delta (K,) is the delta of the view: the bias is accurate to within
    delta / 2. With several columns, the deltas of the best and of the second best column count half each, as in |f(x)|.
    """
    if scores.shape[1] == 0:
        return np.ones(scores.shape[0], bool)
    if scores.shape[1] == 1:
        return np.asarray(np.abs(scores[:, 0]) < 1 + delta[0] / 2)
    best, second = _two_best(scores)
    doubt = (delta[best] + delta[second]) / 2
    return np.asarray(_halved_gaps(scores, best, second) < 1 + doubt / 2)


def informativeness(strategy: str, scores: Array, classes: Array | None = None) -> Array:
    """Return (m,) how useful each example is to a strategy, for decision values (m, K); equal for all if it is random.

    Raises ValueError for an unknown strategy, and for gradient without the examples' classes (m,).
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if strategy == RANDOM:
        return np.zeros(scores.shape[0])
    if strategy == GRADIENT:
        if classes is None:
            raise ValueError("gradient selection needs the examples' classes")
        return -margins(scores, classes)
    return -distances(scores)


def diverse(kernel: Kernel, rows: Rows, wish: Array, n: int) -> Array:
    """Return the numbers of n rows that are informative and unlike each other, in the order of choice.

    See K. Brinker, Incorporating Diversity in Active Learning with Support Vector Machines, ICML 2003, section 4. One
    row after another is chosen: the row with the smallest max |cos| - wish. The cosine in feature space,
    k(x, z) / sqrt(k(x, x) k(z, z)), is computed with the rows chosen before. wish (m,): `informativeness`. Of equal
    rows the first is chosen.
    """
    points = points_from_rows(rows, rows.dim)
    lengths = np.sqrt(rows.selves.astype(np.float64) + TINY)
    spread = np.zeros(rows.dim if points.columns.shape[0] == 0 else 1, rows.values.dtype)
    row = np.empty(len(rows), rows.values.dtype)
    likest = np.zeros(len(rows))
    chosen: list[int] = []
    for _ in range(min(n, len(rows))):
        total = likest - wish
        total[chosen] = np.inf
        chosen.append(int(total.argmin()))
        point_row(kernel, points, chosen[-1], points, 0, len(rows), spread, row)
        likest = np.maximum(likest, (np.abs(row) + TINY) / (lengths * lengths[chosen[-1]]))
    return np.array(chosen, np.int64)


@compiled
def shuffle_front(order, left, n, random):
    """Move a random choice of n of order[:left] to its front. Every ordered choice is equally likely (Fisher-Yates)."""
    for p in range(n):
        q = p + random_below(random, left - p)
        order[p], order[q] = order[q], order[p]


class Unseen:
    """The numbers 0..size-1 that have not been removed, for random draws.

    random: one-element uint64 state of core/random.py, owned by the caller.
    """

    def __init__(self, size: int, random: Array) -> None:
        if random.shape != (1,) or random.dtype != np.uint64:
            raise ValueError(f"random must be one uint64, got {random.dtype} {random.shape}")
        self.random = random
        self.left = size
        self._order = np.arange(size)

    def draw(self, n: int) -> Array:
        """Draw at most n different numbers, in random order. They are not removed."""
        n = min(n, self.left)
        shuffle_front(self._order, self.left, n, self.random)
        return self._order[:n].copy()

    def remove(self, place: int) -> int:
        """Remove and return the number at `place` of the last draw. Afterwards the places of that draw are invalid."""
        self.left -= 1
        index = int(self._order[place])
        self._order[place] = self._order[self.left]
        return index
