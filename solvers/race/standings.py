"""Who leads a race, and who is surely behind: fading counts of right answers, each given before its label was seen.

An answer counts as much as its example weighs. What one right answer amounts to is then a mean weight in which each
answer counts by its own weight, sum w^2 / sum w (L. Kish, Survey Sampling, 1965): in such units the bounds below hold
for any weights, and where all weigh 1 nothing is multiplied.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hinged.solvers.core.elementary import exp
from hinged.solvers.core.states import State, StateReader
from hinged.solvers.jit.compiled import compiled
from hinged.solvers.jit.handed import handed

Array = np.ndarray[Any, Any]

FADING = 0.999  # of the counts, an example
LOG_FADING = -0.0010005003335835344
ROUNDING = 1e-3  # what rounding makes of a count, and more
LIGHTEST, HEAVIEST = 1e-60, 1e60  # an answer weighs at least and at most so much: beyond, squares are not finite
LEAD = 0.5  # right answers by which another must be ahead to take the lead, and
DOUBT = 0.7  # standard deviations of what the two disagreed on (McNemar's test), at most
DOUBT_MAX = 2.0  # right answers
BEHIND = 3.0  # right answers by which a newcomer begins behind the leader
SURELY = 2.5  # such standard deviations by which an arm must be behind to leave


@handed
class Standings(NamedTuple):
    """What the arms got right, fading.

    correct (A,): weights of the right answers of each arm. ahead (A, A): of those of one where the other was wrong.
    leader (1,). weighed (2,): sum w and sum w^2 of all answers, fading likewise; zeros while all have weighed 1.
    """

    correct: Array
    ahead: Array
    leader: Array
    weighed: Array


def new_standings(arms: int) -> Standings:
    """Nothing is known: the first leads."""
    return Standings(np.zeros(arms), np.zeros((arms, arms)), np.zeros(1, np.int64), np.zeros(2))


@compiled
def add(standings, right, weights, weighted, leaders):
    """Count the answers of a batch: see `count`. weighted: whether any answer so far weighs something else than 1."""
    correct, ahead, leader, weighed = standings
    arms, answer = correct.shape[0], 1.0
    for r in range(right.shape[0]):
        leaders[r] = leader[0]
        weight = weights[r]
        if weighted:
            weighed[0] = FADING * weighed[0] + weight
            weighed[1] = FADING * weighed[1] + weight * weight
            answer = weighed[1] / weighed[0]
        for a in range(arms):
            correct[a] = FADING * correct[a] + (weight if right[r, a] else 0.0)
            for b in range(arms):
                ahead[a, b] = FADING * ahead[a, b] + (weight if right[r, a] and not right[r, b] else 0.0)
        for a in range(arms):
            apart = (ahead[a, leader[0]] + ahead[leader[0], a]) * answer
            if correct[a] > correct[leader[0]] + LEAD * answer + min(DOUBT * math.sqrt(apart), DOUBT_MAX * answer):
                leader[0] = a


def count(standings: Standings, right: Array, weights: Array, examples: int) -> Array:
    """Count the answers of a batch, right (m, A) bool, to examples that weigh weights (m,); who led before each (m,).

    examples: so many were counted before.
    """
    right, weights = np.ascontiguousarray(right), np.clip(weights, LIGHTEST, HEAVIEST)
    leaders, first = np.empty(len(right), np.int64), 0
    if not standings.weighed.any():
        first = int(np.argmax(np.append(weights != 1.0, True)))
        add(standings, right[:first], weights[:first], False, leaders[:first])
        if first < len(right):
            standings.weighed[:] = total_of(examples + first)
    add(standings, right[first:], weights[first:], True, leaders[first:])
    return leaders


def answer_of(standings: Standings) -> float:
    """What one right answer amounts to."""
    weight, square = standings.weighed.tolist()
    return square / weight if weight else 1.0


def total_of(examples: int) -> float:
    """What a count comes to that has been right all the time, after so many examples of weight 1."""
    left = float(exp(max(LOG_FADING * examples, -100.0)))
    return (1.0 - left) / (1.0 - FADING)


def accuracies(standings: Standings, examples: int) -> list[float]:
    """Fading accuracy of each arm after so many examples, of which there is one at least."""
    total = float(standings.weighed[0]) or total_of(examples)
    return [min(1.0, correct / total) for correct in standings.correct.tolist()]


def by_rank(standings: Standings) -> list[int]:
    """The arms, the leader first, then by what they got right."""
    leader = int(standings.leader[0])
    order = np.argsort(-standings.correct, kind="stable").tolist()
    return [leader, *(a for a in order if a != leader)]


def kept(standings: Standings, arms: Array) -> Standings:
    """The standings of these arms alone, ascending, the leader among them."""
    leader = np.flatnonzero(arms == standings.leader[0])
    correct, ahead = standings.correct[arms].copy(), standings.ahead[np.ix_(arms, arms)].copy()
    return Standings(correct, ahead, leader, standings.weighed.copy())


def joined_by(standings: Standings, newcomers: int) -> Standings:
    """So many more arms: each comes with the record of the leader, a little behind, and goes on with its own.

    It is behind by no more than what the leader and each other arm both got right: no arm is ahead by more than it has.
    """
    arms, leader = standings.correct.size, standings.leader[0]
    taken = np.append(np.arange(arms), np.full(newcomers, leader))
    correct, ahead = standings.correct[taken], standings.ahead[np.ix_(taken, taken)]
    both = float((standings.correct - standings.ahead[:, leader]).min())
    behind = min(BEHIND * answer_of(standings), max(0.0, both))
    correct[arms:] -= behind
    ahead[:arms, arms:] += behind
    return Standings(correct, ahead, standings.leader.copy(), standings.weighed.copy())


def surely_behind(standings: Standings) -> Array:
    """(A,) bool whether each arm is behind the leader by more than chance makes likely (McNemar 1947)."""
    leader = standings.leader[0]
    won, lost = standings.ahead[leader], standings.ahead[:, leader]
    behind: Array = (won > lost) & ((won - lost) ** 2 > SURELY**2 * (won + lost) * answer_of(standings))
    return behind


def state_of(standings: Standings) -> State:
    """As arrays; `weighed` where it says anything."""
    return {name: a.copy() for name, a in standings._asdict().items() if name != "weighed" or a.any()}


def read_standings(checked: StateReader, arms: int, examples: int) -> Standings:
    """The standings of a state after so many examples. ValueError where they are none."""
    most, weighed = total_of(examples) + ROUNDING, np.zeros(2)
    rounding = ROUNDING
    if "weighed" in checked.state:
        weighed = checked.take("weighed", np.float64, (2,), LIGHTEST**2, HEAVIEST**2 * most)
        weight, square = weighed.tolist()
        # The mean of the squares is at least the square of the mean, and at most the heaviest times the mean.
        if not weight**2 <= square * most * (1.0 + ROUNDING) or not square <= weight * HEAVIEST * (1.0 + ROUNDING):
            raise ValueError(f"weighed must be what {examples} weights and their squares come to, got {weighed}")
        rounding *= max(1.0, weight / most)
        most = weight + rounding
    found = Standings(
        checked.take("correct", np.float64, (arms,), 0.0, most),
        checked.take("ahead", np.float64, (arms, arms), 0.0, most),
        checked.take("leader", np.int64, (1,), 0, arms - 1),
        weighed,
    )
    correct, ahead = found.correct, found.ahead
    away = np.abs((correct[:, None] - correct) - (ahead - ahead.T))
    if ahead.diagonal().any() or away.max() > rounding or (ahead > correct[:, None] + rounding).any():
        raise ValueError("ahead must tell of the answers that correct counts")
    return found
