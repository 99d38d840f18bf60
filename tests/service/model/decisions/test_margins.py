"""Counts of scores in bins: isotonic probabilities, and ranking figures against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.isotonic import IsotonicRegression

from hinged.service.model.decisions import margins

SCORES = st.floats(-200, 200).map(lambda score: round(score, 3))


def counted(scores, positive):
    counts = np.zeros((2, margins.BINS))
    np.add.at(counts, (positive.astype(int), margins.bins_of(scores)), 1.0)
    return counts


def drawn(seed, n=4_000, share=0.05, apart=1.5):
    random = np.random.default_rng(seed)
    positive = random.random(n) < share
    return random.normal(positive * apart - 1, 0.7), positive


@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=60))
@settings(deadline=None)
def test_exact_counts_give_scikit_learns_figures(pairs):
    scores, positive = np.array([s for s, _ in pairs]), np.array([p for _, p in pairs])
    counts = margins.exact(scores, positive)
    if positive.all() or not positive.any():
        assert set(margins.ranking(counts).values()) == {None}
        assert margins.curve(counts) == []
        return
    found = margins.ranking(counts)
    assert found["auc"] == pytest.approx(reference.roc_auc_score(positive, scores))
    assert found["average_precision"] == pytest.approx(reference.average_precision_score(positive, scores))


@pytest.mark.parametrize("share", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_bins_change_the_figures_by_less_than_a_hundredth(seed, share):
    scores, positive = drawn(seed, n=20_000, share=share)
    found = margins.ranking(counted(scores, positive))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(positive, scores), abs=0.002)
    exact = reference.average_precision_score(positive, scores)
    assert found["average_precision"] == pytest.approx(exact, abs=0.01)
    highest = np.argsort(-scores)[:200]
    assert found["recall_at_1_percent"] == pytest.approx(positive[highest].sum() / positive.sum(), abs=0.01)
    assert found["lift_at_1_percent"] == pytest.approx(100 * found["recall_at_1_percent"])


def test_the_highest_scores_within_a_bin_count_in_proportion():
    counts = np.array([[6.0, 2.0], [0.0, 2.0]])  # four of ten examples in the higher bin, half of them of the class
    assert margins.recall_at(counts, 0.2) == pytest.approx(0.5)
    assert margins.recall_at(counts, 0.4) == pytest.approx(1.0)
    points = margins.curve(counted(*drawn(1)))
    assert [point["alarms"] for point in points] == list(margins.ALARMS)
    assert (np.diff([point["recall"] for point in points]) >= 0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
@settings(deadline=None, max_examples=40)
def test_the_probabilities_are_an_isotonic_regression_with_one_usual_example_more_in_each_level(seed, n):
    random = np.random.default_rng(seed)
    scores, positive = random.normal(size=n).round(1), random.random(n) < 0.3
    counts = counted(scores, positive)
    found = margins.isotonic(counts)
    assert (np.diff(found) >= 0).all()
    assert 0 < found.min() <= found.max() < 1
    held = np.flatnonzero(counts.sum(axis=0))
    every, rates = counts[:, held].sum(axis=0), counts[1, held] / counts[:, held].sum(axis=0)
    plain = IsotonicRegression().fit_transform(np.arange(held.size), rates, sample_weight=every)
    usual = (counts[1].sum() + 0.5) / (counts.sum() + 1)
    levels = [np.isclose(plain, level, atol=1e-8) for level in np.unique(plain.round(9))]

    def rate(level):
        return (counts[1, held][level].sum() + usual) / (every[level].sum() + 1)

    k = 0
    while k + 1 < len(levels):  # pool the first two levels whose rates do not rise, and begin again
        if rate(levels[k]) >= rate(levels[k + 1]):
            levels[k : k + 2] = [levels[k] | levels[k + 1]]
            k = 0
        else:
            k += 1
    for level in levels:
        assert np.allclose(found[held][level], rate(level))


def test_a_few_examples_with_low_scores_do_not_raise_the_probability_of_all_others():
    counts = np.zeros((2, margins.BINS))
    counts[0, 300], counts[0, 310], counts[1, 310] = 3, 10_000, 10
    found = margins.isotonic(counts)
    assert found[300] < 0.001
    assert found[310] == pytest.approx(0.001, rel=0.01)


def test_every_number_has_a_bin_and_equal_scores_share_it():
    scores = np.array([-1e300, -64.0, -1.0, -1e-300, 0.0, 1e-300, 1.0, 64.0, 1e300])
    bins = margins.bins_of(scores)
    assert (np.diff(bins) >= 0).all()
    assert (bins[0], bins[-1]) == (0, margins.BINS - 1)
    assert (margins.isotonic(np.zeros((2, margins.BINS))) == 0.5).all()
