import json
import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.features.records import canonical
from hinged.service.data.features.spread import spread_of
from hinged.service.data.features.vocabulary import NAMES_SHOWN, Vocabulary
from hinged.solvers.estimators.scaling import CLIP, found
from tests.helpers.vocabularies import dense, streamed, taught, whole

names = st.sampled_from("abcdef")
values = st.sampled_from([True, False, "u", "v", "true", None, 0, 1, -2.5, 1e100, -1e100, 1e-300, 7]) | st.floats(-9, 9)
moments = st.sampled_from(["2026-05-01", "2026-05-01T12:30", "2026-04-30T23:00Z", "soon", "2025-01-01 00:00", "u", 3])
texts = st.sampled_from(["a word", "two words, two", "", "2026-05-01", True])
streams = st.lists(st.dictionaries(names, values, max_size=5).map(canonical), max_size=40)

spoken = st.lists(
    st.fixed_dictionaries({}, optional={"a": values, "t": moments, "w": moments, "n": texts}).map(canonical),
    max_size=40,
)
KINDS = {"w": "time", "n": "text", "u": "category"}


def test_numbers_are_standardised_and_strings_and_booleans_are_one_hot():
    ages = [20, 30, 40, 50]
    records = [{"age": age, "job": job, "on": on} for age, job, on in zip(ages, "xyxx", [True, False] * 2, strict=True)]
    vocabulary = Vocabulary(4, 100)
    vocabulary.observe(records)
    table = dense(vocabulary.freeze(), len(vocabulary))
    expected = (np.array(ages) - 35) / np.std(ages)
    assert np.array_equal(table, np.c_[expected, [1, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 0], [0, 1, 0, 1]])
    later = dense(vocabulary.encode([{"age": 35}, {"age": 45, "job": "y"}, {}]), len(vocabulary))
    assert np.array_equal(later, [[0] * 5, [10 / np.std(ages), 0, 0, 1, 0], [0] * 5])


def test_a_name_with_numbers_and_strings_has_columns_for_both():
    vocabulary = taught([{"a": 1}, {"a": "1"}, {"a": 3}, {"a": True}])
    table = dense(vocabulary.encode([{"a": 3}, {"a": "1"}, {"a": True}, {"a": "true"}]), 4)
    assert np.array_equal(table, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


def test_a_name_whose_numbers_are_all_equal_is_scaled_by_their_size():
    vocabulary = taught([{"a": 0.1, "b": 0}] * 3)
    assert np.array_equal(dense(vocabulary.encode([{"a": 0.1, "b": 0}, {"a": 0.2, "b": 2}]), 2), [[0, 0], [1, 2]])


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1e100, 1e100), st.floats(0, 9)), min_size=1, max_size=30), st.floats())
def test_with_tails_numbers_get_the_same_bits_as_dense_columns(rows, later):
    X = np.array(rows) + 0.0
    vocabulary = Vocabulary(len(X), 9, tails=True)
    records = [canonical({"a": a, "b": b}) for a, b in X.tolist()]
    vocabulary.observe(records)
    table = dense(vocabulary.freeze(), 2)
    scale = found("dense", csr_of(X), 2)
    assert np.array_equal(table, scale.matrix(X))
    if abs(later) <= 1e100:
        row = dense(vocabulary.reader().encode([{"a": later, "b": 0.0}]), 2)
        assert np.array_equal(row, scale.matrix([[later + 0.0, 0.0]]))


def csr_of(X):
    held = X != 0
    return np.concatenate(([0], np.cumsum(held.sum(axis=1)))), np.nonzero(held)[1], X[held]


def test_a_bent_column_is_forgotten_and_a_state_that_bends_a_string_is_refused():
    records = [{"a": 10.0 ** (n % 7), "job": "xy"[n % 2]} for n in range(40)]
    vocabulary = Vocabulary(40, 9, tails=True)
    vocabulary.observe(records)
    vocabulary.freeze()
    facts, arrays = vocabulary.state()
    assert arrays["unit"][0] > 0
    job = [value for _, value in facts["columns"]].index("x")
    for part, number, said in (("unit", 2.0, "must not be bent"), ("middle", -1.0, "must not be bent")):
        wrong = {**arrays, part: arrays[part].copy()}
        wrong[part][job] = number
        with pytest.raises(ValueError, match=said):
            Vocabulary(40, 9, tails=True).load(facts, wrong)
    with pytest.raises(ValueError, match="mean of a bent column"):
        Vocabulary(40, 9, tails=True).load(facts, {**arrays, "mean": arrays["mean"] + 1e9})
    vocabulary.forget([0])
    assert vocabulary.state()[1]["unit"].tolist() == vocabulary.state()[1]["middle"].tolist() == [0.0] * len(vocabulary)
    other = Vocabulary(40, 9, tails=True)
    other.load(*vocabulary.state())
    assert whole(other) == whole(vocabulary)


def test_a_vocabulary_without_tails_saves_neither_middles_nor_units():
    assert not {"middle", "unit"} & taught([{"a": 10.0**n} for n in range(9)]).state()[1].keys()


def test_an_extreme_value_is_clipped():
    vocabulary = taught([{"a": value} for value in (1, 2, 3)])
    rows = vocabulary.encode([{"a": 1e100}, {"a": -1e100}, {"new": 1e-300}, {"new": -1e100}])
    assert rows[2].tolist() == [CLIP, -CLIP, 1, -CLIP]


def test_standardising_survives_numbers_that_share_their_leading_digits():
    vocabulary = taught([{"t": 1.7e15 + n} for n in range(1000)])
    assert vocabulary.encode([{"t": 1.7e15 + 999}])[2] == pytest.approx(499.5 / math.sqrt((1000**2 - 1) / 12), rel=1e-9)


def test_new_values_get_columns_until_all_are_used_and_are_then_counted():
    vocabulary = taught([{"a": "x"}], columns_max=3)
    rows = vocabulary.encode([{"a": "y"}, {"b": -4}, {"b": 8, "c": 1}, {"a": "z", "c": "w"}])
    assert np.array_equal(dense(rows, 3), [[0, 1, 0], [0, 0, -1], [0, 0, 2], [0, 0, 0]])
    figures = vocabulary.figures()
    assert (figures["columns"], figures["ignored"]) == (3, 3)
    assert figures["ignored_names"] == {"c": 2, "a": 1}


def test_ignored_names_are_counted_one_by_one_up_to_a_limit():
    vocabulary = taught([{"a": "x"}], columns_max=1)
    vocabulary.encode([{f"n{n}": 1} for n in range(3 * NAMES_SHOWN)] + [{"n0": 1}])
    figures = vocabulary.figures()
    assert figures["ignored"] == 3 * NAMES_SHOWN + 1
    assert len(figures["ignored_names"]) == NAMES_SHOWN
    assert figures["ignored_names"]["n0"] == 2


def test_a_name_whose_values_nearly_all_differ_gets_a_warning():
    records = [{"id": f"u{n}", "job": "abc"[n % 3], "n": n, "x": f"{n % 40}"} for n in range(100)]
    vocabulary = taught(records, columns_max=1000)
    (warning,) = vocabulary.warnings(100)
    assert warning.startswith("'id' has 100 different values in 100 examples")
    assert vocabulary.warnings(1000) == []  # by then they are categories
    full = taught([{"id": f"u{n}"} for n in range(100)], columns_max=80)
    full.encode([{"id": f"later {n}"} for n in range(1000)])
    assert "'id'" in "".join(full.warnings(10_000))  # no column is free, so later values are not counted


def test_if_the_warm_up_shows_too_many_columns_the_most_frequent_stay():
    vocabulary = taught([{"id": f"{n}", "job": "ab"[n % 2], "n": n} for n in range(10)], columns_max=3)
    assert [column for column, _ in vocabulary.state()[0]["columns"]] == ["job", "n", "job"]
    assert vocabulary.figures()["ignored_names"] == {"id": 10}


def of_kinds(kinds, warmup, columns_max):
    found = ["time"] if kinds else ()
    return Vocabulary(warmup, columns_max, kinds, found=found, buckets=300, tails=not kinds)


@pytest.mark.parametrize("kinds", [{}, KINDS])
@settings(deadline=None)
@given(st.data(), st.integers(0, 12), st.integers(1, 20))
def test_batching_changes_no_bit(kinds, data, warmup, columns_max):
    records = data.draw(spoken if kinds else streams)
    one, other = (of_kinds(kinds, warmup, columns_max) for _ in "12")
    by_one = streamed(one, records, iter(lambda: 1, 0))
    batched = streamed(other, records, iter(lambda: data.draw(st.integers(1, 9)), 0))
    assert [part.tobytes() for part in by_one] == [part.tobytes() for part in batched]
    assert whole(one) == whole(other)


@pytest.mark.long
@pytest.mark.parametrize("kinds", [{}, KINDS])
@settings(deadline=None)
@given(st.data(), st.integers(0, 12), st.integers(1, 20))
def test_a_loaded_state_continues_as_if_never_saved(kinds, data, warmup, columns_max):
    records = data.draw(spoken if kinds else streams)
    at = data.draw(st.integers(0, len(records)))
    one, other = (of_kinds(kinds, warmup, columns_max) for _ in "12")
    streamed(one, records[:at], iter(lambda: 5, 0))
    facts, arrays = one.state()
    other.load(json.loads(json.dumps(facts)), {name: array.copy() for name, array in arrays.items()})
    assert whole(other) == whole(one)
    expected, got = (streamed(v, records[at:], iter(lambda: 5, 0)) for v in (one, other))
    assert [part.tobytes() for part in expected] == [part.tobytes() for part in got]
    assert whole(other) == whole(one)


@given(streams)
def test_every_entry_is_finite_and_within_the_clip(records):
    _, _, entries = streamed(Vocabulary(8, 20), records, iter(lambda: 3, 0))
    assert (np.abs(entries) <= CLIP).all()


@given(streams.filter(len), st.data())
def test_provisional_columns_leave_no_trace(records, data):
    plain, staged = taught(records), Vocabulary(len(records), 100)
    for record in records[:-1]:
        staged.observe([record])
        if data.draw(st.booleans()):
            rows = staged.freeze()
            assert rows[0].size == len(staged.observed) + 1
            staged.encode([{"z": "late"}])
    staged.observe(records[-1:])
    staged.freeze()
    assert not staged.warming
    assert whole(staged) == whole(plain)


@pytest.mark.parametrize(("warmup", "moments"), [(100, [16, 32, 64, 100]), (64, [16, 32, 64]), (3, [3])])
def test_freeze_is_due_whenever_the_warm_up_has_doubled_and_at_its_end(warmup, moments):
    vocabulary, due = Vocabulary(warmup, 10), []
    while vocabulary.warming:
        until = vocabulary.until_freeze
        assert not vocabulary.observe([{"a": 1}] * (until - 1))
        assert vocabulary.observe([{"a": 1}])
        due.append(len(vocabulary.observed))
        vocabulary.freeze()
    assert due == moments
    assert vocabulary.until_freeze == vocabulary.left == 0
    assert not vocabulary.observe([])


def test_a_warm_up_takes_no_more_than_was_declared():
    vocabulary = Vocabulary(2, 10)
    with pytest.raises(ValueError, match="takes 2 more records, got 3"):
        vocabulary.observe([{}] * 3)
    assert vocabulary.observed == []


@pytest.mark.long
@given(streams, streams, streams)
def test_a_reader_encodes_as_the_vocabulary_did_when_it_was_made(first, later, asked):
    vocabulary = Vocabulary(0, 12)
    vocabulary.encode(first)
    reader = vocabulary.reader()
    copy = Vocabulary(0, max(len(vocabulary), 1))  # all its columns are in use, so unknown values are left out
    copy.load(*vocabulary.state())
    expected = [part.tobytes() for part in copy.encode(asked)] if len(vocabulary) else None
    for _ in range(2):
        got = reader.encode(asked)
        if expected is None:
            assert got[1].size == 0
        else:
            assert [part.tobytes() for part in got] == expected
        vocabulary.encode(later)


@pytest.mark.long
def test_a_reader_gives_the_same_rows_while_another_thread_adds_columns():
    vocabulary = taught([{"a": n, "s": f"{n}"} for n in range(20)], columns_max=200_000)
    asked = [{"a": 3, "s": "7", "t": "late"}, {"s": f"{50_000}", "n1": 4}]
    reader = vocabulary.reader()
    before = [part.tobytes() for part in reader.encode(asked)]
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            if [part.tobytes() for part in reader.encode(asked)] != before:
                wrong.append(1)

    thread = threading.Thread(target=read)
    thread.start()
    for n in range(0, 60_000, 100):
        vocabulary.encode([{"s": f"{m}", f"n{m % 50}": m, "t": "late"} for m in range(n, n + 100)])
    stop.set()
    thread.join()
    assert not wrong
    assert len(vocabulary) > 60_000
    assert vocabulary.reader().encode(asked)[1].size == 5


@pytest.mark.long
@settings(max_examples=200)
@given(streams.filter(len))
def test_the_spread_is_the_mean_over_all_pairs_of_rows(records):
    vocabulary = Vocabulary(len(records), 100)
    vocabulary.observe(records)
    rows = vocabulary.freeze()
    table = dense(rows, len(vocabulary))
    apart = table[:, None, :] - table[None, :, :]
    spread = spread_of(rows)
    n = len(records)
    assert spread.square == pytest.approx(np.square(apart).sum() / n**2, abs=1e-9)
    assert spread.absolute == pytest.approx(np.abs(apart).sum() / n**2, abs=1e-9)
    assert spread.inner == pytest.approx(np.square(table).sum() / n, abs=1e-9)
    for kernel, scale in (("rbf", spread.square), ("laplacian", spread.absolute), ("polynomial", spread.inner)):
        assert vocabulary.spread.gamma(kernel, former=True) == (1 / scale if scale > 1e-9 else 1)
    variance = spread.square / 2
    assert spread.gamma("rbf") == (1 / variance if variance > 1e-15 else 1)
    assert variance == pytest.approx(table.var(axis=0).sum(), abs=1e-9)


def test_without_a_warm_up_columns_are_added_as_they_are_seen():
    vocabulary = Vocabulary(0, 10)
    assert not vocabulary.warming
    assert np.array_equal(dense(vocabulary.encode([{"a": 4, "b": "x"}, {"a": 6}]), 2), [[1, 1], [1.5, 0]])
    assert vocabulary.spread.gamma("rbf") == 1


def test_a_linear_kernel_has_no_gamma_and_still_learns_names():
    assert taught([{"a": 1}, {"a": 3}]).spread.gamma("linear") == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"columns": [["a", "x"], ["b", "x"], ["a", None], ["a", None]]}, "twice"),
        ({"columns": [["a", "x"], ["a", 1]]}, "a string, a boolean or null"),
        ({"columns": [["a", ["hour", "tan"]], ["a", "x"]]}, "a string, a boolean or null"),
        ({"before": [["a", float("nan")]]}, "moment"),
        ({"before": [["a", 1]]}, "moment"),
        ({"before": [[3, 1.0]]}, "a name must be a string"),
        ({"columns": [["a", "x"], ["a"]]}, "a string, a boolean or null"),
        ({"columns": [["a", "x"]]}, "mean"),
        ({"columns": [[f"a{n}", None] for n in range(5)]}, "at most 4"),
        ({"observed": {"names": [["a"]], "rows": [[0, 1]]}}, "observed 1"),
        ({"mean": np.array([0, np.nan])}, "NaN"),
        ({"scale": np.array([1.0, 0.0])}, "> 0"),
        ({"scale": np.array([1.0, np.inf])}, "infinity"),
        ({"spread": np.zeros(2)}, "spread"),
        ({"spread": np.array([-1.0, 0, 0])}, "spread"),
        ({"spread": np.array([1e300, 0, 0])}, "spread"),
        ({"mean": np.array([0, 1e200])}, "mean"),
        ({"mean": np.array([3.0, 0])}, "mean"),
        ({"scale": np.array([2.0, 1])}, "scale"),
        ({"columns": [["a", "x"], [None, 0]]}, "a string, a boolean or null"),
        ({"warming": 0}, "observed"),
        ({"ignored": 1e300}, "counts of ignored"),
        ({"ignored": True}, "counts of ignored"),
        ({"ignored_names": [["a", -1]]}, "counts of ignored"),
        ({"ignored_names": [["a", 7]]}, "ignored"),
    ],
)
def test_an_inconsistent_state_is_refused_and_changes_nothing(changes, reason):
    vocabulary = taught([{"a": "x"}, {"a": 2}], columns_max=4)
    before = whole(vocabulary)
    facts, arrays = vocabulary.state()
    for part, value in changes.items():
        (arrays if part in arrays else facts)[part] = value
    with pytest.raises(ValueError, match=reason):
        vocabulary.load(facts, arrays)
    assert whole(vocabulary) == before


@pytest.mark.parametrize(("warmup", "columns_max"), [(-1, 1), (0, 0)])
def test_invalid_sizes_of_a_vocabulary_are_refused(warmup, columns_max):
    with pytest.raises(ValueError, match="must be >"):
        Vocabulary(warmup, columns_max)


def test_equal_rows_have_no_spread_whatever_rounding_leaves():
    vocabulary = Vocabulary(1, 100, {"t": "time"})
    vocabulary.observe([{"a": True, "t": "2026-05-01", "w": 3}])
    vocabulary.freeze()
    assert (vocabulary.spread.square, vocabulary.spread.absolute) == (0, 0)
