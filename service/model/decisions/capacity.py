"""How often a decision may be taken in a period, and which examples get the decision.

A contender is an example whose best decision is limited. Its gain is the expected cost of the best decision without a
limit, minus the cost of its own. With B decisions left in the period and R contenders to come, a contender is taken if
its gain is among the highest B / R of the gains so far. If R and the distribution of the gains are known, this rule
loses a bounded amount compared with the best choice in hindsight, however large R is. (Arlotto and Gurvich, Uniformly
Bounded Regret in the Multisecretary Problem, Stochastic Systems 9, 2019.) Nothing is taken once B is 0, so no limit is
exceeded.

R comes from the arrivals in earlier periods, slot by slot, times how much more or less has come in this period so far.
In the first period, contenders are expected to come as fast as they have come so far.

Gains are counted in bins of 1/32 to 1/64 of their size. The edges are exact, so each processor counts alike. Isotonic
probabilities give many contenders the same gain, and thus the same bin: a draw takes as many of this bin as fit.

usual   (SLOTS,) float64  contenders in a usual period, by slot
counts  (SLOTS,) float64  contenders in this period, by slot
bins    (BINS,) float64   gains by bin, lowest first; gains of older periods count less
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SLOTS = 24
STEPS_LOG2 = 5
LEAST, MOST = -20, 50
"""Binary exponents of the smallest and of the largest gain that have a bin of their own."""
BINS = (MOST - LEAST) << STEPS_LOG2
_FIRST = (127 + LEAST) << STEPS_LOG2
NEW = 0.5  # weight of the newest period in the usual period, and of its gains
GAINS_MIN = 1_000  # number of gains that do not fade: fewer say too little about the highest
VARIES = 10.0
"""Assumed ratio of the highest rate in a period to the lowest. Shortly before the end, the rest of the period is thus
expected to bring no more than the newest rate does, even if more came on other days.
"""
BEGIN = 1.0 / (4 * SLOTS)
"""Share of a period in which a contender of the first request is assumed to have come. A lower share assumes a faster
stream, and takes fewer of the first contenders.
"""


def bins_of(gains: Array) -> Array:
    """Return the bin (m,) of each gain: exponent and leading bits of its float32."""
    bits = np.maximum(gains, 0.0).astype(np.float32).view(np.int32) >> (23 - STEPS_LOG2)
    return np.asarray(np.clip(bits - _FIRST, 0, BINS - 1))


@dataclass(frozen=True, slots=True)
class Allowance:
    """How often one decision may still be taken. An allowance never changes: each change returns another.

    most: decisions in a period of per_ms milliseconds. period: number of the present period since 1970; -1 before the
    first contender. taken, refused: contenders in this period. periods: number of earlier periods. begun: share of the
    first period that was over at its first contender. first: contenders of the first request.
    """

    most: int
    per_ms: int
    period: int
    usual: Array
    counts: Array
    bins: Array
    taken: int = 0
    refused: int = 0
    periods: int = 0
    begun: float = 0.0
    first: int = 0

    @classmethod
    def new(cls, most: int, per_ms: int) -> Allowance:
        """Return an allowance before its first contender, with which its first period begins."""
        return cls(most, per_ms, -1, np.zeros(SLOTS), np.zeros(SLOTS), np.zeros(BINS))

    def at(self, now_ms: int) -> Allowance:
        """Return the allowance at a time that is not earlier than any time before."""
        period = now_ms // self.per_ms
        if self.period < 0:
            return replace(self, period=period, begun=(now_ms % self.per_ms) / self.per_ms)
        if period <= self.period:
            return self
        usual, counts, bins = self.usual, self.counts, self.bins
        for k in range(min(period - self.period, 64)):
            if k == 0 and self.periods == 0:  # what came before the beginning is unknown
                first = min(int(self.begun * SLOTS), SLOTS - 1)
                usual = np.concatenate((np.full(first, counts.sum() / (SLOTS * (1.0 - self.begun))), counts[first:]))
            else:
                usual = usual + NEW * (counts - usual)
            counts = np.zeros(SLOTS)
            total = float(bins.sum())
            if total > GAINS_MIN:
                bins = bins * max(1.0 - NEW, GAINS_MIN / total)
        periods = self.periods + period - self.period
        return replace(self, period=period, usual=usual, counts=counts, bins=bins, taken=0, refused=0, periods=periods)

    def expected(self, now_ms: int) -> float:
        """Return the number of contenders that will come in the rest of the period. The allowance is of this time."""
        over = (now_ms % self.per_ms) / self.per_ms
        came = float(self.counts.sum())
        if not self.periods:
            return came * (1.0 - over) / (over - self.begun + BEGIN * max(self.first, 1))
        slot = min(int(over * SLOTS), SLOTS - 1)
        total, part = float(self.usual.sum()), over * SLOTS - slot
        until = float(self.usual[:slot].sum() + self.usual[slot] * part)
        steady = total / SLOTS + 1.0  # one average slot of the usual period counts, too, so a few contenders say little
        found = (total - until) * (came + steady) / (until + steady)
        if not slot:
            return found
        lately = (float(self.counts[slot - 1 : slot + 1].sum()) + 1.0) / (1.0 + part)
        return min(found, lately * SLOTS * (1.0 - over) * (1.0 + (VARIES - 1.0) * (1.0 - over)))

    def choose(self, gains: Array, draw: Callable[[int], float], forced: int, now_ms: int) -> Array:
        """Return which contenders (m,) of one request are taken.

        draw: returns a number from 0 to 1 for a row, always the same; only rows at the border are drawn. forced: number
        of decisions of the request that another rule has taken.
        """
        state, m = self.counted(gains, np.zeros(gains.size, bool), forced, now_ms), gains.size
        chosen = np.zeros(m, bool)
        left = state.most - state.taken
        if left <= 0 or not m:
            return chosen
        # The last request of a period should find nothing left, so one more request of this size is not relied on.
        rest = max(state.expected(now_ms) - m, 0.0) + m
        places = bins_of(gains)
        above = np.add.accumulate(state.bins[::-1])[::-1][places]
        total, own = float(state.bins.sum()), state.bins[places]
        higher, same = ((above - own) / total).tolist(), (own / total).tolist()
        for r in range(m):
            fits = left / (rest - r) - higher[r]
            if fits > 0.0 and (fits >= same[r] or draw(r) * same[r] < fits):
                chosen[r], left = True, left - 1
                if not left:
                    break
        return chosen

    def counted(self, gains: Array, taken: Array, forced: int, now_ms: int) -> Allowance:
        """Return the allowance after the contenders of one request.

        taken (m,): which of them were taken. forced: number of decisions that another rule has taken.
        """
        state = self.at(now_ms)
        counts, bins = state.counts.copy(), state.bins.copy()
        counts[min(now_ms % state.per_ms * SLOTS // state.per_ms, SLOTS - 1)] += gains.size
        np.add.at(bins, bins_of(gains), 1.0)
        chosen = int(taken.sum())
        refused = state.refused + gains.size - chosen
        return replace(
            state,
            counts=counts,
            bins=bins,
            taken=state.taken + chosen + forced,
            refused=refused,
            first=state.first or gains.size,
        )
