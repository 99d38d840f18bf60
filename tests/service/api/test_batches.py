"""Batches as bytes: they are learned like JSON, and invalid batches are refused."""

import json
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix

from hinged import Client
from hinged.client.batch import pack
from hinged.frames import encode
from hinged.operations.base import ROWS_TYPE
from tests.helpers.http_client import example, refusal

BOUNDED = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
X = np.array([[0.9, 0.1], [0.2, 0.8], [0.0, 0.7], [0.5, 0.0]])
LABELS = ["sun", "rain", True, 1]
NAMED = {"features": {"type": "named"}, "kernel": {"type": "rbf", "gamma": 1.0}}


def post(ask, model, what, body, media_type=ROWS_TYPE):
    return ask("POST", f"{model.path}/{what}", content=body, headers={"content-type": media_type})


@pytest.fixture(scope="module")
def client(server):
    with Client(server.url) as client:
        yield client


@pytest.mark.parametrize("form", [np.array, csr_matrix, lambda X: csr_matrix(X).astype(np.float32)])
def test_rows_are_learned_and_predicted_like_the_same_numbers_in_json(ask, client, form):
    as_json, as_bytes = ask.new_model(), ask.new_model()
    ids = [f"id-{k}" for k in range(4)]
    told = as_json.learn(*(example(x, y, i) for x, y, i in zip(X.tolist(), LABELS, ids, strict=True)))
    found = client.learn_rows(as_bytes.name, form(X), LABELS, ids)
    assert found["results"] == told
    assert [type(r["prediction"]) for r in found["results"]] == [type(r["prediction"]) for r in told]
    assert client.predict_rows(as_bytes.name, form(X))["results"] == as_json.predict(*X.tolist())
    # An example as bytes is a duplicate of the same example as JSON.
    assert [r["duplicate"] for r in client.learn_rows(as_bytes.name, form(X), LABELS, ids)["results"]] == [True] * 4
    assert as_bytes.learn(example(X[0].tolist(), "sun", "id-0"))[0]["duplicate"]


def test_rows_without_ids_get_random_ids_so_that_a_retry_learns_nothing_twice(ask, client):
    model = ask.new_model()
    given_ids = [r["id"] for r in client.learn_rows(model.name, X, LABELS)["results"]]
    assert len(set(given_ids)) == 4
    assert not any(i.startswith("@") for i in given_ids)


def test_rows_are_offered_to_the_pool_and_answered_from_it(ask, client):
    model = ask.new_model()
    assert client.offer_rows(model.name, X, list("abcd"))["added"] == 4
    assert model.learn({"id": "b", "y": "rain"})[0]["id"] == "b"
    assert client.offer_rows(model.name, X, list("abcd"))["added"] == 0


def test_rows_of_the_pool_may_come_with_show(ask, client):
    model = ask.new_model()
    assert client.offer_rows(model.name, X, list("abcd"), ["a text", None, {"n": 1}, None])["added"] == 4
    assert client.offer_rows(model.name, X[1:2], ["b"], ["later"])["added"] == 0
    found = client.candidates(model.name)["candidates"]
    assert {c["id"]: c.get("show") for c in found} == {"a": "a text", "b": "later", "c": {"n": 1}, "d": None}


def test_shows_of_rows_are_checked_and_only_allowed_in_the_pool(ask):
    model = ask.new_model()
    for route, body, message in (
        ("pool", pack(X, None, list("abcd"), [4096 * "x", 1, 2, 3]), "examples[0].show: must have at most 4096 bytes"),
        (
            "pool",
            framed({"ids": list("abcd"), "shows": [1]}, x=X),
            "shows must have an entry for each example, 4, got 1",
        ),
        ("predict", pack(X, shows=[1, 2, 3, 4]), "shows are for candidates of the pool"),
        ("learn", pack(X, LABELS, shows=[1, 2, 3, 4]), "shows are for candidates of the pool"),
    ):
        assert message in refusal(post(ask, model, route, body), 422, "invalid")["message"]
    assert model.figures()["pool"]["size"] == 0
    with pytest.raises(ValueError, match="shows must have one entry for each of the 4 rows"):
        pack(X, None, list("abcd"), [1])


def test_a_batch_without_ids_gets_ids_from_the_server(ask):
    model = ask.new_model()
    answer = post(ask, model, "learn", pack(X, LABELS))
    assert [r["id"] for r in answer.json()["results"]] == ["@1", "@2", "@3", "@4"]


def framed(facts=None, kind="batch", **arrays):
    return encode(kind, {"labels": ["a", "b"]} if facts is None else facts, arrays)


y = np.zeros(4, np.int32)
indptr, indices, values = np.array([0, 1, 2]), np.array([0, 1]), np.ones(2)
y2 = np.zeros(2, np.int32)
REFUSED = {
    "empty": b"",
    "no frame": b"not a frame, but long enough to be one",
    "of another kind": framed(kind="learned", x=X, y=y),
    "cut off": framed(x=X, y=y)[:-8],
    "a wrong checksum": framed(x=X, y=y)[:-1] + b"\1",
    "no y": framed(x=X),
    "no x": framed(y=y),
    "an array too many": framed(x=X, y=y, z=y),
    "another fact": framed({"labels": ["a"], "more": 1}, x=X, y=y),
    "a label that is no label": framed({"labels": [1.5]}, x=X, y=y),
    "half a character": framed({"labels": ["\ud800"]}, x=X, y=y),
    "a long label": framed({"labels": ["a" * 300]}, x=X, y=y),
    "a huge label": framed({"labels": [2**70]}, x=X, y=y),
    "y behind the labels": framed(x=X, y=y + 2),
    "y before them": framed(x=X, y=y - 1),
    "too few y": framed(x=X, y=y[:3]),
    "y of floats": framed(x=X, y=y.astype(np.float64)),
    "too few ids": framed({"labels": ["a"], "ids": ["i"]}, x=X, y=y),
    "ids that are no texts": framed({"labels": ["a"], "ids": [1, 2, 3, 4]}, x=X, y=y),
    "an empty id": framed({"labels": ["a"], "ids": ["i", "", None, None]}, x=X, y=y),
    "no rows": framed(x=X[:0], y=y[:0]),
    "too many rows": framed(x=np.zeros((10_001, 2)), y=np.zeros(10_001, np.int32)),
    "rows without end": framed(x=np.zeros((0, 2)), y=y).replace(b"[0,2]", b"[9,0]"),
    "too wide": framed(x=np.ones((4, 3)), y=y),
    "three axes": framed(x=np.ones((4, 2, 1)), y=y),
    "integers": framed(x=np.ones((4, 2), np.int64), y=y),
    "NaN": framed(x=np.where(X == 0.7, np.nan, X), y=y),
    "infinite": framed(x=np.where(X == 0.7, np.inf, X), y=y),
    "too large for the precision": framed(x=np.where(X == 0.7, 1e39, X), y=y),
    "too large a norm": framed(x=np.where(X == 0.7, 1e19, X), y=y),
    "an index behind the width": framed(indptr=indptr, indices=indices + 1, values=values, y=y2),
    "a negative index": framed(indptr=indptr, indices=indices - 1, values=values, y=y2),
    "an index twice": framed(indptr=np.array([0, 2, 2]), indices=indices * 0, values=values, y=y2),
    "indices of floats": framed(indptr=indptr, indices=indices.astype(float), values=values, y=y2),
    "an indptr that falls": framed(indptr=np.array([0, 3, 2]), indices=indices, values=values, y=y2),
    "an indptr that begins late": framed(indptr=np.array([1, 1, 2]), indices=indices, values=values, y=y2),
    "an indptr that ends early": framed(indptr=np.array([0, 1, 1]), indices=indices, values=values, y=y2),
    "no indptr": framed(indptr=np.zeros(0, np.int64), indices=indices, values=values, y=y[:0]),
    "fewer indices than values": framed(indptr=indptr, indices=indices[:1], values=values, y=y2),
    "NaN in sparse rows": framed(indptr=indptr, indices=indices, values=values * np.nan, y=y2),
    "half a character in a name": framed(x=X, y=y, **{"\ud800": y}),
    "dense and sparse": framed(x=X, indptr=indptr, indices=indices, values=values, y=y),
}


@pytest.fixture(scope="module")
def model(ask):
    return ask.new_model("batches")


@pytest.mark.parametrize("what", REFUSED)
def test_an_invalid_batch_is_refused_and_nothing_changes(ask, model, what):
    before = model.figures()
    refusal(post(ask, model, "learn", REFUSED[what]), 422, "invalid")
    assert model.figures() == before


def test_a_refusal_says_which_example_is_wrong_and_why(ask, model):
    error = refusal(post(ask, model, "learn", REFUSED["NaN"]), 422, "invalid")
    assert error["details"] == {"index": 2}
    assert "feature 1 is nan" in error["message"]


def test_predictions_take_no_y_and_candidates_need_ids(ask, model):
    refusal(post(ask, model, "predict", framed(x=X, y=y)), 422, "invalid")
    refusal(post(ask, model, "pool", pack(X)), 422, "invalid")
    known = framed({"labels": ["a"], "ids": list("pqrs")}, x=X, y=np.array([0, -1, -1, 0], np.int32))
    assert post(ask, model, "pool", known).status_code == 200


def test_named_features_and_other_types_of_body_are_refused(ask):
    named = ask.new_model(**NAMED)
    refusal(post(ask, named, "learn", pack(X, LABELS)), 422, "invalid")
    refusal(post(ask, named, "learn", b"{}", "text/plain"), 415, "unsupported_media_type")


# -- any bytes

texts = st.none() | st.text(max_size=3) | st.integers() | st.booleans()
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
arrays = st.sampled_from(["int32", "int64", "float32", "float64", "uint8"]).flatmap(lambda d: hnp.arrays(d, shapes))
likely = {
    "x": hnp.arrays(np.float32, st.tuples(st.integers(0, 3), st.just(2)), elements=st.floats(-9, 9, width=32)) | arrays,
    "y": hnp.arrays(np.int32, st.integers(0, 3), elements=st.integers(-1, 2)) | arrays,
    "indptr": hnp.arrays(np.int64, st.integers(0, 4), elements=st.integers(-1, 4)).map(np.sort) | arrays,
    "indices": hnp.arrays(np.int32, st.integers(0, 4), elements=st.integers(-1, 2)) | arrays,
    "values": hnp.arrays(np.float64, st.integers(0, 4), elements=st.floats(-9, 9)) | arrays,
}
facts = st.fixed_dictionaries(
    {}, optional={"labels": st.lists(texts, max_size=3), "ids": st.none() | st.lists(texts, max_size=3)}
)
frames = st.builds(
    lambda facts, arrays: encode("batch", facts, arrays),
    facts.filter(lambda f: "\\ud" not in json.dumps(f)),
    st.fixed_dictionaries({}, optional=likely),
)


@st.composite
def damaged(draw):
    """Draw a valid body without a checksum, and change some of its bytes."""
    data = bytearray(draw(st.sampled_from([pack(X, LABELS), pack(csr_matrix(X), LABELS, list("abcd"))])))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=4)):
        data[at] = byte
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@pytest.mark.long
@BOUNDED
@given(body=frames | damaged() | st.binary(max_size=60))
def test_any_bytes_are_learned_or_refused_and_a_refusal_changes_nothing(ask, model, body):
    before = model.figures()
    answer = post(ask, model, "learn", body)
    assert answer.status_code in (200, 409, 422), answer.text
    after = model.figures()
    if answer.status_code == 200:
        new = sum(not r["duplicate"] for r in answer.json()["results"])
        assert after["examples"] == before["examples"] + new
    else:
        assert set(answer.json()) == {"error"}
        assert after == before


@pytest.mark.long
@BOUNDED
@given(body=frames | damaged(), what=st.sampled_from(["predict", "pool"]))
def test_any_bytes_are_predicted_or_offered_or_refused(ask, model, body, what):
    assert post(ask, model, what, body).status_code in (200, 409, 422)


def test_the_bytes_are_as_documented():
    header = b'{"kind":"batch","facts":{"labels":["a"]},"arrays":[["x","float32",[1,2]],["y","int32",[1]]]}'
    told = b"hng1" + bytes(16) + struct.pack("<I", len(header)) + header
    told += bytes(-len(told) % 8) + struct.pack("<2f", 0.5, 1.5) + struct.pack("<i", 0) + bytes(4)
    assert pack(np.array([[0.5, 1.5]], np.float32), ["a"]) == told


@pytest.mark.parametrize(
    ("X", "y", "ids"), [(X, ["a"], None), (X, LABELS, ["i"]), (X[0], None, None), (np.zeros((2, 2, 2)), None, None)]
)
def test_inconsistent_rows_are_refused_before_they_are_sent(X, y, ids):
    with pytest.raises(ValueError, match="must have"):
        pack(X, y, ids)
