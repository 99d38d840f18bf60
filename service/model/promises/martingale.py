"""A test martingale on a sequence of errors: it grows while errors become more frequent.

Conformal testing (Volkhonskiy, Burnaev, Nouretdinov, Gammerman and Vovk, Inductive Conformal Martingales for
Change-Point Detection, COPA 2017; Vovk et al., Retrain or Not Retrain, COPA 2021). The nonconformity of a prediction is
1 for an error and 0 otherwise. The p-value of prediction n, after w errors with its own:

    p = theta w / n   for an error,   (w + theta (n - w)) / n   otherwise

where theta in (0, 1) is a hash of the example's number. If the errors are exchangeable, the p-values are independent
and uniform. The two counts n and w are the whole record of the past, so nothing is approximated.

A bet multiplies its capital by f(p), where f >= 0 has the integral 1. All bets are on small p, which errors have, so no
bet wins when errors become rarer. For a share q of the p-values and a stake s:

    f(p) = 1 - s + s / q   if p < q,   1 - s   otherwise

The martingale begins with 1 as a reserve. Before each p-value, a part of the reserve is divided equally among all bets.
The parts of epoch k, predictions 2^k to 2^(k+1) - 1, are equal, and add up to 1 / ((k + 1)(k + 2)). Thus a change can
begin at any time. The reserve after epoch k is 1 / (k + 2), and the martingale never falls below it.

By Ville's inequality, the martingale ever reaches 1 / level with probability at most level. The calculation uses the
four operations and square roots in a fixed sequence, so each processor gets the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from hinged.solvers.core.states import COUNT_MAX, State, StateReader

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
    """The martingale, from its first prediction on."""

    def __init__(self) -> None:
        self.seen = self.errors = 0
        self.capital = np.zeros(len(_BETS))  # of each bet
        self.value = 1.0

    @property
    def reserve(self) -> float:
        """Return the part of the initial capital that no bet has yet."""
        k = (self.seen + 1).bit_length() - 1
        return 1.0 / (k + 1) - (self.seen + 1 - (1 << k)) * _part(k)

    def add(self, error: bool, theta: float) -> float:
        """Bet on the next prediction, and return its p-value. theta: a value in (0, 1) that no error affects."""
        self.seen += 1
        self.errors += error
        least, most = (0, self.errors) if error else (self.errors, self.seen)
        p = (least + theta * (most - least)) / self.seen
        staked = self.capital + _part(self.seen.bit_length() - 1) / len(_BETS)
        self._hold(staked * np.where(p < _SHARE, _WON, _LOST))
        return p

    def _hold(self, capital: np.ndarray) -> None:
        self.capital = capital
        self.value = self.reserve + float(np.add.accumulate(capital)[-1])

    def state(self) -> State:
        """Return the state as arrays."""
        return {"counts": np.array([self.seen, self.errors]), "capital": self.capital.copy()}

    def load(self, state: State) -> None:
        """Load a result of `state`. Raise ValueError if the arrays do not fit."""
        read = StateReader(state)
        seen, errors = read.take("counts", np.int64, (2,), 0, COUNT_MAX).tolist()
        capital = read.take("capital", np.float64, (len(_BETS),), 0.0, CAPITAL_MAX)
        if errors > seen or (not seen and capital.any()):
            raise ValueError(f"{errors} errors of {seen} predictions do not fit the capital")
        self.seen, self.errors = seen, errors
        self._hold(capital)


def _part(k: int) -> float:
    """Return the part of the reserve that the bets get before each prediction of epoch k."""
    return 1.0 / float((k + 1) * (k + 2) << k)
