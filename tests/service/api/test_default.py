"""The model "default", which the first POST /learn creates."""

import json
import random

import pytest

from hinged.client.batch import pack
from hinged.operations.base import ROWS_TYPE
from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.server import RunningServer

SCALED = {"scale": "auto", "warmup_candidates": True}


@pytest.fixture
def ask(request, tmp_path):
    with RunningServer(tmp_path / "data", **getattr(request, "param", {})) as running, Asking(running.url) as asking:
        yield asking


def test_the_first_learn_creates_the_default_model_from_its_examples(ask):
    for answer in (ask("GET", "/predict?x=[0,1]"), ask("POST", "/predict", json={"x": [0, 1]})):
        refusal(answer, 404, "not_found")
    # A refused request leaves nothing behind, so it creates no model.
    for bad in (
        {"examples": [example([0, 1], "a"), example([0, 1, 2], "a")]},
        {"examples": [example([0, 1], "a"), example([0, 1], 1.5)]},
        {"examples": [example([0, 1], "a"), example([0, 1], "a", "@1")]},
        {"x": [], "y": 1},
        {"examples": []},
    ):
        refusal(ask("POST", "/learn", json=bad), 422, "invalid")
        refusal(ask("GET", "/models/default"), 404, "not_found")

    rng = random.Random(3)
    stream = [example([rng.gauss(3 * (k % 2), 1), 0.0, rng.gauss(0, 1)], "ab"[k % 2], f"e{k}") for k in range(60)]
    answer = ask("POST", "/learn", json={"examples": stream})
    assert answer.status_code == 200
    assert answer.json()["model"] == "default"
    configuration = ask("GET", "/models/default").json()["configuration"]
    assert configuration["solver"] == "auto"
    assert configuration["kernel"]["type"] == "rbf"
    assert configuration["kernel"]["gamma"] == "scale"
    assert configuration["features"] == SCALED | {"type": "dense", "dim": 3}

    again = ask("POST", "/learn", json={"examples": stream})
    assert again.json()["results"] == [r | {"duplicate": True} for r in answer.json()["results"]]
    x = [2.5, 0, 0.1]
    predicted = ask("POST", "/models/default/predict", json={"x": x}).json()
    assert ask("POST", "/predict", json={"x": x}).json() == predicted
    assert ask("GET", f"/predict?x={json.dumps(x)}").json() == predicted
    assert predicted["results"][0]["prediction"] == "b"
    # From now on the model has a fixed width, whatever x comes.
    error = refusal(ask("POST", "/learn", json=example([0, 1], "a")), 422, "invalid")
    assert error["message"] == "examples[0].x: expected 3 features, got 2"


TEMPLATE = {"kernel": {"type": "polynomial", "gamma": "scale", "degree": 2}, "C": 7, "precision": "float32"}


@pytest.mark.parametrize("ask", [{"default_model": json.dumps(TEMPLATE), "dim_max": 5000}], indirect=True, ids=["set"])
def test_the_setting_is_the_template_and_a_sparse_first_example_makes_it_sparse(ask):
    xs = [{"indices": [4, 7], "values": [1, 2]}, {"indices": [4999], "values": [3]}]
    answer = ask("POST", "/learn", json={"examples": [example(xs[0], 1), example(xs[1], 2)]})
    assert answer.status_code == 200
    configuration = ask("GET", "/models/default").json()["configuration"]
    assert configuration["features"] == SCALED | {"type": "sparse", "dim": 5000}
    assert configuration["kernel"] == {"type": "polynomial", "gamma": "scale", "degree": 2, "coef0": 0.0}
    assert configuration["C"] == 7


FORMS = {
    "dense": ([[0, 1], [1, 0]], {"dim": 2}),
    "sparse": ([{"indices": [4], "values": [1]}, {"indices": [], "values": []}], {"dim": 2**20}),
    "named": ([{"age": 31, "job": "nurse"}, {"age": 40, "job": None}], {}),
    "text": (["a text", "another text"], {}),
}


@pytest.mark.long
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_first_x_determines_the_features(ask, form, long):
    xs, facts = FORMS[form]
    examples = [example(xs[k % 2], k % 2, f"e{k}") for k in range(1000 if long else 2)]
    answer = ask("POST", "/learn", json={"examples": examples})
    assert answer.status_code == 200, answer.text
    features = ask("GET", "/models/default").json()["configuration"]["features"]
    assert facts.items() <= features.items()
    assert features["type"] == form
    made = ask("PUT", "/models/same", json={"features": {"type": form, **facts}})
    assert made.json()["configuration"] == ask("GET", "/models/default").json()["configuration"]
    assert ask("POST", "/predict", json={"x": xs[1]}).status_code == 200


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "JSON"),
        (b"[1]", "object"),
        (b'"x"', "object"),
        (b'{"examples": {}}', "examples"),
        (b'{"examples": [3]}', "examples[0]"),
        (b'{"examples": [], "y": 1}', "examples"),
        (b'{"y": 1}', "x is missing"),
        (b'{"id": "a", "y": 1}', "need x"),
        (b'{"x": null, "y": 1}', "x must be"),
        (b'{"x": 3, "y": 1}', "x must be"),
        (b'{"x": true, "y": 1}', "x must be"),
        (b'{"x": {"indices": [1]}, "y": 1}', "values"),
        (b'{"x": ["a"], "y": 1}', "x[0]"),
        (b'{"examples": [{"x": "a", "y": 1}, {"x": [1], "y": 1}]}', "examples[1].x"),
        (b'{"examples": [{"x": {"a": 1}, "y": 1}, {"id": "b", "y": 1}]}', "need x"),
    ],
)
def test_first_examples_that_are_invalid_create_no_model(ask, body, reason):
    for padding in (b"", b" " * 20_000):
        answer = ask("POST", "/learn", content=body + padding, headers={"content-type": "application/json"})
        assert reason in refusal(answer, 422, "invalid")["message"]
        refusal(ask("GET", "/models/default"), 404, "not_found")


def test_rows_as_bytes_create_no_model_and_the_refusal_says_what_does(ask):
    rows = {"content": pack([[1.0, 2.0]], ["a"]), "headers": {"content-type": ROWS_TYPE}}
    for path, name in (("/learn", "default"), ("/models/other/learn", "other")):
        told = refusal(ask("POST", path, **rows), 422, "invalid")["message"]
        remedy = json.loads(told[told.index("{") :])
        ask("PUT", f"/models/{name}", json={"features": remedy})
        assert ask("POST", path, **rows).status_code == 200


@pytest.mark.parametrize("ask", [{"models_max": 1}], indirect=True, ids=["set"])
def test_the_default_model_counts_towards_the_limit_of_models(ask):
    ask.new_model("only")
    error = refusal(ask("POST", "/learn", json=example([0, 1], 1)), 409, "conflict")
    assert "1 models of at most 1" in error["message"]


@pytest.mark.parametrize("ask", [{"create": "yes"}, {}, {"create": "no"}], indirect=True, ids=["yes", "unset", "no"])
def test_on_a_local_server_the_first_learn_creates_a_model_of_any_name(request, ask):
    body = {"examples": [example({"age": 31, "job": "nurse"}, "a", "e0"), example({"age": 40}, "b", "e1")]}
    first = ask("POST", "/models/people/learn", json=body)
    if request.node.callspec.id == "no":
        refusal(first, 404, "not_found")
        return
    assert (first.status_code, first.json()["model"]) == (200, "people")
    ask("POST", "/learn", json=body)
    made, default = (ask("GET", f"/models/{name}").json()["configuration"] for name in ("people", "default"))
    assert made == default
    again = ask("POST", "/models/people/learn", json=body).json()
    assert [result["duplicate"] for result in again["results"]] == [True, True]
    # A request that is refused leaves nothing behind.
    bad = {"examples": [example([1], "a"), example([1, 2], "a")]}
    refusal(ask("POST", "/models/other/learn", json=bad), 422, "invalid")
    refusal(ask("POST", "/models/other/predict", json={"x": [1]}), 404, "not_found")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("default_model", "[]", "HINGED_DEFAULT_MODEL is not a JSON object, got []"),
        ("default_model", "{", "HINGED_DEFAULT_MODEL is not JSON"),
        ("default_model", '{"kernel": {"type": "odd"}}', "kernel"),
        ("default_model", '{"kernel": "rbf"}', "kernel"),
        ("queue_examples_max", "0", "HINGED_QUEUE_EXAMPLES_MAX: Input should be greater than 0, got '0'"),
    ],
)
def test_a_server_with_impossible_settings_does_not_start_and_says_why_in_one_line(tmp_path, name, value, reason):
    code, said = RunningServer(tmp_path / "data", **{name: value}).run()
    assert code == 1
    assert reason in said
    assert said.count("\n") == 1
