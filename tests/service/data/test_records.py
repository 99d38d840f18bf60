import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hinged.service.data.examples import parse_learn, parse_predict, parse_x
from hinged.service.data.features.named import NamedFeatures
from hinged.service.data.features.records import (
    FIELDS_MAX,
    NAME_CHARS_MAX,
    STRING_CHARS_MAX,
    TEXT_CHARS_MAX,
    pack_records,
    unpack_records,
)
from hinged.service.data.features.rows import RowFeatures
from hinged.service.data.features.text import TextFeatures
from hinged.service.errors import Invalid

text = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.none() | st.booleans() | text | st.integers(-(2**70), 2**70) | st.floats(-1e100, 1e100)
objects = st.dictionaries(text, values, max_size=6)

NAMED = NamedFeatures(type="named")


def parsed(x):
    return parse_x(json.dumps(x), NAMED)


@given(objects, st.randoms(use_true_random=False))
def test_the_order_of_names_and_nulls_do_not_matter(x, random):
    names = list(x)
    random.shuffle(names)
    shuffled = {name: x[name] for name in names} | {"absent": None}
    assert json.dumps(parsed(shuffled)) == json.dumps(parsed({k: v for k, v in x.items() if k != "absent"}))


@given(objects)
def test_a_canonical_record_has_the_sent_values_and_is_a_fixed_point(x):
    record = parsed(x)
    assert list(record) == sorted(name for name, value in x.items() if value is not None)
    for name, value in record.items():
        assert isinstance(value, bool) == isinstance(x[name], bool)
        assert value == (x[name] if isinstance(x[name], str) else float(x[name]))
    assert json.dumps(parsed(record)) == json.dumps(record)


def test_one_number_has_one_spelling_and_other_values_stay_apart():
    spelled = ('{"a": 1}', '{"a": 1.0}', '{"a": 1e0}', '{"a": 10e-1, "b": null}')
    assert {json.dumps(parse_x(one, NAMED)) for one in spelled} == {'{"a": 1}'}
    assert json.dumps(parsed({"a": -0.0})) == '{"a": 0}'
    assert len({json.dumps(parsed({"a": value})) for value in (1, True, "1", "true", 1.5)}) == 5
    assert parsed({"a": 2**53 + 1}) == {"a": 2**53}


@given(st.lists(objects, max_size=6))
@example([{}, {"a": 1.5, "b": True}, {"b": False, "a": 0.1}, {"a": "x"}])
def test_packed_records_come_back_to_the_bit(xs):
    records = [parsed(x) for x in xs]
    packed = json.loads(json.dumps(pack_records(records)))
    assert json.dumps(unpack_records(packed)) == json.dumps(records)


def test_an_invalid_packed_batch_is_refused():
    for packed in ({}, {"names": [], "rows": [[0]]}, {"names": [["a"]], "rows": [[0]]}, {"names": 1, "rows": [[0]]}):
        with pytest.raises(ValueError, match=r"packed records|zip"):
            unpack_records(packed)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        ("[1.0]", "x must be an object of names and values, got [1.0]"),
        ('{"a": [1]}', "'a': a value must be a number, a string, a boolean or null, got [1]"),
        ('{"a": {"b": 1}}', "'a': a value must be a number"),
        ('{"a": NaN}', "got NaN"),
        ('{"a": 1e101}', "at most 1e+100 from 0, got 1e+101"),
        ('{"a": 1' + 400 * "0" + "}", "got Infinity"),
        ('{"a": -1' + 400 * "0" + "}", "got -Infinity"),
        (json.dumps({"a": (TEXT_CHARS_MAX + 1) * "b"}), f"at most {TEXT_CHARS_MAX} characters"),
        (json.dumps({(NAME_CHARS_MAX + 1) * "b": 1}), f"at most {NAME_CHARS_MAX} characters"),
        (json.dumps({str(n): 1 for n in range(FIELDS_MAX + 1)}), f"at most {FIELDS_MAX} names"),
    ],
)
def test_a_record_beyond_the_limits_is_refused_with_its_place(x, reason):
    with pytest.raises(Invalid) as refused:
        parse_learn(f'{{"examples": [{{"x": {{}}, "y": 1}}, {{"x": {x}, "y": 1}}]}}'.encode(), 9, NAMED)
    assert refused.value.message.startswith("examples[1].x: ")
    assert reason in refused.value.message
    assert refused.value.details == {"index": 1}


def test_a_record_at_the_limits_is_taken():
    x = {NAME_CHARS_MAX * "b": STRING_CHARS_MAX * "c", "n": 1e100} | {str(n): True for n in range(FIELDS_MAX - 2)}
    assert parsed(x) == x


def test_a_record_full_of_mistakes_costs_no_more_than_its_first_mistake():
    body = json.dumps({"examples": [{"x": {f"{n}": [] for n in range(FIELDS_MAX)}}] * 200}).encode()
    started = time.process_time()
    with pytest.raises(Invalid, match=r"0.*x: "):
        parse_predict(body, 1000, NAMED)
    assert time.process_time() - started < 0.5


def test_models_of_rows_take_no_records_and_models_of_records_no_rows():
    rows, text = RowFeatures(type="dense", dim=1), TextFeatures(type="text")
    for features, x in ((rows, '{"a": 1}'), (NAMED, '{"indices": [0], "values": [1]}'), (NAMED, "[1]"),
                        (rows, '"a"'), (NAMED, '"a"'), (text, '{"a": 1}'), (text, "[1]")):  # fmt: skip
        with pytest.raises(Invalid):
            parse_x(x, features)
