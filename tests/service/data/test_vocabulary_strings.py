"""Strings that are more than categories: days, times and texts."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.features.columns.moments import ASPECTS
from hinged.service.data.features.vocabulary import Vocabulary
from tests.helpers.vocabularies import dense, streamed, taught, whole

WHEN = [f"2026-05-{day:02}T{hour:02}:00" for day in (1, 2, 3) for hour in (0, 6, 12, 18)]


def test_strings_that_are_days_and_times_become_circles_and_the_time_since():
    vocabulary = Vocabulary(12, 100, found=["time"], since=["when"])
    vocabulary.observe([{"b": when[:8], "day": when[:10], "when": when} for when in WHEN])
    table = dense(vocabulary.freeze(), len(vocabulary))
    columns = [tuple(c) if type(c[1]) is not list else (c[0], *c[1]) for c in vocabulary.state()[0]["columns"]]
    assert columns[:2] == [("b", "2026-05-"), ("day", "weekday", "cos")]
    assert [c for c in columns if c[0] == "day"] == [("day", *a) for a in ASPECTS if a[0] in ("weekday", "month")]
    assert [c for c in columns if c[0] == "when"] == [("when", *a) for a in ASPECTS]
    at = columns.index(("when", "hour", "cos"))
    assert table[:4, at] == pytest.approx([1, 0, -1, 0])
    gap = table[:, columns.index(("when", "since"))]
    assert gap == pytest.approx(np.zeros(12))  # all gaps are six hours, so this is the scale
    fields = {field["name"]: field for field in vocabulary.figures()["fields"]}
    assert fields["when"]["time"]
    assert "time" not in fields["b"]


def test_strings_are_times_if_declared_or_looked_for_and_else_categories():
    records = [{"a": "2026-05-01", "b": "2026-05-01", "c": "soon"}] * 3
    vocabulary = Vocabulary(3, 100, {"b": "category", "c": "time"}, found=["time"])
    vocabulary.observe(records)
    vocabulary.freeze()
    assert {field["name"]: field.get("time", False) for field in vocabulary.figures()["fields"]} == {
        "a": True,
        "b": False,
    }
    former = taught(records)
    assert [column for column in former.state()[0]["columns"] if column[0] == "a"] == [["a", "2026-05-01"]]


def test_a_few_other_strings_among_many_times_leave_no_trace():
    vocabulary = Vocabulary(40, 100, found=["time"])
    vocabulary.observe([{"when": "2026-05-01"}] * 38 + [{"when": "unknown"}] * 2)
    assert np.diff(vocabulary.freeze()[0])[-3:].tolist() == [4, 0, 0]
    other = Vocabulary(40, 100, found=["time"])
    other.observe([{"when": "2026-05-01"}] * 37 + [{"when": "unknown"}] * 3)
    other.freeze()
    assert other.figures()["fields"] == [{"name": "when", "number": False, "values": 2}]


def test_the_time_since_counts_from_the_example_learned_before():
    vocabulary = Vocabulary(0, 100, {"when": "time"}, since=["when"])

    def since(rows):
        columns = vocabulary.state()[0]["columns"]
        column = columns.index(["when", ["since"]]) if ["when", ["since"]] in columns else -1
        return [value for index, value in zip(rows[1].tolist(), rows[2].tolist(), strict=True) if index == column]

    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:00Z"}])) == []
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:03Z"}, {"when": "2026-05-01T12:00:10Z"}])) == [1, 1.5]
    reader = vocabulary.reader()
    asked = [{"when": "2026-05-01T14:00:25+02:00"}] * 2
    assert since(reader.encode(asked)) == [2, 2]  # the column `since` counts from the newest learned record
    assert since(reader.read(asked)[0]) == [2, 0]  # the column `since` counts from the row before
    assert since(reader.read(asked)[0]) == [2, 0]
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:09Z"}])) == []  # this record came late
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:25Z"}])) == [2]
    with vocabulary.from_the_first():
        assert since(vocabulary.encode([{"when": "2026-05-01T12:00:00Z"}, {"when": "2026-05-01T12:00:03Z"}])) == [1]
    assert since(reader.encode(asked)) == [2, 2]
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:40Z"}])) == [2]


def test_a_name_of_times_is_forgotten_with_the_last_of_its_columns():
    vocabulary = Vocabulary(2, 100, found=["time"])
    vocabulary.observe([{"when": WHEN[0]}, {"when": WHEN[1], "a": 1}])
    vocabulary.freeze()
    told = vocabulary.reader().encode([{"when": WHEN[0]}])[1].tolist()
    vocabulary.forget(told)
    assert vocabulary.figures()["fields"] == [{"name": "a", "number": True, "values": 0}]
    facts = vocabulary.state()[0]
    assert "when" not in json.dumps(facts)
    assert "before" not in facts


def test_texts_have_separate_columns_behind_the_columns_of_names():
    vocabulary = Vocabulary(3, 10, {"note": "text"}, buckets=1000)
    vocabulary.observe([{"note": note, "a": n} for n, note in enumerate(["a b", "b c", "c d"])])
    indptr, indices, entries = vocabulary.freeze()
    assert (indices[:4] >= [0, 10, 10, 10]).all()
    assert indices.max() < 1010
    for first, last in pairwise(indptr):
        assert np.square(entries[first + 1 : last]).sum() == pytest.approx(1)
    figures = vocabulary.figures()
    assert (figures["columns"], figures["texts"], figures["words"]) == (1, ["note"], 7)
    assert vocabulary.encode([{"note": "..."}, {"note": 3}])[0].tolist() == [0, 0, 1]  # a number has its own column


def test_a_warning_about_different_strings_with_spaces_suggests_text():
    vocabulary = taught([{"note": f"a sentence of {n}"} for n in range(60)], columns_max=1000)
    assert "declare it a text" in vocabulary.warnings(60)[0]


def test_times_without_a_column_are_still_times_in_a_loaded_state():
    vocabulary = Vocabulary(1, 1, found=["time"])
    vocabulary.observe([{"a": True, "t": "2026-05-01"}])
    vocabulary.freeze()
    other = Vocabulary(1, 1, found=["time"])
    other.load(*vocabulary.state())
    for one in (vocabulary, other):
        one.encode([{"t": "2026-05-02"}])
    assert whole(other) == whole(vocabulary)


PASSENGERS = [{"name": f"Doe, Mr. {n}", "ticket": f"{n % 80}", "port": "SCQ"[n % 3], "age": n} for n in range(100)]


def boarded(records=PASSENGERS, warmup=100, columns_max=1000, kinds=None):
    vocabulary = Vocabulary(warmup, columns_max, kinds, found=["identifier"])
    vocabulary.observe(records[:warmup])
    vocabulary.freeze()
    return vocabulary


def test_strings_that_nearly_all_differ_get_no_columns_and_the_figures_say_so():
    vocabulary = boarded()
    figures = vocabulary.figures()
    assert figures["left_out"] == {"name": 100}
    assert {field["name"] for field in figures["fields"]} == {"age", "port", "ticket"}
    assert vocabulary.encode([{"name": "Roe, Mrs. Jane"}, {"name": "Doe, Mr. 3"}])[1].size == 0
    assert (len(vocabulary), vocabulary.figures()["ignored"]) == (84, 0)
    left_out, repeated = vocabulary.warnings(100)
    assert left_out.startswith("'name' is left out: its 100 different strings in the warm-up")
    assert left_out.endswith("declare it a category in a new model; to use their words, declare it a text")
    assert "{" not in left_out + repeated
    assert repeated.startswith("'ticket' has 80 different values in 100 examples")


def test_a_declared_name_gets_no_warning():
    forced = boarded(kinds={"name": "category", "ticket": "category"})
    assert {field["name"]: field["values"] for field in forced.figures()["fields"]}["name"] == 100
    assert "left_out" not in forced.figures()
    assert forced.warnings(100) == []
    assert boarded(kinds={"name": "text"}).figures()["words"] > 100


def test_numbers_and_booleans_of_a_left_out_name_keep_their_columns():
    vocabulary = boarded([*PASSENGERS[:98], {"name": 3}, {"name": True}])
    assert vocabulary.figures()["left_out"] == {"name": 98}
    assert vocabulary.encode([{"name": 3}, {"name": True}, {"name": "true"}])[0].tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("records", "left_out"),
    [
        ([{"a": f"{n}"} for n in range(49)], None),  # too few strings to decide
        ([{"a": f"{n}"} for n in range(50)], {"a": 50}),
        ([{"a": f"{min(n, 89)}"} for n in range(100)], {"a": 90}),
        ([{"a": f"{min(n, 88)}"} for n in range(100)], None),  # more than one string in ten comes again
        ([{"a": n} for n in range(100)], None),
        ([{"a": f"2026-05-{1 + n % 28:02}T{n // 28:02}:00"} for n in range(100)], {"a": 100}),
    ],
)
def test_strings_count_as_nearly_all_different_from_a_share_on(records, left_out):
    assert boarded(records, len(records)).figures().get("left_out") == left_out


def test_days_and_times_that_are_all_different_are_days_and_times():
    vocabulary = Vocabulary(84, 100, found=["time", "identifier"])
    vocabulary.observe([{"when": f"2026-05-{1 + n % 28:02}T{n // 28:02}:00"} for n in range(84)])
    vocabulary.freeze()
    assert vocabulary.figures()["fields"][0]["time"]
    assert "left_out" not in vocabulary.figures()


def test_an_apparent_identifier_becomes_a_category_once_its_strings_repeat():
    vocabulary = Vocabulary(128, 1000, found=["identifier"])
    vocabulary.observe([{"a": f"{n}"} for n in range(64)])
    assert vocabulary.freeze()[1].size == 0
    vocabulary.observe([{"a": f"{n}"} for n in range(64)])
    assert vocabulary.freeze()[1].size == 128
    assert "left_out" not in vocabulary.figures()


def test_models_that_do_not_look_for_identifiers_treat_all_strings_as_categories():
    former = taught(PASSENGERS, columns_max=1000)
    assert {field["name"]: field["values"] for field in former.figures()["fields"]}["name"] == 100
    assert "left_out" not in former.state()[0]


@settings(deadline=None, max_examples=30)
@given(st.data(), st.integers(45, 70), st.integers(1, 90))
def test_left_out_names_do_not_depend_on_batches_and_survive_save_and_load(data, warmup, columns_max):
    """In the streams, any share of a name's strings may be different."""
    spans = {name: data.draw(st.integers(1, 100)) for name in "abc"}
    records = [{name: f"{n % span}" for name, span in spans.items()} | {"n": n} for n in range(80)]
    at = data.draw(st.integers(0, 80))
    one, other, third = (Vocabulary(warmup, columns_max, {"c": "category"}, found=["identifier"]) for _ in "123")
    expected = streamed(one, records, iter(lambda: 1, 0))
    got = streamed(other, records, iter(lambda: data.draw(st.integers(1, 30)), 0))
    assert [part.tobytes() for part in expected] == [part.tobytes() for part in got]
    streamed(third, records[:at], iter(lambda: 7, 0))
    fourth = Vocabulary(warmup, columns_max, {"c": "category"}, found=["identifier"])
    fourth.load(*json.loads(json.dumps([third.state()[0]])), third.state()[1])
    assert whole(fourth) == whole(third)
    streamed(fourth, records[at:], iter(lambda: 7, 0))
    assert whole(fourth) == whole(other) == whole(one)
    columns = {name for name, _ in one.state()[0]["columns"]}
    assert columns.isdisjoint(one.figures().get("left_out", {}))


@pytest.mark.parametrize(
    "left_out",
    [
        [["name", 0]],
        [["name", 101]],
        [["name", True]],
        [["name", 60], ["name", 60]],
        [["port", 60]],
        [["n" * 201, 60]],
        [[3, 60]],
        [["told", 60]],
        [["name"]],
    ],
)
def test_a_state_with_impossible_left_out_names_is_refused_and_changes_nothing(left_out):
    vocabulary = boarded(kinds={"told": "category"})
    before = whole(vocabulary)
    facts, arrays = vocabulary.state()
    with pytest.raises(ValueError, match="left out"):
        vocabulary.load({**facts, "left_out": left_out}, arrays)
    assert whole(vocabulary) == before


MOMENTS = st.integers(0, 10**9).map(lambda at: f"{2026 + at // 10**8}-05-{1 + at % 28:02}T{at % 24:02}:{at % 60:02}:00")
TIMED = st.lists(
    st.fixed_dictionaries({"a": st.integers(-9, 9)}, optional={"when": MOMENTS, "then": MOMENTS}), max_size=8
)


@settings(max_examples=60)
@given(
    st.lists(MOMENTS, min_size=3, max_size=20), TIMED, st.sampled_from([(), ("when",), ("when", "then")]), st.booleans()
)
def test_a_request_is_predicted_as_if_its_examples_were_learned_in_order(seen, asked, since, ordered):
    """The records have known columns. Their times are in any order, or in ascending order."""
    records = [{"a": r, "then": when, "when": when} for r, when in enumerate(sorted(seen))]
    vocabulary = Vocabulary(len(records), 100, found=["time"], since=since)
    vocabulary.observe(records)
    vocabulary.freeze()
    if ordered:
        asked = sorted(asked, key=lambda record: record.get("when", ""))
    known = len(vocabulary)
    reader = vocabulary.reader()
    read, again = reader.read(asked)[0], reader.read(asked)[0]
    learned = vocabulary.encode(asked)
    assert [part.tobytes() for part in read] == [part.tobytes() for part in again]
    if len(vocabulary) == known:
        assert [part.tobytes() for part in read] == [part.tobytes() for part in learned]
    assert ("before" in vocabulary.state()[0]) == bool(since)


def test_an_older_model_learns_the_time_since_as_before_and_predicts_with_the_limit():
    near = [{"when": when} for when in WHEN[:2]] + [{"when": "2026-05-01T07:00"}]
    found = {}
    for since in (None, ("when",)):
        vocabulary = Vocabulary(3, 100, found=["time"], since=since)
        vocabulary.observe(near)
        vocabulary.freeze()
        (place,) = [p for p, column in enumerate(vocabulary.state()[0]["columns"]) if column[1] == ["since"]]
        late = [{"when": "2031-05-01T12:00"}]
        read = dense(vocabulary.reader().read(late)[0], len(vocabulary))[0, place]
        found[since] = read, dense(vocabulary.encode(late), len(vocabulary))[0, place]
    assert found[None] == (2.0, 5.0)
    assert found[("when",)] == (2.0, 2.0)
