"""Figures of each class, against scikit-learn, and the warning about a rare class."""

import numpy as np
import pytest
from sklearn import metrics as reference

from hinged.service.model.decisions.rare import warning_of
from hinged.service.model.metrics import WINDOW, Prequential

NAMES = ["ok", "fraud", "odd"]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [60, 1_500])
def test_the_figures_of_a_class_equal_the_references(classes, n):
    random = np.random.default_rng(classes * n)
    truth = random.integers(0, classes, n).astype(np.int32)
    columns = random.normal(size=(n, 1)) + truth[:, None] - 0.5 if classes == 2 else random.normal(size=(n, 3))
    numbers = (columns[:, 0] > 0).astype(np.int32) if classes == 2 else columns.argmax(axis=1).astype(np.int32)
    metrics = Prequential()
    for name in NAMES[:classes]:
        metrics.add_class(name)
    metrics.add(columns, numbers, truth, np.zeros(n, np.uint8))
    figures = metrics.figures(NAMES[:classes])["classes"]
    assert list(figures) == NAMES[:classes]
    newest = slice(-WINDOW, None)
    for number, name in enumerate(NAMES[:classes]):
        for part, wanted in (("all", slice(None)), ("window", newest)):
            expected = reference.precision_recall_fscore_support(truth[wanted] == number, numbers[wanted] == number)
            found = figures[name][part]
            told = [found[figure] for figure in ("precision", "recall", "f1")]
            assert told == pytest.approx([float(values[1]) for values in expected[:3]])
            assert found["examples"] == expected[3][1]
        scores = columns[newest, 0] * (1 if number else -1) if classes == 2 else columns[newest, number]
        window, positive = figures[name]["window"], truth[newest] == number
        scores = scores.astype(np.float32)
        assert window["auc"] == pytest.approx(reference.roc_auc_score(positive, scores))
        assert window["average_precision"] == pytest.approx(reference.average_precision_score(positive, scores))
        assert set(figures[name]["fading"]) == {"examples", "precision", "recall", "f1"}


def test_a_rare_class_is_warned_about_and_a_small_one_of_many_is_not():
    assert "0.5 % of the labels are fraud" in warning_of(np.array([[995, 0], [4, 1]]), NAMES)
    assert warning_of(np.array([[94, 0], [6, 0]]), NAMES) is None
    assert warning_of(np.array([[49, 0], [1, 0]]), NAMES) is None  # too few labels
    assert warning_of(np.diag(np.full(26, 40)), [str(k) for k in range(26)]) is None
    assert warning_of(np.array([[995, 0, 0], [0, 300, 0], [0, 0, 0]]), NAMES) is None  # a declared class without labels
