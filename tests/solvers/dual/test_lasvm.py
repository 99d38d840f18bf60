"""LASVM compared with a plain loop and with LIBSVM: its steps, its optimum, its state, and its refusals."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.core.counts import LEARNED, NONE
from hinged.solvers.core.kernels import KERNELS, make_kernel, point_row
from hinged.solvers.core.rowcache import MISSES
from hinged.solvers.core.solver import PointsFull
from hinged.solvers.dual.lasvm import LASVM
from hinged.solvers.dual.machine import IDLE, beyond_extremes
from hinged.solvers.dual.removal import IDLE_EACH, IDLE_PART, remove_blatant
from tests.helpers.solvers import naive
from tests.helpers.solvers.invariants import check_invariants
from tests.helpers.solvers.streams import Stream, two_moons

PAPER = {"delta_max": None, "delta_min": 0, "idle_max": 0}


def column(stream):
    """Return alpha and g by example number, and b, of a machine with one column."""
    machine, n = stream.solver.machine, stream.solver.slots
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    keys = machine.key[live].tolist()
    alpha, g = machine.alpha[0, live].tolist(), machine.g[0, live].tolist()
    return dict(zip(keys, alpha, strict=True)), dict(zip(keys, g, strict=True)), machine.b[0]


def close(a, b):
    return all(abs(a[s] - b[s]) < 1e-7 for s in a)


@pytest.mark.long
@pytest.mark.parametrize(
    ("delta_min", "delta_max", "tau"),
    [(0.0, None, 1e-3), (0.0, 1.5, 1e-3), (0.5, None, 0.5), (0.5, 1.5, 0.5), (0.5, 0.3, 0.3)],
)
@pytest.mark.parametrize("C", [1.0, 50.0])
def test_each_iteration_is_an_outcome_of_a_plain_loop(C, delta_min, delta_max, tau):
    X, y = two_moons(60, noise=0.4, seed=3)
    y[0] = -y[1]  # two classes from the second example on
    parameters = {"delta_min": delta_min, "delta_max": delta_max, "idle_max": 0}
    stream = Stream(X, (y > 0).astype(int), batch=1, C=C, **parameters, dtype=np.float64).learn(0, 1)
    oracle = naive.NaiveLASVM(naive.gram("rbf", X), y, C, tau, np.inf if delta_max is None else delta_max)
    for k in range(1, len(X)):
        alpha, g, b = column(stream)
        stream.learn(k, k + 1)
        assert stream.scores[-1][0, 0] == pytest.approx(sum(alpha[s] * oracle.K[s, k] for s in alpha) + b)
        after, g_after, b_after = column(stream)
        right = [end for end in oracle.outcomes(alpha, g, k) if close(after, end[0]) and close(g_after, end[1])]
        assert right, k
        assert b_after == pytest.approx(oracle.bias(*right[0])[0])
        for s in right[0][0]:
            beyond = oracle.blatant(*right[0], s)
            assert beyond > -naive.NEAR if s not in after else beyond < naive.NEAR


@pytest.mark.long
def test_while_there_is_room_every_point_stays_and_finishing_is_the_batch_optimum():
    X, y = two_moons(300, noise=0.5, seed=4)
    y = np.random.default_rng(0).choice([-1, 1], 300)  # with random labels and a large C most coefficients are free
    stream = Stream(X, (y > 0).astype(int), batch=7, C=1000.0, tol=1e-5, dtype=np.float64)
    finished, former = Stream(X, (y > 0).astype(int), batch=7, C=1000.0, tol=1e-5, dtype=np.float64), 0.0
    for begin in range(0, 300, 10):
        stream.learn(begin, begin + 10)
        finished.learn(begin, begin + 10)
        before = finished.solver.certificate()["dual"]
        finished.solver.finish()
        after = finished.solver.certificate()["dual"]
        assert former <= before * (1 + 1e-9) <= after * (1 + 2e-9)
        former = after
    stream.solver.finish()
    svc = SVC(C=1000.0, gamma=1.0, tol=1e-6).fit(X, y)
    signed = svc.dual_coef_[0]
    f_on = svc.decision_function(svc.support_vectors_) - svc.intercept_[0]
    optimum = signed @ y[svc.support_] - 0.5 * signed @ f_on
    for one in (stream, finished):
        assert one.solver.live == 300
        assert one.solver.certificate()["dual"] == pytest.approx(optimum, rel=1e-5)


def test_idle_points_leave_once_they_take_too_much_room():
    X, y = two_moons(3000, noise=0.2, seed=6)
    stream = Stream(X, (y > 0).astype(int), batch=16, C=1.0, idle_max=400)
    former, left = set(), 0
    for begin in range(0, 2992, 16):
        stream.learn(begin, begin + 16)
        held = stream.solver.live - stream.solver.machine.counts[IDLE]
        assert stream.solver.live - held <= max(400 // IDLE_PART, min(IDLE_EACH * held, 400 - held))
        left += len(former - set(stream.solver.keys()))
        former = set(stream.solver.keys())
    assert left > 500


def test_the_farthest_idle_points_leave():
    X, y = two_moons(600, noise=0.2, seed=6)
    solver = Stream(X, (y > 0).astype(int), C=1.0).learn().solver
    before = distances(solver)
    for leaving in (30, 5):  # 30 points are removed by their mean, 5 one by one
        solver.parameters = solver.parameters._replace(idle_max=solver.live - leaving)
        remove_blatant(solver.points, solver.cache, solver.machine, NONE, solver.parameters)
        after = distances(solver)
        assert len(before) - len(after) >= leaving
        assert max(after.values()) < min(far for key, far in before.items() if key not in after)
        before = after


def distances(solver):
    """Return how far beyond the extremes each idle point lies, by its key."""
    idle = solver.machine.idle[: solver.machine.counts[IDLE]]
    return {int(solver.machine.key[s]): beyond_extremes(solver.machine, s, -np.inf) for s in idle}


@pytest.mark.parametrize("when_full", ["refuse", "remove"])
def test_idle_points_take_no_room_that_support_vectors_need(when_full):
    X, y = two_moons(3000, noise=0.1, seed=7)
    needed = Stream(X, (y > 0).astype(int), batch=10, C=10.0, **PAPER).learn().solver.live
    tight = Stream(X, (y > 0).astype(int), batch=10, C=10.0, points_max=3 * needed, when_full=when_full).learn()
    assert tight.solver.live <= 3 * needed
    assert ((tight.decision(X)[:, 0] > 0) == (y > 0)).mean() > 0.98


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 60),
    classes=st.integers(1, 4),
    kernel=st.sampled_from(list(KERNELS)),
    C=st.sampled_from([0.1, 10.0, 1000.0]),
    copies=st.booleans(),
)
def test_every_step_keeps_the_invariants(seed, n, classes, kernel, C, copies):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (n, 3)) if copies else random.standard_normal((n, 3))
    stream = Stream(X, random.integers(0, classes, n), make_kernel(kernel, 0.5, 2, 1.0), batch=1, C=C, dtype=np.float64)
    for k in range(n):
        stream.learn(k, k + 1)
        check_invariants(stream, C, tolerance=1e-7 * C * max(1, n) * 100)
    stream.solver.finish()
    check_invariants(stream, C, tolerance=1e-7 * C * max(1, n) * 100)


def test_no_step_lowers_the_dual_objective():
    X, y = two_moons(120, noise=0.5, seed=1)
    stream = Stream(X, (y > 0).astype(int), batch=1, C=10.0, dtype=np.float64)
    former = 0.0
    for k in range(len(X)):
        stream.learn(k, k + 1)
        dual = stream.solver.certificate()["dual"]
        assert dual >= former - 1e-9 * abs(former)
        former = dual


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_converged_lasvm_reaches_the_optimum_of_libsvm(kernel):
    X, y = two_moons(200, noise=0.35, seed=5)
    gamma, degree, coef0, C = 0.7, 2, 1.0, 5.0
    stream = Stream(X, (y > 0).astype(int), make_kernel(kernel, gamma, degree, coef0), C=C, tol=1e-7, dtype=np.float64)
    stream.learn()
    for _ in range(6):  # further epochs add points that the first pass removed
        stream.learn(again=True)
        stream.solver.finish()
    K = naive.gram(kernel, X, gamma=gamma, degree=degree, coef0=coef0)
    svc = SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, y)
    signed = svc.dual_coef_[0]
    on = svc.support_
    optimum = signed @ y[on] - 0.5 * signed @ K[np.ix_(on, on)] @ signed
    assert stream.solver.certificate()["dual"] == pytest.approx(optimum, rel=1e-6)
    np.testing.assert_allclose(stream.decision(X)[:, 0], svc.decision_function(K), atol=2e-4)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(["lasvm", "smo"]),
    seed=st.integers(0, 10_000),
    n=st.integers(4, 60),
    kernel=st.sampled_from(list(KERNELS)),
    C=st.sampled_from([0.1, 1.0, 20.0]),
    copies=st.booleans(),
)
@example(name="lasvm", seed=150, n=4, kernel="linear", C=0.1, copies=False)
def test_converged_on_any_data_the_dual_equals_that_of_libsvm(name, seed, n, kernel, C, copies):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (n, 3)).astype(float) if copies else random.standard_normal((n, 3))
    y = random.choice([-1, 1], n)
    y[:2] = -1, 1
    parameters = {"gamma": 0.5, "degree": 2, "coef0": 1.0}
    stream = Stream(
        X, (y > 0).astype(int), make_kernel(kernel, **parameters), name=name, C=C, tol=1e-6, dtype=np.float64
    )
    stream.learn()
    stream.solver.finish()
    K, former, dual = naive.gram(kernel, X, **parameters), -1.0, 0.0
    while dual > former:  # further epochs add points that LASVM removed
        stream.learn(again=True)
        stream.solver.finish()
        former, dual = dual, stream.solver.certificate()["dual"]
    svc = SVC(C=C, kernel="precomputed", tol=1e-7).fit(K, y)
    signed, on = svc.dual_coef_[0], svc.support_
    optimum = signed @ y[on] - 0.5 * signed @ K[np.ix_(on, on)] @ signed
    assert dual <= optimum * (1 + 1e-6)
    alpha = np.abs(stream.solver.machine.alpha[0, : stream.solver.slots])
    if name == "smo" or ((alpha > 0) & (alpha < C)).any():  # else two points removed one by one might stay together
        assert dual == pytest.approx(optimum, rel=1e-6)


@pytest.mark.long
def test_finishing_with_shrinking_reaches_libsvm_on_many_points():
    X, y = two_moons(4000, noise=0.6, seed=2)
    stream = Stream(X, (y > 0).astype(int), C=100.0, tol=1e-4, dtype=np.float64, cache_bytes=2**20).learn()
    for _ in range(3):
        stream.learn(again=True)
        stream.solver.finish()
    check_invariants(stream, 100.0)
    svc = SVC(C=100.0, gamma=1.0, tol=1e-5, cache_size=500).fit(X, y)
    K_on = svc.support_vectors_
    f_on = svc.decision_function(K_on) - svc.intercept_[0]
    signed = svc.dual_coef_[0]
    optimum = signed @ y[svc.support_] - 0.5 * signed @ f_on
    assert stream.solver.certificate()["dual"] == pytest.approx(optimum, rel=1e-5)


def test_the_batching_of_a_stream_leaves_no_trace(moons):
    states = []
    for batch in (1, 3, 64, 400):
        stream = Stream(*moons, batch=batch, C=10.0).learn()
        states.append((np.concatenate(stream.scores), stream.solver.state()))
    for scores, state in states[1:]:
        assert np.array_equal(scores, states[0][0])
        assert all(np.array_equal(state[name], states[0][1][name]) for name in state)


@pytest.mark.parametrize("cut", [0, 1, 5, 150, 399, 400])
def test_a_state_put_back_goes_on_to_the_bit(moons, cut):
    whole = Stream(*moons, C=10.0).learn()
    first = Stream(*moons, C=10.0).learn(0, cut)
    second = Stream(*moons, C=10.0)
    second.solver.load(first.solver.state())
    second.learn(cut)
    for stream in (whole, second):
        stream.solver.finish()
    a, b = whole.solver.state(), second.solver.state()
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_size_of_the_cache_leaves_no_trace(moons):
    large, small = (Stream(*moons, C=10.0, cache_bytes=size).learn() for size in (2**26, 1))
    for stream in (large, small):
        stream.solver.finish()
    a, b = large.solver.state(), small.solver.state()
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert small.solver.cache.counters[MISSES] > large.solver.cache.counters[MISSES]


@pytest.mark.parametrize("cache_bytes", [2**26, 2**19])
def test_rows_in_the_cache_stay_true_when_points_move_together_and_arrays_grow(cache_bytes):
    # The labels flip half way. So many points are removed that slots are compacted, and more than 512 points stay.
    X, y = two_moons(1500, noise=0.5)
    stream = Stream(X, ((y > 0) ^ (np.arange(1500) > 700)).astype(int), C=1.0, cache_bytes=cache_bytes, **PAPER)
    caps, fewer = set(), 0
    for begin in range(0, 1500, 64):
        before = stream.solver.slots
        stream.learn(begin, min(begin + 64, 1500))
        solver, cache = stream.solver, stream.solver.cache
        fewer += solver.slots < before
        caps.add(cache.line_of.size)
        for line in np.flatnonzero(cache.slot_of != NONE):
            slot, n = cache.slot_of[line], cache.filled[line]
            row = np.empty(solver.slots, np.float32)
            assert cache.line_of[slot] == line
            point_row(solver.kernel, solver.points, slot, solver.points, 0, n, cache.spread, row)
            assert np.array_equal(cache.lines[line, :n], row[:n])
    assert len(caps) > 1
    assert fewer > 0


def test_sparse_points_without_columns_leave_no_trace(moons, monkeypatch):
    with_columns = Stream(*moons, C=10.0).learn()
    monkeypatch.setattr("hinged.solvers.core.points.COLUMNS_BYTES_MAX", 0)
    without = Stream(*moons, C=10.0).learn()
    assert without.solver.points.columns.size == 0
    for stream in (with_columns, without):
        stream.solver.finish()
    a, b = with_columns.solver.state(), without.solver.state()
    assert all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("alpha", lambda a: a[:, :-1], "alpha must be float64"),
        ("g", lambda a: a * np.nan, "g holds NaN"),
        ("indices", lambda a: a + 99, "indices must be from 0 to 1"),
        ("best_i", lambda a: a + 10**6, "best_i must be from -1 to"),
        ("idle", lambda a: np.append(a, 0), "idle must list"),
        ("class_of", lambda a: a + 1, "class_of must be from -1 to 1"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(moons, name, change, complaint):
    stream = Stream(*moons).learn(0, 200)
    state = stream.solver.state()
    state[name] = change(state[name])
    with pytest.raises(ValueError, match=complaint):
        Stream(*moons).solver.load(state)


def test_an_epoch_again_enters_no_point_twice(moons):
    stream = Stream(*moons, C=10.0).learn()
    stream.learn(again=True)
    machine = stream.solver.machine
    keys = machine.key[: stream.solver.slots]
    keys = keys[keys != NONE]
    assert np.unique(keys).size == keys.size
    assert machine.counts[LEARNED] == len(stream.X)


def test_a_full_expansion_refuses_before_anything_changes(moons):
    stream = Stream(*moons, points_max=50, batch=10, C=10.0)
    with pytest.raises(PointsFull, match="of at most 50; 10 more examples may not fit"):
        stream.learn()
    former = stream.solver.state()
    with pytest.raises(PointsFull):
        stream.solver.learn(stream.rows(stream.X[:50]), stream.classes[:50], np.arange(50))
    assert all(np.array_equal(former[name], array) for name, array in stream.solver.state().items())
    assert stream.solver.live <= 50


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"C": 0.0}, "C must be a number > 0"),
        ({"C": float("nan")}, "C must be a number > 0"),
        ({"tol": 0.0}, "tol must be a number > 0"),
        ({"delta_max": 1e-4}, "delta_max must be > tol"),
        ({"delta_min": -0.1}, "delta_min must be None or a number >= 0 and < 1000, got -0.1"),
        ({"delta_min": np.nan}, "delta_min must be None or a number >= 0 and < 1000, got nan"),
        ({"seed_max": 0}, "seed_max must be an integer from 1"),
        ({"idle_max": -1}, "idle_max must be an integer from 0"),
        ({"points_max": 1}, "points_max must be an integer from 2"),
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
    ],
)
def test_a_bad_parameter_is_refused_with_what_was_got(parameters, complaint):
    with pytest.raises(ValueError, match=complaint):
        LASVM(make_kernel("rbf"), 2, **parameters)


def test_a_batch_that_does_not_fit_is_refused(moons):
    stream = Stream(*moons)
    with pytest.raises(ValueError, match="classes must be from 0 to 1, got 0 to 2"):
        stream.solver.learn(stream.rows(stream.X[:2]), np.array([0, 2]), np.arange(2))
    with pytest.raises(ValueError, match="classes must be one for each of 2 rows"):
        stream.solver.learn(stream.rows(stream.X[:2]), np.array([0]), np.arange(2))
    stream.dtype = np.float64
    with pytest.raises(ValueError, match="rows must be float32"):
        stream.solver.learn(stream.rows(stream.X[:2]), np.array([0, 1]), np.arange(2))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_two_labels_of_the_first_point_do_not_prevent_learning(C, kernel):
    """If one point has both labels, both coefficients move to the box and cancel.

    The gradient of every later example then equals an extreme.
    """
    random = np.random.default_rng(3)
    classes = random.integers(0, 2, 400)
    X = random.standard_normal((400, 2)) + np.where(classes, 2.5, -2.5)[:, None]
    stream = Stream(np.r_[[[0, 0]] * 2, X], np.r_[0, 1, classes], make_kernel(kernel, 0.5), C=C).learn()
    assert ((stream.decision(X)[:, 0] > 0) == classes).mean() > 0.95
