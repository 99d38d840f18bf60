"""Any value in any field of any body gets an answer that is not an internal error."""

import copy
import itertools
import json

import pytest

from hinged.service.api.openapi import METHODS
from hinged.service.app import create_app
from hinged.service.settings import Settings
from tests.helpers.bodies import BATCH, header
from tests.helpers.http_client import Asking, example
from tests.helpers.server import RunningServer

DEEP = 5_000
DOCUMENT = create_app(Settings()).openapi()
BODIES = {
    f"{method.upper()} {path}": content["example"]
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if method in METHODS
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items()
    if media_type == "application/json"
}
ODD = {
    "null": "null", "true": "true", "a negative number": "-1", "a large number": "1e400", "NaN": "NaN",
    "a number of many digits": "1" * 400, "too many digits": "1" * 5_000, "an empty text": '""',
    "half a character": '"\\ud800"', "a zero byte": '"\\u0000"', "a long text": '"' + "x" * 70_000 + '"',
    "an array": "[]", "an object": "{}", "nulls": "[null, null]", "objects": "[{}]",
    "a deep array": "[" * 150 + "]" * 150, "too deep an array": "[" * DEEP + "]" * DEEP,
    "a deep object": '{"a":' * 150 + "1" + "}" * 150, "half a character as a name": '{"\\ud800": 1}',
    "deep JSON in a text": json.dumps("[" * DEEP), "JSON in a text": '"[[1, 2], {}]"',
    "a marked section": '"<![<!["', "an entity of many digits": json.dumps("&#" + "1" * DEEP + ";"),
    "an entity": json.dumps("<View>&#xd800;</View>"),
}  # fmt: skip


def places(value, place=()):
    """Yield the places of all values in a body. The body itself comes first."""
    yield place
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*place, name))


def changed(body, place, text):
    """Return the body after writing this JSON at a place."""
    if not place:
        return text
    body, mark = copy.deepcopy(body), "\x01 there \x01"
    part = body
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = mark
    return json.dumps(body).replace(json.dumps(mark), text)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("fields") / "data", models_max=100) as running:
        yield running
        assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def ask(server):
    with Asking(server.url) as ask:
        ask.new_model("rows").learn(example([0.9, 0.1], "sun", "mon"), example([0.2, 0.8], "rain", "tue"))
        ask.new_model("names", features={"type": "named"}).learn({"x": {"a": 1}, "y": 1}, {"x": {"a": 2}, "y": 2})
        ask.new_model("texts", features={"type": "text"}).learn({"x": "a text", "y": 1}, {"x": "none", "y": 2})
        yield ask


@pytest.mark.long
@pytest.mark.parametrize("route", BODIES)
def test_anything_in_any_field_of_a_body_is_answered(ask, route):
    method, path = route.split()
    body = BODIES[route]
    for place, text in itertools.product(places(body), ODD.values()):
        content = changed(body, place, text)
        of_x = {"x", "data"} & set(place)
        models = ["odd"] if path == "/models/{model}" else ["rows", "names", "texts"] if of_x else ["rows"]
        for model in models:
            target = path.format(model=model, lease="none", example="mon", shadow="odd", version="1")
            answer = ask(method, target, content=content, headers={"content-type": "application/json"})
            assert answer.status_code != 500, (target, place, text[:80], answer.text)
            assert answer.json(), (target, place)
            if method == "PUT" and answer.status_code < 300:
                ask("DELETE", target)


@pytest.mark.parametrize("what", ODD)
def test_anything_in_the_header_of_rows_as_bytes_is_answered(ask, what):
    body = {"kind": "batch", "facts": {"labels": ["a"], "ids": ["i"]}, "arrays": [["x", "float32", [0, 2]]]}
    for route in ("learn", "predict", "pool"):
        for place in places(body):
            content = header(changed(body, place, ODD[what]).encode())
            answer = ask("POST", f"/models/rows/{route}", content=content, headers={"content-type": BATCH})
            assert answer.status_code in (400, 422), (route, place, answer.text)


@pytest.mark.parametrize("name", ["\ud800", "a" * 70_000, "\0", "\U0001f600"])
def test_a_long_name_of_an_array_is_shown_cut(ask, name):
    content = header(json.dumps({"kind": "batch", "facts": {}, "arrays": [[name, "float32", [0, 2]]]}).encode())
    answer = ask("POST", "/models/rows/predict", content=content, headers={"content-type": BATCH})
    assert answer.status_code == 422
    assert len(answer.json()["error"]["message"]) < 400
