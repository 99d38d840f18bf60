"""The rows that LASVM computes ahead do not change its results."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.solvers.core import ahead, turns
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rowcache import VALUES
from hinged.solvers.dual.lasvm import LASVM
from tests.helpers.solvers.streams import Stream, same, settled

DIM = 8


def clouds(classes, n, seed):
    """Return examples of overlapping clouds whose labels change half way, so that many points are removed."""
    random = np.random.default_rng(seed)
    y = random.integers(0, classes, n)
    X = random.standard_normal((classes, DIM))[y] + 0.8 * random.standard_normal((n, DIM))
    X[random.random(X.shape) < 0.4] = 0.0
    return settled(X), np.where(np.arange(n) < n // 2, y, (y + 1) % classes)


class Watched(Stream):
    """A stream that records when its solver looked ahead and when its points moved."""

    def __init__(self, *given, **parameters):
        super().__init__(*given, kernel=make_kernel("rbf", 0.2), name="lasvm", **parameters)
        self.looked, self.compacted = 0, 0
        look, compact = self.solver._look_ahead, self.solver.compact

        def looks(batch, done):
            found, part = look(batch, done)
            self.looked += found is self.solver.ahead
            return found, part

        def compacts():
            self.compacted += 1
            compact()

        self.solver._look_ahead, self.solver.compact = looks, compacts


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_rows_that_were_computed_ahead_leave_no_trace(data):
    """This is true for any batches, for removed or moved points, and wherever learning is cut."""
    classes, n = data.draw(st.sampled_from([2, 3, 5])), 1200
    X, y = clouds(classes, n, data.draw(st.integers(0, 99)))
    parameters = {
        "C": data.draw(st.sampled_from([1.0, 100.0])),
        "cache_bytes": data.draw(st.sampled_from([1, 2**18, 2**26])),
        "idle_max": data.draw(st.sampled_from([0, 2000])),
        "dtype": data.draw(st.sampled_from([np.float32, np.float64])),
        **data.draw(st.sampled_from([{}, {"points_max": 300, "when_full": "remove"}])),
    }
    alone = Watched(X, y, batch=64, **parameters).learn()
    assert alone.looked == 0
    together, begin = Watched(X, y, **parameters), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "COLUMNS_BYTES_LEAST", 1)
        patch.setattr(turns, "WORK_MAX", data.draw(st.sampled_from([1, 3000, turns.WORK_MAX])))
        while begin < n:
            together.batch = data.draw(st.sampled_from([1, 3, 30, 33, 100, 256]))
            end = min(begin + together.batch, n)
            together.learn(begin, end)
            begin = end
    same(alone.solver.state(), together.solver.state())
    assert np.array_equal(np.concatenate(alone.scores), np.concatenate(together.scores))


def test_points_that_moved_together_have_rows_computed_anew(monkeypatch):
    monkeypatch.setattr(ahead, "COLUMNS_BYTES_LEAST", 1)
    X, y = clouds(3, 3000, 7)
    stream = Watched(X, y, batch=256, C=1.0, idle_max=0).learn()
    assert stream.compacted > 0
    assert stream.looked >= (3000 - 256) // ahead.ROWS


def test_rows_ahead_are_counted_among_kernel_values_and_take_memory(monkeypatch):
    X, y = clouds(3, 1024, 3)
    values, memory = [], []
    for least in (2**60, 1):
        monkeypatch.setattr(ahead, "COLUMNS_BYTES_LEAST", least)
        stream = Watched(X, y, batch=256, C=1.0).learn()
        values.append(stream.solver.cache.counters[VALUES])
        memory.append(stream.solver.memory_bytes())
    assert values[0] <= values[1] < 1.2 * values[0]
    assert memory[0] < memory[1]


def test_one_example_per_call_is_learned_without_looking_ahead(monkeypatch):
    monkeypatch.setattr(ahead, "COLUMNS_BYTES_LEAST", 1)
    X, y = clouds(2, 300, 1)
    stream = Watched(X, y, batch=1, C=1.0).learn()
    assert isinstance(stream.solver, LASVM)
    assert stream.looked == 0


@pytest.mark.parametrize("cache_bytes", [2**20, 2**21])
def test_lines_of_a_cache_that_cannot_hold_all_rows_are_as_long_as_needed(cache_bytes):
    X, y = clouds(3, 3000, 5)
    stream = Watched(X, y, batch=256, C=1.0, cache_bytes=cache_bytes)
    narrow = 0
    for begin in range(0, 3000, 256):
        stream.learn(begin, min(begin + 256, 3000))
        lines, slots = stream.solver.cache.lines, stream.solver.slots
        assert lines.shape[1] >= slots
        if stream.solver.points.start.size**2 * 4 > cache_bytes:
            narrow += lines.shape[1] < stream.solver.points.start.size
            assert lines.shape[0] * lines.shape[1] * 4 >= 0.7 * cache_bytes
        assert lines.nbytes <= cache_bytes
    assert narrow > 3


@pytest.mark.long
def test_lines_are_as_short_as_the_points_while_columns_are_finished():
    """More rows then fit in the cache.

    The result has the same bits as with a cache of all rows, and learning continues.
    """
    X, y = clouds(3, 3000, 5)
    narrow, roomy = (Watched(X, y, batch=256, C=100.0, idle_max=0, cache_bytes=size) for size in (2**20, 2**28))
    for stream in (narrow, roomy):
        stream.learn(0, 2500)
    before = narrow.solver.cache.lines.shape
    for stream in (narrow, roomy):
        stream.solver.finish()
    after = narrow.solver.cache.lines.shape
    assert after[0] > before[0]
    assert narrow.solver.slots <= after[1] < before[1]
    for stream in (narrow, roomy):
        stream.learn(2500, 3000)
    assert narrow.solver.cache.lines.shape[1] >= narrow.solver.slots
    same(narrow.solver.state(), roomy.solver.state())
