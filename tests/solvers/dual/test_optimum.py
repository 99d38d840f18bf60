"""`fit` of LASVM reaches the optimum of all examples: a plain loop over every pair, and LIBSVM's dual objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from hinged.sklearn import LASVMClassifier
from hinged.solvers.dual import optimum
from hinged.solvers.dual.entering import enter_rows
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import Stream, two_moons

KERNELS = {"linear": "linear", "poly": "polynomial", "rbf": "rbf", "laplacian": "laplacian"}
KERNEL = {"gamma": 1.0, "degree": 2, "coef0": 1.0}
FORGETFUL = {"idle_max": 0, "delta_max": None, "random_state": 0}  # the pass drops as many points as it can


def classes_around(count, n, seed):
    """Return points in overlapping clouds around a circle, some of them twice, and their classes."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, count, n)
    angle = 2 * np.pi * classes / count
    X = np.round(np.c_[np.cos(angle), np.sin(angle)] + 0.6 * random.standard_normal((n, 2)), 1)
    return X, classes


def columns_of(model, X, classes, weights):
    """Yield y, alpha and the bounds of every example, and the bias, of every column of a fitted model."""
    alpha = np.zeros((len(model.dual_coef_), len(X)))
    alpha[:, model.support_] = model.dual_coef_
    factors = model.class_weight or {}
    bound = model.C * weights * np.array([factors.get(c, 1.0) for c in classes.tolist()])
    for c in range(len(alpha)):
        y = np.where(classes == (1 if len(alpha) == 1 else c), 1.0, -1.0)
        yield y, alpha[c], bound, model.intercept_[c]


def worst_pair(K, y, alpha, bound):
    """Return the largest violation of any pair of examples, by a plain loop."""
    rising, falling = -np.inf, np.inf
    for i in range(len(y)):
        g = y[i] - sum(alpha[j] * K[j, i] for j in np.flatnonzero(alpha))
        lower, upper = min(0.0, bound[i] * y[i]), max(0.0, bound[i] * y[i])
        assert lower <= alpha[i] <= upper
        if alpha[i] < upper:
            rising = max(rising, g)
        if alpha[i] > lower:
            falling = min(falling, g)
    return rising - falling


def dual(K, y, alpha):
    return alpha @ y - 0.5 * alpha @ K @ alpha


def libsvm_dual(K, y, C, bound):
    """Return the dual objective of LIBSVM's optimum."""
    svc = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K, y, bound / C)
    alpha = np.zeros(len(y))
    alpha[svc.support_] = svc.dual_coef_[0]
    return dual(K, y, alpha)


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kernel=st.sampled_from(sorted(KERNELS)),
    count=st.sampled_from([2, 5]),
    C=st.sampled_from([0.3, 10.0]),
    weighted=st.booleans(),
    class_weight=st.sampled_from([None, {0: 3.0, 1: 0.5}]),
    small_cache=st.booleans(),
)
def test_no_pair_of_all_examples_violates_and_the_dual_is_that_of_LIBSVM(
    seed, kernel, count, C, weighted, class_weight, small_cache
):
    X, classes = classes_around(count, 70, seed)
    weights = np.random.default_rng(seed).choice([0.5, 1.0, 4.0], len(X)) if weighted else np.ones(len(X))
    model = LASVMClassifier(
        C=C, kernel=kernel, **KERNEL, precision="float64", class_weight=class_weight, **FORGETFUL, tol=1e-4,
        cache_size=0.02 if small_cache else 256,
    )  # fmt: skip
    model.fit(X, classes, weights if weighted else None)
    K = naive.gram(KERNELS[kernel], X, **KERNEL)
    for y, alpha, bound, _ in columns_of(model, X, classes, weights):
        assert worst_pair(K, y, alpha, bound) <= model.tol * (1 + 1e-6)
        assert dual(K, y, alpha) == pytest.approx(libsvm_dual(K, y, C, bound), rel=1e-6)


def test_examples_that_the_pass_dropped_come_back():
    X, y = two_moons(300, noise=0.35, seed=4)
    K = naive.gram("rbf", X, gamma=1.0)
    duals = {}
    for finish in (True, "points"):
        model = LASVMClassifier(C=10.0, gamma=1.0, finish=finish, precision="float64", **FORGETFUL).fit(X, y)
        ((labels, alpha, bound, _),) = columns_of(model, X, (y > 0).astype(int), np.ones(len(X)))
        duals[finish] = dual(K, labels, alpha)
    best = libsvm_dual(K, labels, 10.0, bound)
    assert duals[True] == pytest.approx(best, rel=1e-6)
    assert duals["points"] < best * (1 - 1e-4)


def test_classes_as_a_log_has_them_need_no_other_compiled_functions():
    X, y = two_moons(300, noise=0.35, seed=4)
    compiled = []
    for integer in (np.int64, np.int32):
        stream, rounds = Stream(X, (y > 0).astype(int), C=10.0, idle_max=0, delta_max=None).learn(), []
        stream.solver.finish_over(stream.rows(X), (y > 0).astype(integer), np.arange(300), told=rounds.append)
        assert rounds[0].violating > 0
        compiled.append(len(enter_rows.signatures))
    assert compiled[0] == compiled[1]


def test_finishing_over_the_points_is_one_pass_and_the_finishing_step_of_the_solver():
    X, y = two_moons(600, noise=0.35, seed=5)
    model = LASVMClassifier(C=10.0, gamma=1.0, finish="points", shuffle=False, **FORGETFUL).fit(X, y)
    parameters = {name: value for name, value in FORGETFUL.items() if name != "random_state"}
    stream = Stream(X, (y > 0).astype(int), C=10.0, batch=600, **parameters).learn()
    stream.solver.finish()
    assert np.array_equal(model.decision_function(X), stream.decision(X)[:, 0])


def test_where_points_max_is_too_small_fit_says_how_many_examples_are_missing():
    X, y = two_moons(800, noise=0.4, seed=6)
    whole = LASVMClassifier(C=1.0, gamma=1.0, **FORGETFUL).fit(X, y)
    needed = int(whole.n_support_.sum())
    given_ = {"C": 1.0, "gamma": 1.0, "when_full": "remove", **FORGETFUL}
    roomy = LASVMClassifier(points_max=needed + 20, **given_).fit(X, y)
    assert roomy.decision_function(X) == pytest.approx(whole.decision_function(X), abs=0.01)
    scarce = LASVMClassifier(points_max=needed // 2, **given_)
    with pytest.warns(ConvergenceWarning, match=r"[0-9]+ more examples violate, but points_max allows [0-9]+ points"):
        scarce.fit(X, y)
    assert scarce.solver_.live <= needed // 2
    alone = LASVMClassifier(points_max=needed // 2, finish="points", **given_).fit(X, y)
    assert np.array_equal(scarce.decision_function(X), alone.decision_function(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_where_earlier_data_takes_the_room_fit_ends_at_the_optimum_over_the_points():
    X, y = two_moons(800, noise=0.4, seed=6)
    given_ = {"C": 1.0, "gamma": 1.0, "when_full": "remove", "points_max": 150, "warm_start": True, **FORGETFUL}
    whole, alone = (LASVMClassifier(finish=finish, **given_).fit(X[:700], y[:700]) for finish in (True, "points"))
    for model in (whole, alone):
        model.fit(X[700:], y[700:])
    assert np.array_equal(whole.decision_function(X), alone.decision_function(X))


def test_verbose_tells_points_gap_and_violating_examples_of_each_round(capsys):
    X, y = two_moons(300, noise=0.4, seed=3)
    model = LASVMClassifier(C=10.0, gamma=1.0, precision="float64", verbose=True, **FORGETFUL).fit(X, y)
    passed, *rounds, last = capsys.readouterr().out.splitlines()
    assert passed.startswith("pass 1 of 1: ")
    assert [line.split(":")[0] for line in rounds] == ["finishing"] * len(rounds)
    assert rounds[-1].endswith(" 0 other examples violate")
    assert last.startswith(f"finished: {model.solver_.live} points, duality gap ")
    ((labels, alpha, bound, b),) = columns_of(model, X, (y > 0).astype(int), np.ones(len(X)))
    K = naive.gram("rbf", X, gamma=1.0)
    primal = 0.5 * alpha @ K @ alpha + bound @ np.maximum(0.0, 1.0 - labels * (K @ alpha + b))
    gap = float(rounds[-1].split("duality gap ")[1].split(",")[0])
    assert gap == pytest.approx(primal - dual(K, labels, alpha), rel=0.01, abs=1e-3)
    LASVMClassifier(**FORGETFUL).fit(X, y)
    assert capsys.readouterr().out == ""


def test_a_machine_whose_examples_have_faded_finishes_over_its_points():
    X, y = two_moons(300, noise=0.4, seed=3)
    classes = (y > 0).astype(int)
    faded, same = (Stream(X, classes, C=10.0, idle_max=0, batch=300).learn() for _ in range(2))
    for stream in (faded, same):
        stream.solver.fading = True
        stream.solver.fade(0.5)
    faded.solver.finish_over(faded.rows(X), classes, np.arange(300))
    same.solver.finish()
    assert np.array_equal(faded.decision(X), same.decision(X))


def test_rounds_end_at_their_limit(monkeypatch):
    X, y = two_moons(300, noise=0.4, seed=7)
    monkeypatch.setattr(optimum, "ROUNDS_MAX", 1)
    with pytest.warns(ConvergenceWarning, match="did not reach its tolerance"):
        LASVMClassifier(C=10.0, gamma=1.0, **FORGETFUL).fit(X, y)


def test_a_fit_that_goes_on_reaches_the_optimum_of_the_points_and_the_new_examples():
    X, y = two_moons(400, noise=0.4, seed=8)
    settled = {"C": 2.0, "gamma": 1.0, "precision": "float64", "random_state": 0, "tol": 1e-6}
    model = LASVMClassifier(warm_start=True, idle_max=10_000, **settled).fit(X[:200], y[:200]).fit(X[200:], y[200:])
    whole = LASVMClassifier(**settled).fit(X, y)
    assert model.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-3)


def test_the_leader_of_a_race_reaches_the_optimum():
    X, y = two_moons(300, noise=0.3, seed=7)
    model = LASVMClassifier(C="auto", gamma=1.0, precision="float64", random_state=0).fit(X, y)
    (leader,) = [arm for arm in model.arms_ if arm["leads"]]
    assert (leader["solver"], leader["half_life"]) == ("lasvm", None)
    K = naive.gram(leader["kernel"], X, gamma=leader["gamma"])
    alpha = np.zeros(len(X))
    alpha[model.support_] = model.dual_coef_[0]
    assert worst_pair(K, y, alpha, np.full(len(X), leader["C"])) <= model.tol * (1 + 1e-6)
