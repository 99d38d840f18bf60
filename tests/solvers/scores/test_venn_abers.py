"""Venn-Abers intervals compared with two isotonic regressions for each score, and along a stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from hinged.solvers.scores.sigmoid import ABSENT, WINDOW, Sigmoid
from hinged.solvers.scores.venn_abers import VennAbers


def regressions(scores, positive, asked):
    """Return p0 and p1 (m, 2): a regression with each score as a negative, and as a positive example."""
    found = np.empty((len(asked), 2))
    for row, score in zip(found, asked, strict=True):
        for label in (0, 1):
            fit = IsotonicRegression().fit(np.append(scores, score), np.append(positive, label))
            row[label] = fit.predict([score])[0]
    return found


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(0, 50),
    digits=st.integers(0, 4),
    slope=st.sampled_from([-2.0, 0.0, 0.5, 3.0, 50.0]),
)
def test_an_interval_is_that_of_two_isotonic_regressions(seed, n, digits, slope):
    random = np.random.default_rng(seed)
    scores = np.round(random.normal(size=n), digits)  # few digits: equal scores
    positive = random.random(n) < 1 / (1 + np.exp(-slope * scores))
    asked = np.concatenate((scores[:9], random.normal(size=9), [-99.0, 99.0]))
    assert VennAbers(scores, positive)(asked) == pytest.approx(regressions(scores, positive, asked), abs=1e-12)


def test_without_examples_nothing_is_known():
    assert VennAbers(np.zeros(0), np.zeros(0, bool))(np.array([-1.0, 0.0, 1e300])).tolist() == [[0.0, 1.0]] * 3


def test_of_exchangeable_examples_one_end_is_calibrated():
    """For p0 of the negative examples and p1 of the positive, the mean is the frequency (Vovk et al., theorem 1)."""
    random = np.random.default_rng(0)
    ends, labels = [], []
    for _ in range(2000):
        scores = random.normal(size=21)
        positive = random.random(21) < 1 / (1 + np.exp(-3 * scores - 1))
        ends.append(VennAbers(scores[:20], positive[:20])(scores[20:])[0, int(positive[20])])
        labels.append(positive[20])
    ends, labels = np.array(ends), np.array(labels)
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        there = (low <= ends) & (ends <= high)
        assert there.sum() > 100
        assert ends[there].mean() == pytest.approx(labels[there].mean(), abs=0.05)


def fed(columns, classes, k):
    sigmoid = Sigmoid()
    sigmoid.widen(k)
    sigmoid.learn(columns, classes)
    return sigmoid


def test_with_two_classes_the_intervals_are_mirror_images():
    random = np.random.default_rng(1)
    f, asked = random.normal(size=(300, 1)), random.normal(size=20)
    classes = (f[:, 0] + random.normal(size=300) > 0).astype(np.int32)
    sigmoid = fed(f, classes, 1)
    first, second = sigmoid.interval(0)(-asked), sigmoid.interval(1)(asked)
    assert first == pytest.approx(1 - second[:, ::-1])
    rounded = f[:, 0].astype(np.float32)
    assert second == pytest.approx(regressions(rounded, classes, asked.astype(np.float32)), abs=1e-6)
    assert sigmoid.interval(2) is None
    at_a_known_score = sigmoid.interval(1)(f[:1, 0])[0]
    assert at_a_known_score[0] < at_a_known_score[1]


def test_only_the_newest_examples_count_and_only_those_of_the_columns_time():
    random = np.random.default_rng(2)
    f, classes = random.normal(size=(1500, 4)), random.integers(0, 3, 1500).astype(np.int32)
    sigmoid = fed(f[:, :3], classes, 3)
    newest = slice(1500 - WINDOW, None)
    asked = random.normal(size=9)
    expected = VennAbers(f[newest, 1].astype(np.float32), classes[newest] == 1)(asked)
    assert np.array_equal(sigmoid.interval(1)(asked), expected)
    sigmoid.widen(4)
    assert (
        sigmoid.interval(3)(asked).tolist() == [[0.0, 1.0]] * 9
    )  # older examples, with the score ABSENT, do not count
    own = np.full(40, 3, np.int32)
    sigmoid.learn(f[:40], own)
    assert np.array_equal(sigmoid.interval(3)(asked), VennAbers(f[:40, 3].astype(np.float32), own == 3)(asked))
    assert sigmoid.interval(3)(np.array([ABSENT - 9.0]))[0, 0] == 0.0
    before = sigmoid.state()
    sigmoid.interval(0)(asked)
    assert all(before[name].tobytes() == array.tobytes() for name, array in sigmoid.state().items())
