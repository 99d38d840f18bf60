"""Machines with many columns: the lists and caches that avoid repeated work do not change results."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest

from hinged.solvers.core.counts import NONE
from tests.helpers.solvers.invariants import check_invariants, check_lists
from tests.helpers.solvers.streams import same, settled, stream_of

CLASSES, N = 12, 420


def heaps(seed=0):
    """Return examples of overlapping clusters, and their classes."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, CLASSES, N)
    return settled(random.normal(size=(CLASSES, 3))[classes] + 0.5 * random.standard_normal((N, 3))), classes


def lived(name, meanwhile, **changes):
    """Return a solver after learning, forgetting, finishing and a further epoch. `meanwhile` is called in between."""
    X, classes = heaps()
    stream = stream_of(name, X, classes, announced=CLASSES - 2, batch=20, **changes)
    late = classes >= CLASSES - 2
    stream.X, stream.classes = np.r_[X[~late], X[late]], np.r_[classes[~late], classes[late]]
    for begin in range(0, N, 20):
        if begin + 20 > N - late.sum() and stream.solver.classes < CLASSES:
            stream.solver.add_class()
            stream.solver.add_class(2.0)
        stream.learn(begin, min(begin + 20, N))
        meanwhile(stream)
        if begin == 200:
            stream.solver.drop(np.arange(30, 60))
            stream.solver.finish()
        if begin == 300 and stream.solver.fades:
            stream.solver.fade(0.9)
    stream.learn(0, 100, again=True)
    meanwhile(stream)
    return stream


def check_all(stream):
    check_lists(stream.solver)
    stream.listed = getattr(stream, "listed", 0) + int((stream.solver.machine.listed != NONE).sum())
    if stream.name == "lasvm":
        check_invariants(stream, 10.0)


def list_nothing(stream):
    stream.solver.machine.listed[:] = NONE


def remember_nothing(stream, random):
    nearest = stream.solver.machine.nearest
    nearest[:] = random.integers(0, stream.solver.columns, nearest.size)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lasvm", "lasvm-g", "lasvm-nc", "tracking-1", "exact"])
def test_sums_over_listed_coefficients_give_the_state_of_sums_over_all(name):
    listed, whole = lived(name, check_all), lived(name, list_nothing)
    same(listed.solver.state(), whole.solver.state())
    np.testing.assert_array_equal(np.concatenate(listed.scores[-5:]), np.concatenate(whole.scores[-5:]))
    assert listed.listed > CLASSES


@pytest.mark.parametrize("changes", [{"idle_max": 40}, {"idle_max": 0}, {"points_max": 150, "when_full": "remove"}])
def test_the_remembered_nearest_column_changes_no_result(changes):
    one = lived("lasvm", check_all, **changes)
    other = lived("lasvm", partial(remember_nothing, random=np.random.default_rng(1)), **changes)
    same(one.solver.state(), other.solver.state())


def test_a_list_that_is_too_short_is_given_up_and_made_again_where_it_has_room():
    X, classes = heaps()
    stream = stream_of("lasvm", X, classes, batch=20, idle_max=0)
    given_up = 0
    for begin in range(0, 240, 20):
        stream.learn(begin, begin + 20)
        given_up = max(given_up, int((stream.solver.machine.listed == NONE).sum()))
        check_invariants(stream, 10.0)
    assert given_up
    stream.solver.drop(np.arange(200))
    assert (stream.solver.machine.listed != NONE).all()
    check_invariants(stream, 10.0)


def test_classes_that_come_one_by_one_have_the_columns_of_classes_that_come_together():
    """When a third class is announced, one column becomes three.

    The arrays may have room for the new rows; a copy's arrays have no room.
    """
    X, classes = heaps()
    first = classes < 2
    stream = stream_of("lasvm", X[first], classes[first], announced=2).learn()
    for total in range(3, 12):
        if total == 7:
            stream.solver = deepcopy(stream.solver)
        stream.solver.add_class(1.5)
        machine, n = stream.solver.machine, stream.solver.slots
        live = machine.class_of[:n] != NONE
        assert machine.alpha.shape == (total, machine.class_of.size)
        assert not machine.alpha[2:].any()
        assert (machine.g[2:, :n] == np.where(live, -1.0, 0.0)).all()
        assert (machine.lower[2:, :n] == np.where(live, -10.0, 0.0)).all()
        assert np.array_equal(machine.alpha[0, :n], 0.0 - machine.alpha[1, :n])
        check_invariants(stream, 10.0)
