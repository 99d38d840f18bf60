"""Numbers with decimal commas in CSV."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.readers import TableColumns, open_source

NUMBERS = st.floats(-1e6, 1e6).map(lambda v: round(v, 3))


@pytest.fixture
def opened(tmp_path):
    def opened(text, name="a.csv", **options):
        path = tmp_path / name
        path.write_text(text)
        return open_source(path, **{"label": "y", **options})

    return opened


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9))
@pytest.mark.parametrize(("delimiter", "name"), [(";", "a.csv"), ("\t", "a.tsv"), ("|", "a.csv")])
def test_a_file_with_decimal_commas_is_the_file_with_decimal_points(tmp_path_factory, rows, delimiter, name):
    lines = [delimiter.join("aby")] + [delimiter.join((repr(a), repr(b), "u")) for a, b in rows]
    lines[1] = delimiter.join(("1.5", "2.25", "u"))
    folder = tmp_path_factory.mktemp("decimals")
    (folder / f"points-{name}").write_text("\n".join(lines))
    (folder / name).write_text("\n".join(lines).replace(".", ","))
    points, commas = (open_source(folder / each, label="y") for each in (f"points-{name}", name))
    assert [e.x for e in commas] == [e.x for e in points]
    assert commas.features == points.features == {"type": "dense", "dim": 2}
    assert commas.notes[0].startswith("columns 'a', 'b' read with decimal commas")
    assert not points.notes


def test_texts_and_missing_values_stand_beside_decimal_commas(opened):
    source = opened("a;b;y\n1,5;north, east;u\nNA;south;v\n-2;1,2 or 3;v\n")
    assert [e.x for e in source] == [{"a": 1.5, "b": "north, east"}, {"b": "south"}, {"a": -2.0, "b": "1,2 or 3"}]
    assert source.notes == ["column 'a' read with decimal commas; --decimal . reads such values as texts"]


@pytest.mark.parametrize(
    "text",
    [
        "a;b;y\n1,5;2.5;u\n2,5;3;v\n",  # both kinds of decimals
        "a;y\n1,5;u\nx;v\n",  # a column of texts
        "a;y\n1.234;u\n2,5;v\n",  # 1.234 is 1234 or 1.234
        "a;y\n12.34,5;u\n2,5;v\n",  # not thousands
        'a,y\n"1,5",u\n"2,5",v\n',  # the delimiter is a comma
    ],
)
def test_without_certainty_a_comma_is_part_of_a_text(opened, text):
    source = opened(text)
    assert next(iter(source)).x["a"] == text.split("\n")[1].strip('"').split(";")[0].split('",')[0]
    assert not source.notes


@pytest.mark.parametrize(
    "text", ["a;y\n1.234,56;u\n-2.000.000,5;v\n3;v\n", 'a,y\n"1,234.56",u\n"-2,000,000.5",v\n3,v\n']
)
def test_a_number_may_have_separators_between_its_thousands(opened, text):
    source = opened(text)
    assert [e.x for e in source] == [[1234.56], [-2_000_000.5], [3.0]]
    assert len(source.notes) == (";" in text), "the source says that it reads decimal commas"


def test_the_option_decides(opened):
    assert next(iter(opened("a;y\n1,5;u\n2;v\n", decimal="."))).x == {"a": "1,5"}
    assert [e.x for e in opened('a,y\n"1,5",u\n"2",v\n', decimal=",")] == [[1.5], [2.0]]
    choice = TableColumns("y", categories=("a",))
    assert next(iter(opened("a;y\n1,5;u\n2;v\n", choice=choice))).x == {"a": "1,5"}


def test_a_weight_and_a_test_part_are_read_alike(opened):
    source = opened("a;w;y\n1,5;0,5;u\n2,5;2;v\n", choice=TableColumns("y", weight="w"))
    assert [(e.x, e.weight) for e in source] == [([1.5], 0.5), ([2.5], 2.0)]
    test = opened("a;w;y\n1;1;u\n1.5;1;v\n", name="test.csv", choice=TableColumns("y", named=True), like=source)
    assert [e.x for e in opened("a;y\n7,5;u\n", name="t.csv", like=source)] == [[7.5]]
    with pytest.raises(ValueError, match=r"expected a number, found '1\.5'"):
        list(test)
