"""Invariants of LASVM, which hold after every step."""

import numpy as np

from hinged.solvers.core.counts import NONE
from hinged.solvers.dual.machine import IDLE


def check_invariants(stream, C, tolerance=1e-3):
    """Box, sum(alpha) = 0, g = y - K alpha, masks, idle list and extremes are right, whatever was done before."""
    solver, machine, n = stream.solver, stream.solver.machine, stream.solver.slots
    live = machine.class_of[:n] != NONE
    assert live.sum() == solver.live
    alpha = machine.alpha[:, :n]
    assert not alpha[:, ~live].any()
    assert (alpha >= machine.lower[:, :n]).all()
    assert (alpha <= machine.upper[:, :n]).all()
    assert np.abs(alpha.sum(axis=1)).max(initial=0) <= 1e-9 * C * max(n, 1)
    assert np.array_equal(machine.up[:, :n] != 0, live & (alpha < machine.upper[:, :n]))
    assert np.array_equal(machine.down[:, :n] != 0, live & (alpha > machine.lower[:, :n]))
    idle = set(machine.idle[: machine.counts[IDLE]].tolist())
    assert idle == set(np.flatnonzero(live & ~alpha.any(axis=0)).tolist())
    check_lists(solver)
    X = stream.X[machine.key[:n][live]]
    f = stream.decision(X).T - machine.b[:, None]
    assert np.abs(machine.sign[:, :n][:, live] - f - machine.g[:, :n][:, live]).max(initial=0) < tolerance
    assert solver.certificate()["gap"] >= 0
    for c in range(solver.columns):
        g = machine.g[c, :n]
        i, j = machine.best_i[c], machine.best_j[c]
        if i != NONE:
            assert g[i] == g[machine.up[c, :n] != 0].max()
        if j != NONE:
            assert g[j] == g[machine.down[c, :n] != 0].min()


def check_lists(solver):
    """The lists of coefficients agree with alpha."""
    machine, n = solver.machine, solver.slots
    for c in range(solver.columns):
        m = machine.listed[c]
        if m != NONE:
            assert np.array_equal(machine.listed_slots[c, :m], np.flatnonzero(machine.alpha[c, :n]))
            assert np.array_equal(machine.listed_values[c, :m], machine.alpha[c, machine.listed_slots[c, :m]])
