"""JSON parsed in slices gives the result of pydantic's parser, wherever windows end."""

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
    """JSON with white space anywhere, its strings escaped or not."""
    value, ascii_alone, blank = draw(values), draw(st.booleans()), draw(blanks)
    return json.dumps(value, ensure_ascii=ascii_alone, separators=(f"{blank},{blank}", f"{blank}:{blank}")).encode()


@st.composite
def damaged(draw):
    """JSON with some bytes changed, or cut off."""
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


@given(text=texts())
def test_a_text_parsed_in_slices_gives_the_same_value(text):
    assert repr(at_once(tree(text, ANY))) == repr(from_json(text))


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
    """Twenty times the time for four times the length is no longer linear; measured as CPU time."""
    monkeypatch.setattr(trees, "WINDOW_BYTES", 2**14)

    def seconds(size):
        text = b'{"a":[' + part * (size // len(part))
        began = time.thread_time()
        with pytest.raises(Invalid):
            at_once(tree(text, ANY))
        return time.thread_time() - began

    assert min(seconds(2**18) for _ in range(3)) < 20 * min(seconds(2**16) for _ in range(3)) + 0.05
