import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.budget.budget import BSCA, BSGD
from hinged.solvers.budget.factor import RIDGES
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import KERNELS, make_kernel
from hinged.solvers.core.solver import POINTS_MAX
from tests.helpers.solvers import naive
from tests.helpers.solvers.budgets import PLAIN, Budgeted, clipped, degradation
from tests.helpers.solvers.streams import two_moons


@pytest.mark.parametrize("extra", [{}, PLAIN])
def test_each_step_of_bsca_is_that_of_a_plain_loop_until_the_budget_is_full(extra):
    X, y = two_moons(80, noise=0.4, seed=1)
    C, K = 1.5, naive.gram("rbf", X)
    stream = Budgeted(X, (y > 0).astype(int), C=C, budget=100, **extra)
    alpha, smooth = np.zeros(len(X)), np.zeros(len(X))
    for t, (epoch, i) in enumerate(itertools.product(range(3), range(len(X))), start=1):
        score = stream.learn(i, i + 1, again=epoch > 0)[0, 0]
        assert score == pytest.approx((alpha if extra else smooth) @ K[i])
        step = 1.0 - y[i] * (alpha @ K[i])
        if not extra:
            longest = max(2.0 / math.sqrt(1.0 + t / 1000.0), 0.25)
            step = clipped(step, -longest, longest)
        alpha[i] = y[i] * clipped(y[i] * alpha[i] + step, 0.0, C)
        smooth += max(4.0 / (t + 3.0), 1.0 / 1000.0) * (alpha - smooth)
    held = stream.solver.machine.key[: stream.solver.slots]
    assert len(set(held.tolist())) == held.size  # an example visited again does not become a second point
    np.testing.assert_allclose(stream.solver.machine.alpha[0, : held.size], alpha[held], atol=1e-12)


def test_without_a_budget_to_keep_bsca_converges_to_the_dual_optimum():
    X, y = two_moons(60, noise=0.3, seed=4)
    stream = Budgeted(X, (y > 0).astype(int), C=2.0, budget=100, **PLAIN)
    for epoch in range(300):
        stream.learn(again=epoch > 0)
    alpha = np.zeros(len(X))
    alpha[stream.solver.machine.key[: stream.solver.slots]] = stream.solver.machine.alpha[0, : stream.solver.slots]
    g = y - naive.gram("rbf", X) @ alpha
    gap = np.maximum((2.0 * (y > 0) - alpha) * g, (-2.0 * (y < 0) - alpha) * g).sum()
    assert 0.0 <= gap < 1e-6


def test_each_step_of_bsgd_is_that_of_pegasos_until_the_budget_is_full():
    X, y = two_moons(80, noise=0.4, seed=1)
    K, regularization = naive.gram("rbf", X), 0.02
    streams = [
        Budgeted(X, (y > 0).astype(int), BSGD, budget=100, averaging=None, regularization=regularization),
        Budgeted(X, (y > 0).astype(int), BSGD, budget=100, averaging=None, C=0.5, examples=100),
    ]
    alpha = np.zeros(len(X))
    for t in range(1, 161):
        i = (t - 1) % len(X)
        f = alpha @ K[i]
        for stream in streams:
            assert stream.learn(i, i + 1, again=t > len(X))[0, 0] == pytest.approx(f)
        alpha *= 1.0 - 1.0 / t
        alpha[i] += y[i] / (regularization * t) if y[i] * f < 1 else 0.0


@pytest.mark.parametrize("maintenance", ["merge", "project", "remove"])
@pytest.mark.parametrize("solver", [BSCA, BSGD])
def test_rounding_does_not_choose_the_point_that_goes(solver, maintenance):
    X, own = np.random.default_rng(4).standard_normal((60, 2)), np.arange(60) % 2
    parameters = {"maintenance": maintenance, "C": 1e-3 if solver is BSCA else 1.0, "averaging": None}
    streams = [Budgeted(X, own, solver, budget=8, **parameters) for _ in range(4)]
    noise = np.random.default_rng(5)
    for k in range(60):
        for number, stream in enumerate(streams):
            slots = stream.solver.slots
            stream.solver.machine.alpha[0, :slots] *= 1.0 + number * 1e-13 * noise.standard_normal(slots)
            stream.learn(k, k + 1)
            assert stream.keys() == streams[0].keys()
    assert streams[0].solver.merges > 10


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 60),
    classes=st.integers(1, 5),
    budget=st.integers(2, 12),
    kernel=st.sampled_from(list(KERNELS)),
    maintenance=st.sampled_from([None, "project", "remove"]),
    solver=st.sampled_from([BSCA, BSGD]),
    copies=st.booleans(),
    extra=st.sampled_from([{}, {"averaging": None}]),
)
def test_the_budget_the_box_and_the_signs_hold_after_every_example(
    seed, n, classes, budget, kernel, maintenance, solver, copies, extra
):
    random = np.random.default_rng(seed)
    X = random.integers(-1, 2, (n, 3)) if copies else random.standard_normal((n, 3))
    if solver is BSCA:
        extra = extra | {"extra_steps": 2, "reservoir": 8, "remembered": 64}
    stream = Budgeted(X, random.integers(0, classes, n), solver, make_kernel(kernel, 0.5, 2, 1.0), C=2.0, budget=budget,
                      maintenance=maintenance, **extra)  # fmt: skip
    machine = stream.solver.machine
    for k in range(n):
        stream.learn(k, k + 1)
        machine, slots = stream.solver.machine, stream.solver.slots
        live = machine.class_of[:slots] != NONE
        assert live.sum() == stream.solver.live <= budget
        assert np.isfinite(machine.alpha).all()
        assert not machine.alpha[:, :slots][:, ~live].any()
        memory = stream.solver.memory
        for key in memory.key[memory.key != NONE]:
            for c, alpha in enumerate(memory.alpha[:, key % memory.key.size]):
                side = 1 if stream.classes[key] == (1 if stream.solver.columns == 1 else c) else -1
                assert 0.0 <= side * alpha <= 2.0
    assert stream.solver.certificate()["weight_degradation"] >= 0.0


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_projection_is_the_least_squares_answer(kernel):
    random = np.random.default_rng(7)
    parameters = {"gamma": 0.3, "degree": 3, "coef0": 1.0}
    X, own = random.standard_normal((60, 12)), random.integers(0, 3, 60)
    stream = Budgeted(
        X, own, kernel=make_kernel(kernel, **parameters), C=5.0, budget=10, maintenance="project", **PLAIN
    )
    for k in range(len(X)):
        Z, old, _ = stream.points()
        former = stream.solver.certificate()["weight_degradation"]
        before = stream.solver.merges
        stream.learn(k, k + 1)
        after, new, _ = stream.points()
        if stream.solver.merges == before:
            continue
        delta = stream.solver.memory.alpha[:, k % stream.solver.memory.key.size]
        Z, old = np.r_[Z, X[k : k + 1]], np.c_[old, delta]
        K = naive.gram(kernel, Z, **parameters)
        gone = next(s for s in range(len(Z)) if not (after == Z[s]).all(axis=1).any())
        assert gone == ((old**2).sum(axis=0) * np.diagonal(K)).argmin()
        rest = np.delete(np.arange(len(Z)), gone)
        share = np.linalg.lstsq(K[np.ix_(rest, rest)], K[rest, gone], rcond=1e-13)[0]
        np.testing.assert_allclose(new, old[:, rest] + np.outer(old[:, gone], share), rtol=1e-5, atol=1e-6)
        lost = stream.solver.certificate()["weight_degradation"] - former
        assert lost == pytest.approx(degradation(Z, old, after, new, kernel, **parameters), rel=1e-4, abs=1e-6)
    m, factor = stream.solver.live, stream.solver.upkeep.factor
    K = naive.gram(kernel, stream.points()[0], **parameters)
    ridge = RIDGES[np.float64] * np.diagonal(K)
    np.testing.assert_allclose(factor[:m, :m].T @ factor[:m, :m], K + np.diag(ridge), rtol=1e-9, atol=1e-9)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kernel=st.sampled_from(["linear", "polynomial", "rbf"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    classes=st.integers(2, 3),
    how=st.sampled_from(["apart", "whole", "near"]),
)
def test_projection_accounts_for_what_it_costs_and_for_its_ridge(seed, kernel, dtype, classes, how):
    """Compare |dw|^2 + ridge (a^2 k(x, x) of the removed point + the same for the coefficients taken over)."""
    random = np.random.default_rng(seed)
    parameters = {"gamma": 0.3, "degree": 2, "coef0": 1.0}
    X = random.integers(-2, 3, (50, 3)) if how == "whole" else random.standard_normal((50, 3))
    if how == "near":
        X = X[random.integers(0, 12, 50)] + 1e-3 * random.standard_normal((50, 3))
    X = X.astype(np.float32).astype(float)
    stream = Budgeted(X, random.integers(0, classes, 50), kernel=make_kernel(kernel, **parameters), C=5.0, budget=8,
                      maintenance="project", dtype=dtype, **PLAIN)  # fmt: skip
    eps, ridge = np.finfo(dtype).eps, RIDGES[dtype]
    for k in range(len(X)):
        Z, old, _ = stream.points()
        former, before = stream.solver.certificate()["weight_degradation"], stream.solver.merges
        keys = stream.keys()
        stream.learn(k, k + 1)
        if stream.solver.merges == before:
            continue
        after, new, _ = stream.points()
        delta = stream.solver.memory.alpha[:, k % stream.solver.memory.key.size]
        Z, old, keys = np.r_[Z, X[k : k + 1]], np.c_[old, delta], [*keys, k]
        left = stream.keys()
        taken = np.array([new[:, left.index(key)] if key in left else np.zeros(len(new)) for key in keys]).T - old
        selves = np.diagonal(naive.gram(kernel, Z, **parameters))
        true = degradation(Z, old, after, new, kernel, **parameters)
        accounted = stream.solver.certificate()["weight_degradation"] - former
        sizes = np.abs(old).sum() + np.abs(new).sum()
        rounding = 40 * eps * sizes**2 * selves.max() + 1e-12 * (1.0 + former)
        own = float((taken**2 * selves).sum())
        assert true - rounding <= accounted <= true + rounding + ridge * own * (1.0 + 1e-3)


def test_projection_copes_with_points_that_depend_on_each_other():
    random = np.random.default_rng(3)
    X = random.integers(-2, 3, (300, 3)).astype(float)
    y = X[:, 0] + X[:, 1] > 0.5
    for dtype in (np.float32, np.float64):
        stream = Budgeted(X, y.astype(int), kernel=make_kernel("linear"), budget=20, dtype=dtype)
        stream.learn()
        assert stream.solver.certificate()["weight_degradation"] < 1e-2
        assert ((stream.decision(X)[:, 0] > 0) == y).mean() > 0.85


def test_removal_costs_what_the_removed_point_was_worth():
    X, y = two_moons(60, noise=0.4, seed=2)
    stream = Budgeted(X, (y > 0).astype(int), budget=10, maintenance="remove", **PLAIN)
    for k in range(len(X)):
        old = stream.points()[1]
        before, former = stream.solver.merges, stream.solver.certificate()["weight_degradation"]
        stream.learn(k, k + 1)
        if stream.solver.merges > before:
            sizes = np.append(np.abs(old[0]), abs(stream.solver.memory.alpha[0, k]))
            lost = stream.solver.certificate()["weight_degradation"] - former
            assert lost == pytest.approx(sizes.min() ** 2)


def test_a_twin_of_a_point_costs_no_place_in_the_budget():
    X, y = two_moons(4, seed=0)
    stream = Budgeted(np.tile(X, (20, 1)), np.tile((y > 0).astype(int), 20), budget=4, C=0.5)
    stream.learn()
    assert stream.solver.merges == 0
    assert stream.solver.live == 4
    memory = stream.solver.memory
    for s in range(4):
        total = memory.alpha[0, memory.key % 4 == s].sum()
        place = int(np.flatnonzero((stream.points()[0] == X[s]).all(axis=1))[0])
        assert stream.points()[1][0, place] == pytest.approx(total)


@pytest.mark.parametrize("solver", [BSCA, BSGD])
def test_a_class_with_a_single_point_keeps_it(solver):
    random = np.random.default_rng(0)
    X, own = random.standard_normal((400, 2)), np.zeros(400, int)
    X[5], own[5] = [4.0, 4.0], 1
    own[6:] = 2 * (random.uniform(size=394) < 0.5)
    stream = Budgeted(X, own, solver, columns=3, budget=4)
    stream.learn()
    assert (stream.points()[2] == 1).sum() == 1
    assert stream.decision(X[5:6])[0].argmax() == 1


def test_extra_steps_use_the_last_examples_and_no_clock():
    X, y = two_moons(500, noise=0.3, seed=6)
    runs = []
    for batches in ([500], [1] * 500, [3, 77, 420]):
        stream = Budgeted(X, (y > 0).astype(int), extra_steps=2, reservoir=40, budget=30, dtype=np.float32)
        ends = np.cumsum([0, *batches])
        scores = np.concatenate([stream.learn(b, e) for b, e in itertools.pairwise(ends)])
        assert stream.solver.memory.number[: 2 * 40].max() == 499
        runs.append((scores, stream.solver.state()))
    for scores, state in runs[1:]:
        np.testing.assert_array_equal(scores, runs[0][0])
        for name, array in state.items():
            np.testing.assert_array_equal(array, runs[0][1][name], err_msg=name)


@pytest.mark.parametrize("solver", [BSCA, BSGD])
@pytest.mark.parametrize("maintenance", ["merge", "project", "remove"])
def test_a_solver_goes_on_from_its_state_to_the_bit(solver, maintenance):
    X, y = two_moons(400, noise=0.3, seed=8)
    own = (y > 0) + (X[:, 0] > 1.0)
    extra = {"extra_steps": 1, "reservoir": 16, "remembered": 2048} if solver is BSCA else {}
    one = Budgeted(X, own, solver, maintenance=maintenance, budget=20, dtype=np.float32, **extra)
    one.learn(0, 237)
    two = Budgeted(X, own, solver, maintenance=maintenance, budget=20, dtype=np.float32, **extra)
    two.solver.load(one.solver.state())
    np.testing.assert_array_equal(one.learn(237), two.learn(237))
    for name, array in one.solver.state().items():
        np.testing.assert_array_equal(array, two.solver.state()[name], err_msg=name)


def test_a_state_that_does_not_fit_is_refused():
    X, y = two_moons(200, noise=0.3, seed=8)
    parameters = {"maintenance": "project", "extra_steps": 1, "reservoir": 16, "budget": 20}
    one = Budgeted(X, (y > 0).astype(int), **parameters)
    one.learn()
    good = one.solver.state()
    bad = {
        "factor": -good["factor"],
        "memory_key": good["memory_key"][:0],
        "memory_alpha": good["memory_alpha"][:, :-1],
        "recent_class": good["recent_class"] + 2,
        "recent_indptr": good["recent_indptr"][:-1],
        "recent_indices": good["recent_indices"] + 1,
        "degradation": good["degradation"] * np.nan,
        "upkeep_counts": good["upkeep_counts"] - 10**6,
    }
    for name, array in bad.items():
        two = Budgeted(X, (y > 0).astype(int), **parameters)
        with pytest.raises(ValueError, match=r"must|NaN|indptr|outside"):
            two.solver.load(good | {name: array})
        assert two.solver.live == 0
    with pytest.raises(ValueError, match="at most 10 points"):
        Budgeted(X, (y > 0).astype(int), **(parameters | {"budget": 10})).solver.load(good)


def test_invalid_parameters_are_refused():
    rbf, linear = make_kernel("rbf", 1.0), make_kernel("linear")
    for solver, kernel, parameters, word in (
        (BSCA, linear, {"maintenance": "merge"}, "rbf"),
        (BSCA, rbf, {"maintenance": "melt"}, "melt"),
        (BSCA, rbf, {"merging": "guess"}, "guess"),
        (BSCA, rbf, {"budget": 1}, "budget"),
        (BSCA, rbf, {"budget": 101, "points_max": 100}, "budget"),
        (BSCA, linear, {"budget": 5001}, "budget"),
        (BSCA, rbf, {"averaging": 0}, "averaging"),
        (BSCA, rbf, {"step_max": 0.0}, "step_max"),
        (BSCA, rbf, {"step_decay": math.nan}, "step_decay"),
        (BSCA, rbf, {"step_least": -1.0}, "step_least"),
        (BSCA, rbf, {"extra_steps": -1}, "extra_steps"),
        (BSCA, rbf, {"reservoir": 0}, "reservoir"),
        (BSCA, rbf, {"remembered": 10}, "remembered"),
        (BSGD, rbf, {"examples": 0}, "examples"),
        (BSGD, rbf, {"regularization": 0.0}, "regularization"),
        (BSGD, rbf, {"C": 1e10, "examples": 10**9}, "lambda"),
    ):
        with pytest.raises(ValueError, match=word):
            solver(kernel, 2, **parameters)
    assert BSCA(linear, 2).room > POINTS_MAX


def test_a_long_stream_stays_as_good_as_it_was_where_the_plain_form_swings():
    X, y = two_moons(20_000, noise=0.35, seed=9)
    test, y_test = two_moons(2000, noise=0.35, seed=10)

    def worst(**parameters):
        stream = Budgeted(X, (y > 0).astype(int), C=100.0, budget=50, **parameters)
        accuracies = []
        for begin in range(0, len(X), 1000):
            stream.learn(begin, begin + 1000)
            accuracies.append(((stream.decision(test)[:, 0] > 0) == (y_test > 0)).mean())
        return min(accuracies[5:])

    best = SVC(C=1.0, gamma=1.0).fit(X[:4000], y[:4000]).score(test, y_test)
    assert worst() > best - 0.02
    assert worst(**PLAIN) < best - 0.1
