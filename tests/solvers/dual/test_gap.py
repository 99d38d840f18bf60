"""LASVM-G, FULL, LASVM-NC and LASVM-I, and their steps without a bias."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.reports import Finish
from hinged.solvers.dual.coordinate import best_moves, box_gap
from hinged.solvers.dual.machine import IDLE
from tests.helpers.solvers import naive
from tests.helpers.solvers.streams import Stream, two_moons

FAMILY = ("lasvm-g", "full", "lasvm-nc", "lasvm-i")


def gap_stream(name, X, y, **parameters):
    return Stream(X, (np.asarray(y) > 0).astype(int), name=name, **{"dtype": np.float64, "batch": 1, **parameters})


def held(stream):
    machine, n = stream.solver.machine, stream.solver.slots
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    return machine, live, machine.key[live]


def check_invariants(stream, K):
    """Check that boxes, masks, idle list, g = y - K alpha, gap >= 0, support vectors by class and pace are right."""
    machine, live, keys = held(stream)
    solver, n = stream.solver, stream.solver.slots
    for c in range(solver.columns):
        alpha, lower, upper = (getattr(machine, name)[c] for name in ("alpha", "lower", "upper"))
        assert (lower[live] <= alpha[live]).all()
        assert (alpha[live] <= upper[live]).all()
        assert np.array_equal(machine.up[c, live] != 0, alpha[live] < upper[live])
        assert np.array_equal(machine.down[c, live] != 0, alpha[live] > lower[live])
        g = machine.sign[c, live] - K[np.ix_(keys, keys)] @ alpha[live]
        assert np.allclose(g, machine.g[c, live], atol=1e-9 * max(1.0, np.abs(alpha).sum()))
        counted = np.bincount(machine.class_of[live][alpha[live] != 0], minlength=solver.classes)
        assert np.array_equal(solver.pace.sv_of[c], counted)
        holes = np.setdiff1d(np.arange(n), live)
        assert not alpha[holes].any()
        assert not upper[holes].any()
        assert not lower[holes].any()
    idle = set(machine.idle[: machine.counts[IDLE]].tolist())
    assert idle == set(live[~machine.alpha[:, live].any(axis=0)].tolist())
    assert solver.certificate()["gap"] >= 0


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 60),
    classes=st.integers(1, 4),
    kernel=st.sampled_from(["linear", "polynomial", "rbf", "laplacian"]),
    name=st.sampled_from(FAMILY),
    C=st.sampled_from([0.1, 10.0]),
    copies=st.booleans(),
    delta_min=st.sampled_from([None, 0.0, 0.5]),
)
def test_every_step_keeps_the_invariants(seed, n, classes, kernel, name, C, copies, delta_min):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (n, 3)).astype(float) if copies else random.standard_normal((n, 3))
    own = {} if name == "full" else {"idle_max": 3, "clean_every": 5}
    own |= {"ramp_start": 2, "ramp_s": -0.5} if name in ("lasvm-nc", "lasvm-i") else {}
    parameters = {"gamma": 0.5, "degree": 2, "coef0": 1.0}
    stream = Stream(
        X, random.integers(0, classes, n), make_kernel(kernel, **parameters), batch=1, name=name, C=C,
        delta_min=delta_min, dtype=np.float64, **own,
    )  # fmt: skip
    K = naive.gram(kernel, X, **parameters)
    for k in range(n):
        stream.learn(k, k + 1)
        check_invariants(stream, K)
    stream.solver.finish()
    check_invariants(stream, K)


@pytest.mark.parametrize("name", ["lasvm-g", "full"])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_finished_it_is_the_optimum_of_the_box_alone(name, weight):
    X, y = two_moons(150, noise=0.4, seed=4)
    K = naive.gram("rbf", X, gamma=4.0)
    kernel = make_kernel("rbf", 4.0)
    stream = gap_stream(
        name, X, y, kernel=kernel, C=5.0, tol=1e-10, announced=0, **({"idle_max": 10**6} if name != "full" else {})
    )
    stream.solver.add_class(1.0)
    stream.solver.add_class(weight)
    stream.learn()
    assert stream.solver.finish().converged
    alpha = naive.box_optimum(K, y, np.where(y > 0, 0.0, -5.0), np.where(y > 0, 5.0 * weight, 0.0))
    assert np.allclose(stream.decision(X)[:, 0], K @ alpha, atol=1e-7)
    dual = alpha @ y - 0.5 * alpha @ K @ alpha
    certificate = stream.solver.certificate()
    assert certificate["dual"] == pytest.approx(dual, rel=1e-9)
    assert certificate["gap"] == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["lasvm-g", "full", "tracking-1", "tracking-2", "tracking-batch"]),
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    gamma=st.sampled_from([0.5, 3.0]),
    kernel=st.sampled_from(["rbf", "laplacian"]),
    C=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_finished_on_any_data_it_is_the_optimum_of_the_box_alone(name, seed, n, gamma, kernel, C):
    random = np.random.default_rng(seed)
    X, y = random.standard_normal((n, 3)), random.choice([-1, 1], n)
    own = {"idle_max": 10**6} if name == "lasvm-g" else {}
    stream = gap_stream(name, X, y, kernel=make_kernel(kernel, gamma), C=C, tol=1e-10, batch=7, **own).learn()
    assert stream.solver.finish().converged
    K = naive.gram(kernel, X, gamma=gamma)
    alpha = naive.box_optimum(K, y, np.minimum(0.0, C * y), np.maximum(0.0, C * y))
    certificate = stream.solver.certificate()
    assert certificate["dual"] == pytest.approx(alpha @ y - 0.5 * alpha @ K @ alpha, rel=1e-9)
    assert certificate["gap"] == pytest.approx(0.0, abs=1e-6)
    assert np.allclose(stream.decision(X)[:, 0], K @ alpha, atol=1e-6)


def test_after_each_example_the_gap_is_below_its_target_or_nothing_violates():
    X, y = two_moons(300, noise=0.5, seed=6)
    stream = gap_stream("full", X, y, C=10.0)
    for k in range(len(X)):
        before = max(10.0, *stream.solver.pace.target.tolist())
        stream.learn(k, k + 1)
        machine, live, _ = held(stream)
        gap = box_gap(*(getattr(machine, a)[0, live] for a in ("alpha", "g", "lower", "upper")))
        certificate = stream.solver.certificate()
        # The example itself may remain within tau of its box.
        assert gap <= before + 10.0 * 1e-3 * (k + 1) or certificate["kkt_violation"] <= 1e-3


@pytest.mark.parametrize(("name", "own"), [("full", {}), ("lasvm-nc", {"ramp_start": 1000})])
def test_with_few_steps_for_an_example_finishing_reaches_the_same_optimum(name, own):
    X, y = two_moons(200, noise=0.5, seed=6)
    usual = gap_stream(name, X, y, C=100.0, tol=1e-9, **own).learn()
    few = gap_stream(name, X, y, C=100.0, tol=1e-9, **own)
    few.solver.bound_steps(1)
    for k in range(len(X)):
        before = few.solver.certificate()["steps"]
        few.learn(k, k + 1)
        assert few.solver.certificate()["steps"] - before <= 2
    assert few.solver.certificate()["steps"] < usual.solver.certificate()["steps"]
    for stream in (few, usual):
        assert stream.solver.finish().converged
    assert few.solver.certificate()["dual"] == pytest.approx(usual.solver.certificate()["dual"], rel=1e-9)


def heaps(classes, n, seed=0):
    """Return clusters of normal numbers, one per class, that overlap somewhat; a tenth of the labels are random."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    X = random.standard_normal((classes, 8))[y] + 0.6 * random.standard_normal((n, 8))
    return X, np.where(random.random(n) < 0.1, random.integers(0, classes, n), y), y


@pytest.mark.parametrize("name", FAMILY)
def test_many_columns_leave_small_violations_to_finishing(name):
    X, given, true = heaps(12, 1200)
    own = {"ramp_start": 5} if name in ("lasvm-nc", "lasvm-i") else {}
    steps, right = [], []
    for delta_min in (0.0, None):
        stream = Stream(X, given, make_kernel("rbf", 0.125), name=name, C=10.0, delta_min=delta_min, **own).learn(
            0, 900
        )
        steps.append(stream.solver.certificate()["steps"])
        stream.solver.finish()
        assert stream.solver.certificate()["kkt_violation"] <= 1e-3
        right.append((stream.decision(X[900:]).argmax(axis=1) == true[900:]).mean())
    assert steps[1] < 0.9 * steps[0]
    assert right[1] > right[0] - 0.01


@pytest.mark.parametrize("name", FAMILY)
def test_by_default_one_column_leaves_nothing_and_a_third_class_changes_that(name):
    X, classes, _ = heaps(3, 400)
    states = []
    for delta_min in (None, 0.0, 0.25):
        stream = Stream(X, np.minimum(classes, 1), name=name, C=10.0, delta_min=delta_min).learn(0, 200)
        states.append(stream.solver.state())
        stream.solver.add_class()
        stream.classes = classes
        states.append(stream.learn(200).solver.state())
    (one, never, always), (three, without, _) = states[0::2], states[1::2]
    assert all(np.array_equal(one[array], never[array]) for array in one)
    assert not np.array_equal(one["alpha"], always["alpha"])
    assert three["steps"] < without["steps"]


@pytest.mark.parametrize("name", ["lasvm-g", "full"])
def test_a_further_epoch_takes_up_what_the_first_left(name):
    X, given, _ = heaps(5, 300)
    stream = Stream(X, given, name=name, C=10.0, delta_min=0.9).learn()
    before = stream.solver.certificate()
    stream.learn(again=True)
    after = stream.solver.certificate()
    assert after["steps"] > before["steps"]
    assert after["dual"] > before["dual"]
    assert after["kkt_violation"] < 0.9 * before["kkt_violation"]


def test_the_gap_target_is_the_deviation_of_the_primal_over_the_support_vectors():
    X, y = two_moons(120, noise=0.4, seed=8)
    stream = gap_stream("lasvm-g", X, y, C=7.0).learn()
    machine, live, _ = held(stream)
    on = live[machine.alpha[0, live] != 0]
    h = 7.0 * machine.sign[0, on] * machine.g[0, on]
    stream.solver._measure(stream.solver.pace.discarded)
    assert stream.solver.pace.target[0] == pytest.approx(np.sqrt((h**2).sum() - h.sum() ** 2 / on.size))


def test_clean_keeps_the_points_that_are_nearest_to_coming_back():
    X, y = two_moons(400, noise=0.2, seed=9)
    kept, loose = (gap_stream("lasvm-g", X, y, C=10.0, idle_max=most, clean_every=400) for most in (25, 10**6))
    for stream in (kept, loose):
        stream.learn()
    machine, live, keys = held(loose)
    idle = np.flatnonzero(machine.alpha[0, live] == 0)
    slack = np.where(y[keys] > 0, -1.0, 1.0)[idle] * machine.g[0, live][idle]
    nearest = set(keys[idle[np.argsort(slack)[:25]]].tolist())
    machine, live, keys = held(kept)
    assert set(keys[machine.alpha[0, live] == 0].tolist()) == nearest


def noisy(n=1500, seed=1):
    X, y = two_moons(n, noise=0.1, seed=seed)
    flipped = np.random.default_rng(seed + 1).random(n) < 0.15
    return X, np.where(flipped, -y, y), y


def test_the_ramp_treats_wrong_labels_as_outliers():
    X, given, true = noisy()
    found = {}
    for name in FAMILY:
        own = {"ramp_start": 20} if name in ("lasvm-nc", "lasvm-i") else {}
        stream = gap_stream(name, X, given, C=10.0, batch=50, dtype=np.float32, **own).learn()
        stream.solver.finish()
        found[name] = stream.solver.certificate()["support_vectors"]
        assert (np.sign(stream.decision(X)[:, 0]) == true).mean() > 0.97
        discarded = stream.solver.discarded
        if name == "lasvm-nc":
            assert (discarded[:, 0] > 20).all()
            assert not discarded[:, 1].any()
        elif name == "lasvm-i":
            assert (discarded > 20).all()
        else:
            assert discarded is None
    assert found["lasvm-nc"] < 0.6 * found["lasvm-g"]
    assert found["lasvm-i"] < 0.7 * found["lasvm-g"]


def test_a_filtered_example_leaves_no_trace_but_its_count():
    X, given, _ = noisy(400)
    stream = gap_stream("lasvm-i", X, given, C=10.0, ramp_start=5).learn(0, 300)
    for k in range(300, 400):
        before = stream.solver.state()
        stream.learn(k, k + 1)
        after = stream.solver.state()
        z = stream.scores[-1][0, 0] * given[k]
        if (after["discarded"] != before["discarded"]).any():
            assert z < -1 or z > 1
            assert {name for name in after if not np.array_equal(after[name], before[name])} == {
                "discarded", "seen", "learned",
            }  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    g=st.tuples(*[st.floats(-3, 3)] * 2),
    k=st.tuples(st.floats(0.1, 2), st.floats(0.1, 2), st.floats(-1, 1)),
    box=st.tuples(*[st.floats(0, 2)] * 4),
)
def test_two_coordinates_move_to_their_common_optimum(g, k, box):
    cross = k[2] * np.sqrt(k[0] * k[1])
    i, j = best_moves(g[0], g[1], k[0], k[1], cross, -box[0], box[1], -box[2], box[3])
    assert -box[0] <= i <= box[1]
    assert -box[2] <= j <= box[3]

    def gain(a, b):
        return g[0] * a + g[1] * b - 0.5 * (k[0] * a * a + k[1] * b * b) - cross * a * b

    a, b = np.meshgrid(np.linspace(-box[0], box[1], 41), np.linspace(-box[2], box[3], 41))
    assert gain(i, j) >= gain(a, b).max() - 1e-9


def test_a_zero_row_under_a_linear_kernel_is_learned_without_effect():
    X = np.array([[0.0], [0.0], [1.0], [-1.0]])
    stream = Stream(X, [1, 0, 1, 0], make_kernel("linear"), name="full", batch=1, C=1.0, dtype=np.float64).learn()
    assert stream.solver.finish() == Finish(0, converged=True)
    assert np.allclose(stream.decision(X)[:, 0], [0.0, 0.0, 1.0, -1.0], atol=1e-3)


@pytest.mark.parametrize("name", FAMILY)
def test_the_column_of_a_class_that_comes_later_has_no_bias_either(name):
    X, y = two_moons(60)
    stream = gap_stream(name, X, y).learn()
    stream.solver.add_class()
    assert not stream.solver.view().b.any()
    assert not stream.decision(X)[:, 2].any()
