import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.scores import selection
from hinged.solvers.scores.selection import STRATEGIES, Unseen, distances, is_wanted, learn_selected, margins, pick
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


class FixedView:
    """A view whose decision values are the row's first features."""

    def __init__(self, columns=1, delta=0.0):
        self.delta = np.full(columns, delta)
        self.size = 0
        self.asked = []

    def decision(self, rows):
        dense = np.zeros((len(rows), rows.dim))
        for r in range(len(rows)):
            part = slice(rows.indptr[r], rows.indptr[r + 1])
            dense[r, rows.indices[part]] = rows.values[part]
        self.asked.append(len(rows))
        return dense[:, : self.delta.size]


class FixedSolver:
    """A solver that learns nothing and records its arguments."""

    def __init__(self, columns=1, delta=0.0):
        self.shown, self.order = FixedView(columns, delta), []

    def view(self):
        return self.shown

    def learn(self, rows, classes, keys):
        assert len(rows) == 1
        self.order.append((int(keys[0]), int(classes[0])))


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


# -- picking among given rows ---------------------------------------------------------------------------------------

VALUES = np.array([0.9, -0.1, 2.0, -1.5, 0.3])
SIDES = np.array([1, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("strategy", "order"), [("active", [1, 4, 0, 3, 2]), ("autoactive", [1, 4, 0, 3, 2]), ("gradient", [2, 4, 1, 0, 3])]
)
def test_pick_ranks_all_rows(strategy, order):
    got = pick(strategy, FixedView(), rows_of(VALUES[:, None]), 5, generator(), classes=SIDES)
    assert got.tolist() == order


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_rows_are_picked_equally_often(strategy):
    random, rows = generator(3), rows_of(np.zeros((5, 1)))
    counts = np.zeros((5, 5))
    for _ in range(2000):
        got = pick(strategy, FixedView(), rows, 5, random, classes=np.zeros(5, int))
        counts[np.arange(5), got] += 1
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400 * 0.8)


def test_randomized_search_looks_at_so_many_rows_and_no_more():
    view, rows = FixedView(), rows_of(np.linspace(0.0, 1.0, 200)[:, None])
    random = generator(1)
    best = [int(pick("active", view, rows, 1, random, searched=50)[0]) for _ in range(400)]
    assert set(view.asked) == {50}
    # Row k is the best of 50 if it is in the sample and no better row is: the mean is (200 - 50) / 51.
    assert abs(np.mean(best) - 150 / 51) < 0.5


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_can_be_asked(name):
    X, y = two_moons(200)
    # The first steps of a stream that expects many examples are long, so bsgd's scores are large for a while.
    expected = {"examples": len(X)} if name == "bsgd" else {}
    solver = taught(X, (y > 0).astype(np.int64), name, **expected)
    view, rows = solver.view(), rows_of(X, solver.dtype)
    got = pick("active", view, rows, 10, generator())
    assert np.array_equal(np.sort(np.abs(solver.decision(rows)[:, 0]))[:10], np.abs(solver.decision(rows)[got, 0]))
    assert is_wanted(view.decision(rows), view.delta).any()


def test_pick_refuses_invalid_arguments():
    rows = rows_of(VALUES[:, None])
    with pytest.raises(ValueError, match="strategy must be one of random, gradient, active, autoactive, got 'best'"):
        pick("best", FixedView(), rows, 1, generator())
    with pytest.raises(ValueError, match="needs the examples' classes"):
        pick("gradient", FixedView(), rows, 1, generator())
    with pytest.raises(ValueError, match="n must be from 0 to the 5 rows looked at, got 6"):
        pick("active", FixedView(), rows, 6, generator())
    with pytest.raises(ValueError, match="n must be from 0 to the 2 rows looked at, got 3"):
        pick("random", FixedView(), rows, 3, generator(), searched=2)
    with pytest.raises(ValueError, match="random must be one uint64"):
        pick("active", FixedView(), rows, 1, np.zeros(1))


# -- learning by selection ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seeds", [0, 3])
def test_every_example_is_learned_once_with_its_own_class(strategy, seeds):
    X = np.random.default_rng(0).standard_normal((137, 1))
    classes = (X[:, 0] > 0.3).astype(np.int64)
    solver = FixedSolver()
    choices = list(learn_selected(solver, rows_of(X), classes, generator(), strategy=strategy, seeds=seeds))
    assert sorted(c.example for c in choices) == list(range(137))
    assert solver.order == [(c.example, classes[c.example]) for c in choices]
    first = classes[[c.example for c in choices[: 2 * seeds]]]
    assert (first == 0).sum() == (first == 1).sum() == seeds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_generator_gives_the_same_order(strategy):
    X, y = two_moons(120)
    classes = (y > 0).astype(np.int64)

    def order(seed):
        chosen = learn_selected(untaught(), rows_of(X), classes, generator(seed), strategy=strategy)
        return [c.example for c in chosen]

    assert order(5) == order(5)
    assert order(5) != order(6)


@pytest.mark.parametrize("seeds", [0, 1])
def test_random_selection_makes_every_order_equally_likely(seeds):
    random, rows, classes = generator(2), rows_of(np.zeros((4, 1))), np.array([0, 0, 1, 1])
    counts = {}
    for _ in range(4800):
        solver = FixedSolver()
        for _choice in learn_selected(solver, rows, classes, random, strategy="random", seeds=seeds):
            pass
        order = tuple(k for k, _ in solver.order)
        counts[order] = counts.get(order, 0) + 1
    # With one seed per class, an order begins with an example of each class: 4 * 2 * 2 of 24 orders.
    orders = 16 if seeds else 24
    assert len(counts) == orders
    assert max(abs(n - 4800 / orders) for n in counts.values()) < 5 * np.sqrt(4800 / orders)


def test_the_best_of_the_searched_is_chosen_each_time():
    X = np.random.default_rng(1).standard_normal((60, 1)).astype(np.float32)
    classes = (np.arange(60) % 2).astype(np.int64)
    y = 2 * classes - 1
    for strategy, wish in (("active", -np.abs(X[:, 0])), ("gradient", -y * X[:, 0])):
        solver = FixedSolver()
        chosen = learn_selected(solver, rows_of(X), classes, generator(), strategy=strategy, searched=60, seeds=0)
        assert [c.example for c in chosen] == np.argsort(-wish, kind="stable").tolist()


@given(st.integers(0, 2**63), st.lists(st.floats(0, 4, width=32), min_size=1, max_size=150), st.floats(0, 2))
def test_autoactive_stops_looking_at_the_fifth_inside_the_margin(seed, values, delta):
    X = np.array(values)[:, None]
    solver, random = FixedSolver(delta=delta), generator(seed)
    sample = Unseen(len(X), random.copy()).draw(selection.AUTO_SEARCHED)
    choice = next(
        learn_selected(solver, rows_of(X), np.zeros(len(X), np.int64), random, strategy="autoactive", seeds=0)
    )
    looked_at, inside = 0, 0
    while looked_at < len(sample) and inside < 5:
        inside += X[sample[looked_at], 0] < 1 + delta / 2
        looked_at += 1
    assert choice.looked_at == looked_at
    assert choice.example == min(sample[:looked_at], key=lambda k: X[k, 0])
    assert choice.distance == X[choice.example, 0]
    assert choice.wanted == (X[choice.example, 0] < 1 + delta / 2)


def test_learning_ends_where_the_hook_says_so():
    X = np.linspace(0.0, 2.0, 50)[:, None]
    solver = FixedSolver()
    chosen = learn_selected(
        solver, rows_of(X), np.zeros(50, np.int64), generator(), searched=50, seeds=0, stop=lambda c: not c.wanted
    )
    assert [c.example for c in chosen] == list(range(25))
    assert len(solver.order) == 25


def test_active_selection_reaches_a_good_machine_with_few_labels():
    X, y = two_moons(2000, noise=0.15)
    classes = (y > 0).astype(np.int64)
    solver = untaught(C=10.0)
    for learned, _ in enumerate(learn_selected(solver, rows_of(X), classes, generator()), 1):
        if learned == 150:
            break
    solver.finish()
    assert ((solver.decision(rows_of(X))[:, 0] > 0) == (y > 0)).mean() > 0.97


def test_learn_selected_refuses_invalid_arguments_before_learning():
    rows, classes = rows_of(VALUES[:, None]), SIDES
    for message, changes in (
        ("strategy must be one of", {"strategy": "best"}),
        ("searched must be > 0, got 0", {"searched": 0}),
        ("seeds must be >= 0, got -1", {"seeds": -1}),
        ("random must be one uint64", {"random": np.zeros(2, np.uint64)}),
        ("classes must be one for each of 5 rows", {"classes": SIDES[:3]}),
    ):
        with pytest.raises(ValueError, match=message):
            learn_selected(
                FixedSolver(), rows, changes.pop("classes", classes), changes.pop("random", generator()), **changes
            )


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
