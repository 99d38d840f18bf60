import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hinged import frames
from hinged.frames import _PREFIX, DTYPES, MAGIC, BadFrame, _checksum, _padded, decode, encode

texts = st.text(max_size=8)
facts = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
arrays = st.dictionaries(
    texts,
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    ),
    max_size=4,
)

SMALL = encode("kind", {"n": 3, "word": "ä"}, {"a": np.arange(3, dtype=np.int32), "b": np.zeros((2, 0))})


def frame_of(header, body=b""):
    """Return a frame with a correct checksum and any contents."""
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = _PREFIX.size + len(data)
    content = data + bytes(_padded(start) - start) + body
    return _PREFIX.pack(MAGIC, _checksum(content), len(data)) + content


def listing(*entries):
    return {"kind": "kind", "facts": {}, "arrays": list(entries)}


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(facts=facts, arrays=arrays)
def test_decoding_returns_what_was_encoded_to_the_bit(facts, arrays):
    found, found_arrays = decode(encode("kind", facts, arrays), "kind")
    assert found == facts
    assert list(found_arrays) == list(arrays)
    for name, array in arrays.items():
        assert found_arrays[name].dtype == array.dtype
        assert found_arrays[name].shape == array.shape
        assert found_arrays[name].tobytes() == array.tobytes()  # this includes NaN
        assert found_arrays[name].flags.writeable


@pytest.mark.long
@settings(max_examples=50, deadline=None)
@given(facts=facts, arrays=arrays, piece=st.integers(1, 5))
def test_encoding_in_pieces_gives_the_same_bytes(facts, arrays, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "PIECE", piece)
        patch.setattr(frames, "PIECE_BYTES", 8 * piece)
        assert encode("model", facts, arrays, long=True) == encode("model", facts, arrays)


def test_long_lists_and_large_arrays_are_written_in_pieces(monkeypatch):
    written = []
    at_once = frames._json

    def noting(value):
        written.append(len(value))
        return at_once(value)

    monkeypatch.setattr(frames, "_json", noting)
    ids, array = [f"e{k}" for k in range(5_500)], np.arange(200_000, dtype=np.float64).reshape(400, 500).T
    frame = encode("model", {"ids": ids, "part": {"marks": list(range(2_500))}}, {"a": array}, long=True)
    assert max(written) <= frames.PIECE
    found, found_arrays = decode(frame, "model")
    assert found["ids"] == ids
    assert (found_arrays["a"] == array).all()
    odd = {"of numbers": {1: "keys", None: list(range(1_500))}}
    assert encode("model", odd, {}, long=True) == encode("model", odd, {})


def test_arrays_of_any_memory_order_are_equal_after_decoding():
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    for given_array in (array.T, array[:, ::2], array.astype(">f8")):
        assert np.array_equal(decode(encode("kind", {}, {"a": given_array}), "kind")[1]["a"], given_array)


def test_encoding_refuses_objects_and_unsupported_dtypes():
    for array in (np.array([None]), np.array(["a"]), np.zeros(1, np.complex128), np.zeros(1, bool)):
        with pytest.raises(TypeError):
            encode("kind", {}, {"a": array})


def test_decoding_detects_each_flipped_bit():
    for place in range(len(SMALL)):
        for bit in range(8):
            data = bytearray(SMALL)
            data[place] ^= 1 << bit
            with pytest.raises(BadFrame):
                decode(bytes(data), "kind")


def test_decoding_detects_each_truncation_and_extra_bytes():
    for length in range(len(SMALL)):
        with pytest.raises(BadFrame):
            decode(SMALL[:length], "kind")
    with pytest.raises(BadFrame):
        decode(SMALL + bytes(8), "kind")


def test_decoding_refuses_a_frame_of_another_kind():
    with pytest.raises(BadFrame, match="expected a frame of kind 'learned', got 'kind'"):
        decode(SMALL, "learned")


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: MAGIC + tail))
def test_decoding_random_bytes_raises_bad_frame(data):
    with pytest.raises(BadFrame):
        decode(data, "kind")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"1" * 5_000,
        [],
        None,
        "text",
        {},
        {"kind": "kind"},
        {"kind": "kind", "facts": {}},
        {"kind": "kind", "arrays": []},
        {"kind": 1, "facts": {}, "arrays": []},
        {"kind": "kind", "facts": [], "arrays": []},
        {"kind": "kind", "facts": {}, "arrays": {}},
        listing(1),
        listing([]),
        listing(["a", "float64"]),
        listing(["a", "float64", [0], 1]),
        listing([1, "float64", [0]]),
        listing(["a", "object", [0]]),
        listing(["a", ["float64"], [0]]),
        listing(["a", "float64", 0]),
        listing(["a", "float64", "00"]),
        listing(["a", "float64", [-1]]),
        listing(["a", "float64", [-1, -1]]),
        listing(["a", "float64", [1.0]]),
        listing(["a", "float64", [True]]),
        listing(["a", "float64", [None]]),
        listing(["a", "float64", [2**40, 2**40]]),
        listing(["a", "float64", [2**63]]),
        listing(["a", "float64", [0, 2**70]]),
        listing(["a", "float64", [0, 2**62, 2**62]]),
        listing(["a", "float64", [0] * 100]),
        listing(["a", "float64", [2]]),
    ],
    ids=lambda header: re.sub(r"(.)\1{20,}", r"\1...", str(header))[:60],
)
def test_a_malformed_header_with_a_correct_checksum_raises_bad_frame(header):
    with pytest.raises(BadFrame):
        decode(frame_of(header, bytes(8)), "kind")


def test_decoding_checks_a_shape_against_the_bytes_before_it_allocates_memory():
    with pytest.raises(BadFrame, match="longer than the frame"):
        decode(frame_of(listing(["a", "float64", [2**45]])), "kind")


@settings(max_examples=100, deadline=None)
@given(
    header=st.fixed_dictionaries(
        {
            "kind": st.just("kind"),
            "facts": facts,
            "arrays": st.lists(
                st.tuples(texts, st.sampled_from((*DTYPES, "object", "<f8")), st.lists(st.integers(), max_size=4)),
                max_size=2,
            ),
        }
    ),
    body=st.binary(max_size=64),
)
def test_any_list_of_arrays_is_decoded_or_raises_bad_frame(header, body):
    try:
        found, found_arrays = decode(frame_of(header, body), "kind")
    except BadFrame:
        return
    assert found == header["facts"]
    assert {name for name, _, _ in header["arrays"]} == set(found_arrays)


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
@given(st.binary(max_size=30), st.binary(min_size=1, max_size=4))
def test_bytes_are_found_across_the_borders_of_pieces(piece, data, part):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "PIECE_BYTES", piece)
        for inside in (data, data + part + data):
            assert frames.contains(inside, part) == (part in inside)
