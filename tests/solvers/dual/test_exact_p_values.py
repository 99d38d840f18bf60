"""p-values of full conformal prediction, compared with machines that are fitted again with each example."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from tests.helpers.solvers.exact_streams import Doing, exact_stream

NEAR = 1e-7


def strangeness(X, classes, number, C, kernel):
    """Return 1 - y f(x) of each example of a class, by another solver from the start: the last example is new."""
    dim = X.shape[1]
    machine = make_solver("smo", kernel, dim, C=C, tol=1e-12, dtype=np.float64)
    for _ in range(2):
        machine.add_class()
    positive = (classes == number).astype(np.int64)
    rows = rows_from_dense(X, kernel, dim, np.float64)
    machine.learn(rows, positive, np.arange(len(X)))
    return 1.0 - machine.decision(rows)[positive == 1, 0]


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    n=st.integers(1, 40),
    classes=st.integers(2, 4),
    kernel=st.sampled_from(["linear", "rbf", "laplacian"]),
    C=st.sampled_from([0.1, 1.0, 30.0]),
    copies=st.booleans(),
)
def test_p_values_are_those_of_machines_fitted_again(seed, n, classes, kernel, C, copies):
    doing = Doing(seed, n, classes, kernel, C, copies)
    for _ in range(n):
        doing.do("learn")
    new = np.vstack((doing.random.standard_normal((2, 2)), doing.X[:1]))
    found = doing.solver.p_values(doing.stream.rows(new))
    held = np.array(doing.held)
    for x, p in zip(new, found, strict=True):
        for number in range(classes):
            X = np.vstack((doing.X[held], x))
            labels = np.append(doing.stream.classes[held], number)
            strange = strangeness(X, labels, number, C, doing.solver.kernel)
            # Examples on the margin are equally strange, up to the precision of the other solver.
            assert p[number] == pytest.approx((strange >= strange[-1] - NEAR).mean(), abs=1e-9)


def test_p_values_are_those_of_LIBSVM_in_the_optimum(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    new = np.random.default_rng(3).uniform(X.min(), X.max(), (10, 2))
    for x, p in zip(new, stream.solver.p_values(stream.rows(new)), strict=True):
        for number in (0, 1):
            together, labels = np.vstack((X, x)), np.append(classes, number)
            y = np.where(labels == number, 1, -1)
            fit = SVC(C=2.0, gamma=0.5, tol=1e-10).fit(together, y)
            strange = 1.0 - y * fit.decision_function(together)
            assert p[number] == pytest.approx((strange >= strange[-1] - 1e-5)[labels == number].mean(), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("binary", [False, True])
def test_asking_changes_nothing_now_or_later(classes, binary):
    random = np.random.default_rng(classes)
    X = random.integers(0, 2, (300, 6)).astype(float) if binary else random.standard_normal((300, 6))
    labels = (X[:, :2].sum(axis=1) + random.standard_normal(300)).round().astype(int).clip(0, classes - 1)
    asked, plain = (exact_stream(X, labels, C=3.0, announced=classes) for _ in range(2))
    view = None
    for begin in range(0, 300, 20):
        before = asked.solver.state()
        if view is not None:
            expected = view.decision(asked.rows(X))
        answers = asked.solver.p_values(asked.rows(random.standard_normal((3, 6))))
        assert ((answers > 0) & (answers <= 1)).all()
        assert all(before[name].tobytes() == array.tobytes() for name, array in asked.solver.state().items())
        if view is not None:
            assert view.decision(asked.rows(X)).tobytes() == expected.tobytes()
        for stream in (asked, plain):
            stream.learn(begin, begin + 20)
            stream.solver.unlearn([begin + 7])
        view = asked.solver.view()
    states = asked.solver.state(), plain.solver.state()
    assert all(states[0][name].tobytes() == array.tobytes() for name, array in states[1].items())
    assert asked.decision(X).tobytes() == plain.decision(X).tobytes()


@pytest.mark.parametrize("when_full", ["refuse", "remove"])
def test_asking_needs_no_room_among_the_points(when_full):
    random = np.random.default_rng(0)
    X, labels = random.standard_normal((256, 2)), np.arange(256) % 2
    stream = exact_stream(X, labels, points_max=256, when_full=when_full).learn()
    before = stream.solver.state()
    stream.solver.p_values(stream.rows(random.standard_normal((2, 2))))
    assert stream.solver.live == 256
    assert all(before[name].tobytes() == array.tobytes() for name, array in stream.solver.state().items())


def test_the_order_in_which_rows_are_asked_does_not_matter(noisy):
    X, classes = noisy
    stream = exact_stream(X, classes, C=2.0).learn()
    new = np.random.default_rng(3).standard_normal((20, 2))
    together = stream.solver.p_values(stream.rows(new))
    alone = [stream.solver.p_values(stream.rows(x[None]))[0] for x in new[::-1]]
    assert together.tolist() == [p.tolist() for p in alone[::-1]]


def test_a_class_without_examples_cannot_be_excluded():
    empty = exact_stream(np.zeros((1, 2)), np.zeros(1, int), announced=2)
    assert empty.solver.p_values(empty.rows(np.ones((2, 2)))).tolist() == [[1.0, 1.0]] * 2
    one = exact_stream(np.zeros((5, 2)), np.zeros(5, int), announced=3).learn()
    assert one.solver.p_values(one.rows(np.ones((1, 2)))).tolist() == [[1.0, 1.0, 1.0]]


def test_copies_are_equally_strange():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 6, axis=0)
    stream = exact_stream(X, np.tile([0, 1], 9), C=1.0).learn()
    assert (stream.solver.p_values(stream.rows(X)) == 1.0).all()


@pytest.mark.long
def test_p_values_of_exchangeable_examples_are_valid_in_each_class():
    random = np.random.default_rng(0)
    own = {0: [], 1: []}
    for _ in range(300):
        X = random.standard_normal((41, 2))
        labels = (X[:, 0] + 0.8 * random.standard_normal(41) > 0.6).astype(int)
        stream = exact_stream(X[:40], labels[:40], C=1.0, announced=2).learn()
        own[int(labels[40])].append(stream.solver.p_values(stream.rows(X[40:]))[0, labels[40]])
    for found in own.values():
        for level in (0.1, 0.2, 0.5):
            assert np.mean(np.array(found) <= level) < level + 3 * np.sqrt(level * (1 - level) / len(found))


def test_another_solver_has_no_p_values():
    kernel = make_kernel("rbf", 0.5)
    machine = make_solver("lasvm", kernel, 2)
    assert machine.p_values(rows_from_dense(np.ones((1, 2)), kernel, 2)) is None
