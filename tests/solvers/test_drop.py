"""Removal of points from a solver: promises of all solvers, and comparison with machines trained without the points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core import points
from hinged.solvers.core.counts import NONE
from hinged.solvers.dual.dual import DualExpansion
from hinged.solvers.dual.machine import IDLE
from tests.helpers.solvers.streams import Stream, machines, same, stream_of, three_classes, two_moons

names = pytest.mark.parametrize("name", SOLVERS)
POINTED = [name for name in SOLVERS if name != "fogd"]
pointed = pytest.mark.parametrize("name", POINTED)
DUAL = [name for name, entry in SOLVERS.items() if issubclass(entry.make, DualExpansion)]
BIASED = [name for name in DUAL if SOLVERS[name].make.biased]
SAMPLED = 20  # number of examples of one class that LASVM stores here


def small(name):
    """Return small parameters, so that few examples reach a solver's corner cases."""
    return {"lasvm": {"seed_max": SAMPLED}, "bsca": {"extra_steps": 1, "reservoir": 30}}.get(name, {})


def numbers_in(state):
    return np.concatenate([a.ravel() for a in state.values() if a.dtype.kind == "f"])


@names
def test_the_state_holds_nothing_of_dropped_examples(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes, batch=20, **small(name)).learn()
    before = stream.solver.live
    gone = np.arange(0, 240, 2)
    stream.solver.drop(gone)
    solver, state = stream.solver, stream.solver.state()
    assert not np.isin(gone, solver.keys()).any()
    assert solver.live == solver.keys().size <= before
    for name_of in ("key", "memory_key", "recent_key"):
        assert not np.isin(gone, state.get(name_of, [])).any()
    # All values of these rows are different.
    assert not np.isin(X[gone].astype(solver.dtype), numbers_in(state)).any()
    assert solver.certificate()["points"] == solver.live


@names
def test_compacted_arrays_hold_nothing_of_dropped_examples(name):
    X, classes = three_classes()
    solver = stream_of(name, X, classes).learn().solver
    solver.drop(np.arange(0, 240, 2))
    solver.compact()
    if name == "fogd":
        return
    for machine in machines(solver):
        assert machine.points.used[0] == machine.live
        assert not np.isin(X[::2].astype(solver.dtype), machine.points.values).any()
        assert not np.isin(X[::2].astype(solver.dtype), machine.points.columns).any()


@names
def test_dropping_unknown_keys_changes_nothing(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes).learn(0, 200)
    before = stream.solver.state()
    stream.solver.drop(np.arange(200, 240))
    stream.solver.drop(np.zeros(0, np.int64))
    same(stream.solver.state(), before)


@names
def test_it_goes_on_to_the_bit_from_a_state_before_and_from_one_after(name):
    X, classes = three_classes()
    whole = stream_of(name, X, classes, batch=20, **small(name)).learn(0, 160)
    states = [whole.solver.state()]
    whole.solver.drop(np.arange(0, 160, 3))
    states.append(whole.solver.state())
    whole.learn(160, 240)
    whole.solver.finish()
    for k, state in enumerate(states):
        parted = stream_of(name, X, classes, batch=20, **small(name))
        parted.solver.load(state)
        same(parted.solver.state(), state)
        if k == 0:
            parted.solver.drop(np.arange(0, 160, 3))
        parted.learn(160, 240)
        parted.solver.finish()
        same(parted.solver.state(), whole.solver.state())
        assert np.array_equal(np.concatenate(whole.scores[8:]), np.concatenate(parted.scores))


@names
def test_points_without_columns_leave_no_trace(name, monkeypatch):
    X, classes = three_classes()
    states = []
    for most in (points.COLUMNS_BYTES_MAX, 0):
        monkeypatch.setattr(points, "COLUMNS_BYTES_MAX", most)
        stream = stream_of(name, X, classes, batch=20, **small(name)).learn(0, 160)
        stream.solver.drop(np.arange(0, 160, 3))
        states.append(stream.learn(160, 240).solver.state())
    same(*states)


@names
def test_a_view_stays_what_it_was_while_points_are_dropped(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes).learn()
    view, rows = stream.solver.view(), stream.rows(X)
    before = view.decision(rows)
    for k in range(0, 240, 40):
        stream.solver.drop(np.arange(k, k + 40))
        stream.learn(0, 20, again=True)
    assert np.array_equal(view.decision(rows), before)


@pointed
def test_without_any_point_it_starts_again(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes, **small(name)).learn()
    solver = stream.solver
    solver.drop(np.arange(240))
    assert solver.live == 0
    assert solver.seen.tolist() == [0, 0, 0]
    assert not solver.decision(stream.rows(X)).any()
    certificate = solver.certificate()
    assert not certificate["gap"]
    assert solver.finish().converged
    state = solver.state()
    solver.load(state)
    same(solver.state(), state)
    stream.learn(again=True)
    stream.learn(again=True)
    assert (stream.decision(X).argmax(axis=1) == classes).mean() > 0.8


@pointed
@pytest.mark.parametrize("alone", [0, 1])
@pytest.mark.parametrize("count", [2, 3])
def test_a_stream_of_one_class_goes_on_after_all_others_were_dropped(name, alone, count):
    X, classes = three_classes(600)
    order = np.flatnonzero(classes < count)
    X, classes = X[order], classes[order]
    stream = stream_of(name, X[:200], classes[:200], batch=20, **small(name)).learn()
    stream.solver.drop(np.flatnonzero(classes[:200] != alone))
    held = np.concatenate([machine.machine.class_of for machine in machines(stream.solver)])
    assert np.array_equal(stream.solver.seen > 0, np.bincount(held[held != NONE], minlength=count) > 0)
    own = np.flatnonzero(classes == alone)
    kept = stream.solver.live

    def right():
        scores = stream.decision(X[own])
        toward = scores[:, 0] * (1 if alone else -1) if count == 2 else scores[:, alone]
        return (toward > 0).mean()

    assert right() > 0.9
    later = own[own >= 200]
    stream.X, stream.classes = X, classes
    for p in range(0, later.size, 10):
        part = later[p : p + 10]
        stream.solver.learn(stream.rows(X[part]), classes[part], part)
    assert right() > 0.95
    if name == "lasvm":
        assert stream.solver.live <= max(kept, SAMPLED)
    stream.solver.finish()
    assert right() > 0.95
    for _ in range(2):  # the other classes may be learned again
        stream.learn(200, again=True)
    scores = stream.decision(X)
    found = scores.argmax(axis=1) if count == 3 else scores[:, 0] > 0
    assert (found == classes).mean() > (0.6 if name == "budget-perceptron" else 0.8)  # its accuracy swings


@pytest.mark.parametrize("name", ["smo", "lasvm", "full", "lasvm-g", "tracking-1", "tracking-batch", "exact"])
@pytest.mark.parametrize("count", [2, 3])
def test_finished_it_is_the_machine_trained_without_them(name, count):
    X, classes = three_classes(150, seed=3)
    classes = classes % count
    gone = np.sort(np.random.default_rng(0).permutation(150)[:50])
    parameters = {"tol": 1e-6} if name != "exact" else {}
    stream = stream_of(name, X, classes, batch=10, **parameters).learn()
    stream.solver.drop(gone)
    kept = np.setdiff1d(np.arange(150), gone)
    fresh = stream_of(name, X, classes, batch=10, **parameters)
    for solver in (stream.solver, fresh.solver):
        for _ in range(4):  # removed points may be support vectors later
            if name != "exact":
                solver.learn(stream.rows(X[kept]), classes[kept], kept, again=True)
            elif solver is fresh.solver and not solver.live:
                solver.learn(stream.rows(X[kept]), classes[kept], kept)
            assert solver.finish().converged
    assert np.allclose(stream.decision(X), fresh.decision(X), atol=1e-6 if name == "exact" else 2e-4)


@pytest.mark.parametrize("name", ["full", "tracking-1", "tracking-2", "smo", "exact"])
def test_points_without_a_coefficient_leave_the_decision_as_it_was(name):
    X, y = two_moons(200, noise=0.1, seed=3)
    stream = stream_of(name, X, (y > 0).astype(int)).learn()
    machine, n = stream.solver.machine, stream.solver.slots
    smooth = getattr(stream.solver, "smooth", machine.alpha)
    without = (machine.class_of[:n] != NONE) & (machine.held[:n] == 0) & ~smooth[:, :n].any(axis=0)
    assert without.any()
    before = stream.decision(X)
    stream.solver.drop(machine.key[:n][without].copy())
    near = 2e-3 if name == "smo" else 1e-8  # its bias comes from two points that differ by at most tol
    assert np.allclose(stream.decision(X), before, atol=near)


def check_dual(stream):
    """Check that boxes, sum(alpha), g = y - K alpha, idle list, extremes, bias and gap are right in every column."""
    solver = stream.solver
    machine, n = solver.machine, solver.slots
    live = np.flatnonzero(machine.class_of[:n] != NONE)
    assert live.size == solver.live
    alpha, keys = machine.alpha[:, :n], machine.key[live]
    assert np.unique(keys).size == keys.size
    assert np.array_equal(machine.class_of[live], stream.classes[keys])
    assert ((machine.lower[:, :n] <= alpha) & (alpha <= machine.upper[:, :n])).all()
    for coefficients in (alpha, getattr(solver, "smooth", alpha)):
        assert not coefficients[:, np.setdiff1d(np.arange(n), live)].any()
    X = stream.X[keys]
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    size = 1 + np.abs(alpha).sum()
    assert np.allclose(machine.sign[:, live] - alpha[:, live] @ K, machine.g[:, live], atol=1e-9 * size)
    idle = machine.idle[: machine.counts[IDLE]]
    assert sorted(idle.tolist()) == live[machine.held[live] == 0].tolist()
    assert np.array_equal(machine.held[live], (alpha[:, live] != 0).sum(axis=0))
    if solver.biased:
        assert np.abs(alpha.sum(axis=1)).max(initial=0) <= 1e-9 * size
    for c in range(solver.columns):
        up, down = live[alpha[c, live] < machine.upper[c, live]], live[alpha[c, live] > machine.lower[c, live]]
        assert np.array_equal(np.flatnonzero(machine.up[c, :n]), up)
        assert np.array_equal(np.flatnonzero(machine.down[c, :n]), down)
        if solver.biased and np.unique(machine.sign[c, live]).size == 1:  # then 0 is the only solution
            assert not alpha[c].any()
            assert machine.b[c] == machine.sign[c, live[0]]
    assert np.isfinite(solver.view().delta).all()
    assert solver.certificate()["gap"] >= -1e-9 * size


def do(stream, action, random):
    """Change the stream at random; return the dropped keys."""
    solver = stream.solver
    if action == "learn":
        begin = int(random.integers(0, 50))
        fresh = np.setdiff1d(np.arange(begin, begin + 10), solver.keys())
        solver.learn(stream.rows(stream.X[fresh]), stream.classes[fresh], fresh)
    elif action == "again":
        stream.learn(0, int(random.integers(1, 60)), again=True)
    elif action == "finish":
        solver.finish()
    elif action == "reload":
        state = solver.state()
        solver.load(state)
        same(solver.state(), state)
    elif action != "drop":
        solver.add_class()
    keys = np.zeros(0, np.int64)
    if action == "drop":
        held = solver.keys()
        part = int(random.choice([1, max(held.size // 3, 1), held.size]))
        keys = random.permutation(held)[:part]
        if random.random() < 0.2 and held.size:
            keys = held[stream.classes[held] == stream.classes[held[0]]]
        solver.drop(np.append(keys, 10_000))
    return keys


ACTIONS = st.lists(
    st.sampled_from(["learn", "learn", "learn", "again", "finish", "reload", "drop", "drop", "class"]),
    min_size=4, max_size=16,
)  # fmt: skip


def changing(seed, classes, name, copies, **parameters):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, (60, 2)).astype(float) if copies else random.standard_normal((60, 2))
    stream = Stream(X, random.integers(0, classes, 60), name=name, batch=10, announced=classes, **parameters)
    return stream, random


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(1, 4),
    name=st.sampled_from([name for name in DUAL if name != "lasvm-nc"]),
    C=st.sampled_from([0.5, 20.0]),
    copies=st.booleans(),
    actions=ACTIONS,
)
def test_after_any_history_a_dual_machine_is_consistent(seed, classes, name, C, copies, actions):
    parameters = {**small(name), **SOLVERS[name].trial, "C": C, "dtype": np.float64}
    stream, random = changing(seed, classes, name, copies, **parameters)
    for action in actions:
        gone = do(stream, action, random)
        assert not np.isin(gone, stream.solver.keys()).any()
        check_dual(stream)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(1, 4),
    name=st.sampled_from([name for name in POINTED if name not in DUAL] + ["lasvm-nc"]),
    copies=st.booleans(),
    actions=ACTIONS,
)
def test_after_any_history_any_other_machine_is_consistent(seed, classes, name, copies, actions):
    parameters = {**SOLVERS[name].trial, **({"budget": 8} if "budget" in SOLVERS[name].trial else {})}
    stream, random = changing(seed, classes, name, copies, C=10.0, **parameters)
    for action in actions:
        gone = do(stream, action, random)
        solver = stream.solver
        assert not np.isin(gone, solver.keys()).any()
        assert np.isfinite(stream.decision(stream.X)).all()
        for machine in machines(solver):
            slots = np.flatnonzero(machine.machine.class_of[: machine.slots] != NONE)
            assert slots.size == machine.live
        if not solver.live:
            assert not stream.decision(stream.X).any()
        if name.startswith("projectron"):
            rows = np.stack([stream.X[k] for k in solver.keys().tolist()]) if solver.live else np.zeros((0, 2))
            K = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(axis=2))
            inverse = solver.inverse[: solver.live, : solver.live]
            assert np.allclose(inverse @ K, np.eye(solver.live), atol=1e-2)
        if name == "budget-perceptron":
            f = solver.point_scores().scores
            assert np.allclose(solver.machine.smooth[:, slots].T, f, atol=1e-4)


@pytest.mark.parametrize("name", ["bsca", "bsgd"])
def test_the_factor_of_a_projecting_budget_is_that_of_the_points_left(name):
    X, y = two_moons(200, seed=1)
    stream = Stream(X, (y > 0).astype(int), name=name, budget=30, maintenance="project", dtype=np.float64).learn()
    solver = stream.solver
    solver.drop(solver.keys()[::3])
    Z = X[solver.keys()]
    K = np.exp(-((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    factor = solver.upkeep.factor[: solver.live, : solver.live]
    assert np.allclose(factor.T @ factor, K, atol=1e-6)
    stream.learn(again=True)
    assert solver.live == 30


def test_a_merged_point_goes_with_its_younger_part_and_only_then():
    X, y = two_moons(300, seed=1)
    stream = Stream(X, (y > 0).astype(int), name="bsca", budget=20, batch=1).learn()
    solver = stream.solver
    merged = solver.keys()[solver.machine.key[solver.machine.class_of != NONE] < NONE]
    assert merged.size > 5
    before = solver.state()
    solver.drop(np.setdiff1d(np.arange(300), solver.keys()))  # among them the older examples of merged points
    after = solver.state()
    assert not np.array_equal(before.pop("memory_key"), after.pop("memory_key"))
    assert not np.array_equal(before.pop("memory_alpha"), after.pop("memory_alpha"))
    same(after, before)
    solver.drop(merged[:3])
    assert not np.isin(merged[:3], solver.keys()).any()


def test_a_point_at_the_place_of_another_is_as_young_as_the_younger_example():
    X, y = two_moons(40, seed=1)
    X[20:] = X[:20]
    classes = np.tile((y[:20] > 0).astype(int), 2)
    solver = Stream(X, classes, name="bsca", budget=30, step_max=0.1).learn().solver
    assert solver.live < 20
    solver.drop(np.arange(20))
    assert solver.live > 0
    assert (solver.keys() >= 20).all()


def test_nogd_makes_its_features_again_once_it_has_enough_points():
    X, y = two_moons(600, seed=1)
    stream = Stream(X, (y > 0).astype(int), name="nogd", budget=30, batch=10).learn(0, 300)
    solver = stream.solver
    assert solver.inverse.shape == (30, 30)
    solver.drop(solver.keys()[:5])
    assert solver.inverse.size == 0
    assert solver.live == 25
    stream.learn(300, 600)
    assert solver.live == 30
    K = np.exp(-((X[solver.keys()][:, None] - X[solver.keys()][None]) ** 2).sum(axis=2))
    inverse = solver.inverse
    assert np.allclose(inverse @ K @ inverse, inverse, atol=1e-3 * np.abs(inverse).max())
    assert (np.sign(stream.decision(X)[:, 0]) == y).mean() > 0.8


def test_many_at_once_take_fewer_kernel_values_than_one_by_one():
    X, y = two_moons(600, noise=0.4, seed=1)
    values = []
    for step in (200, 1):
        solver = stream_of("lasvm", X, (y > 0).astype(int), cache_bytes=1).learn().solver
        before = solver.certificate()["kernel_evaluations"]
        for k in range(0, 200, step):
            solver.drop(np.arange(k, k + step))
        values.append(solver.certificate()["kernel_evaluations"] - before)
    assert values[0] < values[1]


@pytest.mark.parametrize("name", ["fogd", "nogd", "projectron", "projectron++"])
def test_a_solver_whose_examples_move_others_says_that_it_does_not_forget(name):
    assert not SOLVERS[name].make.forgets
    assert SOLVERS["lasvm"].make.forgets
