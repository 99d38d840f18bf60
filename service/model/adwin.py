"""ADWIN over elements of 0 and 1: a window that grows as long as its mean is the same in all its parts.

The algorithm is ADWIN2 of A. Bifet and R. Gavalda, Learning from Time-Changing Data with Adaptive Windowing, SDM 2007.
This code has the constants of River's class, and makes the same decisions. The window is stored as buckets of 1, 2, 4,
.. elements, with at most five (BUCKETS) of each size. When there is a sixth bucket of a size, the two oldest buckets of
this size merge into a bucket of twice the size. A bucket stores only the sum of its elements. The number of elements
determines how many buckets of each size there are.

After every 32 elements (CLOCK), each border between two buckets is tested. Let W be the window, of n elements with
variance v. W is cut at a border if the means of its two parts W0 and W1 differ by more than

    `sqrt(2 v d / m) + 2 d / 3 m`,   `d = ln(2 ln(n) / DELTA)`,   `1 / m = 1 / (n0 - LEAST + 1) + 1 / (n1 - LEAST + 1)`

After a cut, the oldest bucket is dropped, and the test repeats until no parts differ. Logarithms are computed here step
by step, because the logarithms of the C library differ in the last bit between machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import add

# River's constants. If they are changed, old logs lead to different drifts.
DELTA = 0.002  # bound on the probability of cutting a window with a constant mean
CLOCK = 32  # number of elements between two checks
BUCKETS = 5  # maximum number of buckets of one size
LEAST = 5  # minimum number of elements in a part
TERMS = 14  # number of terms of the series: the remaining terms are less than the last bit
LN_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476


class Adwin:
    """The window. Call `cut` whenever `width` is a multiple of CLOCK. After a cut, start with a new Adwin."""

    def __init__(self) -> None:
        self.width = 0
        self.total = 0
        self._rows: list[list[int]] = [[]]  # [r] has the sum of each bucket of 2^r elements, oldest first

    def extend(self, elements: Sequence[int]) -> None:
        """Add elements, each 0 or 1, in order."""
        self.width += len(elements)
        self.total += sum(elements)
        coming: Sequence[int] = elements
        for r, row in enumerate(self._rows):
            row.extend(coming)
            merged = (len(row) - BUCKETS + 1) // 2
            if merged <= 0:
                return
            coming = list(map(add, row[: 2 * merged : 2], row[1 : 2 * merged : 2]))
            del row[: 2 * merged]
            if r + 1 == len(self._rows):
                self._rows.append([])  # the loop continues with this new row

    def cut(self) -> bool:
        """Drop the oldest buckets while two parts of the window differ. Return whether any bucket was dropped."""
        found = False
        while self._parts_differ():
            found = True
            oldest = self._rows[-1].pop(0)
            self.width -= 1 << (len(self._rows) - 1)
            self.total -= oldest
            if not self._rows[-1]:
                self._rows.pop()
        return found

    def _parts_differ(self) -> bool:
        n, total = self.width, self.total
        if n < 2 * LEAST:
            return False
        d = confidence(n)
        variance = total * (n - total) / (n * n)
        # |u0 / n0 - u1 / n1| = |u0 - mean n0| n / (n0 n1). The border in the middle has the smallest bound, and this
        # bound decides most tests. The margin subtracted from it is larger than rounding errors.
        mean, least = total / n, bound(variance, d, 4.0 / (n - 2 * LEAST + 2)) * (1.0 - 1e-9) - 1e-14
        slope, n0, u0 = least / n, 0, 0
        for r in range(len(self._rows) - 1, -1, -1):
            size = 1 << r
            for ones in self._rows[r]:
                n0 += size
                u0 += ones
                most = (least - slope * n0) * n0
                if not -most <= u0 - mean * n0 <= most and n0 >= LEAST and n - n0 >= LEAST:
                    recip = 1.0 / (n0 - LEAST + 1) + 1.0 / (n - n0 - LEAST + 1)
                    if abs(u0 / n0 - (total - u0) / (n - n0)) > bound(variance, d, recip):
                        return True
        return False

    @property
    def buckets(self) -> list[int]:
        """Return the sum of each bucket, oldest first. Before a cut, these sums and `width` are the whole state."""
        return list(chain.from_iterable(reversed(self._rows)))

    def load(self, width: int, buckets: Sequence[int]) -> None:
        """Load a window from its width and its `buckets`. Raise ValueError if the width and the buckets are
        inconsistent.
        """
        lengths = lengths_of(width)
        if len(buckets) != sum(lengths):
            raise ValueError(f"a window of {width} elements must have {sum(lengths)} buckets, got {len(buckets)}")
        rows, begin = [], 0
        for r in range(len(lengths) - 1, -1, -1):
            row = list(buckets[begin : begin + lengths[r]])
            if any(not 0 <= ones <= 1 << r for ones in row):
                raise ValueError(f"a bucket of {1 << r} elements must have 0 to {1 << r} ones, got {row}")
            rows.append(row)
            begin += lengths[r]
        self.width, self.total, self._rows = width, sum(buckets), rows[::-1]


def lengths_of(width: int) -> list[int]:
    """Return how many buckets of 1, 2, 4, .. elements a window of this width contains."""
    lengths: list[int] = []
    coming = width
    while coming or not lengths:
        merged = max(0, (coming - BUCKETS + 1) // 2)
        lengths.append(coming - 2 * merged)
        coming = merged
    return lengths


@lru_cache(4096)
def confidence(n: int) -> float:
    """Return d for a window of n elements. The result is cached, because many models have windows of the same width."""
    return ln(2.0 * ln(n) / DELTA)


def bound(variance: float, d: float, recip: float) -> float:
    """Return the largest allowed difference between the means of two parts. recip: 1 / m of the two parts."""
    return math.sqrt(2.0 * recip * variance * d) + 2.0 / 3.0 * d * recip


def ln(x: float) -> float:
    """Return the natural logarithm of x > 0, with the same bits on every machine.

    Uses `ln m = 2 artanh((m - 1) / (m + 1))`, with `x = m 2^e`.
    """
    m, e = math.frexp(x)
    if m < ROOT_HALF:
        m, e = 2.0 * m, e - 1
    z = (m - 1.0) / (m + 1.0)
    square, total = z * z, 0.0
    for k in range(TERMS - 1, -1, -1):
        total = total * square + 1.0 / (2 * k + 1)
    return e * LN_2 + 2.0 * z * total
