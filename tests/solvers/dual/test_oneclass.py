"""The one-class solver compared with a quadratic program, and with scikit-learn's OneClassSVM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import OneClassSVM

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import PointsFull
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import same

PARAMETERS = {"gamma": 0.5, "degree": 2, "coef0": 1.0}


class Held:
    """A machine, and the examples that it must hold, by key."""

    def __init__(self, X, kernel="rbf", **parameters):
        self.X, self.name, self.parameters = np.asarray(X, float), kernel, parameters
        self.kernel = make_kernel(kernel, **PARAMETERS)
        self.solver = self.new()
        self.weights = {}

    def new(self):
        return make_solver("one-class", self.kernel, self.X.shape[1], **self.parameters)

    def rows(self, X):
        return rows_from_dense(X, self.kernel, self.X.shape[1], np.float64)

    def learn(self, keys, weight=1.0):
        keys = np.atleast_1d(keys)
        batch = self.rows(self.X[keys]), np.zeros(keys.size, int), keys
        if weight == 1.0:
            self.solver.learn(*batch)
        else:
            self.solver.learn_weighted(*batch, np.full(keys.size, weight))
        self.weights |= dict.fromkeys(keys.tolist(), weight)
        return self

    def together(self, keys):
        self.solver.learn_together(self.rows(self.X[keys]), np.zeros(keys.size, int), keys)
        self.weights |= dict.fromkeys(keys.tolist(), 1.0)
        return self

    def unlearn(self, keys):
        self.solver.unlearn(keys)
        for key in keys:
            del self.weights[key]

    def reload(self):
        state, self.solver = self.solver.state(), self.new()
        self.solver.load(state)
        self.solver.examine()
        same(self.solver.state(), state)

    def decision(self, X):
        return self.solver.decision(self.rows(X))[:, 0]

    @property
    def alpha(self):
        """The coefficients, in the order of `solver.keys()`."""
        return self.solver.machine.alpha[0, np.flatnonzero(self.solver.machine.class_of != NONE)]

    def check(self, gram):
        """Check the box, the sum, the gradient and KKT to 1e-9, relative to the size of the sums."""
        solver, keys, alpha = self.solver, self.solver.keys(), self.alpha
        assert sorted(keys.tolist()) == sorted(self.weights)
        width = np.array([self.weights[key] for key in keys])
        assert (alpha >= 0).all()
        assert (alpha <= width).all()
        assert alpha.sum() == pytest.approx(solver.nu * width.sum(), abs=1e-9)
        K = gram[np.ix_(keys, keys)]
        f = K @ alpha + solver.machine.b[0]
        size = 1e-9 * (1.0 + alpha.sum() * K.max(initial=0.0))
        assert np.allclose(self.decision(self.X[keys]), f, rtol=0, atol=size)
        assert f[alpha < width].min(initial=np.inf) >= -size
        assert f[alpha > 0].max(initial=-np.inf) <= size

    def check_against_a_program(self, gram):
        """Check the dual objective, and that rho is the middle of its interval."""
        keys, alpha, nu = self.solver.keys(), self.alpha, self.solver.nu
        K, even = gram[np.ix_(keys, keys)], np.array([nu * self.weights[key] for key in keys])
        # With alpha = even + beta, the sum over beta is 0.
        beta, ends = naive.balanced_optimum(K, -K @ even, -even, even / nu - even)
        best = -0.5 * (even + beta) @ K @ (even + beta)
        assert -0.5 * alpha @ K @ alpha == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert self.solver.certificate()["dual"] == pytest.approx(best, rel=1e-9, abs=1e-9)
        found = np.array(ends)[np.isfinite(ends)].mean()
        assert self.solver.machine.b[0] == pytest.approx(found, abs=1e-6 * (1 + abs(found)))


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    nu=st.sampled_from([0.05, 0.2, 0.25, 1 / 3, 0.5, 0.75, 1.0]),
    copies=st.booleans(),
    actions=st.lists(
        st.sampled_from(["learn", "learn", "heavy", "together", "unlearn", "many", "drop", "reload"]),
        min_size=5,
        max_size=30,
    ),
)
def test_after_any_change_it_is_at_the_optimum(seed, kernel, nu, copies, actions):
    random = np.random.default_rng(seed)
    X = random.integers(-1, 2, (40, 2)) if copies else random.standard_normal((40, 2))
    held, gram, fresh = Held(X, kernel, nu=nu), naive.gram(kernel, X.astype(float), **PARAMETERS), list(range(40))

    def some(keys, count):
        return [keys.pop(int(random.integers(len(keys)))) for _ in range(min(count, len(keys)))]

    for action in actions:
        known = sorted(held.weights)
        if action in ("learn", "heavy") and fresh:
            held.learn(fresh.pop(), 2.5 if action == "heavy" else 1.0)
        elif action == "together":
            held.together(np.array([fresh.pop() for _ in range(min(4, len(fresh)))], int))
        elif action in ("unlearn", "many"):
            held.unlearn(some(known, 1 if action == "unlearn" else 3))
        elif action == "drop":
            gone = some(known, 3)
            held.solver.drop(np.array([*gone, 777]))
            for key in gone:
                del held.weights[key]
        elif action == "reload":
            held.reload()
        held.check(gram)
    if held.weights and kernel != "linear":  # with a singular matrix the reference is slow
        held.check_against_a_program(gram)


@pytest.mark.parametrize(("nu", "weight"), [(0.1, 1.0), (0.3, 1.0), (0.25, 2.0), (1.0, 1.0)])
def test_decision_values_without_an_example_are_those_of_a_machine_that_never_held_it(nu, weight):
    X = np.random.default_rng(7).standard_normal((32, 2))
    X[20:24] = X[:4]
    held = Held(X, nu=nu).learn(np.arange(31)).learn(31, weight)
    before = held.solver.state()
    keys, scores = held.solver.leave_one_out()
    same(held.solver.state(), before)
    for key, score in zip(keys, scores[:, 0], strict=True):
        held.unlearn([key])
        assert score == pytest.approx(held.decision(X[[key]])[0], abs=1e-9)
        held.learn(key, weight if key == 31 else 1.0)


@pytest.mark.parametrize(
    ("kernel", "nu", "copies"),
    [("rbf", 0.1, 0.0), ("polynomial", 0.5, 0.3), ("laplacian", 0.25, 0.3)],
)
def test_after_two_thousand_increments_and_decrements_it_is_OneClassSVM(kernel, nu, copies):
    random = np.random.default_rng(1)
    X = random.standard_normal((2000, 3))
    for k in np.flatnonzero(random.random(2000) < copies):
        X[k] = X[random.integers(k)] if k else X[k]
    gram = {
        "rbf": lambda Z: np.exp(-0.5 * np.square(Z[:, None] - Z).sum(axis=2)),
        "laplacian": lambda Z: np.exp(-0.5 * np.abs(Z[:, None] - Z).sum(axis=2)),
        "polynomial": lambda Z: np.square(0.5 * Z @ Z.T + 1.0),
    }[kernel]
    held, fresh = Held(X, kernel, nu=nu), 0
    for step in range(1, 2001):
        if len(held.weights) > 5 and random.random() < len(held.weights) / 160:
            held.unlearn([int(random.choice(list(held.weights)))])
        else:
            held.learn(fresh)
            fresh += 1
        if step % 200:
            continue
        keys = held.solver.keys()
        K = gram(X[keys])
        reference = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10, max_iter=100_000).fit(K)
        alpha, f = np.zeros(keys.size), held.decision(X[keys])
        alpha[reference.support_] = reference.dual_coef_[0]
        total = alpha.sum()
        # In the scaling of Schoelkopf et al., where the sum is 1. LIBSVM's kernel values have the precision float32.
        assert f / total == pytest.approx(reference.decision_function(K) / total, abs=1e-6)
        assert held.alpha @ K @ held.alpha / total**2 == pytest.approx(alpha @ K @ alpha / total**2, abs=1e-6)
        _, same_point = np.unique(X[keys], axis=0, return_inverse=True)
        mine, theirs = (np.bincount(same_point, each) for each in (held.alpha, alpha))
        assert mine / total == pytest.approx(theirs / total, abs=1e-6)  # copies of a point share a coefficient
    held.solver.examine()


def test_the_machine_does_not_depend_on_the_way_to_its_examples():
    X = np.random.default_rng(3).standard_normal((80, 3))
    way = Held(X, nu=0.2).learn(np.arange(80))
    way.unlearn(range(0, 80, 2))
    one_by_one, at_once = Held(X, nu=0.2).learn(np.arange(1, 80, 2)), Held(X, nu=0.2).together(np.arange(1, 80, 2))
    assert np.allclose(way.decision(X), one_by_one.decision(X), atol=1e-9)
    assert np.allclose(way.decision(X), at_once.decision(X), atol=1e-9)


def test_where_rho_is_not_unique_it_is_the_middle_of_its_interval():
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    held = Held(X, "linear", nu=0.5).learn(np.arange(4))
    assert held.alpha.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert held.solver.machine.b[0] == pytest.approx(-7.5)  # 3 x - rho separates 2 from 3 for every rho in 6..9
    reference = OneClassSVM(kernel="linear", nu=0.5).fit(X)
    assert held.decision(X) == pytest.approx(reference.decision_function(X))


def test_with_nu_1_every_example_has_its_whole_coefficient_and_rho_is_the_end_of_its_interval():
    X = np.random.default_rng(0).standard_normal((20, 2))
    held = Held(X, nu=1.0).learn(np.arange(20))
    assert (held.alpha == 1.0).all()
    assert held.decision(X).max() == pytest.approx(0.0, abs=1e-12)


def test_an_example_of_weight_2_is_the_example_twice():
    X = np.random.default_rng(0).standard_normal((40, 2))
    twice = Held(np.vstack([X, X[:10]]), nu=0.3).learn(np.arange(50))
    heavy = Held(X, nu=0.3).learn(np.arange(10), 2.0).learn(np.arange(10, 40))
    assert np.allclose(twice.decision(X), heavy.decision(X), atol=1e-9)


def test_at_points_max_it_holds_the_newest_examples():
    X = np.random.default_rng(0).standard_normal((60, 2))
    held = Held(X, nu=0.3, points_max=20, when_full="remove").learn(np.arange(60))
    assert held.solver.keys().tolist() == list(range(40, 60))
    assert np.allclose(held.decision(X), Held(X, nu=0.3).learn(np.arange(40, 60)).decision(X), atol=1e-9)
    full = Held(X, points_max=20).learn(np.arange(20))
    before = full.solver.state()
    with pytest.raises(PointsFull, match="holds 20 points of at most 20"):
        full.learn(20)
    same(full.solver.state(), before)


def test_a_loaded_machine_goes_on_to_the_bit():
    X = np.random.default_rng(0).standard_normal((300, 2))
    running, loaded = Held(X, nu=0.3).learn(np.arange(150)), Held(X, nu=0.3)
    running.unlearn(range(100))
    loaded.solver.load(running.solver.state())
    for machine in (running.solver, loaded.solver):
        machine.learn(running.rows(X[150:]), np.zeros(150, int), np.arange(150, 300))
        machine.unlearn([120, 170, 299])
    same(loaded.solver.state(), running.solver.state())


def test_what_is_impossible_is_refused():
    for nu in (0.0, 1.5, np.nan, "0.5"):
        with pytest.raises(ValueError, match="nu must be a number > 0 and <= 1"):
            Held(np.zeros((1, 2)), nu=nu)
    with pytest.raises(ValueError, match="dtype of one-class must be"):
        Held(np.zeros((1, 2)), dtype=np.float32)
    held = Held(np.random.default_rng(0).standard_normal((30, 2)), nu=0.5).learn(np.arange(20))
    before = held.solver.state()
    for attempt, message in (
        (lambda s: s.add_class(), "has one class"),
        (lambda s: s.unlearn([3, 777]), "keys must be of examples held, got 777"),
        (lambda s: s.learn(held.rows(held.X[:1]), np.array([1]), np.array([50])), "classes must be from 0 to 0"),
        (lambda s: s.load({**before, "seen": np.array([20, 0])}), "seen must be"),
        (lambda s: s.load({**before, "upper": 2 * before["upper"]}), "bounds of the points' classes"),
    ):
        with pytest.raises(ValueError, match=message):
            attempt(held.solver)
        same(held.solver.state(), before)
    other = Held(held.X, nu=0.4)
    other.solver.load(before)
    with pytest.raises(ValueError, match="alpha must have the sum 8, got 10"):
        other.solver.examine()
