"""Strings that are more than categories: days and times, and texts."""

import json
from itertools import pairwise

import numpy as np
import pytest
from vocabularies import dense, taught, whole

from hinged.service.data.moments import ASPECTS
from hinged.service.data.vocabulary import Vocabulary

WHEN = [f"2026-05-{day:02}T{hour:02}:00" for day in (1, 2, 3) for hour in (0, 6, 12, 18)]


def test_strings_that_are_days_and_times_become_circles_and_the_time_since():
    vocabulary = Vocabulary(12, 100, find_times=True)
    vocabulary.observe([{"b": when[:8], "day": when[:10], "when": when} for when in WHEN])
    table = dense(vocabulary.freeze(), len(vocabulary))
    columns = [tuple(c) if type(c[1]) is not list else (c[0], *c[1]) for c in vocabulary.state()[0]["columns"]]
    assert columns[:2] == [("b", "2026-05-"), ("day", "weekday", "cos")]
    assert [c for c in columns if c[0] == "day"] == [("day", *a) for a in ASPECTS if a[0] in ("weekday", "month")]
    assert [c for c in columns if c[0] == "when"] == [("when", *a) for a in ASPECTS]
    at = columns.index(("when", "hour", "cos"))
    assert table[:4, at] == pytest.approx([1, 0, -1, 0])
    gap = table[:, columns.index(("when", "since"))]
    assert gap == pytest.approx(np.zeros(12))  # all are six hours: their size is the scale
    fields = {field["name"]: field for field in vocabulary.figures()["fields"]}
    assert fields["when"]["time"]
    assert "time" not in fields["b"]


def test_strings_are_times_where_it_is_said_and_categories_where_it_is_not():
    records = [{"a": "2026-05-01", "b": "2026-05-01", "c": "soon"}] * 3
    vocabulary = Vocabulary(3, 100, {"b": "category", "c": "time"}, find_times=True)
    vocabulary.observe(records)
    vocabulary.freeze()
    assert {field["name"]: field.get("time", False) for field in vocabulary.figures()["fields"]} == {
        "a": True,
        "b": False,
    }
    former = taught(records)
    assert [column for column in former.state()[0]["columns"] if column[0] == "a"] == [["a", "2026-05-01"]]


def test_a_few_strings_that_are_no_times_leave_no_trace_among_many_that_are():
    vocabulary = Vocabulary(40, 100, find_times=True)
    vocabulary.observe([{"when": "2026-05-01"}] * 38 + [{"when": "unknown"}] * 2)
    assert np.diff(vocabulary.freeze()[0])[-3:].tolist() == [4, 0, 0]
    other = Vocabulary(40, 100, find_times=True)
    other.observe([{"when": "2026-05-01"}] * 37 + [{"when": "unknown"}] * 3)
    other.freeze()
    assert other.figures()["fields"] == [{"name": "when", "number": False, "values": 2}]


def test_the_time_since_is_that_since_the_example_learned_before():
    vocabulary = Vocabulary(0, 100, {"when": "time"})

    def since(rows):
        columns = vocabulary.state()[0]["columns"]
        column = columns.index(["when", ["since"]]) if ["when", ["since"]] in columns else -1
        return [value for index, value in zip(rows[1].tolist(), rows[2].tolist(), strict=True) if index == column]

    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:00Z"}])) == []
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:03Z"}, {"when": "2026-05-01T12:00:10Z"}])) == [1, 1.5]
    reader = vocabulary.reader()
    asked = [{"when": "2026-05-01T14:00:25+02:00"}] * 2  # each after the newest that was learned
    assert since(reader.encode(asked)) == [2, 2]
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:09Z"}])) == []  # came late
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:25Z"}])) == [2]
    with vocabulary.from_the_first():
        assert since(vocabulary.encode([{"when": "2026-05-01T12:00:00Z"}, {"when": "2026-05-01T12:00:03Z"}])) == [1]
    assert since(reader.encode(asked)) == [2, 2]
    assert since(vocabulary.encode([{"when": "2026-05-01T12:00:40Z"}])) == [2]


def test_a_name_of_times_is_forgotten_with_the_last_of_its_columns():
    vocabulary = Vocabulary(2, 100, find_times=True)
    vocabulary.observe([{"when": WHEN[0]}, {"when": WHEN[1], "a": 1}])
    vocabulary.freeze()
    told = vocabulary.reader().encode([{"when": WHEN[0]}])[1].tolist()
    vocabulary.forget(told)
    assert vocabulary.figures()["fields"] == [{"name": "a", "number": True, "values": 0}]
    facts = vocabulary.state()[0]
    assert "when" not in json.dumps(facts)
    assert "before" not in facts


def test_texts_have_columns_of_their_own_behind_the_others():
    vocabulary = Vocabulary(3, 10, {"note": "text"}, buckets=1000)
    vocabulary.observe([{"note": note, "a": n} for n, note in enumerate(["a b", "b c", "c d"])])
    indptr, indices, entries = vocabulary.freeze()
    assert (indices[:4] >= [0, 10, 10, 10]).all()
    assert indices.max() < 1010
    for first, last in pairwise(indptr):
        assert np.square(entries[first + 1 : last]).sum() == pytest.approx(1)
    figures = vocabulary.figures()
    assert (figures["columns"], figures["texts"], figures["words"]) == (1, ["note"], 7)
    assert vocabulary.encode([{"note": "..."}, {"note": 3}])[0].tolist() == [0, 0, 1]  # a number is one


def test_of_strings_with_spaces_that_are_all_different_the_warning_says_what_they_are():
    vocabulary = taught([{"note": f"a sentence of {n}"} for n in range(60)], columns_max=1000)
    assert 'declare it {"type": "text"}' in vocabulary.warnings(60)[0]


def test_times_that_found_no_column_are_times_still_once_the_state_was_kept():
    vocabulary = Vocabulary(1, 1, find_times=True)
    vocabulary.observe([{"a": True, "t": "2026-05-01"}])
    vocabulary.freeze()
    other = Vocabulary(1, 1, find_times=True)
    other.load(*vocabulary.state())
    for one in (vocabulary, other):
        one.encode([{"t": "2026-05-02"}])
    assert whole(other) == whole(vocabulary)
