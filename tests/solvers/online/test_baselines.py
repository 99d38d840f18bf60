import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.solver import PointsFull
from hinged.solvers.online.features import FOGD
from hinged.solvers.online.perceptrons import (
    BOGD,
    BPAS,
    OGD,
    RBP,
    AveragedPerceptron,
    BudgetPerceptron,
    Forgetron,
    Perceptron,
)
from hinged.solvers.online.projections import NOGD, Projectron, ProjectronPlusPlus
from tests.helpers.solvers import naive, naive_baselines
from tests.helpers.solvers.streams import two_moons

ORACLES = {
    Perceptron: (naive_baselines.perceptron, {}),
    AveragedPerceptron: (naive_baselines.averaged_perceptron, {}),
    OGD: (naive_baselines.ogd, {"eta": 0.3, "lam": 0.05}),
    BudgetPerceptron: (naive_baselines.budget_perceptron, {"budget": 12, "beta": 0.1}),
    RBP: (naive_baselines.rbp, {"budget": 12, "seed": 5}),
    Forgetron: (naive_baselines.forgetron, {"budget": 12}),
    BPAS: (naive_baselines.bpas, {"budget": 12, "C": 0.8}),
    BOGD: (naive_baselines.bogd, {"budget": 12, "eta": 0.3, "lam": 0.01, "C": 0.4, "seed": 5}),
    Projectron: (naive_baselines.projectron, {"budget": 12, "novelty": 0.2}),
    ProjectronPlusPlus: (naive_baselines.projectron, {"budget": 12, "novelty": 0.3}),
    NOGD: (naive_baselines.nogd, {"budget": 12, "rank": 5, "eta": 0.3}),
    FOGD: (naive_baselines.fogd, {"eta": 0.3}),
}
BUDGETED = [solver for solver, (_, parameters) in ORACLES.items() if "budget" in parameters]
WEIGHTS = (1.0, 1.5, 0.7)


def new(solver, kernel, dim, weights, **parameters):
    made = solver(kernel, dim, dtype=np.float64, **parameters)
    for weight in weights:
        made.add_class(weight)
    return made


def rows(X, solver):
    return rows_from_dense(X, solver.kernel, solver.dim, solver.dtype)


def learn(solver, X, classes, begin=0, end=None, again=False):
    end = len(X) if end is None else end
    return solver.learn(rows(X[begin:end], solver), classes[begin:end], np.arange(begin, end), again=again)


def blobs(n, classes, noise=0.7, seed=0):
    random = np.random.default_rng(seed)
    centres = np.array([[0, 0], [2, 0], [0, 2]])
    drawn = random.integers(0, classes, n)
    return centres[drawn] + noise * random.standard_normal((n, 2)), drawn


def signs(classes, count):
    return np.where(classes[:, None] == (1 if count == 2 else np.arange(count)), 1.0, -1.0)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("solver", list(ORACLES))
def test_each_step_is_that_of_a_plain_loop(solver, kernel, count):
    if solver is FOGD and kernel == "polynomial":
        kernel = "laplacian"
    X, classes = blobs(80, count, noise=1.0)
    oracle, own = ORACLES[solver]
    given_kernel = {"gamma": 0.5, "degree": 2, "coef0": 1.0}
    shared = {"frequencies": 30} if solver is FOGD else {}
    made = new(solver, make_kernel(kernel, **given_kernel), 2, WEIGHTS[:count], **shared, **own)
    w = np.array(WEIGHTS)[classes]
    first = X if solver is FOGD else naive.gram(kernel, X, **given_kernel)
    own = own | ({"omega": made.omega} if solver is FOGD else {"plus": True} if solver is ProjectronPlusPlus else {})
    for t, (before, after, held) in enumerate(oracle(first, signs(classes, count), w, **own)):
        np.testing.assert_allclose(learn(made, X, classes, t, t + 1)[0], before + np.zeros(made.columns), atol=1e-7)
        np.testing.assert_allclose(made.decision(rows(X, made)), after + np.zeros(made.columns), atol=1e-7)
        if held:
            keys = made.machine.key[: made.slots]
            assert keys[keys != NONE].tolist() == held
    assert made.certificate()["steps"] > 20


@pytest.mark.parametrize("solver", list(ORACLES))
def test_a_learnable_problem_is_learned(solver):
    X, y = two_moons(1500, noise=0.1, seed=1)
    parameters = {"budget": 60} if solver in BUDGETED else {}
    made = new(solver, make_kernel("rbf", 2.0), 2, (1.0, 1.0), **parameters)
    learn(made, X, (y > 0).astype(int))
    test, truth = two_moons(1000, noise=0.1, seed=2)
    assert ((made.decision(rows(test, made))[:, 0] > 0) == (truth > 0)).mean() > 0.97


@settings(max_examples=40, deadline=None)
@given(
    solver=st.sampled_from(BUDGETED),
    seed=st.integers(0, 1000),
    budget=st.integers(2, 9),
    count=st.integers(1, 3),
    kernel=st.sampled_from(["linear", "rbf", "polynomial", "laplacian"]),
)
def test_no_budget_is_ever_exceeded(solver, seed, budget, count, kernel):
    random = np.random.default_rng(seed)
    X, classes = random.integers(-2, 3, (60, 2)).astype(float), random.integers(0, count, 60)
    made = new(solver, make_kernel(kernel, 0.5, 2, 0.0), 2, (1.0,) * count, budget=budget)
    for epoch in range(2):
        for t in range(60):
            assert np.isfinite(learn(made, X, classes, t, t + 1, again=epoch > 0)).all()
            held = made.machine.class_of[: made.slots] != NONE
            assert held.sum() == made.live <= budget
            assert not made.machine.alpha[:, : made.slots][:, ~held].any()
    assert np.isfinite(made.decision(rows(X, made))).all()


@pytest.mark.parametrize("solver", BUDGETED)
def test_a_budget_beyond_points_max_is_refused(solver):
    with pytest.raises(ValueError, match=r"budget must be at most .* at most points_max = 100, got 101"):
        solver(make_kernel("rbf"), 2, budget=101, points_max=100)


@pytest.mark.parametrize(
    ("solver", "parameters", "complaint"),
    [
        (OGD, {"eta": 0.0}, "eta must be a number > 0"),
        (OGD, {"eta": np.nan}, "eta must be a number > 0"),
        (BOGD, {"eta": 0.5, "lam": 2.0}, "eta \\* lam must be < 1"),
        (FOGD, {"eta": -1.0}, "eta must be a number > 0"),
        (FOGD, {"frequencies": 0}, "frequencies must be an integer from 1"),
        (FOGD, {"frequencies": 2**25 + 1}, "at most 67108864"),
        (NOGD, {"budget": 10, "rank": 11}, "rank must be at most budget = 10"),
        (NOGD, {"budget": 2001}, "at most 2000"),
        (Projectron, {"novelty": 0.001}, "novelty must be a number >= 0.01"),
        (BudgetPerceptron, {"beta": np.inf}, "beta must be a number >= 0, got inf"),
    ],
)
def test_a_parameter_out_of_range_is_refused(solver, parameters, complaint):
    with pytest.raises(ValueError, match=complaint):
        solver(make_kernel("rbf"), 2, **parameters)


@pytest.mark.parametrize("kernel", ["linear", "polynomial"])
def test_a_kernel_without_fourier_features_is_refused(kernel):
    with pytest.raises(ValueError, match="kernel must be rbf or laplacian"):
        FOGD(make_kernel(kernel), 2)


def test_the_projection_is_that_of_least_squares():
    X, classes = blobs(200, 2, noise=1.0)
    made = new(Projectron, make_kernel("rbf", 1.0), 2, (1.0, 1.0), budget=40, novelty=0.05)
    learn(made, X, classes)
    n = made.slots
    points = X[made.machine.key[:n]]
    K = naive.gram("rbf", points)
    np.testing.assert_allclose(made.inverse[:n, :n] @ K, np.eye(n), atol=1e-8)
    new_points = blobs(20, 2, seed=9)[0]
    k = np.array([[naive.kernel_value("rbf", a, b) for b in new_points] for a in points])
    # min_d |k(x, .) - sum_i d_i k(x_i, .)|^2 in coordinates: K = L L'.
    L = np.linalg.cholesky(K)
    d = np.linalg.lstsq(L.T, np.linalg.solve(L, k), rcond=None)[0]
    np.testing.assert_allclose(made.inverse[:n, :n] @ k, d, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_fourier_features_approximate_the_kernel(kernel):
    random = np.random.default_rng(3)
    X = random.standard_normal((30, 4))
    D = 20_000
    made = FOGD(make_kernel(kernel, 0.3), 4, frequencies=D, seed=7)
    Z = np.concatenate([np.cos(X @ made.omega), np.sin(X @ made.omega)], axis=1) / np.sqrt(D)
    # An entry is the mean of D cosines, of variance at most 1: six standard errors.
    np.testing.assert_allclose(Z @ Z.T, naive.gram(kernel, X, gamma=0.3), atol=6 / np.sqrt(D))


def test_nogd_with_all_examples_as_points_is_linear_ogd_in_the_feature_space_of_the_kernel():
    X, classes = blobs(40, 3)
    Y, eta = signs(classes, 3), 0.1
    made = new(NOGD, make_kernel("rbf", 1.0), 2, (1.0,) * 3, budget=40, rank=40, eta=eta)
    phi = np.linalg.cholesky(naive.gram("rbf", X))  # phi_i.phi_j = K_ij
    W = np.zeros((3, 40))
    for epoch in range(3):
        for t in range(40):
            f = W @ phi[t]
            np.testing.assert_allclose(learn(made, X, classes, t, t + 1, again=epoch > 0)[0], f, atol=1e-6)
            W += np.outer(np.where(Y[t] * f <= 1, eta * Y[t], 0.0), phi[t])
    assert made.live == 40
    np.testing.assert_allclose(made.decision(rows(X, made)), phi @ W.T, atol=1e-6)


@pytest.mark.parametrize("solver", [Perceptron, AveragedPerceptron, OGD, RBP])
def test_in_a_further_epoch_an_example_adds_to_its_coefficient_and_does_not_enter_twice(solver):
    X, classes = blobs(100, 2)
    made = new(solver, make_kernel("rbf", 0.5), 2, (1.0, 1.0))
    for epoch in range(4):
        learn(made, X, classes, again=epoch > 0)
    keys = made.machine.key[: made.slots].tolist()
    assert len(set(keys)) == len(keys)
    assert (
        np.abs(made.machine.alpha[0, : made.slots]) > 1.5 * np.abs(made.machine.alpha[0, 0])
    ).any() or solver is BPAS
    assert made.certificate()["steps"] > made.live


def test_the_average_over_several_epochs_is_that_of_a_plain_loop():
    X, classes = blobs(60, 2)
    made = new(AveragedPerceptron, make_kernel("rbf", 0.5), 2, (1.0, 1.0))
    K, y = naive.gram("rbf", X, gamma=0.5), signs(classes, 2)[:, 0]
    alpha, total = np.zeros(60), np.zeros(60)
    for epoch in range(3):
        learn(made, X, classes, again=epoch > 0)
        for t in range(60):
            alpha[t] += y[t] * (y[t] * (alpha @ K[t]) <= 0)
            total += alpha
    np.testing.assert_allclose(made.decision(rows(X, made))[:, 0], K @ total / 180, atol=1e-9)


@pytest.mark.parametrize("solver", [Perceptron, AveragedPerceptron, OGD])
def test_without_a_budget_points_max_refuses_or_removes(solver):
    X, classes = blobs(300, 2, noise=1.5)
    refusing = new(solver, make_kernel("rbf", 0.5), 2, (1.0, 1.0), points_max=20)
    with pytest.raises(PointsFull):
        learn(refusing, X, classes)
    assert refusing.live == 0
    removing = new(solver, make_kernel("rbf", 0.5), 2, (1.0, 1.0), points_max=20, when_full="remove")
    learn(removing, X, classes)
    assert removing.live == 20
    assert removing.machine.key[removing.machine.key != NONE].min() > 0  # the oldest among equals goes


@pytest.mark.parametrize(
    ("solver", "parameters", "copies"),
    [
        (BudgetPerceptron, {"budget": 8, "beta": 0.5}, True),
        (Perceptron, {"points_max": 8, "when_full": "remove"}, False),
        (OGD, {"points_max": 8, "when_full": "remove"}, False),
    ],
)
def test_rounding_does_not_choose_the_point_that_goes(solver, parameters, copies):
    random = np.random.default_rng(1)
    X, classes = random.standard_normal((200, 2)), random.integers(0, 2, 200)
    X = X[np.arange(200) % (4 if copies else 200)]
    made = [new(solver, make_kernel("rbf", 0.5), 2, (1.0, 1.0), **parameters) for _ in range(4)]
    for k in range(len(X)):
        for number, one in enumerate(made):
            for array in (one.machine.alpha, one.machine.smooth):
                np.multiply(array, 1.0 + number * 1e-13 * random.standard_normal(array.shape), out=array)
            learn(one, X, classes, k, k + 1)
            assert one.keys().tolist() == made[0].keys().tolist()
    assert made[0].certificate()["steps"] > 50


def test_the_budget_perceptron_knows_the_value_of_every_point_it_holds():
    X, classes = blobs(400, 3, noise=1.2)
    made = new(BudgetPerceptron, make_kernel("rbf", 0.5), 2, WEIGHTS, budget=25)
    learn(made, X, classes)
    held = made.machine.class_of[: made.slots] != NONE
    np.testing.assert_allclose(
        made.machine.smooth[:, : made.slots][:, held],
        made.decision(rows(X[made.machine.key[: made.slots][held]], made)).T,
        atol=1e-9,
    )


@pytest.mark.parametrize("solver", list(ORACLES))
def test_a_state_with_more_points_than_the_budget_or_another_shape_is_refused(solver):
    X, classes = blobs(200, 2, noise=1.5)
    kernel = make_kernel("rbf", 0.5)
    size = "frequencies" if solver is FOGD else "budget" if solver in BUDGETED else "dim"
    made = new(solver, kernel, 2, (1.0, 1.0), **({} if size == "dim" else {size: 20}))
    learn(made, X, classes)
    other = solver(kernel, 1) if size == "dim" else solver(kernel, 2, **{size: 3})
    with pytest.raises(ValueError, match=r"must be|more than the budget"):
        other.load(made.state())
    assert other.live == other.classes == 0
