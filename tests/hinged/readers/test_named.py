"""Ordinary tables: texts, blanks, quotes, dates, several delimiters, JSON lines, Parquet and Arrow."""

import datetime as dt
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from scipy import sparse

from hinged.readers import ReadError, TableColumns, open_source

TITANIC = """PassengerId,Survived,Pclass,Name,Sex,Age,Fare,Cabin,Embarked
1,0,3,"Braund, Mr. Owen Harris",male,22,7.25,,S
2,1,1,"Cumings, Mrs. John Bradley (Florence ""Briggs"" Thayer)",female,38,71.2833,C85,C
3,1,3,"Heikkinen, Miss. Laina",female,,7.925,NA,
"""


def examples(path, label="y", **options):
    return [(example.x, example.y) for example in open_source(path, choice=TableColumns(label, **options))]


def test_the_user_names_the_texts_that_count_as_missing(write):
    path = write("a,b,y\n1,?,u\n-999,2,v\nNA,3,u\n")
    assert examples(path, missing=frozenset({"", "?", "-999"})) == [
        ({"a": "1"}, "u"),
        ({"b": 2.0}, "v"),
        ({"a": "NA", "b": 3.0}, "u"),
    ]
    assert examples(path, drop=("b",))[1] == ({"a": -999.0}, "v")
    path = write("a,b,y\n1,0,u\n-999,2,v\n")
    assert examples(path)[1] == ([-999.0, 2.0], "v")
    assert examples(path, missing=frozenset({"", "-999"}))[1] == ({"b": 2.0}, "v")


def test_a_table_with_texts_and_blanks_becomes_named_features(write):
    source = open_source(write(TITANIC), choice=TableColumns("Survived", id="PassengerId"))
    assert source.features == {"type": "named"}
    first, second, third = source
    assert first.x == {
        "Pclass": 3.0, "Name": "Braund, Mr. Owen Harris", "Sex": "male", "Age": 22.0, "Fare": 7.25, "Embarked": "S",
    }  # fmt: skip
    assert (first.y, first.id) == (0, "1")
    assert second.x["Name"] == 'Cumings, Mrs. John Bradley (Florence "Briggs" Thayer)'
    assert second.x["Cabin"] == "C85"
    assert third.x.keys() == {"Pclass", "Name", "Sex", "Fare"}


def test_columns_can_be_chosen_and_dropped(write):
    path = write(TITANIC)
    assert examples(path, "Survived", features=("Sex", "Age"))[2] == ({"Sex": "female"}, 1)
    chosen = open_source(path, choice=TableColumns("Survived", drop=("Name", "Cabin")))
    assert chosen.columns == ["PassengerId", "Pclass", "Sex", "Age", "Fare", "Embarked"]
    assert examples(path, "Survived", features=("Pclass", "Fare"))[0] == ([3.0, 7.25], 0)
    assert examples(path, "Survived", features=("Pclass",), named=True)[0] == ({"Pclass": 3.0}, 0)
    for more in ({"drop": ("Nmae",)}, {"features": ("Nmae",)}, {"id": "Nmae"}):
        with pytest.raises(ReadError, match="no column 'Nmae'; its columns are 'PassengerId'"):
            open_source(path, choice=TableColumns("Survived", **more))


def test_a_column_with_a_text_is_a_column_of_texts(write):
    path = write("ticket,n,y\n113803,1,0\nA/5 21171,2,1\n")
    assert examples(path) == [({"ticket": "113803", "n": 1.0}, 0), ({"ticket": "A/5 21171", "n": 2.0}, 1)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_shows_the_delimiter(write, delimiter):
    text = "a;b;y\n1;2;no\n3;4;yes, really\n".replace(", ", " ").replace(";", delimiter)
    assert examples(write(text)) == [([1.0, 2.0], "no"), ([3.0, 4.0], "yes really")]


def test_commas_between_semicolons_do_not_separate_fields(write):
    assert examples(write("name;y\nDoe, Jane;1\nRoe, Richard;0\n")) == [
        ({"name": "Doe, Jane"}, 1),
        ({"name": "Roe, Richard"}, 0),
    ]


def test_the_delimiter_can_be_given_and_tsv_has_tabs(write):
    path = write("a:y\n1:0\n")
    assert next(iter(open_source(path, label="y", delimiter=":"))).x == [1.0]
    assert examples(write("a b\ty\n1\t0\n", "a.tsv")) == [([1.0], 0)]


def test_dates_stay_texts(write):
    assert examples(write("at,y\n2026-05-01T12:30:00,0\n")) == [({"at": "2026-05-01T12:30:00"}, 0)]


def test_a_note_names_columns_whose_texts_are_nearly_all_different(write):
    rows = "".join(f'"No. {k}, Mr.",{"ab"[k % 2]},{k % 2}\n' for k in range(60))
    source = open_source(write("Name,Sex,y\n" + rows), label="y")
    (note,) = source.notes
    assert note.startswith("column 'Name' has a different text in nearly every row")
    assert not open_source(write("Name,Sex,y\n" + rows), choice=TableColumns("y", drop=("Name",))).notes


def test_a_note_suggests_a_unique_column_as_the_id(write):
    rows = "".join(f"u{k},{k % 2}\n" for k in range(60))
    (note,) = open_source(write("key,y\n" + rows), label="y").notes
    assert "--drop 'key', --id 'key' to name each row by it, or --category 'key'" in note
    (note,) = open_source(write("key,y\n" + rows + "u7,1\n"), label="y").notes
    assert "--id" not in note
    (note,) = open_source(write("key,n,y\n" + rows.replace(",", ",1,")), choice=TableColumns("y", id="n")).notes
    assert "--id" not in note


def test_a_test_file_is_read_like_its_training_file(write):
    train = open_source(write("a,b,y\n1,,0\n2,u,1\n", "train.csv"), label="y")
    test = open_source(write("b,a,y\n3,4,0\n", "test.csv"), label="y", like=train)
    assert [example.x for example in test] == [{"a": 4.0, "b": "3"}]


def test_json_lines_hold_objects_with_values_of_any_kind(write):
    lines = [
        {"n": 1, "s": "7", "b": True, "nothing": None, "y": "up", "id": "u1"},
        {"n": 2.5, "later": "z", "y": "down", "id": "u2"},
    ]
    path = write("\n".join(map(json.dumps, lines)) + "\n\n", "a.jsonl")
    source = open_source(path, choice=TableColumns("y", id="id"))
    assert [(e.x, e.y, e.id) for e in source] == [
        ({"n": 1, "s": "7", "b": True}, "up", "u1"),
        ({"n": 2.5, "later": "z"}, "down", "u2"),
    ]
    assert examples(write('{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n', "b.ndjson")) == [([1.0], 0), ([2.0], 1)]
    for text, message in (
        ("[1]\n", "expected an object"),
        ("{\n", "line 1: expected JSON"),
        ('{"a": [1], "y": 0}', "plain"),
    ):
        with pytest.raises(ReadError, match=message):
            examples(write(text, "c.jsonl"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
def test_parquet_and_arrow_are_read(tmp_path, name):
    table = pa.table(
        {
            "n": [1, 2, None],
            "price": [decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("3.5")],
            "kind": ["a", "b", "a"],
            "day": [dt.date(2026, 5, k) for k in (1, 2, 3)],
            "x": [0.5, float("nan"), 1.0],
            "y": [True, False, True],
        }
    )
    path = tmp_path / name
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, path, compression="uncompressed")
    source = open_source(path, label="y")
    assert source.rows == 3
    assert [(example.x, example.y) for example in source] == [
        ({"n": 1, "price": 1.5, "kind": "a", "day": "2026-05-01", "x": 0.5}, True),
        ({"n": 2, "price": 2.5, "kind": "b", "day": "2026-05-02"}, False),
        ({"price": 3.5, "kind": "a", "day": "2026-05-03", "x": 1.0}, True),
    ]
    assert examples(path, features=("price",))[0] == ([1.5], True)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ReadError, match="cannot read"):
        open_source(path, label="y")


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_matrix_that_scipy_wrote_is_read_with_its_labels(tmp_path, form):
    X = np.array([[0, 1.5, 0], [2, 0, 0]])
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X).asformat(form))
    np.save(tmp_path / "y.npy", np.array(["up", "down"]))
    (tmp_path / "y.txt").write_text("1\n0\n")
    found = list(open_source(tmp_path / "X.npz", labels_file=tmp_path / "y.npy"))
    assert [(e.x, e.y) for e in found] == [
        ({"indices": [1], "values": [1.5]}, "up"),
        ({"indices": [0], "values": [2.0]}, "down"),
    ]
    assert [e.y for e in open_source(tmp_path / "X.npz", labels_file=tmp_path / "y.txt")] == [1, 0]
    with pytest.raises(ReadError, match="without labels: name a file of labels with --labels"):
        open_source(tmp_path / "X.npz")


def test_the_query_of_a_ranking_is_ignored(write):
    (example,) = open_source(write("2 qid:7 1:0.5 3:1\n", "a.svm"))
    assert (example.x, example.y) == ({"indices": [0, 2], "values": [0.5, 1.0]}, 2)


TEXTS = "id,body,when,stars,y\n" + "".join(
    f"r{k},a long sentence of {k},2026-05-0{1 + k % 9}T10:{k % 60:02},{k % 5},{'ab'[k % 2]}\n" for k in range(60)
)


def test_options_declare_columns_as_texts_and_times(write):
    source = open_source(write(TEXTS), choice=TableColumns("y", id="id", texts=("body",), times=("when",)))
    assert source.features == {"type": "named", "columns": {"body": {"type": "text"}, "when": {"type": "time"}}}
    assert source.notes == []
    assert next(iter(source)).x == {"body": "a long sentence of 0", "when": "2026-05-01T10:00", "stars": 0.0}


def test_a_note_names_a_column_of_sentences_but_no_column_of_times(write):
    (note,) = open_source(write(TEXTS), choice=TableColumns("y", id="id")).notes
    assert note.endswith(
        "--drop 'body', --text 'body' to learn from its words, or --category 'body' to treat each as a category"
    )
    assert open_source(write(TEXTS), choice=TableColumns("y", id="id", categories=("body",))).notes == []


def test_a_number_in_a_category_column_stays_as_written(write):
    choice = TableColumns("y", categories=("zip",))
    for path in (write("y,zip,n\na,00501,1\nb,,2\n"), write('{"y": "a", "zip": 501, "n": 1}\n', "a.jsonl")):
        source = open_source(path, choice=choice)
        assert source.features == {"type": "named", "columns": {"zip": {"type": "category"}}}
        assert next(iter(source)).x["zip"] in ("00501", "501")
    known = TableColumns("y", known={"zip": "category", "other": "text"})
    assert next(iter(open_source(write("y,zip\na,00501\n"), choice=known))).x == {"zip": "00501"}


def test_a_single_text_column_becomes_x_itself(write):
    source = open_source(write("y,body\na,one word\nb,42\na,\n"), choice=TableColumns("y", texts=("body",)))
    assert source.features == {"type": "text"}
    assert [example.x for example in source] == ["one word", "42", ""]
    lines = '{"y": 1, "body": 42}\n{"y": 0, "body": "two"}\n'
    assert [
        example.x for example in open_source(write(lines, "a.jsonl"), choice=TableColumns("y", texts=("body",)))
    ] == ["42", "two"]


def test_impossible_choices_of_text_columns_are_refused(write):
    path = write(TEXTS)
    for choice, words in (
        (TableColumns("y", texts=("bdoy",)), "no column 'bdoy'"),
        (TableColumns("y", texts=("body",), drop=("body",)), "'body' cannot be both a feature and dropped"),
        (TableColumns("y", times=("when",), named=False), "'when' does not hold numbers; leave --numbers out"),
        (TableColumns("y", whole=True), "learns from one text: --features names its column"),
    ):
        with pytest.raises(ReadError, match=words):
            open_source(path, choice=choice)


def test_a_column_to_show_is_no_feature_unless_it_is_chosen_as_one(write):
    path = write("id,photo,note,n\n1,a.png,,3\n2,,why,4\n")
    source = open_source(path, choice=TableColumns(id="id", labelled=False, show=("photo",)))
    assert [(example.show, example.x) for example in source] == [("a.png", {"n": 3}), (None, {"note": "why", "n": 4})]
    several = open_source(path, choice=TableColumns(id="id", labelled=False, show=("photo", "note")))
    assert [(example.show, example.x) for example in several] == [({"photo": "a.png"}, [3]), ({"note": "why"}, [4])]
    both = open_source(path, choice=TableColumns(id="id", labelled=False, show=("photo",), features=("photo", "n")))
    assert next(iter(both)).x == {"photo": "a.png", "n": 3}
    table = pa.table({"id": ["a"], "when": [dt.datetime(2026, 5, 1, 12)], "n": [1]})  # noqa: DTZ001
    parquet.write_table(table, path.with_suffix(".parquet"))
    (row,) = open_source(path.with_suffix(".parquet"), choice=TableColumns(id="id", labelled=False, show=("when",)))
    assert row.show == "2026-05-01T12:00:00"
