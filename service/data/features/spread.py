"""The spread of a warm-up's rows, from which gamma "scale" is found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hinged.solvers.core.families import KERNELS
from hinged.solvers.estimators.scaling import CSR

SPREAD_LEAST, FORMER_LEAST = 1e-15, 1e-9  # least spreads from which a gamma is found


@dataclass(frozen=True, slots=True)
class Spread:
    """Means over the rows of a warm-up: of |x - z|^2 and |x - z|_1 over all pairs, and of x.x."""

    square: float
    absolute: float
    inner: float

    def gamma(self, kernel: str, *, former: bool = False) -> float:
        """Return gamma "scale" of a kernel for these rows; former: what "auto" was in earlier models.

        rbf: 1 / total variance, which is half of the mean |x - z|^2; formerly 1 / that mean. laplacian: the kernel of
        two rows at the average distance is 1 / e. polynomial: gamma x.x is 1 on average. It is 1 if the rows do not
        differ (or there are no rows), and for a linear kernel, which has no gamma.
        """
        mean, factor = KERNELS[kernel].spread or (None, 0.0)
        found = 0.0 if mean is None else float(getattr(self, mean)) * (1.0 if former else factor)
        return 1.0 / found if found > (FORMER_LEAST if former else SPREAD_LEAST) else 1.0


def spread_of(rows: CSR) -> Spread:
    """Return the spread of sparse rows, without computing pairs."""
    indptr, indices, values = rows
    n = indptr.size - 1
    if not values.size:
        return Spread(0.0, 0.0, 0.0)
    sums = np.bincount(indices, values)
    inner = float(np.square(values).sum()) / n
    # In a column sorted ascending, v_1..v_n with the zeros in their place:
    # sum_ij |v_i - v_j| = 2 sum_i (2 i - n - 1) v_i.
    order = np.lexsort((values, indices))
    v, column = values[order], indices[order]
    counts = np.bincount(column)
    rank = np.arange(1, v.size + 1) - (np.cumsum(counts) - counts)[column]
    rank = rank + np.where(v > 0, n - counts[column], 0)
    return Spread(
        # For equal rows, rounding may make this negative.
        square=max(0.0, 2.0 * (inner - float(np.square(sums / n).sum()))),
        absolute=max(0.0, float(2.0 * ((2.0 * rank - n - 1) * v).sum()) / n**2),
        inner=inner,
    )
