"""The spread of the rows of a warm-up. The spread determines gamma "scale"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hinged.solvers.core.families import KERNELS
from hinged.solvers.estimators.scaling import CSR

SPREAD_LEAST, FORMER_LEAST = 1e-15, 1e-9  # minimum spreads from which a gamma is determined


@dataclass(frozen=True, slots=True)
class Spread:
    """Means over the rows of a warm-up: the means of |x - z|^2 and |x - z|_1 over all pairs, and the mean of x.x."""

    square: float
    absolute: float
    inner: float

    def gamma(self, kernel: str, *, former: bool = False) -> float:
        """Return gamma "scale" of a kernel for these rows. former: return what "auto" meant in earlier models.

        rbf: 1 / total variance. The total variance is half of the mean |x - z|^2; the former rule was 1 / that mean.
        laplacian: the kernel of two rows at the average distance is 1 / e. polynomial: gamma x.x is 1 on average. The
        result is 1 if there are no rows or all rows are equal. The result is also 1 for a linear kernel, which has no
        gamma.
        """
        mean, factor = KERNELS[kernel].spread or (None, 0.0)
        found = 0.0 if mean is None else float(getattr(self, mean)) * (1.0 if former else factor)
        return 1.0 / found if found > (FORMER_LEAST if former else SPREAD_LEAST) else 1.0


def spread_of(rows: CSR) -> Spread:
    """Return the spread of sparse rows, without computing all pairs."""
    indptr, indices, values = rows
    n = indptr.size - 1
    if not values.size:
        return Spread(0.0, 0.0, 0.0)
    sums = np.bincount(indices, values)
    inner = float(np.square(values).sum()) / n
    # For a column with values v_1..v_n in ascending order, including its zeros:
    # sum_ij |v_i - v_j| = 2 sum_i (2 i - n - 1) v_i.
    order = np.lexsort((values, indices))
    v, column = values[order], indices[order]
    counts = np.bincount(column)
    rank = np.arange(1, v.size + 1) - (np.cumsum(counts) - counts)[column]
    rank = rank + np.where(v > 0, n - counts[column], 0)
    return Spread(
        # For equal rows, rounding may make this value negative.
        square=max(0.0, 2.0 * (inner - float(np.square(sums / n).sum()))),
        absolute=max(0.0, float(2.0 * ((2.0 * rank - n - 1) * v).sum()) / n**2),
        inner=inner,
    )
