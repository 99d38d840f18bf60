from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from hinged.solvers.scores.calibrations import (
    AHEAD,
    BINS,
    BLOCK,
    FADING,
    FITTED,
    NAMES,
    RIDGE,
    SIGMOIDS,
    TEMPERATURE,
    UNJUDGED,
    VECTOR,
    Calibrations,
    temperature_step,
    vector_step,
)
from hinged.solvers.scores.sigmoid import WINDOW, Sigmoid
from hinged.solvers.scores.tally import PROBABILITY_MIN

SLOPES, BIASES = np.array([0.8, 2.0, 4.0]), np.array([0.0, 1.0, -1.0])


def fresh(columns=3, **options):
    calibrations = Calibrations(**options)
    calibrations.widen(columns)
    return calibrations


def stream(n, slopes=2.0, biases=0.0, seed=0, columns=3):
    """Return scores, and classes drawn with the probabilities of a softmax of slopes * scores + biases."""
    random = np.random.default_rng(seed)
    f = random.normal(0, 1, (n, columns))
    z = slopes * f + biases
    return f, (z + random.gumbel(size=z.shape)).argmax(axis=1).astype(np.int32), softmax(z, axis=1)


def log_losses(p, classes):
    return -np.log(p[np.arange(len(classes)), classes])


def same(a, b):
    pairs = [(a.sigmoid.state(), b.sigmoid.state()), (a.state(), b.state())]
    return all(x.keys() == y.keys() and all(x[k].tobytes() == y[k].tobytes() for k in x) for x, y in pairs)


# -- the fits ---------------------------------------------------------------------------------------------------------


def targets(classes, k):
    n = len(classes)
    return np.eye(k)[classes] * n / (n + 1) + 1 / (n + 1) / k


def temperature_loss(a, f, classes):
    square = np.mean(f * f)
    return -(targets(classes, f.shape[1]) * log_softmax(a * f, axis=1)).sum() + RIDGE * square * a * a / 2


def vector_loss(slopes, biases, a, f, classes):
    square = np.mean(f * f)
    lost = -(targets(classes, f.shape[1]) * log_softmax(slopes * f + biases, axis=1)).sum()
    return lost + (square * (slopes - a) @ (slopes - a) + biases @ biases) / 2


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_steps_of_the_temperature_lead_to_the_least_loss(scale):
    f, classes, _ = stream(300)
    a = 0.0
    for _ in range(12):
        a = temperature_step(a, scale * f, classes)
    found = minimize(lambda v: temperature_loss(v[0], f, classes), [1.0], tol=1e-10).x
    assert a * scale == pytest.approx(found[0], rel=1e-5)


def test_from_a_temperature_that_is_far_off_it_is_found_too():
    f, classes, _ = stream(300)
    for start in (1e-9, 1e9):
        a = start
        for _ in range(40):
            a = temperature_step(a, f, classes)
        assert a == pytest.approx(temperature_step(a, f, classes))
        assert 1 < a < 3


def test_where_scores_are_wrong_the_temperature_makes_all_classes_alike_and_stays():
    f, classes, _ = stream(300, -3.0)
    a = 1.0
    for _ in range(500):
        a = temperature_step(a, f, classes)
        assert 0 < a < 2
    assert softmax(a * f, axis=1) == pytest.approx(1 / 3, abs=1e-4)


def test_each_step_of_the_vector_lowers_its_loss_until_it_is_least():
    f, classes, _ = stream(400, SLOPES, BIASES)
    slopes, biases, a = np.full(3, 2.0), np.zeros(3), 2.0
    losses = [vector_loss(slopes, biases, a, f, classes)]
    for _ in range(60):
        slopes, biases = vector_step(slopes, biases, a, f, classes)
        losses.append(vector_loss(slopes, biases, a, f, classes))
    assert (np.diff(losses) < 1e-9).all()
    found = minimize(lambda v: vector_loss(v[:3], v[3:], a, f, classes), np.ones(6), tol=1e-10)
    assert losses[-1] == pytest.approx(found.fun, abs=0.01)  # equal biases have almost no effect
    least = softmax(found.x[:3] * f + found.x[3:], axis=1)
    assert softmax(slopes * f + biases, axis=1) == pytest.approx(least, abs=2e-3)


def test_with_scores_of_0_no_step_is_made():
    f, classes = np.zeros((20, 3)), np.arange(20) % 3
    assert temperature_step(2.0, f, classes) == 2.0
    assert vector_step(np.ones(3), np.zeros(3), 2.0, f, classes)[0].tolist() == [1.0, 1.0, 1.0]


# -- along a stream ---------------------------------------------------------------------------------------------------


def plain(f, classes):
    """Return the probabilities along a stream and the metrics at its end, computed example by example."""
    k, sigmoid = f.shape[1], Sigmoid()
    sigmoid.widen(k)
    fits = [sigmoid.calibration(), (np.zeros(k), np.zeros(k)), (np.zeros(k), np.zeros(k))]
    a, slopes, biases = 0.0, np.zeros(k), np.zeros(k)
    losses, briers, gaps, weight = np.zeros(3), np.zeros(3), np.zeros((3, k, BINS)), 0.0
    answers, judged, due, said, waiting = TEMPERATURE, 0, 1, [], []
    for i, x in enumerate(f):
        row = x.astype(np.float32).astype(np.float64)
        p = [None, *(softmax(fit[0] * row + fit[1]) for fit in fits[1:])]
        p[SIGMOIDS] = np.full(k, 1 / k) if np.isnan(copied := fits[0].classes(row[None])[0]).any() else copied
        now = sigmoid.learn(x[None], classes[i : i + 1])[0]
        said.append(now if answers == SIGMOIDS else softmax(fits[answers][0] * x + fits[answers][1]))
        waiting.append((p, classes[i]))
        if i + 1 < due:
            continue
        if judged >= UNJUDGED:
            for ps, c in waiting:
                losses, briers, gaps, weight = FADING * losses, FADING * briers, FADING * gaps, FADING * weight + 1
                for n, q in enumerate(ps):
                    losses[n] -= np.log(max(q[c], PROBABILITY_MIN))
                    briers[n] += ((q - np.eye(k)[c]) ** 2).sum() / 2
                    for each in range(k):
                        gaps[n, each, min(int(BINS * q[each]), BINS - 1)] += q[each] - (each == c)
            if losses.min() < losses[answers] - AHEAD:
                answers = int(losses.argmin())
        newest = slice(max(0, i + 1 - FITTED), i + 1)
        scores = f[newest].astype(np.float32).astype(np.float64)
        before, a = a, temperature_step(a, scores, classes[newest])
        slopes, biases = vector_step(np.maximum(slopes + a - before, 0), biases, a, scores, classes[newest])
        fits = [sigmoid.calibration(), (np.full(k, a), np.zeros(k)), (slopes, biases)]
        judged, waiting, due = i + 1, [], i + 1 + min(max(1, (i + 1) // 10), BLOCK)
    told = {
        name: {
            "log_loss": losses[n] / weight,
            "brier": briers[n] / weight,
            "classwise_error": np.abs(gaps[n]).sum(axis=1).mean() / weight,
        }
        for n, name in enumerate(NAMES)
    }
    return np.array(said), {"answers": NAMES[answers], "examples": weight, **told}


@pytest.mark.parametrize(("n", "slopes", "biases"), [(60, 2.0, 0.0), (900, SLOPES, BIASES)])
def test_each_probability_and_every_figure_is_that_of_a_plain_loop(n, slopes, biases):
    f, classes, _ = stream(n, slopes, biases)
    calibrations = fresh()
    said = calibrations.learn(f, classes)
    expected, told = plain(f, classes)
    assert said == pytest.approx(expected, abs=1e-6)
    found = calibrations.figures()
    assert (found["answers"], found["examples"]) == (told["answers"], pytest.approx(told["examples"]))
    for name in NAMES:
        assert found[name] == pytest.approx(told[name], abs=1e-6)


@pytest.mark.parametrize(
    ("slopes", "biases", "answers"), [(3.0, 0.0, ["temperature"]), (SLOPES, BIASES, ["vector"])], ids=["one", "several"]
)
def test_the_calibration_that_answers_comes_near_the_true_probabilities(slopes, biases, answers):
    f, classes, p = stream(4000, slopes, biases)
    calibrations, alone = fresh(), fresh(choosing=False)
    said, sigmoids = calibrations.learn(f, classes), alone.learn(f, classes)
    assert calibrations.figures()["answers"] in answers
    newest = slice(1000, None)
    lost, before, least = (log_losses(q, classes)[newest].mean() for q in (said, sigmoids, p))
    assert lost < least + 0.012
    assert lost < before - 0.01
    assert calibrations.figures()[answers[0]]["log_loss"] < calibrations.figures()["sigmoids"]["log_loss"]
    assert calibrations.calibration().classes(f[:50]) == pytest.approx(p[:50], abs=0.15)


def test_where_sigmoids_are_right_they_answer():
    """Two of three scores are above 0. Their size carries no information, and either class may be right."""
    random = np.random.default_rng(0)
    away = random.integers(0, 3, 3000)
    f = random.uniform(1, 10, (3000, 3)) * np.where(np.arange(3) == away[:, None], -1, 1)
    classes = ((away + random.integers(1, 3, 3000)) % 3).astype(np.int32)
    calibrations, alone = fresh(), fresh(choosing=False)
    said, sigmoids = calibrations.learn(f, classes), alone.learn(f, classes)
    assert calibrations.figures()["answers"] == "sigmoids"
    assert said[1000:] == pytest.approx(sigmoids[1000:])


def test_after_a_change_of_concept_probabilities_are_right_again():
    f, classes, _ = stream(4000, 6.0)
    classes[2000:] = (classes[2000:] + 1) % 3  # then the scores are mostly wrong: no slope is negative
    said = fresh().learn(f, classes)
    surprised, settled = (log_losses(said, classes)[part].mean() for part in (slice(2000, 2200), slice(3000, None)))
    assert settled < np.log(3) + 0.02 < surprised


@pytest.mark.parametrize("columns", [1, 3])
def test_an_examples_probability_does_not_know_its_label(columns):
    f, classes, _ = stream(300)
    f, classes = f[:, :columns], classes % max(columns, 2)
    other = classes.copy()
    other[-1] = (classes[-1] + 1) % max(columns, 2)
    assert fresh(columns).learn(f, classes).tobytes() == fresh(columns).learn(f, other).tobytes()


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 1300), max_size=6), columns=st.sampled_from([1, 3, 4]), seed=st.integers(0, 9))
def test_batches_change_no_bit(cuts, columns, seed):
    random = np.random.default_rng(seed)
    f, classes = random.normal(0, 2, (1300, columns)), random.integers(0, max(columns, 2), 1300)
    whole, parts = fresh(columns), fresh(columns)
    expected = whole.learn(f, classes)
    got = [parts.learn(f[a:b], classes[a:b]) for a, b in pairwise([0, *sorted(cuts), 1300])]
    assert np.concatenate(got).tobytes() == expected.tobytes()
    assert same(whole, parts)


@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60),
    columns=st.sampled_from([1, 3]),
    seed=st.integers(0, 99),
)
def test_any_scores_give_probabilities(scores, columns, seed):
    random = np.random.default_rng(seed)
    f = random.choice(scores, (90, columns))
    calibrations = fresh(columns)
    for classes in (np.zeros(90, int), random.integers(0, max(columns, 2), 90)):
        p = np.concatenate((calibrations.learn(f, classes), calibrations.calibration().classes(f)))
        assert ((p >= 0) & (p <= 1)).all()
        assert p.sum(axis=1) == pytest.approx(1)
    states = calibrations.state(), {"fit": calibrations.sigmoid.state()["fit"]}
    assert all(np.isfinite(array).all() for state in states for array in state.values())
    restored = Calibrations()
    restored.load(calibrations.sigmoid.state(), calibrations.state())
    assert same(calibrations, restored)


# -- where there is nothing to choose ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "choosing"), [(1, True), (3, False)])
def test_with_two_classes_or_without_choice_the_sigmoids_answer_to_the_bit(columns, choosing):
    f, classes, _ = stream(1200)
    f, classes = f[:, :columns], classes % max(columns, 2)
    calibrations, sigmoid = fresh(columns, choosing=choosing), Sigmoid()
    sigmoid.widen(columns)
    assert calibrations.learn(f, classes).tobytes() == sigmoid.learn(f, classes).tobytes()
    assert calibrations.calibration().classes(f).tobytes() == sigmoid.calibration().classes(f).tobytes()
    assert (calibrations.figures(), calibrations.state()) == (None, {})
    assert all(calibrations.sigmoid.state()[k].tobytes() == v.tobytes() for k, v in sigmoid.state().items())


# -- classes that come later ------------------------------------------------------------------------------------------


def test_the_third_class_begins_the_choice_with_the_sigmoids_of_two():
    f, classes, _ = stream(1500)
    two = fresh(1)
    two.learn(f[:, :1], classes % 2)
    before = two.calibration().classes(f[:, :1])
    two.widen(3)
    assert two.figures()["answers"] == "sigmoids"
    assert two.calibration().classes(f[:, :1]) == pytest.approx(before)
    alone = fresh(1, choosing=False)
    alone.learn(f[:, :1], classes % 2)
    alone.widen(3)
    late, numbers = np.column_stack((-f[:, 0], f[:, 0], f[:, 1])), np.where(f[:, 1] > 1, 2, classes % 2)
    said, sigmoids = two.learn(late, numbers), alone.learn(late, numbers)
    assert said[:20].tobytes() == sigmoids[:20].tobytes()
    assert log_losses(said, numbers).mean() < log_losses(sigmoids, numbers).mean() + 0.01


def test_scores_from_before_a_class_was_announced_are_taken():
    f, classes, _ = stream(900, SLOPES, BIASES)
    calibrations = fresh()
    calibrations.learn(f, classes)
    assert calibrations.figures()["answers"] == "vector"
    before = calibrations.calibration().classes(f[:5])
    calibrations.widen(4)
    assert calibrations.calibration().classes(f[:5]) == pytest.approx(before)
    assert calibrations.learn(f[:5], classes[:5]) == pytest.approx(before)
    # The two classes in one column are like the first two columns, with opposite signs.
    one = calibrations.learn(f[:5, :1], np.array([0, 1, 2, 3, 0]))
    both = calibrations.calibration().classes(np.column_stack((-f[:5, 0], f[:5, 0], np.full(5, -1e9))))
    assert one == pytest.approx(both[:, :2])
    assert calibrations.learn(np.zeros((0, 4)), np.zeros(0, int)).shape == (0, 4)
    assert calibrations.learn(np.column_stack((f[:5], f[:5, 0])), classes[:5]).shape == (5, 4)


# -- state ------------------------------------------------------------------------------------------------------------


def test_a_state_goes_on_to_the_bit_and_shares_no_memory():
    f, classes, _ = stream(1700, SLOPES, BIASES)
    one, two = fresh(), Calibrations()
    one.learn(f[:1111], classes[:1111])
    two.load(one.sigmoid.state(), one.state())
    assert same(one, two)
    told = one.calibration().classes(f)
    kept = one.calibration()
    assert one.learn(f[1111:], classes[1111:]).tobytes() == two.learn(f[1111:], classes[1111:]).tobytes()
    assert same(one, two)
    assert kept.classes(f).tobytes() == told.tobytes() != one.calibration().classes(f).tobytes()


def test_invalid_input_is_refused_before_anything_changes():
    f, classes, _ = stream(200)
    calibrations = fresh()
    calibrations.learn(f, classes)
    before, sigmoid = calibrations.state(), calibrations.sigmoid.state()
    for columns, wrong in ((f[:, :0], classes), (np.zeros((200, 4)), classes), (f, classes + 3), (f, classes[:5])):
        with pytest.raises(ValueError, match="must be"):
            calibrations.learn(columns, wrong)
    assert all(before[k].tobytes() == v.tobytes() for k, v in calibrations.state().items())
    upside_down, skewed, biased = before["fits"].copy(), before["fits"].copy(), before["fits"].copy()
    upside_down[TEMPERATURE, :, 0] *= -1.0  # then each step is eight times as long, until it exceeds FIT_MAX
    skewed[TEMPERATURE, 0, 0] *= 2.0
    biased[TEMPERATURE, 0, 1] = 1.0
    rising = before["fits"].copy()
    rising[VECTOR, 1, 0] = 1.0
    for change in (
        {"fits": upside_down},
        {"fits": skewed},
        {"fits": biased},
        {"fits": rising},
        {"fits": np.zeros((3, 4, 2))},
        {"fits": np.full((3, 3, 2), np.nan)},
        {"losses": np.full((3, 2), 1e9)},
        {"gaps": np.full((3, 3, BINS), -1e9)},
        {"weight": np.array([-1.0])},
        {"weight": np.array([1e-300])},
        {"answers": np.array([3])},
        {"since": np.array([201])},
        {"judged": np.array([201])},
        {"judged": np.array([-1])},
        {"due": np.array([200])},
        {"due": np.array([2**62])},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            Calibrations().load(sigmoid, before | change)
    with pytest.raises(ValueError, match="no array"):
        Calibrations().load(sigmoid, {})
    assert WINDOW >= FITTED
    assert before["answers"] in (TEMPERATURE, VECTOR)
