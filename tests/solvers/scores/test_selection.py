import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.scores.selection import Unseen, distances, informativeness, is_wanted, margins
from tests.helpers.solvers.streams import two_moons

RBF = make_kernel("rbf", 1.0)


def generator(seed=0):
    return np.array([seed], np.uint64)


def rows_of(X, dtype=np.float32):
    return rows_from_dense(X, RBF, X.shape[1], dtype)


def untaught(name="lasvm", classes=2, **parameters):
    solver = make_solver(name, RBF, 2, **{"C": 10.0, **SOLVERS[name].trial, **parameters})
    for _ in range(classes):
        solver.add_class()
    return solver


def taught(X, classes, name="lasvm", **parameters):
    solver = untaught(name, int(classes.max()) + 1, **parameters)
    solver.learn(rows_of(X, solver.dtype), classes, np.arange(len(X)))
    return solver


# -- what is measured -----------------------------------------------------------------------------------------------

scores_of_three = st.lists(st.tuples(*3 * [st.floats(-10, 10)]), min_size=1, max_size=8).map(np.array)


@given(scores_of_three)
def test_the_distance_is_the_least_margin_that_the_best_label_could_have(scores):
    each = [margins(scores, np.full(len(scores), c)) for c in range(3)]
    assert np.allclose(distances(scores), np.max(each, axis=0))
    one = scores[:, :1]
    assert np.array_equal(distances(one), np.max([margins(one, np.full(len(one), c)) for c in (0, 1)], axis=0))


@given(scores_of_three)
def test_several_columns_measure_as_plain_loops_do(scores):
    for row, distance in zip(scores, distances(scores), strict=True):
        best, second = sorted(row)[:0:-1]
        assert distance == (best - second) / 2
    for c in range(3):
        for row, margin in zip(scores, margins(scores, np.full(len(scores), c)), strict=True):
            assert margin == (row[c] - max(row[:c].tolist() + row[c + 1 :].tolist())) / 2


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.floats(0, 2))
def test_one_column_and_its_two_mirrored_columns_agree(f, delta):
    one = np.array(f)[:, None]
    two = np.c_[-one, one]
    classes = np.arange(len(f)) % 2
    assert np.allclose(distances(one), distances(two))
    assert np.allclose(margins(one, classes), margins(two, classes))
    assert np.array_equal(is_wanted(one, np.array([delta])), is_wanted(two, np.array([delta, delta])))


def test_an_example_is_wanted_inside_the_margin_and_the_doubt_about_the_bias():
    scores = np.array([[-1.3], [-1.2], [0.0], [1.0], [1.25]])
    assert is_wanted(scores, np.array([0.0])).tolist() == [False, False, True, False, False]
    assert is_wanted(scores, np.array([0.5])).tolist() == [False, True, True, True, False]
    assert is_wanted(np.array([[3.0, 0.0, 0.7]]), np.array([0.6, 9.0, 0.0])).tolist() == [False]
    assert is_wanted(np.array([[3.0, 0.0, 0.8]]), np.array([0.6, 9.0, 0.0])).tolist() == [True]


def test_without_a_class_everything_is_wanted():
    assert is_wanted(np.empty((2, 0)), np.empty(0)).all()
    assert distances(np.empty((2, 0))).tolist() == [0.0, 0.0]
    assert margins(np.empty((2, 0)), np.empty(0)).tolist() == [0.0, 0.0]


# -- strategies -----------------------------------------------------------------------------------------------------

SCORES = np.array([[0.9], [-0.1], [2.0], [-1.5], [0.3]])
SIDES = np.array([1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("strategy", "order"), [("active", [1, 4, 0, 3, 2]), ("autoactive", [1, 4, 0, 3, 2]), ("gradient", [2, 4, 1, 0, 3])]
)
def test_a_strategy_ranks_examples(strategy, order):
    assert np.argsort(-informativeness(strategy, SCORES, SIDES)).tolist() == order
    assert not informativeness("random", SCORES).any()


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_can_be_asked(name):
    X, y = two_moons(200)
    # The first steps of a stream that expects many examples are long, so bsgd's scores are large for a while.
    expected = {"examples": len(X)} if name == "bsgd" else {}
    solver = taught(X, (y > 0).astype(np.int64), name, **expected)
    view, rows = solver.view(), rows_of(X, solver.dtype)
    assert np.array_equal(informativeness("active", view.decision(rows)), -np.abs(solver.decision(rows)[:, 0]))
    assert is_wanted(view.decision(rows), view.delta).any()


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="strategy must be one of random, gradient, active, autoactive, got 'best'"):
        informativeness("best", SCORES)
    with pytest.raises(ValueError, match="needs the examples' classes"):
        informativeness("gradient", SCORES)
    with pytest.raises(ValueError, match="random must be one uint64"):
        Unseen(1, np.zeros(1))


@given(st.integers(0, 2**63), st.integers(1, 30), st.data())
def test_unseen_numbers_are_drawn_without_repetition_until_none_is_left(seed, size, data):
    unseen, removed = Unseen(size, generator(seed)), set()
    while unseen.left:
        sample = unseen.draw(data.draw(st.integers(1, 10)))
        assert len(set(sample.tolist())) == sample.size
        assert not removed & set(sample.tolist())
        place = data.draw(st.integers(0, sample.size - 1))
        assert unseen.remove(place) == sample[place]
        removed.add(int(sample[place]))
    assert removed == set(range(size))
