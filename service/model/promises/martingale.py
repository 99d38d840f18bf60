"""A test martingale on a sequence of scores: it grows while larger scores become more frequent.

Conformal testing (Volkhonskiy, Burnaev, Nouretdinov, Gammerman and Vovk, Inductive Conformal Martingales for
Change-Point Detection, COPA 2017; Vovk et al., Retrain or Not Retrain, COPA 2021). A score is an integer from 0 on. The
p-value of score number n, if w of the n scores are larger, and v are equal (itself included):

    p = (w + theta v) / n

where theta in (0, 1) is a hash of the score's number. If the scores are exchangeable, the p-values are independent and
uniform. The counts of the scores are the whole record of the past, so nothing is approximated. The record may begin
again at any time, because further p-values are uniform whatever came before.

A bet multiplies its capital by f(p), where f >= 0 has the integral 1. With one side, all bets are on small p, so no bet
wins when scores become smaller. With two sides, as many bets are on large p. For a share q of the p-values and a stake
s:

    f(p) = 1 - s + s / q   if p < q (on the other side: 1 - p < q),   1 - s   otherwise

The martingale begins with 1 as a reserve. Before each p-value, a part of the reserve is divided equally among all bets.
The parts of epoch k, scores 2^k to 2^(k+1) - 1, are equal, and add up to 1 / ((k + 1)(k + 2)). Thus a change can
begin at any time. The reserve after epoch k is 1 / (k + 2), and the martingale never falls below it.

By Ville's inequality, the martingale ever reaches 1 / level with probability at most level. The calculation uses the
four operations and square roots in a fixed sequence, so each processor gets the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hinged.solvers.core.states import COUNT_MAX, State, StateReader

Array = np.ndarray[Any, Any]

# The bets. If they are changed, old logs lead to different alarms.
SHARES = tuple(root / (1 << k) for k in range(1, 8) for root in (1.0, math.sqrt(0.5)))[:-1]
STAKES = (0.5, 0.25, 0.125, 0.0625, 0.03125)
_BETS: list[tuple[float, float]] = [(share, stake) for share in SHARES for stake in STAKES]
_SHARE = np.array([share for share, _ in _BETS])
_LOST = np.array([1.0 - stake for _, stake in _BETS])
_WON = np.array([1.0 - stake + stake / share for share, stake in _BETS])
CAPITAL_MAX = 1e12  # limit of a capital in a state: an alarm comes before
_MASK = 2**64 - 1


def uniform(number: int) -> float:
    """Return the hash of a number as a value in (0, 1): SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (number * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return float(((z ^ (z >> 31)) >> 12) + 0.5) * 2.0**-52


class Martingale:
    """The martingale, from its first score on. scores: number of different scores. sides: 1 or 2."""

    def __init__(self, scores: int = 2, sides: int = 1) -> None:
        self.sides = sides
        self.seen = 0  # number of scores
        self.counts = np.zeros(scores, np.int64)  # of each score in the record
        self.capital = np.zeros(sides * len(_BETS))  # of each bet
        self.value = 1.0

    @property
    def reserve(self) -> float:
        """Return the part of the initial capital that no bet has yet."""
        return _reserve(self.seen)

    def begin_record(self) -> None:
        """Begin the record of scores again. The capital stays."""
        self.counts = np.zeros_like(self.counts)

    def p_values(self, scores: Array, thetas: Array) -> Array:
        """Return the p-values of the next scores. thetas: values in (0, 1) that no score affects."""
        own = np.arange(scores.size), scores
        equal = np.zeros((scores.size, self.counts.size), np.int64)
        equal[own] = 1
        equal = self.counts + np.add.accumulate(equal, axis=0)
        larger = np.add.accumulate(equal[:, ::-1], axis=1)[:, ::-1][own] - equal[own]
        p: Array = (larger + thetas * equal[own]) / (self.counts.sum() + 1 + own[0])
        return p

    def add(self, scores: Array, thetas: Array, enough: float = math.inf) -> Array:
        """Bet on the next scores in order until the martingale is `enough`. Return its value after each of them."""
        p = self.p_values(scores, thetas)[:, None]
        factors = np.hstack([np.where(side < _SHARE, _WON, _LOST) for side in (p, 1.0 - p)[: self.sides]])
        numbers, capital = range(self.seen + 1, self.seen + 1 + len(p)), self.capital
        for number, factor in zip(numbers, factors, strict=True):
            capital = np.multiply(capital + _part(number.bit_length() - 1) / capital.size, factor, out=factor)
        values = np.add.accumulate(factors, axis=1)[:, -1] + [_reserve(number) for number in numbers]
        reached = np.flatnonzero(values >= enough)[:1].tolist()
        used = reached[0] + 1 if reached else len(p)
        if used:
            self.seen, self.counts = self.seen + used, self.counts + np.bincount(scores[:used], None, self.counts.size)
            self.capital, self.value = factors[used - 1].copy(), float(values[used - 1])
        return values[:used]

    def state(self) -> State:
        """Return the state as arrays."""
        return {"seen": np.array([self.seen]), "counts": self.counts.copy(), "capital": self.capital.copy()}

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit."""
        read = StateReader(state)
        seen = int(read.take("seen", np.int64, (1,), 0, COUNT_MAX)[0])
        counts = read.take("counts", np.int64, self.counts.shape, 0, COUNT_MAX)
        capital = read.take("capital", np.float64, self.capital.shape, 0.0, CAPITAL_MAX)
        if sum(counts.tolist()) > seen or (not seen and capital.any()):
            raise ValueError(f"a record of {sum(counts.tolist())} scores of {seen} does not fit the capital")
        self.seen, self.counts, self.capital = seen, counts, capital
        self.value = float(np.add.accumulate(capital)[-1]) + self.reserve


def _part(k: int) -> float:
    """Return the part of the reserve that the bets get before each score of epoch k."""
    return 1.0 / float((k + 1) * (k + 2) << k)


def _reserve(seen: int) -> float:
    k = (seen + 1).bit_length() - 1
    return 1.0 / (k + 1) - (seen + 1 - (1 << k)) * _part(k)
