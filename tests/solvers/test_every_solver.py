"""The promises of every solver, which solvers/core/solver.py states."""

import ctypes
import gc
import mmap
import weakref

import numpy as np
import pytest

from hinged.solvers.catalogue import SOLVERS, make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rowcache import ADVISED_BYTES, touched_bytes
from hinged.solvers.core.rows import rows_from_csr
from hinged.solvers.core.solver import UNBOUNDED, PointsFull
from hinged.solvers.dual.dual import DualExpansion
from tests.helpers.solvers.streams import Stream, machines, same, stream_of, three_classes, two_moons

RBF = make_kernel("rbf", 1.0)
names = pytest.mark.parametrize("name", SOLVERS)


@names
@pytest.mark.parametrize("kernel", [RBF, make_kernel("rbf", 30.0), make_kernel("laplacian", 0.5)])
def test_any_learned_state_passes_examine(name, kernel):
    X, classes = three_classes(300)
    X += np.random.default_rng(2).standard_normal(X.shape)
    X[::9] = X[0]  # the same point under all labels
    stream = stream_of(name, X, classes, kernel=kernel, batch=25)
    solver = stream.solver
    solver.examine()
    for begin in range(0, 300, 50):
        stream.learn(begin, begin + 50)
        solver.examine()
        solver.drop(np.arange(begin, begin + 50, 4))
        solver.examine()
        assert set(solver.keys()) <= set(solver.known())
    stream.learn(0, 100, again=True)
    solver.examine()
    solver.finish()
    solver.examine()
    before = solver.state()
    solver.load(before)
    solver.examine()
    same(solver.state(), before)


@names
def test_a_third_class_may_come_later(name):
    X, classes = three_classes()
    order = np.argsort(classes == 2, kind="stable")  # the third class is learned last
    order = np.concatenate((order[:100], np.random.default_rng(1).permutation(order[100:])))
    stream = stream_of(name, X[order], classes[order], announced=2, batch=10)
    stream.learn(0, 100)
    before = stream.decision(X)
    stream.solver.add_class()
    after = stream.decision(X)
    assert np.allclose(after[:, 1], before[:, 0])
    assert np.allclose(after[:, 0], -before[:, 0])
    for _ in range(2):
        stream.learn(100, 240)
    assert (stream.decision(X).argmax(axis=1) == classes).mean() > 0.8


@names
def test_sparse_rows_give_the_bits_of_dense_ones(name):
    X, classes = three_classes(80)
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (stream_of(name, X, classes) for _ in range(2))

    def shuffled(part):
        keep = part != 0
        indptr = np.concatenate(([0], np.cumsum(keep.sum(axis=1))))
        columns = [np.flatnonzero(k)[::-1] for k in keep]
        values = np.concatenate([row[c] for row, c in zip(part, columns, strict=True)])
        return rows_from_csr(indptr, np.concatenate(columns), values, sparse.kernel, 2, sparse.dtype)

    sparse.rows = shuffled
    for stream in (dense, sparse):
        stream.learn()
    same(dense.solver.state(), sparse.solver.state())


@names
def test_invalid_input_is_refused_before_anything_changes(name):
    X, classes = three_classes(60)
    stream = stream_of(name, X, classes).learn(0, 40)
    before, solver = stream.solver.state(), stream.solver
    good = stream.rows(X[:2])
    wider = Stream(np.ones((2, 3)), [0, 1], dtype=stream.dtype)
    other = Stream(X, classes, dtype=np.float32 if stream.dtype == np.float64 else np.float64)
    for rows, numbers, keys in (
        (good, [0, 3], [1000, 1001]),
        (good, [-1, 0], [1000, 1001]),
        (good, [0], [1000, 1001]),
        (good, [0, 1], [1000]),
        (wider.rows(wider.X), [0, 1], [1000, 1001]),
        (other.rows(X[:2]), [0, 1], [1000, 1001]),
    ):
        with pytest.raises(ValueError, match="must"):
            solver.learn(rows, np.array(numbers), np.array(keys))
        same(solver.state(), before)
    for state in ({**before, "seen": np.zeros(0, np.int64)}, {**before, "weights": np.full(3, np.nan)}, {}):
        with pytest.raises(ValueError, match=r"\w"):
            solver.load(state)
        same(solver.state(), before)
    for parameters in ({"points_max": 1}, {"when_full": "guess"}, {"dtype": np.int64}, {"C": 0.0}, {"C": np.nan}):
        with pytest.raises(ValueError, match="must"):
            make_solver(name, RBF, 2, **parameters)


@pytest.mark.long
@names
def test_points_max_is_never_exceeded(name):
    X, y = two_moons(300, noise=0.5, seed=2)
    stream = stream_of(name, X, (y > 0).astype(int), batch=1, points_max=40)
    full = False
    for k in range(len(X)):
        before = stream.solver.state()
        try:
            stream.learn(k, k + 1)
        except PointsFull:
            full = True
            same(stream.solver.state(), before)
        assert stream.solver.live <= 40
    assert full == (stream.solver.room != UNBOUNDED and stream.solver.room == 0)


@pytest.mark.long
@names
def test_where_it_may_remove_it_goes_on_at_points_max(name):
    X, y = two_moons(400, seed=2)
    stream = stream_of(name, X, (y > 0).astype(int), batch=7, points_max=60, when_full="remove")
    for k in range(0, len(X), 7):
        stream.learn(k, min(k + 7, len(X)))
        assert stream.solver.live <= 60
    assert (np.sign(stream.decision(X)[:, 0]) == y).mean() > 0.8
    certificate = stream.solver.certificate()
    assert certificate["gap"] is None or certificate["gap"] >= 0


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, entry in SOLVERS.items() if issubclass(entry.make, DualExpansion)])
def test_where_it_may_remove_wrong_labels_do_not_drive_out_what_it_has_learned(name):
    X, y = two_moons(2000, seed=2)
    wrong = np.random.default_rng(0).random(len(y)) < 0.2
    labels = (np.where(wrong, -y, y) > 0).astype(int)
    stream = stream_of(name, X, labels, C=1.0, batch=50, points_max=200, when_full="remove").learn(0, 1000)
    right = []
    for begin in range(1000, 2000, 50):
        right.append(np.sign(stream.decision(X[begin : begin + 50])[:, 0]) == y[begin : begin + 50])
        stream.learn(begin, begin + 50)
    assert np.mean(right) > 0.85


@names
@pytest.mark.parametrize("first", [0, 1])
def test_one_class_alone_is_predicted(name, first):
    X, _ = two_moons(60)
    stream = stream_of(name, X, np.full(60, first), announced=2, batch=7).learn()
    score = stream.decision(X)[:, 0] * (1 if first else -1)
    assert (score > 0).mean() > 0.95


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *((name, {}) for name in SOLVERS),
        *((name, {"maintenance": m}) for name in ("bsca", "bsgd") for m in ("remove", "project")),
        ("bsca", {"merging": "golden"}),
        ("bsca", {"step_max": None, "averaging": None}),
        ("bsgd", {"averaging": None}),
        ("lasvm", {"second_order": True}),
        ("lasvm", {"delta_max": 1.0}),
        ("lasvm-nc", {"ramp_s": 0.5}),
        ("lasvm-i", {"ramp_s": 0.5}),
    ],
)
def test_late_positives_are_learned(name, parameters):
    """Learn 800 negatives, then 1 % positives.

    The positives must not count as outliers, and the solver must not keep all negatives as points.
    """
    random = np.random.default_rng(3)
    y = np.where(random.random(2000) < 0.01, 1, 0)
    y[:800] = 0
    X = np.where(y[:, None] == 1, [1.5, 1.5], [0.0, 0.0]) + 0.35 * random.standard_normal((2000, 2))
    stream = stream_of(name, X, y, announced=2, batch=50, **parameters).learn()
    right = (stream.decision(X)[:, 0] > 0) == (y == 1)
    assert right[y == 1].mean() > 0.7
    assert right[y == 0].mean() > 0.9


ONE_ROW = (
    "lasvm", "lasvm-g", "full", "lasvm-nc", "lasvm-i", "perceptron", "averaged-perceptron", "ogd", "rbp", "forgetron",
    "projectron",
)  # fmt: skip


@pytest.mark.parametrize("name", ONE_ROW)
def test_all_columns_share_the_kernel_row_of_an_example(name):
    X, classes = three_classes()
    stream = stream_of(name, 3 * X, classes)
    for again in (False, True, True):
        stream.learn(again=again)
    solver = stream.solver
    solver.finish()
    sides = np.where(np.arange(3) == classes[:, None], 1, -1)
    sure = (
        (stream.decision(stream.X) * sides).min(axis=1).argmax()
    )  # learning it changes no column, so only its row is computed
    before = solver.certificate()
    solver.learn(stream.rows(stream.X[[sure]] + 0.001), classes[[sure]], np.array([999]))
    taken = solver.certificate()["kernel_evaluations"] - before["kernel_evaluations"]
    assert before["points"] <= taken <= before["points"] + 1  # with itself


@names
def test_a_view_stays_what_it_was_while_learning_goes_on(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes).learn(0, 120)
    view, rows = stream.solver.view(), stream.rows(X)
    before = view.decision(rows)
    stream.learn(120, 240)
    stream.solver.finish()
    assert np.array_equal(view.decision(rows), before)
    assert view.delta.shape == (3,)
    assert (view.delta >= 0).all()
    assert view.size >= 0


def arrays_of(stream):
    """Return the arrays that the machines of a solver contain."""
    parts = [part for solver in machines(stream.solver) for part in vars(solver).values()]
    flat = [array for part in parts for array in (part if isinstance(part, tuple) else (part,))]
    return [array for array in flat if isinstance(array, np.ndarray)]


@names
def test_the_arrays_of_a_solver_are_freed_with_it(name):
    X, classes = three_classes()
    gc.freeze()  # earlier objects are not searched, which would take longer than the test
    stream, other = (stream_of(name, X, classes).learn() for _ in range(2))
    stream.learn(again=True)
    stream.solver.finish()
    stream.decision(X)
    of_all = {id(array) for array in arrays_of(other)}  # shared tables
    held = [weakref.ref(array) for array in arrays_of(stream) if id(array) not in of_all]
    assert held
    del stream
    gc.collect()
    gc.unfreeze()
    assert [array().shape for array in held if array() is not None] == []


@names
def test_a_second_epoch_enters_no_example_twice(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes).learn()
    seen = stream.solver.seen.copy()
    stream.learn(again=True)
    assert np.array_equal(stream.solver.seen, seen)
    state = stream.solver.state()
    if "key" in state:
        held = state["key"][state["class_of"] >= 0]
        held = held[held >= 0]  # a merged point is not an example
        assert np.unique(held).size == held.size
    assert (stream.decision(X).argmax(axis=1) == classes).mean() > 0.8


@names
def test_the_weight_of_a_class_moves_the_border(name):
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, 300)
    X = random.standard_normal((300, 2)) + np.where(classes == 1, 0.7, -0.7)[:, None] * [1.0, 0.0]
    found = []
    for weight in (0.1, 10.0):
        stream = stream_of(name, X, classes, announced=0, C=0.5)
        stream.solver.add_class(1.0)
        stream.solver.add_class(weight)
        stream.learn()
        found.append((stream.decision(X)[:, 0] > 0).mean())
    assert found[0] < found[1]


@names
def test_a_certificate_has_all_fields(name):
    X, classes = three_classes()
    stream = stream_of(name, X, classes).learn()
    stream.solver.finish()
    certificate = stream.solver.certificate()
    assert list(certificate) == [
        "support_vectors", "points", "kernel_evaluations", "steps", "dual", "primal", "gap", "kkt_violation",
        "weight_degradation", "converged",
    ]  # fmt: skip
    assert 0 <= certificate["support_vectors"] <= certificate["points"] == stream.solver.live
    assert stream.solver.memory_bytes() > 0
    if certificate["gap"] is not None:
        assert certificate["gap"] >= 0
        assert certificate["primal"] >= certificate["dual"]


def resident_bytes(array):
    """Return the memory that the system has provided for the pages of an array, in bytes."""
    begin = array.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    size = array.ctypes.data + array.nbytes - begin
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(begin), ctypes.c_size_t(size), pages) == 0
    return mmap.PAGESIZE * sum(page & 1 for page in pages)


@pytest.mark.parametrize("name", [name for name, entry in SOLVERS.items() if issubclass(entry.make, DualExpansion)])
def test_the_memory_reported_is_what_kernel_rows_take_after_any_use(name):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1_200, 2))
    stream = stream_of(name, X, (X[:, 0] + rng.normal(size=len(X)) > 0).astype(np.int32)).learn()
    solver = stream.solver
    for change in (lambda: None, solver.finish, lambda: solver.drop(solver.keys()[:100]), solver.finish):
        change()
        # Smaller arrays get their pages from the heap, where other code has written before.
        taken = resident_bytes(solver.cache.lines) if solver.cache.lines.nbytes >= ADVISED_BYTES else 0
        assert taken - 2 * mmap.PAGESIZE <= touched_bytes(solver.cache) <= solver.memory_bytes()


def test_kernel_rows_that_a_finishing_step_has_emptied_take_no_memory():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1_200, 2))
    stream = stream_of("lasvm", X, (X[:, 0] + rng.normal(size=len(X)) > 0).astype(np.int32)).learn()
    before = stream.solver.memory_bytes()
    stream.solver.finish()
    assert touched_bytes(stream.solver.cache) == 0
    assert stream.solver.memory_bytes() < before / 4


@names
def test_contributions_add_up_to_the_decision_value(name):
    X, classes = three_classes(120)
    solver = stream_of(name, X, classes).learn().solver
    rows = rows_from_csr([0, 2], [0, 1], [0.3, 0.4], RBF, 2, solver.dtype)
    found = solver.contributions(rows)
    if found is None:
        assert solver.keys().size == 0
        return
    bias = solver.view().b
    assert np.allclose(found.parts.sum(axis=1) + bias, solver.decision(rows)[0], atol=1e-4)
    assert np.array_equal(found.classes, classes[found.keys])
    assert found.keys.size == solver.live
    if not found.merged.any():
        assert np.unique(found.keys).size == found.keys.size


@names
def test_the_scores_of_its_own_points_are_its_decision_values(name):
    X, classes = three_classes(120)
    stream = stream_of(name, X, classes).learn()
    found = stream.solver.point_scores()
    if found is None:
        return
    assert np.array_equal(found.keys, stream.solver.keys())
    assert found.scores.shape == (stream.solver.live, 3)
    averages = name.startswith("tracking") or name == "averaged-perceptron"
    if not averages and not stream.solver.contributions(stream.rows(X[:1])).merged.any():
        assert np.allclose(found.scores, stream.decision(X[found.keys]), atol=1e-4)
