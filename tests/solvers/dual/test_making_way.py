"""The order in which points make way: solvers/dual/making_way.py."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core.counts import HOLES_MIN, NONE
from hinged.solvers.dual.making_way import first_to_go
from tests.helpers.solvers.streams import Stream


def in_order(solver):
    """The slots in the order in which they make way, by a plain loop over points and columns."""
    machine, ranked = solver.machine, []
    for s in range(solver.slots):
        if machine.class_of[s] == NONE:
            continue
        losses, held = [], False
        for c in range(solver.columns):
            y = 1 if machine.class_of[s] == (1 if solver.columns == 1 else c) else -1
            f = y - machine.g[c, s] + machine.b[c]
            losses.append(1 - y * f)
            held = held or machine.alpha[c, s] != 0
        loss = max(losses)
        if not held:
            ranked.append((0, loss, s))
        elif loss > 1.5:
            ranked.append((1, -loss, s))
        else:
            ranked.append((2, 0.0, s))
    return [s for _, _, s in sorted(ranked)]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    classes=st.integers(2, 4),
    name=st.sampled_from(["lasvm", "full", "lasvm-nc", "smo"]),
    count=st.integers(1, 100),
)
def test_idle_points_go_first_then_outliers_then_the_oldest(seed, classes, name, count):
    random = np.random.default_rng(seed)
    X, labels = random.standard_normal((80, 2)), random.integers(0, classes, 80)
    solver = Stream(X, labels, name=name, C=5.0, batch=20, dtype=np.float64).learn().solver
    solver.drop(np.arange(0, 80, 7))  # holes among the slots
    expected = in_order(solver)[:count]
    assert first_to_go(solver.machine, solver.slots, count).tolist() == sorted(expected)


@pytest.mark.parametrize("name", ["lasvm", "lasvm-g"])
def test_after_a_change_the_old_concept_leaves_first(name):
    random = np.random.default_rng(1)
    X = random.standard_normal((6000, 2))
    labels = (X[:, 0] > 0).astype(int)
    labels[3000:] = 1 - labels[3000:]
    bounded = Stream(X, labels, name=name, C=1.0, batch=50, points_max=100, when_full="remove").learn()
    right = np.concatenate(bounded.scores)[4000:, 0] > 0
    assert (right == labels[4000:]).mean() > 0.95


def test_arrays_grow_to_what_the_points_and_their_holes_take_at_most():
    random = np.random.default_rng(0)
    stream = Stream(
        random.random((1_500, 3)), random.integers(0, 2, 1_500), C=10.0, points_max=220, when_full="remove"
    ).learn()
    assert stream.solver.live <= 220
    assert stream.solver.slots <= stream.solver.points.start.size <= 220 + HOLES_MIN + 16
    assert stream.solver.cache.lines.shape[0] <= stream.solver.points.start.size
