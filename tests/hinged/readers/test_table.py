import bz2
import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.readers import ReadError, TableColumns, open_source

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).map(str.strip)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def rows(path, **options):
    return [(example.x, example.y) for example in open_source(path, **{"label": "y", **options})]


@pytest.mark.long
@given(
    names=st.lists(NAMES.filter(bool), min_size=2, max_size=5, unique=True),
    data=st.data(),
    dialect=st.sampled_from(["excel", "unix"]),
)
def test_reading_returns_what_a_csv_writer_wrote(tmp_path_factory, names, data, dialect):
    label_at = data.draw(st.integers(0, len(names) - 1))
    table = data.draw(
        st.lists(
            st.tuples(
                st.lists(NUMBERS, min_size=len(names) - 1, max_size=len(names) - 1),
                st.one_of(st.integers(-(10**9), 10**9), st.sampled_from(["a", "yes, no", 'a"b', "two\nlines"])),
            ),
            max_size=5,
        )
    )
    text = io.StringIO()
    writer = csv.writer(text, dialect=dialect)
    writer.writerow(names)
    for x, y in table:
        fields = list(map(repr, x))
        fields.insert(label_at, y)
        writer.writerow(fields)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    source = open_source(path, label=names[label_at])
    assert [(example.x, example.y) for example in source] == table
    assert source.features == {"type": "dense", "dim": len(names) - 1}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("0", 0),
        ("007", "007"),
        ("1.0", "1.0"),
        ("1_0", "1_0"),
        ("\u0661", "\u0661"),
        ("9" * 30, "9" * 30),
        ("true", "true"),
        (" <=50K ", "<=50K"),
    ],
)
def test_integer_labels_stay_integers_and_other_labels_are_strings(write, text, label):
    ((_, read),) = rows(write(f"a,y\n1,{text}\n"))
    assert read == label
    assert type(read) is type(label)


def test_compressed_files_and_byte_order_marks_are_read(write):
    text = b"\xef\xbb\xbfa,y\r\n1,no\r\n\r\n2,yes\r\n"
    expected = [([1.0], "no"), ([2.0], "yes")]
    assert rows(write(text)) == expected
    assert rows(write(gzip.compress(text), "a.csv.gz")) == expected
    assert rows(write(bz2.compress(text), "a.csv.bz2")) == expected
    assert rows(write(text, "a.data"), file_format="csv") == expected


def test_an_id_column_names_the_examples_and_is_not_a_feature(write):
    source = open_source(write("id,a,y\nu1,1,0\nu2,2,1\n"), label="y", id_name="id")
    assert source.dim == 1
    assert [(example.row, example.id, example.x) for example in source] == [(1, "u1", [1.0]), (2, "u2", [2.0])]


def test_a_test_file_may_have_its_columns_in_another_order(write):
    train = open_source(write("a,b,y\n1,2,0\n", "train.csv"), label="y")
    test = open_source(write("y,b,more,a\n1,4,x,3\n", "test.csv"), label="y", like=train)
    assert [(example.x, example.y) for example in test] == [([3.0, 4.0], 1)]
    with pytest.raises(ReadError, match="no column 'b'"):
        open_source(write("y,a\n1,4\n", "short.csv"), label="y", like=train)


@pytest.mark.parametrize("text", ["a,y\n1,0\n2,1\n", "a,y\n1,0\n2,1", "a,y\r\n1,0\r\n2,1\r\n"])
def test_rows_are_counted_without_parsing(write, text):
    assert open_source(write(text), label="y").rows == 2


def test_shuffling_orders_all_rows_by_the_seed(write):
    source = open_source(write("a,y\n" + "".join(f"{i},{i}\n" for i in range(50))), label="y")
    order = [example.row for example in source.shuffled(1)]
    assert order == [example.row for example in source.shuffled(1)]
    assert order != [example.row for example in source.shuffled(2)]
    assert sorted(order) == list(range(1, 51))
    assert all(example.x.tolist() == [example.y] for example in source.shuffled(1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,y\n1,2,0\n1,x,0\n", r"a\.csv, line 3, column 'b': expected a number, found 'x'"),
        ("a,y\n,0\n", "line 2, column 'a': expected a number, found ''"),
        ("a,y\nnan,0\n", "expected a number, found 'nan'"),
        ("a,y\n1e999,0\n", "expected a number, found '1e999'"),
        ("a,y\n1_0,0\n", "expected a number, found '1_0'"),
        ("a,y\n\n1,0\n1\n", "line 4: expected 2 fields, found 1"),
        ("a,y\n1, \n", "line 2, column 'y': the label is empty"),
        ("a,a,y\n", "two columns are named 'a'"),
        ("", "no header line"),
        ("y\n1\n", "no columns besides 'y'"),
        ("a:y\n1:2\n", "no column 'y'; its columns are 'a:y'"),
        (b"a,y\n\xff,1\n", "not UTF-8 text"),
        ("a,y\n" + "1" * 200_000 + ",0\n", "line 2: field larger"),
    ],
)
def test_an_error_names_its_place_in_the_file(write, text, message):
    with pytest.raises(ReadError, match=message):
        rows(write(text), choice=TableColumns("y", named=False))


def test_an_error_about_a_column_lists_the_existing_columns(write):
    path = write("id,a,y\n,1,0\n")
    with pytest.raises(ReadError, match="--label is needed, one of 'id', 'a', 'y'"):
        open_source(path)
    with pytest.raises(ReadError, match="no column 'name'"):
        open_source(path, label="y", id_name="name")
    with pytest.raises(ReadError, match="cannot be both label and id"):
        open_source(path, label="y", id_name="y")
    with pytest.raises(ReadError, match="line 2, column 'id': the id is empty"):
        list(open_source(path, label="y", id_name="id"))


@pytest.mark.parametrize(
    "cut", [b"no gzip at all", gzip.compress(b"a,y\n1,0\n" * 1000, mtime=0)[:-20]], ids=["none", "cut off"]
)
def test_a_broken_compressed_file_is_reported(write, cut):
    with pytest.raises(ReadError, match=r"cannot read .*a\.csv\.gz"):
        rows(write(cut, "a.csv.gz"))


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ReadError, match="No such file"):
        open_source(tmp_path / "none.csv", label="y")


def test_a_weight_column_weighs_the_examples_and_is_not_a_feature(write):
    source = open_source(write("a,w,y\n1,2.5,p\n2,1,q\n"), choice=TableColumns("y", weight="w"))
    assert source.dim == 1
    assert [(example.x, example.weight) for example in source] == [([1.0], 2.5), ([2.0], 1.0)]


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "", "x"])
def test_an_invalid_weight_names_its_place(write, weight):
    source = open_source(write(f"a,w,y\n1,1,p\n1,{weight},p\n"), choice=TableColumns("y", weight="w"))
    with pytest.raises(ReadError, match=r"a\.csv, line 3, column 'w': a weight must be a number > 0, found"):
        list(source)


def test_a_weight_column_is_neither_the_label_nor_in_libsvm_text(write):
    with pytest.raises(ReadError, match="cannot be both the weight and the label"):
        open_source(write("a,y\n1,2\n"), choice=TableColumns("y", weight="y"))
    with pytest.raises(ReadError, match="LIBSVM text has no weights"):
        open_source(write("1 1:2\n", "a.libsvm"), choice=TableColumns(weight="w"))
