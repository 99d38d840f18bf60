"""The exact solver compared with a quadratic program solved from the start, after any change."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rowcache import cached_row
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.dual import margin, near, path
from hinged.solvers.dual.exact import ExactSVM
from hinged.solvers.dual.optimal import EVENTS_PER_POINT_MAX, MEND_EVERY, MEND_STEPS, MEND_STEPS_PER_POINT
from tests.helpers.solvers import naive
from tests.helpers.solvers.exact_streams import PARAMETERS, Doing, check_decisions, check_kkt, exact_stream
from tests.helpers.solvers.streams import Stream, same

ACTIONS = (
    "learn",
    "learn",
    "learn",
    "together",
    "unlearn",
    "unlearn many",
    "drop",
    "relabel",
    "C",
    "weights",
    "gamma",
    "reload",
)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(1, 30),
    classes=st.integers(1, 4),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    C=st.sampled_from([0.1, 1.0, 30.0]),
    copies=st.booleans(),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=40),
)
def test_after_any_change_it_is_at_the_optimum(seed, n, classes, kernel, C, copies, actions):
    doing = Doing(seed, n, classes, kernel, C, copies)
    for action in actions:
        doing.do(action)
        check_kkt(doing.solver, doing.gram())
    if doing.held:
        held, scores = np.array(doing.held), doing.stream.decision(doing.X)
        check_decisions(doing.solver, scores, doing.gram(), doing.stream.classes, held, np.arange(n))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_decision_values_are_those_of_a_machine_trained_from_nothing(kernel):
    doing = Doing(5, 60, 3, kernel, 3.0, copies=False)
    for action in ["learn"] * 40 + ["unlearn", "C", "learn", "gamma", "together", "unlearn many", "weights", "gamma"]:
        doing.do(action)
    fresh = Stream(
        doing.X, doing.stream.classes, doing.solver.kernel, name="smo", announced=0, C=doing.solver.C, tol=1e-11,
        dtype=np.float64,
    )  # fmt: skip
    for weight in doing.solver.weights:
        fresh.solver.add_class(weight)
    keys = np.array(sorted(doing.held))
    fresh.solver.learn(fresh.rows(doing.X[keys]), fresh.classes[keys], keys)
    assert np.allclose(doing.stream.decision(doing.X), fresh.decision(doing.X), atol=1e-6)


def test_a_point_under_both_labels_and_many_times_is_held_and_forgotten():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 6, axis=0)
    classes = np.tile([0, 1], 9)
    stream = exact_stream(X, classes, C=1.0)
    K = naive.gram("rbf", X, **PARAMETERS)
    for k in range(18):
        stream.learn(k, k + 1)
        check_kkt(stream.solver, K)
    for k in range(18):
        stream.solver.unlearn([k])
        check_kkt(stream.solver, K)
    assert stream.solver.live == 0
    assert stream.solver.seen.tolist() == [0, 0]


def test_impossible_requests_are_refused(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes).learn(0, 20)
    before = stream.solver.state()
    for attempt, message in (
        (lambda s: s.unlearn([3, 777]), "keys must be of examples held, got 777"),
        (lambda s: s.change_C(0.0), "must be > 0"),
        (lambda s: s.relabel(777, 0), "keys must be of examples held, got 777"),
        (lambda s: s.relabel(3, 2), "from 0 to 1, got 2"),
        (lambda s: s.relabel(3, -1), "from 0 to 1, got -1"),
        (lambda s: s.change_C(np.nan), "must be > 0"),
        (lambda s: s.change_C(1.0, [1.0, -1.0]), "must be > 0"),
        (lambda s: s.change_C(1.0, [1.0, np.nan]), "must be > 0"),
        (lambda s: s.change_C(1e14, [1.0, 100.0]), "must be > 0"),
        (lambda s: s.change_C(1.0, [1.0]), "weights must be one for each of 2"),
        (lambda s: s.change_kernel(s.kernel._replace(gamma=-1.0)), "gamma must be"),
        (lambda s: s.change_kernel(s.kernel._replace(gamma=np.nan)), "gamma must be"),
        (lambda s: s.change_kernel(s.kernel._replace(degree=0)), "degree must be"),
        (lambda s: s.tune([1.0, -1.0], "gamma"), "gamma must be"),
        (lambda s: s.change_kernel(make_kernel("linear")), "same type"),
        (lambda s: s.tune([1.0], "degree"), "must be C or gamma"),
    ):
        with pytest.raises(ValueError, match=message):
            attempt(stream.solver)
    assert all(np.array_equal(before[name], value) for name, value in stream.solver.state().items())
    with pytest.raises(ValueError, match="dtype must be float64"):
        ExactSVM(make_kernel("linear"), 2, dtype=np.float32)


@pytest.mark.long
def test_where_most_points_are_too_far_to_be_met_each_path_ends_at_the_optimum(monkeypatch):
    random, n, held = np.random.default_rng(0), 2000, 1960
    X = random.standard_normal((n, 8))
    classes = (X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * random.standard_normal(n) > 0).astype(int)
    stream = Stream(X, classes, make_kernel("rbf", 0.1), name="exact", batch=1, dtype=np.float64, C=7.0)
    solver, K = stream.solver, np.exp(-0.1 * cdist(X, X, "sqeuclidean"))
    solver.learn_together(stream.rows(X[:held]), classes[:held], np.arange(held))
    r = solver.machine.g[0, :held] - solver.machine.b[0]
    assert solver.margins[0].counts[margin.M] * held >= near.COPIED_LEAST
    assert 2 * (np.abs(r) <= path.RADIUS).sum() < held
    monkeypatch.setattr(solver, "_mend", lambda c: pytest.fail(f"column {c} did not end at the optimum"))
    for change in [lambda k=k: stream.learn(k, k + 1) for k in range(held, n)] + [
        lambda: solver.unlearn(np.flatnonzero(solver.machine.alpha[0, :n])[:3]),
        lambda: solver.relabel(1000, 1 - int(classes[1000])),
        lambda: solver.change_C(8.0),
        lambda: solver.change_C(100.0),
    ]:
        change()
        check_kkt(solver, K)


def test_a_kernel_whose_values_would_be_too_large_is_refused(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, "polynomial").learn(0, 20)
    before = stream.solver.state()
    with pytest.raises(ValueError, match="at most 1e\\+37 with itself"):
        stream.solver.change_kernel(stream.solver.kernel._replace(degree=16, coef0=1e10))
    assert all(np.array_equal(before[name], value) for name, value in stream.solver.state().items())


def test_a_corrected_label_is_learned_as_if_it_had_always_been_so(noisy):
    X, classes = noisy
    mistaken = classes.copy()
    mistaken[::5] ^= 1
    corrected = exact_stream(X, mistaken, C=2.0).learn()
    for k in range(0, 60, 5):
        corrected.solver.relabel(k, int(classes[k]))
    assert np.allclose(corrected.decision(X), exact_stream(X, classes, C=2.0).learn().decision(X), atol=1e-7)
    assert corrected.solver.seen.tolist() == np.bincount(classes).tolist()


def test_the_room_of_the_margin_set_changes_no_bit():
    random = np.random.default_rng(0)
    X, y = 2 * random.standard_normal((200, 3)), random.integers(0, 2, 200)
    running = exact_stream(X, y, C=100.0).learn(0, 100)
    assert running.solver.margins[0].members.size > margin.MARGIN_MIN
    running.solver.unlearn(np.arange(85))
    loaded = exact_stream(X, y, C=100.0)
    loaded.solver.load(running.solver.state())
    assert loaded.solver.margins[0].members.size < running.solver.margins[0].members.size
    for stream in (running, loaded):
        stream.learn(100, 200)
        stream.solver.change_C(10.0)
        stream.solver.change_C(1000.0)
    same(loaded.solver.state(), running.solver.state())


def test_the_numbers_in_a_hole_change_no_bit():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((40, 3)), random.integers(0, 2, 40)
    X[3] *= 1e6
    running = exact_stream(X, y, "polynomial", C=10.0).learn()
    running.solver.unlearn([3])
    assert running.solver.slots > running.solver.live
    loaded = exact_stream(X, y, "polynomial", C=10.0)
    loaded.solver.load(running.solver.state())
    for C in (1.0, 100.0):
        for stream in (running, loaded):
            stream.solver.change_C(C)
    same(loaded.solver.state(), running.solver.state())


def true_violation(solver, c=0):
    """Return the largest violation of a pair in exact arithmetic, relative to the size of C and the kernel values."""
    n, machine = solver.slots, solver.machine
    K = [cached_row(solver.kernel, solver.points, solver.cache, s, NONE).copy() for s in range(n)]
    alpha = [Fraction(float(a)) for a in machine.alpha[c, :n]]
    held = np.flatnonzero(machine.alpha[c, :n])
    g = np.array(
        [float(int(machine.sign[c, s]) - sum(alpha[r] * Fraction(float(K[r][s])) for r in held)) for s in range(n)]
    )
    terms = np.array([sum(abs(machine.alpha[c, r] * K[r][s]) for r in held) for s in range(n)])
    up, down = machine.up[c, :n] != 0, machine.down[c, :n] != 0
    return g[up].max(initial=-np.inf) - g[down].min(initial=np.inf), terms.max(initial=0.0)


@pytest.mark.parametrize("spread", [0.6, 1.0, 3.0])
@pytest.mark.parametrize("grid", [False, True])
def test_kernel_values_of_any_size_cost_it_a_bounded_number_of_steps(spread, grid):
    random = np.random.default_rng(0)
    X = spread * random.standard_normal((120, 2))
    X = np.round(X) if grid else X
    stream = Stream(
        X, random.integers(0, 2, 120), make_kernel("polynomial", 1.0, 16, 1.0), name="exact", batch=1, dtype=np.float64
    )
    for k in range(120):
        before = stream.solver.certificate()["steps"]
        stream.learn(k, k + 1)
        most = EVENTS_PER_POINT_MAX * (k + 11) + MEND_STEPS + MEND_STEPS_PER_POINT * (k + 1) + MEND_EVERY
        assert stream.solver.certificate()["steps"] - before <= most
    violation, terms = true_violation(stream.solver)
    assert violation <= 1e-8 + 1e-11 * terms
    assert all(np.isfinite(value).all() for value in stream.solver.state().values())


@pytest.mark.parametrize(("seed", "C"), [(31, 1.0), (76, 1.0), (115, 1.0), (259, 1.0), (1500, 0.1), (1649, 10.0)])
def test_a_few_examples_of_a_class_amid_many_of_another_are_learned_and_forgotten(seed, C):
    """w = 0 is optimal then, and every other point is at the margin. Rounding leads some paths astray."""
    random, kernel = np.random.default_rng(seed), make_kernel("linear")
    dim = int(random.integers(2, 5))
    X, y = random.standard_normal((50, dim)), (random.random(50) < 0.15).astype(int)
    y[:2] = 0, 1
    solver = ExactSVM(kernel, dim, C=C)
    for _ in range(2):
        solver.add_class()
    for k in range(50):
        solver.learn(rows_from_dense(X[k : k + 1], kernel, dim, np.float64), y[k : k + 1], np.array([k]))
        solver.examine()
        if random.random() < 0.25:
            solver.drop(random.choice(k + 1, min(k + 1, int(random.integers(1, 6))), replace=False))
            solver.examine()
    held = solver.keys()
    K, signs = X[held] @ X[held].T, np.where(y[held] > 0, 1.0, -1.0)
    box = C * signs
    alpha, _ = naive.balanced_optimum(K, signs, np.minimum(0.0, box), np.maximum(0.0, box))
    dual = alpha @ signs - 0.5 * alpha @ K @ alpha
    assert solver.certificate()["dual"] == pytest.approx(dual, rel=1e-6, abs=1e-9)
