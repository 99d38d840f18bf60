"""Decision values over the points with a coefficient, against plain sums over all slots: to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.core import points as pts
from hinged.solvers.core import turns
from hinged.solvers.core.counts import NONE
from hinged.solvers.core.decision import ExpansionView, blocks_of
from hinged.solvers.core.kernels import kernel_row, make_kernel
from hinged.solvers.core.points import points_from_rows
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.core.simd.lanes import LANES
from hinged.solvers.core.terms import POINTS, listed_terms
from hinged.solvers.jit.compiled import compiled
from tests.helpers.solvers.streams import stream_of, three_classes, two_moons


@compiled
def kernel_rows(kernel, points, n, spread, indptr, indices, values, norms, found):
    for r in range(norms.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        kernel_row(kernel, indices[first:last], values[first:last], norms[r], points, 0, n, spread, found[r])


def in_lanes(terms):
    """The sum of the terms, in the order of lanes.py."""
    width, begin = LANES, len(terms) - len(terms) % LANES
    lanes = np.zeros(width)
    for s in range(0, begin, width):
        lanes += terms[s : s + width]
    while width > 1:
        width //= 2
        lanes = lanes[:width] + lanes[width:]
        if len(terms) & width:
            lanes += terms[begin : begin + width]
            begin += width
    return lanes[0]


def plainly(view, rows):
    """Decision values by their definition: the sums of all blocks of slots, one after another."""
    n, alpha = view.n, view.coefficients()
    found = np.empty((len(rows), n), rows.values.dtype)
    spread = np.zeros(view.dim, rows.values.dtype)
    kernel_rows(view.kernel, view.points, n, spread, rows.indptr, rows.indices, rows.values, rows.norms, found)
    scores = np.zeros((len(rows), view.b.size))
    for c, column in enumerate(alpha):
        for r, row in enumerate(found):
            for s in range(0, n, POINTS):
                scores[r, c] += in_lanes(column[s : s + POINTS] * row[s : s + POINTS].astype(np.float64))
    return scores + view.b


def has_the_bits_of_all_slots(solver, batches):
    """Ask again and again, the first time over all slots; return the number of points used at last, and of all."""
    view = solver.view()
    if not isinstance(view, ExpansionView):
        return None
    for rows in (*batches, *batches):
        expected = plainly(view, rows)
        np.testing.assert_array_equal(view.decision(rows), expected)
        np.testing.assert_array_equal(view.decision(rows.part(0, 1)), expected[:1])
    return view.size, view.n


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "gathered"])
@pytest.mark.parametrize("name", SOLVERS)
def test_whatever_happens_a_solver_decides_with_the_bits_of_the_sum_over_all_slots(name, columns, monkeypatch):
    if not columns:
        monkeypatch.setattr(pts, "COLUMNS_BYTES_MAX", 0)
    X, numbers = three_classes(340)
    stream = stream_of(name, X, numbers, announced=2, points_max=2000)
    holed = X[:11] * (np.arange(2) == np.arange(11)[:, None] % 2)
    batches = [stream.rows(X[:7]), stream.rows(holed)]
    first = np.flatnonzero(numbers < 2)

    def learn(chosen, again=False):
        stream.solver.learn(stream.rows(X[chosen]), numbers[chosen], chosen, again=again)

    def loaded():
        other = stream_of(name, X, numbers, announced=0, points_max=2000).solver
        other.load(stream.solver.state())
        stream.solver = other

    sizes = []
    for happens in (
        lambda: None,
        lambda: learn(first[:1]),
        lambda: learn(first[1:180]),
        lambda: [stream.solver.add_class()],
        lambda: learn(np.arange(300, 340)),
        lambda: learn(np.setdiff1d(np.arange(300), first[:180])),
        lambda: learn(stream.solver.keys()[:9], again=True),
        lambda: [stream.solver.finish()],
        lambda: stream.solver.drop(stream.solver.keys()[3::7]),
        loaded,
        lambda: stream.solver.fade(0.5) if stream.solver.fades else None,
        lambda: stream.solver.drop(stream.solver.keys()[::2]),
        lambda: [stream.solver.compact()],
    ):
        happens()
        sizes.append(has_the_bits_of_all_slots(stream.solver, batches))
    if name in {"smo", "full", "exact", "tracking-2"}:
        assert sizes[7][0] < 0.7 * sizes[7][1]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_points_with_any_coefficients_are_decided_with_the_bits_of_the_sum_over_all_slots(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    n, m, dim, columns = (data.draw(st.integers(*ends)) for ends in ((0, 1100), (1, 40), (1, 9), (1, 4)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = random.standard_normal((max(n, m, 1), dim)) * (random.random(dim) < data.draw(st.sampled_from([0.3, 1.0])))
    if data.draw(st.booleans()):
        X = (X > 0).astype(float)  # every non-zero is 1
    kernel = make_kernel(data.draw(st.sampled_from(["linear", "rbf", "laplacian", "polynomial"])), 0.5)
    rows = rows_from_dense(X, kernel, dim, dtype)
    shares = np.array([data.draw(st.sampled_from([0.0, 0.002, 0.02, 0.3])) for _ in range(columns)])[:, None]
    alpha = np.where(random.random((columns, n)) < shares, random.standard_normal((columns, n)) * 10.0**shares, 0)
    listed = np.array([data.draw(st.booleans()) for _ in range(columns)])
    terms = None
    if listed.any():
        held = [np.flatnonzero(column) if of else [] for column, of in zip(alpha, listed, strict=True)]
        terms = listed_terms(
            np.where(listed, (alpha != 0).sum(axis=1), NONE),
            np.concatenate(held).astype(np.int32),
            np.concatenate([alpha[c, slots] for c, slots in enumerate(held) if len(slots)] or [np.zeros(0)]),
        )
    b = random.standard_normal(columns)
    view = ExpansionView(
        kernel, points_from_rows(rows.part(0, n), dim), n, alpha[~listed] if terms else alpha, b, b, dim, terms
    )
    np.testing.assert_array_equal(view.coefficients(), alpha)
    batch = rows.part(0, min(m, len(rows)))
    expected = plainly(view, batch)
    for at_once in (1, len(batch), 3):
        parts = [batch.part(r, min(r + at_once, len(batch))) for r in range(0, len(batch), at_once)]
        np.testing.assert_array_equal(np.concatenate([view.decision(part) for part in parts]), expected)
    view.asked.work = np.inf
    before, turns.WORK_MAX = turns.WORK_MAX, data.draw(st.sampled_from([1, turns.WORK_MAX]))
    try:
        for part in (batch, *(batch.part(r, r + 1) for r in range(len(batch)))):
            view.decision(part)
        np.testing.assert_array_equal(view.decision(batch), expected)
    finally:
        turns.WORK_MAX = before
    if n:
        assert view.size <= n


def test_predictions_go_over_support_vectors_alone_once_they_have_paid_for_the_copy():
    X, y = two_moons(3000)
    stream = stream_of("smo", X, (y > 0).astype(int), batch=3000, C=1.0).learn()
    support_vectors = stream.solver.certificate()["support_vectors"]
    view = stream.solver.view()
    view.decision(stream.rows(X[:1]))
    assert view.size == 3000
    view.decision(stream.rows(X[:100]))
    assert view.size == support_vectors < 1500


def test_a_call_that_is_short_stays_short():
    random = np.random.default_rng(0)
    kernel, X = make_kernel("rbf", 0.01), random.standard_normal((4000, 2000))
    rows = rows_from_dense(X, kernel, 2000)
    alpha = (np.arange(4000) % 2 == 0) * 1.0
    view = ExpansionView(kernel, points_from_rows(rows, 2000), 4000, alpha[None], np.zeros(1), np.zeros(1), 2000)
    narrow = rows_from_dense(X[:1] * (np.arange(2000) < 60), kernel, 2000)
    for _ in range(1000):
        view.decision(narrow)
    assert view.size == 4000
    view.decision(rows.part(0, 10))
    assert view.size == 2000


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=1500, unique=True))
def test_blocks_are_of_whole_blocks_of_slots(slots):
    held = np.sort(np.array(slots, np.int64))
    blocks = blocks_of(held)
    assert blocks[0] == 0
    assert blocks[-1] == held.size
    assert (np.diff(blocks) > 0).all()
    assert (np.diff(blocks) <= POINTS).all()
    for at in blocks[1:-1]:
        assert held[at - 1] // POINTS < held[at] // POINTS
