"""The standings of a race, from fading counts of correct predictions: the leader, and the arms surely behind it.

Each prediction is made before its label is known, and counts by the weight of its example. An arm's credit for an
example is 1 if its answer was right, and 0 if not. If the label came late, the credit may be a fraction (late.py). The
counts fade by the evidence of each example (evidence.py). The value of one correct answer is a mean weight in which
each answer is itself weighted: sum w^2 / sum w (L. Kish, Survey Sampling, 1965). In this unit the limits below hold for
any weights.
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

FADING = 0.999  # factor by which the counts shrink per unit of evidence
LOG_FADING = -0.0010005003335835344
ROUNDING = 1e-3  # tolerance, larger than the rounding errors of a count
LIGHTEST, HEAVIEST = 1e-60, 1e60  # limits of the weight of an answer: outside these limits, squares are not finite
# To take the lead, an arm must be ahead by LEAD correct answers plus a margin for chance. The margin is DOUBT standard
# deviations of the answers on which the two arms differ (McNemar's test), but at most DOUBT_MAX correct answers.
LEAD = 0.5
DOUBT = 0.7
DOUBT_MAX = 2.0
BEHIND = 3.0  # number of correct answers by which a new arm starts behind the leader
SHARPNESS, BOTTOM = 0.5, -6.0
"""An arm with n correct answers more than the leader counts exp(SHARPNESS n) times as much; not at all below BOTTOM."""
AHEAD = 2.0
"""Number of correct answers that the favoured arm gets for nothing where one class is very rare. The more evidence an
example is, the fewer, and none from full evidence on."""


@handed
class Standings(NamedTuple):
    """Fading counts of the correct answers of each arm.

    correct (A,): summed weights of each arm's correct answers. ahead (A, A): entry (a, b) is the summed weight of the
    answers where arm a was correct and arm b wrong. With fractions: sums of weight times credit, and of weight times
    the credit by which arm a exceeds arm b. leader (1,): the leading arm. weighed (2,): fading sums of w and of
    w^2 over all answers; zeros as long as every weight has been 1.
    """

    correct: Array
    ahead: Array
    leader: Array
    weighed: Array


def new_standings(arms: int) -> Standings:
    """Return the standings before any answer, in which the first arm leads."""
    return Standings(np.zeros(arms), np.zeros((arms, arms)), np.zeros(1, np.int64), np.zeros(2))


@compiled
def share(correct, leader, answer, evidence, favoured, shares):
    """Compute how much each arm counts (A,) for an example, as a multiple of the leader.

    answer: the value of one correct answer. evidence: of the example.
    """
    free = AHEAD * (1.0 - evidence)
    for a in range(correct.shape[0]):
        more = (correct[a] - correct[leader]) / answer + free * ((a == favoured) - (leader == favoured))
        shares[a] = exp(SHARPNESS * min(more, -BOTTOM)) if more >= BOTTOM else 0.0


@compiled
def add(standings, credit, weights, evidence, favoured, weighted, leaders, shares):
    """Count the answers of a batch: see `count`. weighted: whether a weight or an evidence so far was other than 1."""
    correct, ahead, leader, weighed = standings
    arms = correct.shape[0]
    answer = weighed[1] / weighed[0] if weighed[0] > 0.0 else 1.0
    for r in range(credit.shape[0]):
        leaders[r] = leader[0]
        share(correct, leader[0], answer, evidence[r], favoured, shares[r])
        weight = weights[r]
        fading = FADING if evidence[r] == 1.0 else exp(LOG_FADING * evidence[r])
        if weighted:
            weighed[0] = fading * weighed[0] + weight
            weighed[1] = fading * weighed[1] + weight * weight
            answer = weighed[1] / weighed[0]
        for a in range(arms):
            correct[a] = fading * correct[a] + weight * credit[r, a]
            for b in range(arms):
                ahead[a, b] = fading * ahead[a, b] + weight * max(0.0, credit[r, a] - credit[r, b])
        free = AHEAD * (1.0 - evidence[r]) * answer
        for a in range(arms):
            apart = (ahead[a, leader[0]] + ahead[leader[0], a]) * answer
            lead = correct[a] - correct[leader[0]] + free * ((a == favoured) - (leader[0] == favoured))
            if lead > LEAD * answer + min(DOUBT * math.sqrt(apart), DOUBT_MAX * answer):
                leader[0] = a


def count(
    standings: Standings, credit: Array, weights: Array, evidence: Array, examples: int, favoured: int = -1
) -> tuple[Array, Array]:
    """Count the answers of a batch: credit (m, A), with weights (m,) and evidence (m,).

    Return the leader (m,) before each example, and how much each arm counts then (m, A). examples: number of examples
    counted before. favoured: the arm that is favoured where one class is rare; -1 for none.
    """
    credit, weights = np.ascontiguousarray(credit, np.float64), np.clip(weights, LIGHTEST, HEAVIEST)
    leaders, shares, first = np.empty(len(credit), np.int64), np.empty(credit.shape), 0
    if not standings.weighed.any():
        first = int(np.argmax(np.append((weights != 1.0) | (evidence != 1.0), True)))
        part = slice(first)
        add(standings, credit[part], weights[part], evidence[part], favoured, False, leaders[part], shares[part])
        if first < len(credit):
            standings.weighed[:] = total_of(examples + first)
    part = slice(first, None)
    add(standings, credit[part], weights[part], evidence[part], favoured, True, leaders[part], shares[part])
    return leaders, shares


def shares_of(standings: Standings, evidence: float, favoured: int) -> Array:
    """Return how much each arm counts (A,) for the next example, as a multiple of the leader."""
    found = np.empty(standings.correct.size)
    share(standings.correct, int(standings.leader[0]), answer_of(standings), evidence, favoured, found)
    return found


def answer_of(standings: Standings) -> float:
    """Return the value of one correct answer."""
    weight, square = standings.weighed.tolist()
    return square / weight if weight else 1.0


def total_of(examples: int) -> float:
    """Return the count of an arm that has always been correct, after this many examples of weight 1."""
    left = float(exp(max(LOG_FADING * examples, -100.0)))
    return (1.0 - left) / (1.0 - FADING)


def accuracies(standings: Standings, examples: int) -> list[float]:
    """Return the fading accuracy of each arm after `examples` >= 1 examples."""
    total = float(standings.weighed[0]) or total_of(examples)
    return [min(1.0, correct / total) for correct in standings.correct.tolist()]


def by_rank(standings: Standings) -> list[int]:
    """Return the arms: first the leader, then the other arms by their correct answers."""
    leader = int(standings.leader[0])
    order = np.argsort(-standings.correct, kind="stable").tolist()
    return [leader, *(a for a in order if a != leader)]


def kept(standings: Standings, arms: Array) -> Standings:
    """Return the standings of these arms only. `arms` must be in ascending order and include the leader."""
    leader = np.flatnonzero(arms == standings.leader[0])
    correct, ahead = standings.correct[arms].copy(), standings.ahead[np.ix_(arms, arms)].copy()
    return Standings(correct, ahead, leader, standings.weighed.copy())


def joined_by(standings: Standings, newcomers: int) -> Standings:
    """Return the standings with new arms.

    Each new arm starts a little behind the leader's record, and its own predictions count from then on.

    A new arm starts behind by at most the answers that the leader and every other arm both got right. So no arm is ever
    ahead of another by more than its own count of correct answers.
    """
    arms, leader = standings.correct.size, standings.leader[0]
    taken = np.append(np.arange(arms), np.full(newcomers, leader))
    correct, ahead = standings.correct[taken], standings.ahead[np.ix_(taken, taken)]
    both = float((standings.correct - standings.ahead[:, leader]).min())
    behind = min(BEHIND * answer_of(standings), max(0.0, both))
    correct[arms:] -= behind
    ahead[:arms, arms:] += behind
    return Standings(correct, ahead, standings.leader.copy(), standings.weighed.copy())


def surely_behind(standings: Standings, surely: float) -> Array:
    """Return (A,) bool: whether each arm is behind the leader by more than chance explains (McNemar 1947).

    surely: number of standard deviations that chance explains.
    """
    leader = standings.leader[0]
    won, lost = standings.ahead[leader], standings.ahead[:, leader]
    behind: Array = (won > lost) & ((won - lost) ** 2 > surely**2 * (won + lost) * answer_of(standings))
    return behind


def state_of(standings: Standings) -> State:
    """Return the standings as arrays, with `weighed` only if weights differed from 1."""
    return {name: a.copy() for name, a in standings._asdict().items() if name != "weighed" or a.any()}


def read_standings(checked: StateReader, arms: int, examples: int) -> Standings:
    """Read the standings of a state after `examples` examples. Raise ValueError if they are invalid."""
    most, weighed = total_of(examples) + ROUNDING, np.zeros(2)
    rounding = ROUNDING
    if "weighed" in checked.state:
        most = examples + ROUNDING  # where evidence is little, counts hardly fade
        weighed = checked.take("weighed", np.float64, (2,), LIGHTEST**2, HEAVIEST**2 * most)
        weight, square = weighed.tolist()
        # The mean square is at least the square of the mean, and at most the heaviest weight times the mean.
        if not weight**2 <= square * most * (1.0 + ROUNDING) or not square <= weight * HEAVIEST * (1.0 + ROUNDING):
            raise ValueError(f"weighed must be the sums of {examples} weights and their squares, got {weighed}")
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
        raise ValueError("ahead must agree with the answers that correct counts")
    return found
