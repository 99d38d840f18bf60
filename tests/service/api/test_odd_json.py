"""Odd bodies: each gets an answer of the expected kind, and a refused request leaves no trace."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.http_client import BASE

pytestmark = pytest.mark.long

BOUNDED = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

HUGE = "a number of 5,001 digits"  # more digits than Python itself prints

numbers = (
    st.floats(width=64)
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([0, -0.0, 1e38, 3.5e38, 1e-320, 1e308, 10**400, HUGE])
)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=4)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
dense = st.lists(st.floats(-9, 9) | numbers, min_size=1, max_size=3)
sparse = st.fixed_dictionaries(
    {
        "indices": st.lists(st.integers(-1, 3) | numbers, max_size=3),
        "values": st.lists(st.floats(-9, 9) | numbers, max_size=3),
    }
)
good_x = st.lists(st.floats(-9, 9), min_size=2, max_size=2)
good_y = st.sampled_from(["a", "b", 1, True, "1"])
good = st.fixed_dictionaries({"x": good_x, "y": good_y})
odd = st.fixed_dictionaries(
    {"x": dense | sparse | good_x | anything, "y": good_y | scalars | anything},
    optional={"id": st.sampled_from(["i", "j", "@1", ""]) | scalars, "more": anything},
)
bodies = (
    st.fixed_dictionaries({"examples": st.lists(good | odd, max_size=3)}, optional={"x": good_x, "y": good_y})
    | good
    | odd
    | anything
)


def text_of(value):
    """Return JSON text, in which NaN and Infinity are written as Python writes them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {text_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if value == HUGE:
        return "1" + "0" * 5000
    return json.dumps(value)


@pytest.fixture(scope="module")
def model(ask):
    return ask.new_model("odd")


@BOUNDED
@given(body=bodies.map(text_of) | st.text(max_size=20) | st.binary(max_size=20))
def test_odd_examples_are_learned_or_refused_and_a_refusal_changes_nothing(ask, model, body):
    before = model.figures()
    content = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    answer = ask("POST", f"{model.path}/learn", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 409, 422), answer.text
    after = model.figures()
    if answer.status_code == 200:
        results = answer.json()["results"]
        assert after["examples"] == before["examples"] + sum(not r["duplicate"] for r in results)
    else:
        assert set(answer.json()) == {"error"}
        assert after == before


@BOUNDED
@given(body=bodies.map(text_of))
def test_odd_examples_are_predicted_or_refused(ask, model, body):
    answer = ask("POST", f"{model.path}/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 422), answer.text


@BOUNDED
@given(x=(dense | sparse | anything).map(text_of) | st.text(max_size=10))
def test_an_odd_query_is_predicted_or_refused(ask, model, x):
    answer = ask("GET", f"{model.path}/predict", params={"x": x.encode("utf-8", "replace").decode()})
    assert answer.status_code in (200, 422), answer.text


kernels = st.fixed_dictionaries(
    {"type": st.sampled_from(["linear", "polynomial", "rbf", "laplacian", "odd"])},
    optional={
        "gamma": st.sampled_from([1e-300, 0.5, 1e14, "scale", 0]),
        "degree": st.integers(0, 17),
        "coef0": st.sampled_from([0, 1, 1e14, -1]),
    },
)
configurations = st.fixed_dictionaries(
    {
        "kernel": kernels | st.just(BASE["kernel"]),
        "features": st.just(BASE["features"])
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["dense", "sparse"]), "dim": st.sampled_from([1, 2, 0, 2**20])}
        ),
    },
    optional={
        "solver": st.just("lasvm") | scalars,
        "C": st.sampled_from([1e-300, 1e-9, 1, 1e9, 9e14]) | scalars,
        "tol": st.sampled_from([1e-300, 1e-3, 999]) | scalars,
        "delta_min": st.none() | st.sampled_from([0, 0.3, 999]) | scalars,
        "delta_max": st.none() | st.sampled_from([1.5, 1e300]) | scalars,
        "idle_max": st.sampled_from([0, 1, 2**31 - 1, 2**31]) | scalars,
        "classes": st.none() | st.lists(good_y | scalars, max_size=4),
        "class_weight": st.none() | st.dictionaries(st.sampled_from(["a", "1", '"1"']), numbers, max_size=2),
        "precision": st.sampled_from(["float32", "float16"]),
        "points_max": st.none() | st.sampled_from([1, 2, 3, 100_000]) | scalars,
        "seed": st.sampled_from([0, 2**63 - 1]) | scalars,
        "more": anything,
    },
)


@BOUNDED
@given(body=configurations)
def test_a_model_of_an_odd_configuration_is_refused_or_learns(ask, body):
    headers = {"content-type": "application/json"}
    answer = ask("PUT", "/models/odder", content=text_of(body), headers=headers)
    assert answer.status_code in (201, 422), answer.text
    if answer.status_code == 422:
        return
    try:
        dim = answer.json()["configuration"]["features"]["dim"]
        for k, y in enumerate(["a", "b", 1, "a"]):
            x = {"indices": [k % dim], "values": [2.5]}
            learned = ask("POST", "/models/odder/learn", json={"x": x, "y": y})
            assert learned.status_code in (200, 422, 507), learned.text
        assert ask("POST", "/models/odder/finish").status_code == 200
        assert ask("POST", "/models/odder/predict", json={"x": x}).status_code in (200, 422)
    finally:
        assert ask("DELETE", "/models/odder").status_code == 200
