"""The exact solver beside a quadratic program solved from nothing, after whatever was done."""

from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.svm import SVC
from streams import Stream, same, two_moons

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rowcache import cached_row
from hinged.solvers.dual import margin, near, path
from hinged.solvers.dual.exact import ExactSVM
from hinged.solvers.dual.optimal import EVENTS_PER_POINT_MAX, MEND_EVERY, MEND_STEPS, MEND_STEPS_PER_POINT

PARAMETERS = {"gamma": 0.5, "degree": 2, "coef0": 1.0}


def exact_stream(X, classes, kernel="rbf", **parameters):
    made = make_kernel(kernel, **PARAMETERS)
    return Stream(X, classes, made, name="exact", batch=1, **{"dtype": np.float64, **parameters})


def check_kkt(solver, K):
    """Box, sum(alpha) = 0, g = y - K alpha, KKT to 1e-8 in every column; K (examples, examples) by key."""
    machine, n = solver.machine, solver.slots
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    keys = machine.key[live]
    for c in range(solver.columns):
        alpha, lower, upper = (getattr(machine, name)[c, live] for name in ("alpha", "lower", "upper"))
        bound = machine.sign[c, live] * solver.bounds[machine.class_of[live]]
        assert np.array_equal(lower, np.minimum(bound, 0.0))
        assert np.array_equal(upper, np.maximum(bound, 0.0))
        assert (lower <= alpha).all()
        assert (alpha <= upper).all()
        assert abs(alpha.sum()) < 1e-8
        r = machine.sign[c, live] - K[np.ix_(keys, keys)] @ alpha - machine.b[c]
        assert np.allclose(r + machine.b[c], machine.g[c, live], atol=1e-9)
        if np.unique(machine.sign[c, live]).size == 2:
            assert r[alpha < upper].max(initial=-np.inf) < 1e-8
            assert r[alpha > lower].min(initial=np.inf) > -1e-8
        else:  # one class only: the score has its sign
            assert (machine.b[c] * machine.sign[c, live] > 0).all()
    assert solver.certificate()["gap"] >= 0


def check_decisions(solver, scores, K, classes, held, asked):
    """Decision values (asked, columns) are right to 1e-6, by an optimum that is sought from nothing."""
    for c in range(solver.columns):
        positive = 1 if solver.columns == 1 else c
        y = np.where(classes == positive, 1.0, -1.0)
        least, most = naive.right_decisions(K, y, solver.bounds[classes], held, asked)
        assert (scores[:, c] > least - 1e-6).all()
        assert (scores[:, c] < most + 1e-6).all()


class Doing:
    """A solver and the examples that it holds, changed at random and checked after every change."""

    def __init__(self, seed, n, classes, kernel, C, copies):
        self.random = np.random.default_rng(seed)
        shape = (n, 2)
        self.X = self.random.integers(-1, 2, shape) if copies else self.random.standard_normal(shape)
        self.X = self.X.astype(float)
        self.kernel, self.gamma = kernel, PARAMETERS["gamma"]
        self.stream = exact_stream(self.X, self.random.integers(0, classes, n), kernel, C=C, announced=classes)
        self.solver = self.stream.solver
        self.held, self.fresh = [], list(range(n))

    def gram(self):
        return naive.gram(self.kernel, self.X, **PARAMETERS | {"gamma": self.gamma})

    def do(self, what):
        if what == "learn" and self.fresh:
            k = self.fresh.pop()
            self.stream.learn(k, k + 1)
            self.held.append(k)
        elif what == "together":
            keys = [self.fresh.pop() for _ in range(min(4, len(self.fresh)))]
            self.solver.learn_together(self.stream.rows(self.X[keys]), self.stream.classes[keys], np.array(keys, int))
            self.held += keys
        elif what == "unlearn" and self.held:
            self.solver.unlearn([self.held.pop(int(self.random.integers(len(self.held))))])
        elif what == "unlearn many":
            gone = [self.held.pop(int(self.random.integers(len(self.held)))) for _ in range(min(3, len(self.held)))]
            self.solver.unlearn(gone)
        elif what == "drop":
            gone = [self.held.pop(int(self.random.integers(len(self.held)))) for _ in range(min(3, len(self.held)))]
            self.solver.drop(np.array([*gone, 777]))
        elif what == "relabel" and self.held:
            key, own = int(self.random.choice(self.held)), int(self.random.integers(self.solver.classes))
            self.solver.relabel(key, own)
            self.stream.classes[key] = own
        elif what == "C":
            self.solver.change_C(float(np.clip(self.solver.C * self.random.choice([0.3, 4.0]), 0.02, 200.0)))
        elif what == "weights":
            self.solver.change_C(self.solver.C, self.random.choice([0.5, 1.0, 2.0], self.solver.classes))
        elif what == "gamma" and self.kernel != "linear":
            self.gamma *= float(self.random.choice([0.7, 1.4]))
            self.solver.change_kernel(self.solver.kernel._replace(gamma=self.gamma))
        elif what == "reload":
            state = self.solver.state()
            self.solver = self.stream.solver = exact_stream(self.X, self.stream.classes, self.kernel).solver
            self.solver.load(state)
        keys = self.solver.machine.key[: self.solver.slots]
        assert sorted(keys[keys != NONE].tolist()) == sorted(self.held)
        assert np.array_equal(
            self.solver.machine.class_of[: keys.size][keys != NONE], self.stream.classes[keys[keys != NONE]]
        )
        assert (
            self.solver.seen.tolist()
            == np.bincount(self.stream.classes[self.held], minlength=self.solver.classes).tolist()
        )


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


@pytest.fixture
def noisy():
    X, y = two_moons(60, noise=0.5, seed=3)
    return X, (y > 0).astype(int)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 14),
    classes=st.integers(2, 4),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    C=st.sampled_from([0.1, 1.0, 30.0]),
    copies=st.booleans(),
)
def test_leaving_one_out_is_an_optimum_of_the_others(seed, n, classes, kernel, C, copies):
    doing = Doing(seed, n, classes, kernel, C, copies)
    for _ in range(n):
        doing.do("learn")
    keys, scores = doing.solver.leave_one_out()
    assert sorted(keys.tolist()) == list(range(n))
    for k, score in zip(keys, scores, strict=True):
        others = np.delete(np.arange(n), k)
        check_decisions(doing.solver, score[None], doing.gram(), doing.stream.classes, others, np.array([k]))


def test_leaving_one_out_is_training_without_it(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    before = stream.solver.state()
    keys, scores = stream.solver.leave_one_out()
    after = stream.solver.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert keys.tolist() == list(range(60))
    for k in keys:
        others = np.delete(np.arange(60), k)
        trained = exact_stream(X, classes, C=2.0)
        trained.solver.learn_together(trained.rows(X[others]), classes[others], others)
        assert scores[k] == pytest.approx(trained.decision(X[k : k + 1])[0], abs=1e-6)
    wrong = (scores[:, 0] > 0) != (classes == 1)
    assert stream.solver.leave_one_out_error() == wrong.mean()


def test_folds_are_decided_by_the_machine_without_them(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    folds = np.array_split(np.random.default_rng(0).permutation(60), 5)
    for fold, scores in zip(folds, stream.solver.k_fold(folds), strict=True):
        others = np.setdiff1d(np.arange(60), fold)
        trained = exact_stream(X, classes, C=2.0)
        trained.solver.learn_together(trained.rows(X[others]), classes[others], others)
        assert np.allclose(scores, trained.decision(X[fold]), atol=1e-6)


@pytest.mark.parametrize(("parameter", "grid"), [("C", [0.1, 1.0, 10.0]), ("gamma", [0.2, 0.5, 2.0])])
def test_tuning_walks_a_grid_and_comes_back(noisy, parameter, grid):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    before = stream.solver.state()
    errors = stream.solver.tune(grid, parameter)
    after = stream.solver.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for value, error in zip(grid, errors, strict=True):
        gamma, C = (value, 2.0) if parameter == "gamma" else (0.5, value)
        other = Stream(X, classes, make_kernel("rbf", gamma), name="exact", C=C, dtype=np.float64).learn()
        assert other.solver.leave_one_out_error() == error


def test_rows_cached_before_a_walk_over_kernels_are_not_taken_for_its_own_behind_it():
    X, classes = two_moons(40, seed=3)
    classes = (classes > 0).astype(int)
    walked, plain = (exact_stream(X, classes, C=2.0).learn(0, 30) for _ in range(2))
    walked.solver.tune([0.1, 2.0], "gamma")
    states = [stream.learn(30, 40).solver.state() for stream in (walked, plain)]
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0] if name != "steps")


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


def test_what_it_cannot_do_is_refused(noisy):
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


def free_and_middle(solver, c=0):
    """Whether a coefficient is strictly free in a column, and the middle of the interval that is left to b."""
    n, machine = solver.slots, solver.machine
    live = machine.class_of[:n] != NONE
    alpha, lower, upper, g = (getattr(machine, name)[c, :n][live] for name in ("alpha", "lower", "upper", "g"))
    rounding = 1e-9 * (upper - lower)
    rises, falls = alpha < upper - rounding, alpha > lower + rounding
    ends = [g[rises].max(initial=-np.inf), g[falls].min(initial=np.inf)]
    return bool((rises & falls).any()), sum(ends) / 2


def balanced(n, seed, copies):
    """Examples of two classes in turn, among them copies under either label."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = random.standard_normal((n, 2)) + np.where(y == 1, 0.8, -0.8)[:, None]
    return (np.round(X) if copies else X), y


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(2, 40),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    C=st.sampled_from([1e-3, 1e-2, 0.1, 1.0, 100.0]),
    copies=st.booleans(),
    change=st.sampled_from([None, "unlearn", "C", "gamma"]),
)
def test_where_no_coefficient_is_free_b_is_in_the_middle_as_in_libsvm(seed, n, kernel, C, copies, change):
    X, y = balanced(n, seed, copies)
    stream = exact_stream(X, y, kernel, C=C)
    K, held = naive.gram(kernel, X, **PARAMETERS), np.arange(n)
    for k in range(n):
        stream.learn(k, k + 1)
        if k:
            free, middle = free_and_middle(stream.solver)
            assert free or stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-9)
    if change == "unlearn":
        stream.solver.unlearn([n - 1, n // 2] if n > 4 else [])
        held = stream.solver.keys()
    elif change == "C":
        stream.solver.change_C(C / 3)
    elif change == "gamma" and kernel != "linear":
        stream.solver.change_kernel(stream.solver.kernel._replace(gamma=0.6))
        K = naive.gram(kernel, X, **PARAMETERS | {"gamma": 0.6})
    free, middle = free_and_middle(stream.solver)
    assert free or stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-9)
    svc = SVC(C=stream.solver.C, kernel="precomputed", tol=1e-10).fit(K[np.ix_(held, held)], y[held])
    expected = svc.decision_function(K[:, held])
    scale = 1.0 + np.abs(expected).max()  # LIBSVM holds kernel values in float32
    assert np.allclose(stream.decision(X)[:, 0], expected, atol=1e-3 * scale)


@pytest.mark.parametrize("C", [1e-3, 1e-2])
def test_with_a_small_C_it_is_as_accurate_as_the_batch_machine(C):
    X, y = balanced(40, 3, copies=False)
    exact = exact_stream(X, y, C=C).learn()
    batch = Stream(X, y, make_kernel("rbf", **PARAMETERS), name="smo", dtype=np.float64, C=C, tol=1e-9).learn()
    assert not free_and_middle(exact.solver)[0]
    assert np.allclose(exact.decision(X), batch.decision(X), atol=1e-6)
    assert ((exact.decision(X)[:, 0] > 0) == (y == 1)).mean() > 0.85


def test_one_free_vector_says_what_b_is_and_none_leaves_it_its_middle():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    stream = Stream(X, y, make_kernel("linear"), name="exact", announced=0, batch=3, dtype=np.float64, C=0.1)
    stream.solver.add_class(1.5)
    stream.solver.add_class(1.0)
    stream.learn()
    free, _ = free_and_middle(stream.solver)  # 0.1 each for the positive ones, 0.15 at most against them
    assert free
    stream.solver.change_C(0.1, [2.0, 1.0])  # all three are at their bounds now, w = 0.3
    free, middle = free_and_middle(stream.solver)
    assert not free
    assert stream.solver.margins[0].counts[margin.M] == 0
    assert middle == pytest.approx((1.0 - 0.6 + -1.0) / 2)
    assert stream.solver.machine.b[0] == pytest.approx(middle, abs=1e-12)


def test_the_room_of_the_margin_set_shows_in_no_bit():
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


def test_what_a_hole_says_shows_in_no_bit():
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
    """The largest violation of a pair in exact arithmetic over the kernel values, by what C and those values allow."""
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
