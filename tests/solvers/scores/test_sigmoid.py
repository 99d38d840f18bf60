import numpy as np
import pytest
from scipy.optimize import minimize

from hinged.solvers.scores.sigmoid import WINDOW, Sigmoid


def fresh(columns=1):
    sigmoid = Sigmoid()
    sigmoid.widen(columns)
    return sigmoid


def stream(n, seed=0, scale=1.0):
    """Scores whose class is 1 with probability 1 / (1 + exp(-2 f / scale + 0.5))."""
    random = np.random.default_rng(seed)
    f = random.normal(0, 1.5, n)
    p = 1 / (1 + np.exp(-2 * f + 0.5))
    return (f * scale)[:, None], (random.random(n) < p).astype(np.int32), p


def log_loss(p, classes):
    return float(-np.log(np.where(classes == 1, p, 1 - p)).mean())


def platt(f, positive):
    """A and B by a general optimiser, with the loss as Platt wrote it."""
    n = positive.sum()
    t = np.where(positive, (n + 1) / (n + 2), 1 / (f.size - n + 2))

    def loss(ab):
        z = ab[0] * f + ab[1]
        return np.sum(t * np.logaddexp(0, z) + (1 - t) * np.logaddexp(0, -z))

    return minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("n", [10, 200, WINDOW, 3 * WINDOW])
def test_the_fit_is_platts_over_the_newest_examples(n):
    f, classes, _ = stream(2 * n)
    sigmoid = fresh()
    sigmoid.learn(f[:n], classes[:n])
    due = int(sigmoid.state()["due"][0])
    sigmoid.learn(f[n:due], classes[n:due])
    newest = slice(max(0, due - WINDOW), due)
    expected = platt(f[newest, 0].astype(np.float32).astype(float), classes[newest] == 1)
    assert sigmoid.state()["fit"][0] == pytest.approx(expected, abs=0.02)


def test_probabilities_come_near_the_true_ones():
    f, classes, p = stream(4000)
    said = fresh().learn(f, classes)[:, 1]
    assert log_loss(said[1000:], classes[1000:]) < log_loss(p[1000:], classes[1000:]) + 0.004
    assert np.abs(said[1000:] - p[1000:]).mean() < 0.03


def test_with_one_class_only_its_probability_grows_with_the_examples():
    sigmoid = fresh()
    p = sigmoid.learn(np.full((10, 1), -1.0), np.zeros(10, int))
    assert p[:, 0] == pytest.approx([(n + 1) / (n + 2) for n in range(10)])


@pytest.mark.parametrize("factor", [1e-6, 100.0, 1e12])
def test_scores_may_change_their_scale(factor):
    sigmoid = fresh()
    sigmoid.learn(*stream(3 * WINDOW)[:2])
    f, classes, p = stream(3 * WINDOW, seed=1, scale=factor)
    said = sigmoid.learn(f, classes)[:, 1]
    assert log_loss(said[WINDOW + 100 :], classes[WINDOW + 100 :]) < log_loss(p, classes) + 0.02


def test_the_third_class_gives_the_first_two_their_columns():
    f, classes, _ = stream(1500)
    sigmoid = fresh()
    sigmoid.learn(f, classes)
    A, B = sigmoid.state()["fit"][0]
    ring = sigmoid.state()["scores"][0]
    sigmoid.widen(3)
    state = sigmoid.state()
    assert state["fit"][:2].tolist() == [[A, -B], [A, B]]
    assert (state["scores"][:2] == [-ring, ring]).all()
    # A class without an example is as improbable as n examples make it; the other classes share the rest as before.
    p = sigmoid.calibration().classes(np.array([[-0.7, 0.7, -1.0]]))[0]
    assert p[2] == pytest.approx(1 / (WINDOW + 2), rel=0.01)
    assert p[1] / p[0] == pytest.approx(np.exp(-A * 0.7 - B))


def test_a_class_that_comes_late_is_soon_known():
    sigmoid = fresh()
    f, classes, _ = stream(1500)
    sigmoid.learn(f, classes)
    sigmoid.widen(3)
    p = sigmoid.learn(np.tile([-1.0, -1.0, 1.0], (30, 1)), np.full(30, 2))
    assert p[0, 2] < 0.01
    assert (np.diff(p[:5, 2]) > 0).all()
    assert p[-1, 2] > 0.7


def test_scores_from_before_a_class_was_announced_are_taken():
    f, classes, _ = stream(400)
    sigmoid = fresh()
    sigmoid.learn(f, classes)
    before = sigmoid.calibration().classes(f)
    sigmoid.widen(3)
    assert sigmoid.calibration().classes(f) == pytest.approx(before)
    assert sigmoid.learn(f[:5], classes[:5]) == pytest.approx(before[:5])
    assert sigmoid.learn(np.array([[0.5, -0.5, -1.0]]), np.array([0])).shape == (1, 3)
    sigmoid.widen(4)
    assert sigmoid.learn(np.array([[0.5, -0.5, -1.0]]), np.array([3])).shape == (1, 3)
    assert sigmoid.state()["scores"][:, 406].tolist() == [0.5, -0.5, -1.0, -1.0]


def test_a_calibration_does_not_change_and_knows_nothing_before_the_first_example():
    f, classes, _ = stream(50)
    sigmoid = fresh()
    numbers = np.array([1, 0, -1])
    empty = sigmoid.calibration()
    sigmoid.learn(f, classes)
    calibration = sigmoid.calibration()
    before = calibration(f[:3], numbers)
    sigmoid.learn(f, 1 - classes)
    assert np.isnan(empty(f[:3], numbers)).all()
    assert np.isnan(Sigmoid().calibration()(np.zeros((3, 0)), numbers)).all()
    assert calibration(f[:3], numbers).tobytes() == before.tobytes()
    assert np.isnan(before).tolist() == [False, False, True]
    both = calibration.classes(f[:3])
    assert before[:2].tolist() == [both[0, 1], both[1, 0]]


def test_invalid_input_is_refused_before_anything_changes():
    sigmoid = fresh(3)
    before = sigmoid.state()
    for columns, classes in (
        (np.zeros((2, 4)), np.zeros(2, int)),
        (np.zeros((2, 0)), np.zeros(2, int)),
        (np.zeros((2, 3)), np.array([0, 3])),
        (np.zeros((2, 3)), np.array([0, -1])),
        (np.zeros((2, 3)), np.zeros(3, int)),
    ):
        with pytest.raises(ValueError, match="must be"):
            sigmoid.learn(columns, classes)
    assert all(before[k].tobytes() == v.tobytes() for k, v in sigmoid.state().items())
    for change in (
        {"scores": np.zeros((2, WINDOW), np.float32)},
        {"fit": np.full((3, 2), np.nan)},
        {"scores": np.zeros((3, 5), np.float32)},
        {"classes": np.full(WINDOW, -1, np.int32)},
        {"seen": np.array([-1])},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            Sigmoid().load(before | change)
