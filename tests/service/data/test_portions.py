"""A long body gives the same result as a short body: the same examples, or the same refusal."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.service.api.examples.learn import read_request
from hinged.service.api.examples.predict import read_predict
from hinged.service.data import portions, trees
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.slices import at_once
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from tests.helpers.http_client import BASE

SETTINGS = Settings(batch_examples_max=30)
ROWS = parse_configuration(json.dumps(BASE), SETTINGS)
NAMED = parse_configuration(json.dumps(BASE | {"features": {"type": "named"}}), SETTINGS)

x = st.lists(st.floats(-9, 9), min_size=2, max_size=2) | st.builds(
    lambda index, value: {"indices": [index], "values": [value]}, st.integers(0, 1), st.floats(-9, 9)
)
odd = st.none() | st.booleans() | st.text(max_size=2) | st.lists(st.integers(0, 9), max_size=4)
record = st.dictionaries(st.text(max_size=2), st.floats(-9, 9) | st.text(max_size=2), max_size=3)
ys = st.sampled_from(["a", "b", 1, True])


def bodies(x):
    good = st.fixed_dictionaries({"x": x, "y": ys}, optional={"id": st.text("abc", min_size=1, max_size=3)})
    wrong = st.fixed_dictionaries({"x": x | odd, "y": ys | odd}, optional={"id": odd, "more": odd, "lease": odd})
    examples = st.lists(good, min_size=1, max_size=32) | st.lists(good | good | good | wrong, max_size=20)
    more = {"explain": st.sampled_from([0, 3, -1]), "probabilities": st.booleans(), "x": x}
    return st.fixed_dictionaries({"examples": examples}, optional=more) | good | wrong


@pytest.fixture(scope="module", autouse=True)
def everything_is_long():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "WINDOW_BYTES", 60)
        patch.setattr(portions, "PORTION", 3)
        yield patch


def read(body, read_body, configuration, *, long):
    """Return the result of reading a body, or the message of its refusal. long: whether it is read as a long text, or
    as the parts of a long frame.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portions, "SMALL_BYTES", 0 if long else 2**30)
        try:
            return at_once(read_body(body, configuration, SETTINGS))
        except Invalid as error:
            return error.message


def plain(found):
    """Return the result in a form that can be compared."""
    if isinstance(found, str):
        return found
    parts = (
        [found.ids, found.labels, found.contents, list(found.leases), found.inputs] if hasattr(found, "ids") else found
    )
    return [
        [np.asarray(getattr(part, name)).tolist() for name in ("indptr", "indices", "values", "norms")]
        if hasattr(part, "indptr")
        else part
        for part in parts
    ]


@given(body=bodies(x), named=st.booleans())
def test_examples_to_learn(body, named):
    same(body, read_request, NAMED if named else ROWS)


@given(body=bodies(record))
def test_records_to_learn(body):
    same(body, read_request, NAMED)


def same(body, read_body, configuration):
    text = json.dumps(body).encode()
    short = plain(read(text, read_body, configuration, long=False))
    for long_body in (text, trees.Long(body)):
        long = plain(read(long_body, read_body, configuration, long=True))
        if isinstance(short, str) and isinstance(long, str):
            # If a body has several errors, any of them may be reported. A single error is reported in the same words.
            assert long
        else:
            assert long == short


@given(index=st.integers(0, 29), wrong=st.sampled_from([{"x": [1.0]}, {"x": "a"}, {"y": 1.5}, {"id": ""}, {"more": 1}]))
def test_a_wrong_example_gives_the_same_error_with_its_place(index, wrong):
    examples = [{"x": [0.5, k], "y": "a", "id": f"i{k}"} for k in range(30)]
    examples[index] |= wrong
    text = json.dumps({"examples": examples}).encode()
    told = [read(body, read_request, ROWS, long=body is not None) for body in (text, trees.Long(examples=examples))]
    assert told == [read(text, read_request, ROWS, long=False)] * 2
    assert f"examples[{index}]" in told[0]


@given(at=st.integers(0, 3), explain=st.integers(0, 5))
def test_parts_beside_the_examples_count_wherever_they_stand(at, explain):
    parts = [("explain", explain), ("probabilities", True), ("intervals", ["a"]), ("conformal", "full")]
    parts.insert(at, ("examples", [{"x": [k, 1.0]} for k in range(20)]))
    found = read(json.dumps(dict(parts)).encode(), read_predict, ROWS, long=True)
    assert found[2] == (explain, True, ("a",), True)
    assert len(found[0]) == 20


def test_a_body_with_examples_twice_is_refused():
    one = json.dumps([{"x": [k, 1.0]} for k in range(20)])
    for text in (f'{{"examples":{one},"examples":{one}}}', f'{{"examples":{one},"examples":[{{"x":[1,2]}}]}}'):
        assert "twice" in read(text.encode(), read_predict, ROWS, long=True)
