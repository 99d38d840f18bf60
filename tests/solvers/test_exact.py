"""The exact solver beside a quadratic program solved from nothing, after whatever was done."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from streams import Stream, two_moons

from solvers import path
from solvers.direction import NONE
from solvers.exact import ExactSVM
from solvers.kernels import make_kernel

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
    assert solver.margins[0].counts[path.M] * held >= path.COPIED_LEAST
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
