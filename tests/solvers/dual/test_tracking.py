import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.counts import LEARNED, NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.random import random_below
from hinged.solvers.core.rowcache import cached_row
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.dual import machine as m
from hinged.solvers.dual.time_steps import ALGORITHMS, optimum
from hinged.solvers.dual.tracking import TrackingSVM
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import two_moons

ONLINE = (1, 2, "cached")
PAPER = {"draws": 1, "delta_max": None}
RBF = make_kernel("rbf", 1.0)
LINEAR = make_kernel("linear")


def new_solver(dim=2, kernel=RBF, classes=2, **parameters):
    solver = TrackingSVM(kernel, dim, **{"dtype": np.float64} | parameters)
    for _ in range(classes):
        solver.add_class()
    return solver


def learn(solver, X, classes, begin=0, end=None, batch=64):
    end = len(X) if end is None else end
    scores = [
        solver.learn(
            rows(solver, X[b : min(b + batch, end)]),
            classes[b : min(b + batch, end)],
            np.arange(b, min(b + batch, end)),
        )
        for b in range(begin, end, batch)
    ]
    return np.concatenate(scores)


def rows(solver, X):
    return rows_from_dense(X, solver.kernel, solver.dim, solver.dtype)


def held(solver):
    """Return the slots that contain a point."""
    return np.flatnonzero(solver.machine.class_of[: solver.slots] != NONE)


def by_key(solver, coefficients):
    slots = held(solver)
    return dict(zip(solver.machine.key[slots].tolist(), coefficients[0, slots].tolist(), strict=True))


def check_invariants(solver, X):
    """Check the box, the average within it, g = y - K alpha, no bias, and a gap that is not negative."""
    machine, slots = solver.machine, held(solver)
    assert slots.size == solver.live
    for coefficients in (machine.alpha, solver.smooth):
        assert (coefficients[:, slots] >= machine.lower[:, slots]).all()
        assert (coefficients[:, slots] <= machine.upper[:, slots]).all()
        holes = np.setdiff1d(np.arange(coefficients.shape[1]), slots)
        assert not coefficients[:, holes].any()
    assert not machine.b.any()
    points = X[machine.key[slots]]
    K = np.array(naive.gram("rbf", points)).reshape(slots.size, slots.size)
    g = machine.sign[:, slots] - machine.alpha[:, slots] @ K
    assert np.abs(g - machine.g[:, slots]).max(initial=0) < 1e-9
    certificate = solver.certificate()
    average = solver.smooth[:, slots]
    violation = machine.sign[:, slots] - average @ K
    loss = np.abs(machine.lower[:, slots] + machine.upper[:, slots]) * np.maximum(0, machine.sign[:, slots] * violation)
    assert certificate["gap"] >= 0
    assert certificate["primal"] == pytest.approx((average @ K * average).sum() / 2 + loss.sum())
    assert certificate["dual"] == pytest.approx((average * machine.sign[:, slots] - (average @ K * average) / 2).sum())


@pytest.mark.parametrize("algorithm", ONLINE)
@pytest.mark.parametrize(("kernel", "C", "K"), [("rbf", 0.5, 1), ("linear", 1.0, 10), ("rbf", 20.0, 5)])
@pytest.mark.parametrize("more", [PAPER, {"draws": 4, "delta_max": 0.5}], ids=["paper", "more"])
def test_each_time_step_is_that_of_a_plain_loop(algorithm, kernel, C, K, more):
    X, y = two_moons(90, noise=0.4, seed=3)
    solver = new_solver(kernel=make_kernel(kernel), C=C, K=K, algorithm=algorithm, seed=11, **more)
    state = np.array([11], np.uint64)
    oracle = naive.NaiveTracking(naive.gram(kernel, X), y, C, K, algorithm, lambda n: random_below(state, n), **more)
    for k in range(len(X)):
        score = learn(solver, X, (y > 0).astype(int), k, k + 1)
        assert score[0, 0] == pytest.approx(oracle.learn(k), abs=1e-9)
        assert by_key(solver, solver.machine.alpha) == pytest.approx(oracle.alpha, abs=1e-9)
        assert by_key(solver, solver.smooth) == pytest.approx(oracle.average, abs=1e-9)
    assert K == 1 or any(v != oracle.average[i] for i, v in oracle.alpha.items())


def test_in_float32_each_time_step_is_that_of_a_plain_loop_over_the_same_kernel_values():
    """With exact kernel values, the solver differs from the plain loop on this stream after 77 examples."""
    X, y = two_moons(260, noise=0.4, seed=4)
    X, y = X[:90], y[:90]
    classes, K, known = (y > 0).astype(int), np.zeros((90, 90)), {"C": 100.0, "seed": 11, "dtype": np.float32}
    every = new_solver(algorithm=1, **known, **PAPER)
    learn(every, X, classes)
    for k in range(90):
        K[k] = cached_row(every.kernel, every.points, every.cache, k, NONE)[:90]
    solver, state = new_solver(algorithm="cached", **known), np.array([11], np.uint64)
    more = {"draws": 100, "delta_max": 1.0}
    oracle = naive.NaiveTracking(K, y, 100.0, 10, "cached", lambda n: random_below(state, n), **more)
    for k in range(90):
        score = learn(solver, X, classes, k, k + 1)
        assert score[0, 0] == pytest.approx(oracle.learn(k), abs=1e-8)
        assert by_key(solver, solver.machine.alpha) == pytest.approx(oracle.alpha, abs=1e-8)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(1, 4),
    algorithm=st.sampled_from(ALGORITHMS),
    C=st.floats(0.01, 100),
    K=st.integers(1, 20),
    full=st.booleans(),
)
def test_invariants_hold_after_every_micro_batch(seed, classes, algorithm, C, K, full):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (60, 2)) + 0.1 * random.standard_normal((60, 2))
    labels = random.integers(0, classes, 60)
    limits = {"points_max": 15, "when_full": "remove"} if full else {}
    solver = new_solver(C=C, K=K, algorithm=algorithm, classes=classes, seed=seed, **limits)
    for begin in range(0, 60, 7):
        learn(solver, X, labels, begin, min(begin + 7, 60))
        check_invariants(solver, X)
        assert solver.live <= (15 if full else 60)
    finish = solver.finish()
    check_invariants(solver, X)
    assert finish.converged
    assert solver.certificate()["kkt_violation"] <= 1e-3


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_dual_never_falls(algorithm):
    X, y = two_moons(150, noise=0.5, seed=4)
    solver = new_solver(C=3.0, K=1, algorithm=algorithm)
    dual = 0.0
    for k in range(len(X)):
        learn(solver, X, (y > 0).astype(int), k, k + 1)
        after = m.dual_objective(solver.machine, solver.slots)
        assert after >= dual - 1e-12 * (1 + dual)
        dual = after


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    t=st.integers(1, 30),
    dim=st.integers(1, 5),
    C=st.floats(0.01, 100),
    moved=st.floats(0, 1),
    bound=st.floats(0, 1),
)
def test_the_gap_is_bounded_by_the_rise_that_the_next_update_promises(seed, t, dim, C, moved, bound):
    # Lemma 1: (P - D) / (C t) <= mu(E rise), mu(x) = sqrt(2 x) + x / C, for |x_i| <= 1 and any alpha in the box.
    random = np.random.default_rng(seed)
    X = random.standard_normal((t, dim))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = random.choice([-1, 1], t)
    K = X @ X.T
    alpha = y * C * np.where(random.random(t) < moved, random.random(t), random.random(t) < bound)
    g = y - K @ alpha
    dual = alpha @ y - alpha @ K @ alpha / 2
    rises = []
    for i in range(t):
        moved_to = alpha.copy()
        moved_to[i] = optimum(g[i], alpha[i], min(0.0, C * y[i]), max(0.0, C * y[i]), K[i, i])
        rises.append(moved_to @ y - moved_to @ K @ moved_to / 2 - dual)
    primal = alpha @ K @ alpha / 2 + C * np.maximum(0, y * g).sum()
    rise = max(np.mean(rises), 0.0)
    assert min(rises) > -1e-9 * (1 + C * C)
    assert (primal - dual) / (C * t) <= np.sqrt(2 * rise) + rise / C + 1e-6


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_finished_is_the_optimum_over_the_points_held(algorithm, C):
    X, y = two_moons(120, noise=0.3, seed=5)
    kernel = make_kernel("rbf", 4.0)
    solver = new_solver(kernel=kernel, C=C, algorithm=algorithm, tol=1e-7)
    learn(solver, X, (y > 0).astype(int))
    points = solver.machine.key[held(solver)]
    assert solver.finish().converged
    K = naive.gram("rbf", X, gamma=4.0)
    part, labels = K[np.ix_(points, points)], y[points]
    alpha = naive.box_optimum(part, labels, np.minimum(0, C * labels), np.maximum(0, C * labels))
    optimal = alpha @ labels - alpha @ part @ alpha / 2
    certificate = solver.certificate()
    assert certificate["dual"] == pytest.approx(optimal, rel=1e-7)
    assert certificate["gap"] == pytest.approx(0, abs=1e-4)
    assert solver.decision(rows(solver, X))[:, 0] == pytest.approx(alpha @ K[points], abs=1e-5)
    assert certificate["points"] == (certificate["support_vectors"] if algorithm == "cached" else 120)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rare_positives_behind_many_negatives_are_learned(algorithm):
    random = np.random.default_rng(6)
    labels = np.where(np.arange(4_000) < 1_500, 0, random.random(4_000) < 0.01).astype(int)
    X = random.standard_normal((4_000, 2)) + 4.0 * labels[:, None]
    solver = new_solver(C=10.0, algorithm=algorithm, dtype=np.float32)
    learn(solver, X, labels, batch=500)
    new = random.standard_normal((2_000, 2))
    assert (solver.decision(rows(solver, new))[:, 0] < 0).mean() > 0.99
    assert (solver.decision(rows(solver, new + 4.0))[:, 0] > 0).mean() > 0.9


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_zero_row_under_a_linear_kernel_is_counted_and_changes_nothing(algorithm):
    X, y = two_moons(30, seed=7)
    X[::3] = 0
    labels = (y > 0).astype(int)
    solver, without = (new_solver(kernel=LINEAR, algorithm=algorithm) for _ in range(2))
    keep = X.any(axis=1)
    learn(solver, X, labels, batch=1 if algorithm != "batch" else 30)
    learn(without, X[keep], labels[keep], batch=1 if algorithm != "batch" else 30)
    assert np.array_equal(solver.decision(rows(solver, X)), without.decision(rows(without, X)))
    assert solver.live == without.live
    assert int(solver.machine.counts[LEARNED]) == 30
    learn(new_solver(kernel=LINEAR, algorithm=algorithm), np.zeros((3, 2)), np.zeros(3, int))


def test_the_cached_variant_holds_only_points_with_a_coefficient():
    X, y = two_moons(600, noise=0.15, seed=8)
    solver = new_solver(C=10.0, algorithm="cached")
    for k in range(len(X)):
        learn(solver, X, (y > 0).astype(int), k, k + 1)
        left = (solver.machine.alpha[0, held(solver)] == 0).sum()
        assert left <= solver.K  # they are removed once their average is no longer used
    assert solver.live < 50


def test_in_the_cached_variant_a_coefficient_of_zero_stays_zero():
    X, y = two_moons(150, noise=0.4, seed=12)
    labels = (y > 0) + (X[:, 0] > 1).astype(int)
    solver = new_solver(C=2.0, algorithm="cached", classes=3)
    zeros = {}
    for k in range(len(X)):
        learn(solver, X, labels, k, k + 1)
        columns = {int(solver.machine.key[s]): solver.machine.alpha[:, s].copy() for s in held(solver)}
        assert not any(columns[i][zeros[i]].any() for i in zeros if i in columns)
        zeros = {i: alpha == 0 for i, alpha in columns.items()}
    assert any(zero.any() for zero in zeros.values())


def test_a_third_class_does_not_change_what_two_predicted():
    X, y = two_moons(100, seed=13)
    solver = new_solver(K=5)
    learn(solver, X, (y > 0).astype(int))
    before = solver.decision(rows(solver, X))[:, 0]
    solver.add_class()
    after = solver.decision(rows(solver, X))
    assert np.array_equal(after[:, 1], before)
    assert np.array_equal(after[:, 0], -before)
    assert not after[:, 2].any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_at_points_max_it_drops_the_least_useful_point_and_goes_on_learning(algorithm):
    X, y = two_moons(2_000, seed=9)  # the optimum has 232 support vectors, 86 of them on the wrong side
    solver = new_solver(C=10.0, algorithm=algorithm, points_max=100, when_full="remove")
    learn(solver, X, (y > 0).astype(int))
    assert solver.live <= 100
    assert ((solver.decision(rows(solver, X))[:, 0] > 0) == (y > 0)).mean() > 0.88


def test_further_epochs_enter_nothing_twice_and_close_the_gap():
    X, y = two_moons(200, seed=10)
    labels = (y > 0).astype(int)
    for algorithm in ALGORITHMS:
        solver = new_solver(C=5.0, algorithm=algorithm)
        learn(solver, X, labels)
        before = solver.certificate()["gap"]
        for _ in range(20):
            solver.learn(rows(solver, X), labels, np.arange(200), again=True)
        keys = solver.machine.key[held(solver)]
        assert np.unique(keys).size == keys.size
        assert solver.certificate()["gap"] < before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"algorithm": 3}, "algorithm must be one of"),
        ({"K": 0}, "K must be an integer from 1"),
        ({"tol": 0}, "tol must be a number > 0"),
    ],
)
def test_invalid_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        TrackingSVM(RBF, 2, **parameters)


def test_a_state_without_its_average_is_refused_and_nothing_changes():
    X, y = two_moons(50, seed=11)
    solver = new_solver()
    learn(solver, X, (y > 0).astype(int))
    before = solver.state()
    for smooth in (None, before["smooth"][:, 1:], before["smooth"] * np.nan):
        state = {name: array for name, array in before.items() if name != "smooth"}
        with pytest.raises(ValueError, match="smooth"):
            solver.load(state if smooth is None else state | {"smooth": smooth})
    after = solver.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
