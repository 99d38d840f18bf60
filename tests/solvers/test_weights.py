"""Examples with different weights: each has its own C."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core.kernels import make_kernel
from tests.helpers.solvers.invariants import check_invariants
from tests.helpers.solvers.naive import box_optimum, gram
from tests.helpers.solvers.streams import machines, same, stream_of, three_classes, two_moons

BIASED = ["lasvm", "smo", "exact"]
KEPT = {"lasvm": {"idle_max": 1000}, "lasvm-g": {"idle_max": 1000}}  # no point is removed
BOXED = [*BIASED, "full", "lasvm-g", "tracking-1", "tracking-2", "tracking-batch"]
AT_ONCE = {"smo", "tracking-batch"}  # a whole batch is stored before anything is optimised


def weights_of(n, seed):
    """Return weights from 1/8 to 8, with runs of equal weights."""
    random = np.random.default_rng(seed)
    return np.repeat(2.0 ** random.uniform(-3, 3, n), random.integers(1, 4, n))[:n]


def exactly(name, X, classes, **parameters):
    tol = {} if name == "exact" else {"tol": 1e-7}
    return stream_of(
        name, X, classes, kernel=make_kernel("rbf", 4.0), **tol, **KEPT.get(name, {}), **{"announced": 2, **parameters}
    )


def optimum(name, X, y, box):
    """Return decision values at X of the machine at the optimum with these boxes (n,)."""
    K = gram("rbf", X, gamma=4.0)
    if name in BIASED:
        return SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, y, sample_weight=box).decision_function(K)
    return K @ box_optimum(K, y, np.minimum(0.0, box * y), np.maximum(0.0, box * y))


def solved(name, X, y, weights, C, batch=9):
    stream = exactly(name, X, (y > 0).astype(int), batch=batch, C=C, weights=weights, dtype=np.float64).learn()
    stream.solver.finish()
    return stream


@pytest.mark.parametrize("name", BOXED)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), C=st.sampled_from([0.3, 5.0]))
def test_finished_it_is_the_optimum_of_weighted_examples(name, seed, C):
    X, y = two_moons(80, noise=0.4, seed=seed)
    weights = weights_of(80, seed)
    stream = solved(name, X, y, weights, C)
    np.testing.assert_allclose(stream.decision(X)[:, 0], optimum(name, X, y, C * weights), atol=2e-4)


@pytest.mark.parametrize("name", BOXED)
def test_an_example_of_weight_2_counts_twice(name):
    X, y = two_moons(80, noise=0.4, seed=3)
    heavy = np.arange(80) % 3 == 0
    once = solved(name, X, y, np.where(heavy, 2.0, 1.0), C=1.0)
    twice = solved(name, np.r_[X, X[heavy]], np.r_[y, y[heavy]], None, C=1.0)
    np.testing.assert_allclose(once.decision(X), twice.decision(X), atol=2e-4)


@pytest.mark.parametrize("name", SOLVERS)
def test_weights_of_1_change_no_bit(name):
    X, classes = three_classes(120, seed=1)
    plain = stream_of(name, X, classes, batch=30).learn()
    weighted = stream_of(name, X, classes, batch=30, weights=np.ones(120)).learn()
    same(plain.solver.state(), weighted.solver.state())
    assert not any("heaviest" in part for part in weighted.solver.state())


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "bogd"])
def test_the_weight_of_all_examples_of_a_class_is_the_weight_of_the_class(name):
    X, classes = three_classes(150, seed=2)
    factors = np.array([0.5, 1.0, 4.0])
    by_class = stream_of(name, X, classes, batch=30, announced=0)
    by_example = stream_of(name, X, classes, batch=30, weights=factors[classes])
    for factor in factors:
        by_class.solver.add_class(float(factor))
    for stream in (by_class, by_example):
        stream.learn()
    for one, other in zip(machines(by_class.solver), machines(by_example.solver), strict=True):
        expected, found = one.state(), other.state()
        for array in expected.keys() - {"weights"}:
            assert np.array_equal(expected[array], found[array]), array
    assert np.array_equal(np.concatenate(by_class.scores), np.concatenate(by_example.scores))


def test_where_bounds_belong_to_classes_a_weight_multiplies_the_steps():
    X, classes = three_classes(60, seed=2)
    stream = stream_of("bogd", X, classes, C=100.0, budget=100, eta=0.25, weights=np.full(60, 2.0)).learn()
    doubled = stream_of("bogd", X, classes, C=100.0, budget=100, eta=0.5).learn()
    assert np.array_equal(stream.decision(X), doubled.decision(X))


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in AT_ONCE])
def test_batches_make_no_difference(name):
    X, classes = three_classes(90, seed=4)
    weights = weights_of(90, 4)
    one, many = (stream_of(name, X, classes, batch=batch, weights=weights).learn() for batch in (1, 45))
    same(one.solver.state(), many.solver.state())


@pytest.mark.parametrize("name", SOLVERS)
def test_a_state_with_weights_goes_on_to_the_bit(name):
    X, classes = three_classes(120, seed=5)
    weights = weights_of(120, 5)
    stream = stream_of(name, X, classes, batch=30, weights=weights).learn(0, 60)
    kept = stream_of(name, X, classes, batch=30, weights=weights, announced=0)
    kept.solver.load(stream.solver.state())
    kept.solver.examine()
    for each in (stream, kept):
        each.learn(60, 120)
        each.solver.finish()
    same(stream.solver.state(), kept.solver.state())


@pytest.mark.parametrize("name", ["lasvm", "full", "tracking-2", "smo"])
def test_a_state_has_boxes_no_wider_than_its_heaviest_example(name):
    X, y = two_moons(60, seed=6)
    stream = stream_of(name, X, (y > 0).astype(int), announced=2, weights=np.full(60, 3.0)).learn()
    state = stream.solver.state()
    assert state["heaviest"] == 3.0
    for wrong in ({"heaviest": np.array([2.9])}, {"heaviest": np.array([np.nan])}, {"heaviest": np.array([0.0])}):
        with pytest.raises(ValueError, match=r"bounds|heaviest"):
            stream.solver.load(state | wrong)
    del state["heaviest"]
    with pytest.raises(ValueError, match="bounds"):
        stream.solver.load(state)


@pytest.mark.parametrize("name", ["lasvm", "perceptron", "bsca", "fogd", "auto"])
@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, 1e15])
def test_an_invalid_weight_is_refused_before_anything_changes(name, wrong):
    X, y = two_moons(20, seed=0)
    stream = stream_of(name, X, (y > 0).astype(int), announced=2, C=1.0).learn()
    before = stream.solver.state()
    stream.weights = np.r_[np.ones(19), wrong]
    with pytest.raises(ValueError, match=r"the weight of an example must be > 0 and < 1e\+15"):
        stream.learn()
    stream.weights = np.ones((20, 2))
    with pytest.raises(ValueError, match="weights must be one for each of 20 rows"):
        stream.learn()
    same(before, stream.solver.state())


def test_extra_steps_refuse_weights():
    X, y = two_moons(20, seed=0)
    stream = stream_of("bsca", X, (y > 0).astype(int), announced=2, extra_steps=2, weights=np.full(20, 2.0))
    with pytest.raises(ValueError, match="extra_steps must be 0 where examples have weights of their own, got 2"):
        stream.learn()


@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "tracking-1", "exact", "smo"])
def test_a_class_that_comes_late_finds_the_weights(name):
    X, classes = three_classes(90, seed=7)
    classes[:60] %= 2
    weights = weights_of(90, 7)
    stream = stream_of(name, X, classes, batch=10, C=2.0, announced=2, weights=weights)
    stream.learn(0, 60)
    stream.solver.add_class()
    machine, n = stream.solver.machine, stream.solver.slots
    live = machine.class_of[:n] >= 0
    width = np.maximum(machine.upper, -machine.lower)[:, :n][:, live]
    np.testing.assert_allclose(width, np.tile(2.0 * weights[machine.key[:n][live]], (3, 1)), rtol=1e-15)
    stream.learn(60, 90)
    stream.solver.examine()


@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "tracking-2"])
def test_fading_keeps_the_ratio_of_weights(name):
    X, y = two_moons(60, noise=0.4, seed=8)
    weights = weights_of(60, 8)
    stream = exactly(name, X, (y > 0).astype(int), batch=1, C=1.0, weights=weights, dtype=np.float64)
    for k in range(60):
        stream.learn(k, k + 1)
        stream.solver.fade(0.95)
    stream.solver.finish()
    expected = optimum(name, X, y, weights * 0.95 ** np.arange(60, 0, -1))
    np.testing.assert_allclose(stream.decision(X)[:, 0], expected, atol=2e-4)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_after_any_history_the_boxes_are_those_of_the_weights(data):
    X, classes = three_classes(120, seed=data.draw(st.integers(0, 99)))
    weights = weights_of(120, data.draw(st.integers(0, 99)))
    stream = stream_of("lasvm", X, classes % 2, batch=7, C=2.0, announced=2, weights=weights, dtype=np.float32)
    stream.classes, stream.batch = classes, 7
    classes[:40] %= 2
    learned, box = 40, np.zeros(120)
    stream.learn(0, 40)
    box[:40] = 2.0 * weights[:40]
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(st.sampled_from(["learn", "again", "drop", "fade", "class", "finish"])):
            case "learn" if learned < 120:
                end = min(120, learned + data.draw(st.integers(1, 30)))
                classes[learned:end] %= stream.solver.classes
                stream.learn(learned, end)
                box[learned:end], learned = 2.0 * weights[learned:end], end
            case "again":
                held = stream.solver.keys()
                new = np.setdiff1d(np.arange(20), held)
                stream.learn(0, 20, again=True)
                box[new] = 2.0 * weights[new]
            case "drop":
                stream.solver.drop(np.arange(data.draw(st.integers(0, 30))))
            case "fade":
                stream.solver.fading = True
                stream.solver.fade(0.5)
                box *= 0.5
            case "class" if stream.solver.classes < 3:
                stream.solver.add_class()
            case "finish":
                stream.solver.finish()
        machine, n = stream.solver.machine, stream.solver.slots
        live = machine.class_of[:n] >= 0
        width = np.maximum(machine.upper, -machine.lower)[:, :n][:, live]
        np.testing.assert_allclose(width, np.tile(box[machine.key[:n][live]], (len(width), 1)), rtol=1e-12)
        check_invariants(stream, C=16.0)
        stream.solver.examine()
        again = stream_of("lasvm", X, classes, C=2.0, announced=0)
        again.solver.fading = stream.solver.fading
        again.solver.load(stream.solver.state())


def test_exact_keeps_weights_as_it_goes_to_another_C_and_another_label():
    X, y = two_moons(60, noise=0.4, seed=9)
    weights = weights_of(60, 9)
    stream = solved("exact", X, y, weights, C=1.0)
    stream.solver.change_C(3.0, [1.0, 0.5])
    y[7] = -y[7]
    stream.solver.relabel(7, int(y[7] > 0))
    box = 3.0 * weights * np.where(y > 0, 0.5, 1.0)
    np.testing.assert_allclose(stream.decision(X)[:, 0], optimum("exact", X, y, box), atol=2e-4)
    stream.solver.examine()


def test_a_newcomer_to_a_race_takes_over_the_weights():
    X, classes = three_classes(60, seed=10)
    weights = weights_of(60, 10)
    stream = stream_of("auto", X, classes, weights=weights).learn()
    race = stream.solver
    race.standings.leader[0] = next(a for a, arm in enumerate(race.arms) if not arm.fades)
    newcomer = race._new_arm(race.leader.setting._replace(C=2.0), race.joined)
    newcomer.learn_from(race.leader)
    np.testing.assert_allclose(newcomer.machine.held_weights(), weights[newcomer.machine.keys()], rtol=1e-12)
