"""Rows that cannot be read stop the reading, or are skipped, and written to a file."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.readers import ReadError, SkippedRows, TableColumns, UnreadableRow, open_source

GOOD = {
    "rows.csv": "{a},{b},{y}",
    "rows.tsv": "{a}\t{b}\t{y}",
    "rows.jsonl": '{{"a": {a}, "b": {b}, "y": "{y}"}}',
    "examples.jsonl": '{{"x": [{a}, {b}], "y": "{y}"}}',
    "rows.txt": "{y} 1:{a} 2:{b}",
}
HEADER = {"rows.csv": "a,b,y", "rows.tsv": "a\tb\ty"}
BAD = {
    "rows.csv": ["1,2", "1,2,3,4", "1,x,u", "1,,u", "1,2,", "inf,2,u"],
    "rows.tsv": ["1\t2", "1\t2\t3\t4", "1\tx\tu", "1\t2\t"],
    "rows.jsonl": ['{"a": 1', "[1, 2]", '{"a": 1, "b": "x", "y": "u"}', '{"a": 1, "y": "u"}', '{"a": 1, "b": 2}'],
    "examples.jsonl": ['{"x": [1, 2]', "[1, 2]", '{"x": [1, 2]}', '{"y": "u"}'],
    "rows.txt": ["u 1:x", "u 1", "u 1:1 1:2", "u 0:1", "1:1 2:2", "u -1:3"],
}
ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from(["u", "v"])), max_size=8)


def opened(path, **options):
    table = path.name.startswith("rows") and path.suffix != ".txt"
    choice = TableColumns("y", named=False) if table else None
    return open_source(path, choice=choice, **options)


@pytest.mark.parametrize("name", GOOD)
@given(rows=ROWS, data=st.data())
def test_the_other_rows_are_read_as_from_a_file_without_the_bad_ones(tmp_path_factory, name, rows, data):
    good = [GOOD[name].format(a=a, b=b, y=y) for a, b, y in [(0, 0, "u"), *rows]]
    lines = list(good)
    for bad in data.draw(st.lists(st.sampled_from(BAD[name]), min_size=1, max_size=4)):
        lines.insert(data.draw(st.integers(1, len(lines))), bad)
    head = [HEADER[name]] if name in HEADER else []
    folder = tmp_path_factory.mktemp("rows")
    clean, mixed = folder / "clean" / name, folder / name
    clean.parent.mkdir()
    clean.write_text("\n".join([*head, *good]) + "\n")
    mixed.write_text("\n".join([*head, *lines]) + "\n")

    aside = io.StringIO()
    aside.name = "aside"
    bad_rows = SkippedRows(aside)
    source = opened(mixed, bad_rows=bad_rows)
    found, expected = list(source), list(opened(clean))
    assert [(e.x, e.y) for e in found] == [(e.x, e.y) for e in expected]
    assert source.features == opened(clean).features
    list(source)  # a second reading counts no row again

    where = [k for k, line in enumerate(lines) if line in BAD[name]]
    assert bad_rows.count == len(where)
    written = [json.loads(line) for line in aside.getvalue().splitlines()]
    assert sorted(row["line"] for row in written) == [1 + len(head) + k for k in where]
    assert all(row["reason"] and row["row"] for row in written)
    # A row keeps its number, so its id stays the same once the bad rows are mended.
    assert [e.row for e in found] == [1 + k for k, line in enumerate(lines) if line not in BAD[name]]

    with pytest.raises(UnreadableRow) as caught:
        list(opened(mixed))
    assert caught.value.place.number in [row["line"] for row in written]


def test_the_error_of_a_bad_row_names_line_and_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,u\nx,v\n")
    with pytest.raises(ReadError) as caught:
        list(open_source(path, choice=TableColumns("y", named=False)))
    assert str(caught.value).startswith(f"{path}, line 3, column 'a': expected a number, found 'x'")
    assert (caught.value.place.number, caught.value.column) == (3, "a")


def test_a_row_that_a_missing_quote_makes_long_names_the_line_at_which_it_begins(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b,y\n1,2,u\n\n"3,4,v\n5,6,u\n')
    bad_rows = SkippedRows()
    assert len(list(open_source(path, label="y", bad_rows=bad_rows))) == 1
    assert "expected 3 fields, found 1, in a row from line 4 on; a quote may be missing" in bad_rows.told()


def test_the_report_quotes_the_first_bad_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,u\n" + "1\n" * 5)
    bad_rows = SkippedRows()
    assert bad_rows.told() is None
    list(open_source(path, label="y", bad_rows=bad_rows))
    assert bad_rows.told().startswith("5 bad rows were skipped: ")
    assert bad_rows.told().endswith("line 5: expected 2 fields, found 1; ...")
