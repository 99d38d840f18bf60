import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.readers import ReadError, open_source

ROWS = st.lists(
    st.tuples(
        st.integers(-5, 5),
        st.dictionaries(st.integers(0, 10**6), st.floats(allow_nan=False, allow_infinity=False), max_size=6),
    ),
    max_size=6,
)


@given(table=ROWS, zero_based=st.booleans())
def test_reading_returns_what_was_written(tmp_path_factory, table, zero_based):
    path = tmp_path_factory.mktemp("svm") / "a.svm"
    first = 0 if zero_based else 1
    lines = [" ".join([str(y), *(f"{index + first}:{value!r}" for index, value in x.items())]) for y, x in table]
    path.write_text("\n".join(lines))
    source = open_source(path, zero_based=zero_based)
    assert [(e.y, dict(zip(e.x["indices"], e.x["values"], strict=True))) for e in source] == table
    assert all(e.x["indices"] == sorted(e.x["indices"]) for e in source)
    assert source.rows == len(table)
    assert source.features == {"type": "sparse", "dim": 1 + max((i for _, x in table for i in x), default=0)}


def test_blank_lines_and_comments_are_skipped(write):
    text = b"# head\n\n+1 1:1 3:0.5 # good\n   \n-1\t2:2\r\n1.0\n"
    expected = [
        (1, 1, {"indices": [0, 2], "values": [1.0, 0.5]}),
        (2, -1, {"indices": [1], "values": [2.0]}),
        (3, 1, {"indices": [], "values": []}),
    ]
    for path in (write(text, "a.svm"), write(gzip.compress(text), "a.txt.gz"), write(text, "a")):
        assert [(e.row, e.y, e.x) for e in open_source(path)] == expected


def test_a_label_that_is_not_an_integer_is_a_string(write):
    assert [e.y for e in open_source(write("spam 1:1\n0.5 1:1\nnan\n", "a.svm"))] == ["spam", "0.5", "nan"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n\n1 2\n", r"a\.svm, line 3: expected index:value, found '2'"),
        ("1 1:x\n", "line 1: expected index:value, found '1:x'"),
        ("1 1:nan\n", "found '1:nan'"),
        ("1 -1:1\n", "found '-1:1'"),
        ("1 \u0661:1\n", "expected index:value"),
        ("1 99999999999:1\n", "expected index:value"),
        ("1 1:1 qid:3\n", "found 'qid:3'"),
        ("1:1 2:2\n", "expected a label first, found '1:1'"),
        ("1 0:1\n", "index 0, but indices count from 1"),
        ("1 2:1 2:2\n", "index 2 occurs twice"),
        (b"\xff\xfe1", "not UTF-8 text"),
    ],
)
def test_opening_an_invalid_file_reports_the_error(write, text, message):
    with pytest.raises(ReadError, match=message):
        open_source(write(text, "a.svm"))


def test_a_libsvm_file_has_no_ids(write):
    with pytest.raises(ReadError, match="no ids"):
        open_source(write("1 1:1\n", "a.svm"), id_name="id")


def test_shuffled_rows_keep_their_numbers(write):
    source = open_source(write("".join(f"{i} {i + 1}:1\n" for i in range(20)), "a.svm"))
    shuffled = list(source.shuffled(0))
    assert sorted(e.row for e in shuffled) == list(range(1, 21))
    assert all(e.x["indices"].tolist() == [e.y] and e.row == e.y + 1 for e in shuffled)
