"""Merging: which points are merged, into which point, and how a merge changes the averaged coefficients."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.budget import merging
from hinged.solvers.budget.budget import BSCA, BSGD
from hinged.solvers.budget.maintenance import VISITED
from hinged.solvers.budget.remainder import FEW, NEAREST, RIDGE
from hinged.solvers.core.coefficients import EQUAL, first_least
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from tests.helpers.solvers import naive
from tests.helpers.solvers.budgets import PLAIN, Budgeted, brute_force, degradation
from tests.helpers.solvers.streams import two_moons


@settings(max_examples=60, deadline=None)
@given(
    a=st.lists(st.floats(0.01, 10.0), min_size=1, max_size=4),
    b=st.lists(st.floats(0.01, 10.0), min_size=4, max_size=4),
    kappa=st.floats(1e-6, 0.999),
)
def test_a_merge_degrades_no_more_than_the_best_of_a_fine_grid(a, b, kappa):
    a, b = np.array(a), np.array(b[: len(a)])
    if a @ a > b @ b:
        a, b = b, a
    _, most = brute_force(a @ a, b @ b, a @ b, kappa)
    size = a @ a + b @ b + 2.0 * kappa * (a @ b)
    h, lost = merging.place(merging.table_of("golden"), a @ a, b @ b, a @ b, kappa)
    assert 0.0 <= h <= 1.0
    assert lost <= size - most + 1e-9 * size
    assert lost == pytest.approx(size - most, abs=1e-6 * size)


@settings(max_examples=200, deadline=None)
@given(a=st.floats(0.001, 1.0), kappa=st.floats(0.0, 1.0))
def test_the_table_merges_as_well_as_golden_section(a, kappa):
    by_table = merging.place(merging.table_of("table"), a * a, 1.0, a, kappa)[1]
    by_search = merging.place(merging.table_of("golden"), a * a, 1.0, a, kappa)[1]
    assert by_search - 1e-12 <= by_table <= by_search + 2e-4 * a * a


@settings(max_examples=200, deadline=None)
@given(a=st.floats(0.001, 1.0), kappa=st.floats(0.0, 1.0))
def test_partners_are_ranked_by_the_degradation_that_a_merge_brings(a, kappa):
    exact = merging.lost(
        a, 1.0, math.log(max(kappa, 1e-30)), merging.best_place(a * a, 1.0, a, math.log(max(kappa, 1e-30)))
    )
    for table, within in ((merging.table_of("table"), 5e-3), (merging.table_of("golden"), 0.0)):
        assert merging.rank(table, a * a, 1.0, a, kappa) == pytest.approx(exact, rel=within, abs=1e-9 * a)


def test_far_points_are_merged_at_the_higher_of_two_maxima():
    # kappa = e^-4: the objective has a maximum near either point. An unmerged point contributes more there.
    kappa = math.exp(-4.0)
    for table in (merging.table_of("golden"), merging.table_of("table")):
        for m in (0.5, 0.501, 0.55, 0.7):
            a, b = 1.0 - m, m
            h, lost = merging.place(table, a * a, b * b, a * b, kappa)
            assert h <= 0.5
            best, most = brute_force(a * a, b * b, a * b, kappa)
            assert min(abs(h - best), abs(h - (1.0 - best)) if m == 0.5 else 1.0) < 0.01
            assert lost == pytest.approx(a * a + b * b + 2.0 * a * b * kappa - most, abs=1e-5)
    assert merging.best_place(0.3, 0.2, math.sqrt(0.06), -4.0) > 0.5


@pytest.mark.parametrize("columns", [1, 3])
def test_leaving_out_partners_that_are_too_far_never_misses_the_best(columns):
    random = np.random.default_rng(columns)
    table = merging.table_of("table")
    for _ in range(200):
        n = int(random.integers(2, 12))
        alpha = random.exponential(1.0, (columns, n)) ** 2
        row = random.uniform(0.0, 1.0, n) ** random.choice([0.1, 1.0, 4.0])
        i = int((alpha**2).sum(axis=0).argmin())
        row[i] = 1.0
        lost = {j: merging.rank(table, *merging.products(alpha, i, j), row[j]) for j in range(n) if j != i}
        near = random.permutation(np.delete(np.arange(n), i))[:3]  # any points are suitable
        found = merging.find_partner(table, alpha, np.zeros(n, np.int32), i, row, n, near)
        assert lost[found] <= min(lost.values()) + 1e-4 * (alpha[:, i] ** 2).sum()


@pytest.mark.long
@pytest.mark.parametrize("merging_by", ["table", "golden"])
@pytest.mark.parametrize("classes", [2, 4])
def test_a_merge_is_the_best_single_point_for_the_smallest_and_its_best_partner(classes, merging_by):
    random = np.random.default_rng(classes)
    X, own = random.standard_normal((120, 2)), random.integers(0, classes, 120)
    stream = Budgeted(X, own, budget=12, C=3.0, merging=merging_by, **PLAIN)
    merges = 0
    for k in range(len(X)):
        before, former = stream.solver.merges, stream.solver.certificate()["weight_degradation"]
        Z, old, class_of = stream.points()
        memory = stream.solver.memory
        stream.learn(k, k + 1)
        after, new, class_after = stream.points()
        if stream.solver.merges == before:
            continue
        merges += 1
        at = k % memory.key.size
        delta = stream.solver.memory.alpha[:, at]  # the example's whole alpha, because this is its first visit
        Z, old, class_of = np.r_[Z, X[k : k + 1]], np.c_[old, delta], np.append(class_of, own[k])
        lost = stream.solver.certificate()["weight_degradation"] - former
        assert lost == pytest.approx(degradation(Z, old, after, new), abs=1e-9)
        size = (old**2).sum(axis=0)
        best = np.inf
        for i in np.argsort(size):
            mates = [j for j in range(len(Z)) if j != i and class_of[j] == class_of[i] and old[:, i] @ old[:, j] > 0]
            for j in mates:
                kappa = naive.kernel_value("rbf", Z[i], Z[j])
                aa, bb, ab = size[i], size[j], old[:, i] @ old[:, j]
                best = min(best, aa + bb + 2.0 * kappa * ab - brute_force(aa, bb, ab, kappa)[1])
            if mates:
                break
        # With several columns, the h that ranks partners is only close to the best h.
        assert lost <= best * (1.0 if classes == 2 else 1.1) + 1e-3 * size.min()
        gone = sorted(set(map(tuple, Z)) - set(map(tuple, after)))
        (z,) = set(map(tuple, after)) - set(map(tuple, Z))
        u, v, w = np.array(gone[0]), np.array(gone[1]), np.array(z)
        assert np.linalg.norm(u - w) + np.linalg.norm(w - v) == pytest.approx(np.linalg.norm(u - v))
        assert sorted(class_after.tolist()) == sorted(
            np.delete(class_of, np.flatnonzero(class_of == class_after[-1])[0])
        )
    assert merges > 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("merging_by", ["table", "golden"])
def test_very_distant_points_are_merged_into_the_larger(merging_by, dtype):
    X = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
    stream = Budgeted(X, [1, 1, 1], budget=2, merging=merging_by, dtype=dtype)
    stream.learn(0, 2)
    stream.solver.machine.alpha[0, :2] = 5.0, 3.0
    stream.learn(2, 3)
    points, alpha, _ = stream.points()
    order = alpha[0].argsort()
    np.testing.assert_allclose(alpha[0, order], [3.0, 5.0], rtol=1e-5)
    np.testing.assert_allclose(points[order], [[100.0, 0.0], [0.0, 0.0]], atol=1e-2)


@pytest.mark.long
@pytest.mark.parametrize(("classes", "nearest"), [(2, 3), (2, 8), (4, 5), (4, NEAREST)])
def test_what_a_merge_takes_from_the_average_is_projected_onto_the_merged_point_and_the_nearest(classes, nearest):
    random = np.random.default_rng(classes)
    X, own = random.standard_normal((200, 2)), random.integers(0, classes, 200)
    stream = Budgeted(X, own, budget=15, C=3.0, averaging=20, nearest=nearest)
    checked = 0
    for k in range(len(X)):
        live = stream.solver.machine.class_of[: stream.solver.slots] != NONE
        Z, smooth = stream.points()[0], stream.solver.machine.smooth[:, : stream.solver.slots][:, live].copy()
        merges = stream.solver.merges
        stream.learn(k, k + 1)
        if stream.solver.merges == merges:
            continue
        checked += 1
        machine, slots = stream.solver.machine, stream.solver.slots
        live = machine.class_of[:slots] != NONE
        rho = max(4.0 / (k + 4.0), 1.0 / 20)
        after = stream.points()[0]
        # Compute the average without the new coefficients.
        found = (machine.smooth[:, :slots][:, live] - rho * machine.alpha[:, :slots][:, live]) / (1.0 - rho)
        Z, smooth = np.r_[Z, X[k : k + 1]], np.c_[smooth, np.zeros(len(smooth))]
        gone = [s for s in range(len(Z)) if not (after == Z[s]).all(axis=1).any()]
        stays = [s for s in range(len(Z)) if s not in gone]
        K = naive.gram("rbf", np.r_[Z, after])
        wanted = []
        # The result does not show which of the two was smallest. With more than a few points, the number is
        # approximate.
        sizes = [nearest] if nearest <= FEW else range(nearest * 3 // 4, nearest + 1)
        for (i, j), size in itertools.product((gone, gone[::-1]), sizes):
            near = sorted(stays, key=lambda s, i=i: -K[i, s])[:size]
            basis = [*(stays.index(s) for s in near), len(after) - 1]  # a merged point gets the newest slot
            p, q = (K[t, len(Z) + len(after) - 1] for t in (i, j))
            expected = np.c_[smooth[:, stays], p * smooth[:, i] + q * smooth[:, j]]
            inner = K[len(Z) :, : len(Z)] @ smooth.T - K[len(Z) :, len(Z) :] @ expected.T
            G = K[len(Z) :, len(Z) :][np.ix_(basis, basis)] + RIDGE * np.eye(len(basis))
            expected[:, basis] += np.linalg.solve(G, inner[basis]).T
            wanted.append(expected)
        assert any(np.allclose(found, expected, rtol=1e-7, atol=1e-8) for expected in wanted)
    assert checked > 50


@pytest.mark.long
@pytest.mark.parametrize(
    ("solver", "budget", "columns", "apart"),
    [(BSCA, 30, 0, 0.05), (BSCA, 100, 0, 0.05), (BSGD, 30, 0, 0.05), (BSCA, 30, 2, 0.15), (BSCA, 100, 2, 0.15)],
)
def test_the_predicting_coefficients_stay_near_the_true_average(solver, budget, columns, apart):
    random = np.random.default_rng(2)
    X, y = two_moons(3000, noise=0.2, seed=1)
    y = np.where(random.uniform(size=len(X)) < 0.1, -y, y)
    grid = two_moons(300, noise=0.2, seed=3)[0]
    X, grid = (np.c_[rows, random.standard_normal((len(rows), columns))] for rows in (X, grid))
    parameters = {"budget": budget, "dtype": np.float32, "kernel": make_kernel("rbf", 0.5 if columns else 1.0)}
    stream = Budgeted(X, (y > 0).astype(int), solver, **parameters)
    sharp = Budgeted(X, (y > 0).astype(int), solver, averaging=None, **parameters)
    average = np.zeros(len(grid))
    for k in range(len(X)):
        stream.learn(k, k + 1)
        sharp.learn(k, k + 1)
        average += max(4.0 / (k + 4.0), 1.0 / 1000.0) * (sharp.decision(grid)[:, 0] - average)
    predicted = stream.decision(grid)[:, 0]
    assert stream.solver.merges > 200
    assert np.sqrt(np.mean((predicted - average) ** 2)) < apart * average.std()
    assert ((predicted > 0) == (average > 0)).mean() > 0.95


def test_a_point_without_a_coefficient_leaves_its_part_of_the_average_behind():
    X = np.r_[np.linspace(0.0, 2.0, 9)[:, None] * [1.0, 0.5], [[50.0, 50.0]]]
    stream = Budgeted(X, [1] * 9 + [0], budget=9, averaging=10**9)
    stream.learn(0, 9)
    machine = stream.solver.machine
    machine.alpha[0, 4], machine.smooth[0, :9] = 0.0, 1.0
    stream.solver.upkeep.counts[VISITED] = 10**9  # so that new examples no longer change the average
    before = stream.decision(X[:9])[:, 0]
    stream.learn(9, 10)
    assert stream.keys() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    np.testing.assert_allclose(stream.decision(X[:9])[:, 0], before, rtol=0.02)


@pytest.mark.long
def test_a_point_is_merged_within_its_class_and_a_step_back_goes_to_its_nearest_point():
    X, y = two_moons(120, noise=0.5, seed=7)
    stream = Budgeted(X, (y > 0).astype(int), budget=15, C=0.7, **PLAIN)
    merges, back = 0, 0
    for epoch, k in itertools.product(range(4), range(len(X))):
        Z, old, class_of = stream.points()
        before, former = stream.solver.merges, stream.solver.certificate()["weight_degradation"]
        delta = -stream.solver.memory.alpha[:, k].copy()
        stream.learn(k, k + 1, again=epoch > 0)
        after, new, class_after = stream.points()
        delta += stream.solver.memory.alpha[:, k]
        if stream.solver.merges == before:
            continue
        Z, old, class_of = np.r_[Z, X[k : k + 1]], np.c_[old, delta], np.append(class_of, stream.classes[k])
        gone = [s for s in range(len(Z)) if not (after == Z[s]).all(axis=1).any()]
        lost = stream.solver.certificate()["weight_degradation"] - former
        assert lost == pytest.approx(degradation(Z, old, after, new), abs=1e-9)
        if len(gone) == 2:
            merges += 1
            assert class_of[gone[0]] == class_of[gone[1]] == class_after[-1]
        elif delta[0] * (1 if class_of[-1] == 1 else -1) < 0:
            back += 1
            near = [naive.kernel_value("rbf", X[k], z) if c == class_of[-1] else 0.0
                    for z, c in zip(Z[:-1], class_of[:-1], strict=True)]  # fmt: skip
            expected = old[0, :-1].copy()
            expected[np.argmax(near)] += max(near) * delta[0]
            np.testing.assert_allclose(new[0], expected, atol=1e-12)
    assert merges > 50
    assert back > 20


@settings(max_examples=200, deadline=None)
@given(
    exact=st.lists(st.integers(1, 6) | st.just(math.inf), min_size=1, max_size=30),
    seed=st.integers(0, 1000),
    scale=st.sampled_from([1e-12, 1.0, 1e9]),
    below=st.sampled_from([0.0, 3.0, 7.0]),
)
def test_the_least_of_values_is_not_decided_by_rounding(exact, seed, scale, below):
    random = np.random.default_rng(seed)
    rounding = 1.0 + random.uniform(-0.4, 0.4, len(exact)) * EQUAL
    values = (np.array(exact) * rounding - below) * scale
    found = first_least(values, len(exact), 7.0 * scale if below else 0.0)
    assert found == (NONE if min(exact) == math.inf else exact.index(min(exact)))


def test_values_that_fall_by_less_than_rounding_each_are_not_all_equal():
    values = 1.0 - 0.4 * EQUAL * np.arange(10)
    assert first_least(values, 10, 0.0) == 7


def test_of_points_that_were_never_merged_bsgd_removes_the_oldest():
    X = 30.0 * np.arange(40)[:, None] * [1.0, 1.0]  # all at the margin: every example becomes a point
    stream = Budgeted(X, np.arange(40) % 2, BSGD, budget=10, maintenance="remove", dtype=np.float32)
    for k in range(40):
        stream.learn(k, k + 1)
        # The newest coefficient equals the older coefficients, which have shrunk to its size.
        assert stream.keys() == list(range(max(0, k - 9), k + 1))


def test_a_merged_point_has_the_age_of_its_younger_part():
    X, y = two_moons(200, noise=0.4, seed=5)
    stream = Budgeted(X, (y > 0).astype(int), budget=5)

    def held():
        return {tuple(x): key for x, key in zip(stream.points()[0].tolist(), stream.keys(), strict=True)}

    merges = 0
    for k in range(len(X)):
        former = held() | {tuple(X[k].tolist()): k}
        stream.learn(k, k + 1)
        now = held()
        new, gone = set(now) - set(former), set(former) - set(now)
        if new:
            assert now[new.pop()] == -2 - max(former[x] if former[x] >= 0 else -2 - former[x] for x in gone)
            merges += 1
    assert merges > 50
