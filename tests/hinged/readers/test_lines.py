"""JSON lines whose x is a list, a sparse row, an object or a text, as `hinged learn` reads them."""

import json

import pytest

from hinged.readers import ReadError, TableColumns, open_source


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "a.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
        return path

    return write


@pytest.mark.parametrize(
    ("xs", "features"),
    [
        ([[1, 2.5], [3, 4]], {"type": "dense", "dim": 2}),
        ([{"indices": [0, 7], "values": [1, 2]}, {"indices": [], "values": []}], {"type": "sparse", "dim": 8}),
        ([[1, 2, 3], {"indices": [4], "values": [2]}], {"type": "sparse", "dim": 5}),
        ([{"a": 1, "b": "red"}, {"c": None}], {"type": "named"}),
        (["a text", "another"], {"type": "text"}),
    ],
)
def test_each_line_is_an_example_as_it_is(write, xs, features):
    source = open_source(write(*({"id": f"e{k}", "x": x, "y": k} for k, x in enumerate(xs))))
    assert source.features == features
    assert [(e.row, e.id, e.x, e.y) for e in source] == [(k + 1, f"e{k}", x, k) for k, x in enumerate(xs)]
    assert source.rows == len(xs)


def test_ids_may_be_missing_and_a_wrong_line_is_named(write):
    assert [e.id for e in open_source(write({"x": [1], "y": True}, {"x": [2], "y": False}))] == [None, None]
    with pytest.raises(ReadError, match=r"line 2: expected an object with x and y"):
        open_source(write({"x": [1], "y": 1}, {"x": [2]}))
    with pytest.raises(ReadError, match="options for columns are for tables"):
        open_source(write({"x": [1], "y": 1}), choice=TableColumns(drop=("x",)))


def test_a_table_with_columns_x_and_y_is_still_a_table(write):
    source = open_source(write({"x": 1, "y": 2}, {"x": 3, "y": 4}), choice=TableColumns("y"))
    assert [(e.x, e.y) for e in source] == [([1.0], 2), ([3.0], 4)]
    with pytest.raises(ReadError, match="--label is needed"):
        open_source(write({"x": 1, "y": 2}))
