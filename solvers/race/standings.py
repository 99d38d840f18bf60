"""Who leads a race, and who is surely behind: fading counts of right answers, each given before its label was seen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.elementary import exp
from hinged.solvers.core.handed import handed
from hinged.solvers.core.states import State, StateReader

Array = np.ndarray[Any, Any]

FADING = 0.999  # of the counts, an example
LOG_FADING = -0.0010005003335835344
ROUNDING = 1e-3  # what rounding makes of a count, and more
LEAD = 0.5  # right answers by which another must be ahead to take the lead, and
DOUBT = 0.7  # standard deviations of what the two disagreed on (McNemar's test), at most
DOUBT_MAX = 2.0  # right answers
BEHIND = 3.0  # right answers by which a newcomer begins behind the leader
SURELY = 2.5  # such standard deviations by which an arm must be behind to leave


@handed
class Standings(NamedTuple):
    """correct (A,): right answers of each arm. ahead (A, A): those of one where the other was wrong. leader (1,)."""

    correct: Array
    ahead: Array
    leader: Array


def new_standings(arms: int) -> Standings:
    """Nothing is known: the first leads."""
    return Standings(np.zeros(arms), np.zeros((arms, arms)), np.zeros(1, np.int64))


@compiled
def count(standings, right, leaders):
    """Count the answers of a batch, right (m, A) bool; leaders (m,) receives who led before each was known."""
    correct, ahead, leader = standings
    arms = correct.shape[0]
    for r in range(right.shape[0]):
        leaders[r] = leader[0]
        for a in range(arms):
            correct[a] = FADING * correct[a] + right[r, a]
            for b in range(arms):
                ahead[a, b] = FADING * ahead[a, b] + (right[r, a] and not right[r, b])
        for a in range(arms):
            apart = ahead[a, leader[0]] + ahead[leader[0], a]
            if correct[a] > correct[leader[0]] + LEAD + min(DOUBT * math.sqrt(apart), DOUBT_MAX):
                leader[0] = a


def total_of(examples: int) -> float:
    """What a count comes to that has been right all the time, after so many examples."""
    left = float(exp(max(LOG_FADING * examples, -100.0)))
    return (1.0 - left) / (1.0 - FADING)


def by_rank(standings: Standings) -> list[int]:
    """The arms, the leader first, then by what they got right."""
    leader = int(standings.leader[0])
    order = np.argsort(-standings.correct, kind="stable").tolist()
    return [leader, *(a for a in order if a != leader)]


def kept(standings: Standings, arms: Array) -> Standings:
    """The standings of these arms alone, ascending, the leader among them."""
    leader = np.flatnonzero(arms == standings.leader[0])
    return Standings(standings.correct[arms].copy(), standings.ahead[np.ix_(arms, arms)].copy(), leader)


def joined_by(standings: Standings, newcomers: int) -> Standings:
    """So many more arms: each comes with the record of the leader, a little behind, and goes on with its own."""
    arms, leader = standings.correct.size, standings.leader[0]
    taken = np.append(np.arange(arms), np.full(newcomers, leader))
    correct, ahead = standings.correct[taken], standings.ahead[np.ix_(taken, taken)]
    behind = min(BEHIND, float(correct[leader]))
    correct[arms:] -= behind
    ahead[:arms, arms:] += behind
    return Standings(correct, ahead, standings.leader.copy())


def surely_behind(standings: Standings) -> Array:
    """(A,) bool whether each arm is behind the leader by more than chance makes likely (McNemar 1947)."""
    leader = standings.leader[0]
    won, lost = standings.ahead[leader], standings.ahead[:, leader]
    behind: Array = (won > lost) & ((won - lost) ** 2 > SURELY**2 * (won + lost))
    return behind


def state_of(standings: Standings) -> State:
    """As arrays."""
    return {name: array.copy() for name, array in standings._asdict().items()}


def read_standings(checked: StateReader, arms: int, examples: int) -> Standings:
    """The standings of a state after so many examples. ValueError where they are none."""
    most = total_of(examples) + ROUNDING
    found = Standings(
        checked.take("correct", np.float64, (arms,), 0.0, most),
        checked.take("ahead", np.float64, (arms, arms), 0.0, most),
        checked.take("leader", np.int64, (1,), 0, arms - 1),
    )
    correct, ahead = found.correct, found.ahead
    away = np.abs((correct[:, None] - correct) - (ahead - ahead.T))
    if ahead.diagonal().any() or away.max() > ROUNDING or (ahead > correct[:, None] + ROUNDING).any():
        raise ValueError("ahead must tell of the answers that correct counts")
    return found
