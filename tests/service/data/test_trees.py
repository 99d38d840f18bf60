"""Parsing JSON in slices gives the same result as pydantic's parser, wherever the windows end."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from hinged.service.data import trees
from hinged.service.data.slices import at_once
from hinged.service.data.trees import tree
from hinged.service.errors import Invalid

WINDOW = 24
ANY = {"": 10**9}
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(-9, 9).map(lambda x: round(x, 3))
    | st.text(max_size=40)
    | st.sampled_from(['"', "\\", '\\"', "[", "]}", ",", "{", "\n", "é", "\U0001f600", "a,b", '","'])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=1), inner, max_size=8),
    max_leaves=40,
)
blanks = st.sampled_from(["", " ", "\n", "\t \r"])


@st.composite
def texts(draw):
    """Draw JSON with white space anywhere, and with strings that may be escaped."""
    value, ascii_alone, blank = draw(values), draw(st.booleans()), draw(blanks)
    return json.dumps(value, ensure_ascii=ascii_alone, separators=(f"{blank},{blank}", f"{blank}:{blank}")).encode()


@st.composite
def damaged(draw):
    """Draw JSON, and change some bytes or cut it off."""
    text = bytearray(draw(texts()))
    for at, byte in draw(
        st.lists(st.tuples(st.integers(0, len(text) - 1), st.sampled_from(b'[]{},:" \\0a')), max_size=3)
    ):
        text[at] = byte
    return bytes(text[: draw(st.integers(0, len(text)) | st.just(len(text)))])


@pytest.fixture(scope="module", autouse=True)
def windows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "WINDOW_BYTES", WINDOW)
        yield


@pytest.mark.long
@given(text=texts())
def test_a_text_parsed_in_slices_gives_the_same_value(text):
    assert repr(at_once(tree(text, ANY))) == repr(from_json(text))


@pytest.mark.long
@given(text=damaged() | st.binary(max_size=60))
def test_slices_refuse_exactly_the_texts_that_pydantic_refuses(text):
    try:
        found = from_json(text)
    except ValueError:
        with pytest.raises(Invalid, match="body: "):
            at_once(tree(text, ANY))
    else:
        assert repr(at_once(tree(text, ANY))) == repr(found)


@given(examples=st.lists(scalars | st.lists(scalars, max_size=3), max_size=12), more=scalars)
def test_taken_elements_come_in_order_and_leave_an_empty_list(examples, more):
    text = json.dumps({"before": more, "examples": examples, "behind": more}).encode()
    taken = []

    def take(begin, part):
        assert begin == len(taken)
        taken.extend(part)
        yield

    told = at_once(tree(text, ANY, {"examples": take}))
    assert (taken or told["examples"]) == examples
    assert told == {"before": more, "examples": [] if taken else examples, "behind": more}


rows = st.lists(st.lists(scalars, min_size=1, max_size=9), min_size=1, max_size=9)


@pytest.mark.long
@given(rows=rows, more=values)
def test_the_elements_of_flat_arrays_come_one_after_another(rows, more):
    rows.insert(0, ["longer than a window" * 2])
    text = json.dumps({"more": more, "rows": rows}).encode()
    told = at_once(tree(text, ANY, flat="rows"))
    assert [*told["rows"]] == [value for row in rows for value in row]
    assert told["rows"].lengths == [len(row) for row in rows]
    assert told["more"] == more


@given(rows=rows, other=scalars | st.just([]), data=st.data())
def test_an_element_of_a_flat_array_that_is_no_list_of_values_is_refused(rows, other, data):
    rows.insert(0, ["longer than a window" * 2])
    rows.insert(data.draw(st.integers(1, len(rows))), other)
    with pytest.raises(Invalid, match="the elements must be lists that are not empty"):
        at_once(tree(json.dumps({"rows": rows}).encode(), ANY, flat="rows"))


def inner(value):
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else []


def containers(value):
    """Count the lists and objects."""
    return isinstance(value, list | dict) + sum(map(containers, inner(value)))


def all_values(value):
    """Count the lists and objects, and all values in them."""
    return isinstance(value, list | dict) + len(inner(value)) + sum(map(all_values, inner(value)))


@pytest.mark.long
@given(value=values, depth=st.integers(0, 12), window=st.sampled_from([WINDOW, 10_000]))
def test_values_in_nested_arrays_and_objects_are_limited(value, depth, window):
    for _ in range(depth):
        value = [value]
    body = {"first": [value]}
    text = json.dumps(body).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "WINDOW_BYTES", window)
        patch.setattr(trees, "NESTED_MAX", all_values(body))
        at_once(tree(text, ANY))
        patch.setattr(trees, "NESTED_MAX", containers(body) - 1)
        with pytest.raises(Invalid, match="values in nested arrays and objects"):
            at_once(tree(text, ANY))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 500, "recursion limit exceeded at byte 101"),
        (b"[" + b"1" * 100 + b"]", "number out of range"),
        (b"[" + b"1," * 30 + b"]", "expected a value"),
        (b"[1" + b" " * 100 + b",,2]", "expected a value"),
        (b'{"a": [' + b"1, " * 100 + b"2]}", "a: at most 50 elements are allowed, got more"),
        (b'{"a": [[' + b"1, " * 100 + b"2]]}", r"a\[0\]: at most 50 elements are allowed, got more"),
        (b"{" + b",".join(b'"%d":1' % k for k in range(3000)) + b"}", "at most 2000 names are allowed, got more"),
        (b'{"' + b"a" * 100 + b'":1}', "expected a name in quotes, of less than 24 bytes"),
        (b'["' + b"a" * (2**22 + 100) + b'"]', "a string may have at most 4194304 bytes, got more"),
        (b'["' + b"a" * 100, "unexpected end of a string"),
        (b"[[1," + b"2" * 20 + b"," * 3, "trailing comma at byte 2"),
    ],
)
def test_invalid_or_excessive_json_is_refused_with_its_place(text, message):
    with pytest.raises(Invalid, match=message):
        at_once(tree(text, {"": 50}))


@pytest.mark.parametrize(
    "part", [b"[", b"{", b'"', b"\\", b'{"a":', b'[1,"', b"[{", b'",', b"]", b'\\"', b'"a":1,', b" "]
)
def test_parsing_time_is_linear_in_the_length(monkeypatch, part):
    """If a text of four times the length takes twenty times as long, the time is no longer linear. The time is CPU
    time.
    """
    monkeypatch.setattr(trees, "WINDOW_BYTES", 2**14)

    def seconds(size):
        text = b'{"a":[' + part * (size // len(part))
        began = time.thread_time()
        with pytest.raises(Invalid):
            at_once(tree(text, ANY))
        return time.thread_time() - began

    assert min(seconds(2**18) for _ in range(3)) < 20 * min(seconds(2**16) for _ in range(3)) + 0.05
