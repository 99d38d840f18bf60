"""How high an arm ranks the rare class: compared with a plain loop; its state; what the leader gains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from hinged.solvers.core.states import StateReader
from hinged.solvers.race.evidence import evidence_of
from hinged.solvers.race.ranking import FLAGGED, RECENT, Ranking
from tests.helpers.solvers.streams import same
from tests.solvers.race.test_race import raced, rare


def plain(scores, classes, evidence, credit):
    """Return the credit (m, A) of a stream by a loop over lists."""
    arms, _, columns = scores.shape
    seen, recent, found = [0] * (max(2, columns)), [[] for _ in range(arms)], credit.astype(float)
    for r, c in enumerate(classes):
        e, top = evidence[r], seen.index(max(seen))
        for a in range(arms):
            own = scores[a, r].astype(np.float32)
            own = own if columns > 1 else np.array([-own[0], own[0]])
            if e < 1 and c == top:
                found[r, a] = 1 - e * (1 - credit[r, a])
                recent[a] = [*recent[a], own][-RECENT:]
            elif e < 1:
                share = np.mean([each[c] >= own[c] for each in recent[a]]) if recent[a] else 0.0
                found[r, a] = e * credit[r, a] + (1 - e) * FLAGGED * e / (FLAGGED * e + share)
        seen[c] += 1
    return found


@given(
    classes=st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, 1, 2]), min_size=1, max_size=700),
    several=st.booleans(),
    cuts=st.lists(st.integers(0, 700), max_size=3),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_credit_is_that_of_a_plain_loop_however_the_stream_is_cut(classes, several, cuts, seed):
    random = np.random.default_rng(seed)
    classes = np.array(classes) if several else np.minimum(classes, 1)
    columns, m = 3 if several else 1, len(classes)
    scores = random.integers(-3, 4, (4, m, columns)) / 2.0  # many are equal
    credit = random.random((m, 4)) < 0.5
    seen = np.zeros(3 if several else 2, np.int64)
    evidence = evidence_of(seen, classes)[0]
    found, ranking = [], Ranking(4, columns)
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), m], strict=True):
        part = slice(begin, end)
        found.append(ranking.add(scores[:, part], classes[part], seen, evidence[part], credit[part]))
        seen = seen + np.bincount(classes[part], minlength=seen.size)
        again = Ranking(4, columns)
        again.load(StateReader(ranking.state()))
        same(again.state(), ranking.state())
        ranking = again
    np.testing.assert_allclose(np.concatenate(found), plain(scores, classes, evidence, credit), atol=1e-12)


def test_without_a_rare_class_nothing_is_kept():
    ranking, credit = Ranking(2, 1), np.eye(2)
    assert np.array_equal(ranking.add(np.zeros((2, 2, 1)), np.arange(2), np.zeros(2, int), np.ones(2), credit), credit)
    assert ranking.state() == {}
    assert ranking.recent.nbytes == 0


@pytest.mark.parametrize(
    "recent",
    [np.zeros((2, 0, 1), "f4"), np.zeros((2, RECENT + 1, 1), "f4"), np.zeros((3, 1, 1), "f4"), np.zeros((2, 1, 1))],
)
def test_a_state_that_does_not_fit_is_refused(recent):
    with pytest.raises(ValueError, match="recent must"):
        Ranking(2, 1).load(StateReader({"recent": recent}))


@pytest.mark.long
def test_the_leader_ranks_a_rare_class_higher_than_by_former_rules():
    found = {4: [], 5: []}
    for seed in range(3):
        X, classes = rare(2000, seed)
        for rules, precisions in found.items():
            scores = np.concatenate(raced(X, classes, rules=rules).learn().scores)[:, 0]
            precisions.append(average_precision_score(classes, scores))
    assert np.mean(found[5]) > np.mean(found[4]) + 0.05
