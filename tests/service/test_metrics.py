import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.metrics import UNKNOWN, WINDOW, Prequential


def counted(*batches):
    metrics = Prequential()
    for predictions, classes in batches:
        metrics.add(np.array(predictions, np.int32), np.array(classes, np.int32))
    return metrics


def test_nothing_predicted_is_no_accuracy():
    assert Prequential().figures() == {"predicted": 0, "accuracy": None, "accuracy_window": None}
    assert counted(([UNKNOWN], [0])).figures() == {"predicted": 0, "accuracy": None, "accuracy_window": None}


def test_examples_without_a_prediction_do_not_count():
    figures = counted(([UNKNOWN, 0, 1, 1], [0, 0, 1, 0])).figures()
    assert figures == {"predicted": 3, "accuracy": pytest.approx(2 / 3), "accuracy_window": pytest.approx(2 / 3)}


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 1700), max_size=5), seed=st.integers(0, 99))
def test_the_window_holds_the_newest_predictions_however_they_were_batched(sizes, seed):
    random = np.random.default_rng(seed)
    metrics, hits = Prequential(), []
    for size in sizes:
        predictions, classes = random.integers(-1, 2, size), random.integers(0, 2, size)
        metrics.add(predictions, classes)
        hits += [p == c for p, c in zip(predictions, classes, strict=True) if p != UNKNOWN]
        figures = metrics.figures()
        assert figures["predicted"] == len(hits)
        if hits:
            assert figures["accuracy"] == pytest.approx(np.mean(hits))
            assert figures["accuracy_window"] == pytest.approx(np.mean(hits[-WINDOW:]))


def test_a_state_goes_on_where_it_was_taken_and_shares_no_memory():
    metrics = counted(([0, 1] * 700, [0, 0] * 700))
    restored = Prequential()
    restored.load(metrics.state())
    before = restored.figures()
    assert before == metrics.figures()
    metrics.add(np.zeros(500, np.int32), np.zeros(500, np.int32))
    assert restored.figures() == before
    restored.add(np.zeros(500, np.int32), np.zeros(500, np.int32))
    assert restored.figures() == metrics.figures()
