"""The OpenAPI document is complete, and schemathesis compares it with the server."""

import os
import re
import subprocess
import sys

import jsonschema_rs
import pytest

from hinged.service.api.openapi import METHODS
from hinged.service.app import create_app
from hinged.service.settings import Settings
from tests.helpers.http_client import Asking, example
from tests.helpers.server import ROOT, RunningServer

DOCUMENT = create_app(Settings()).openapi()
OPERATIONS = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if method in METHODS
]


def media_of(operation):
    """Yield every schema of an operation, with the example of the schema."""
    parts = [operation.get("requestBody", {}), *operation["responses"].values()]
    return [content for part in parts for content in part.get("content", {}).values()]


def test_the_document_is_openapi():
    assert DOCUMENT["openapi"].startswith("3.1")
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_route_has_a_summary_and_every_body_and_answer_a_schema(path, method, operation):
    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"]
    for parameter in operation.get("parameters", []):
        assert parameter.get("description"), f"{method} {path}: {parameter['name']}"
    assert any(status.startswith("2") for status in operation["responses"])
    for content in media_of(operation):
        assert content["schema"], f"{method} {path}"


def test_every_body_has_an_example_and_each_example_fits_its_schema():
    told = [(f"{method} {path}", media) for path, method, operation in OPERATIONS for media in media_of(operation)]
    assert all("example" in media for _, _, each in OPERATIONS for media in media_of({**each, "responses": {}}))
    told = [(where, media) for where, media in told if "example" in media]
    whole = {"components": DOCUMENT["components"], "prefixItems": [media["schema"] for _, media in told]}
    errors = jsonschema_rs.validator_for(whole).iter_errors([media["example"] for _, media in told])
    assert not [f"{told[error.instance_path[0]][0]}: {error.message}" for error in errors]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_route_documents_the_errors_that_it_may_give(path, method, operation):
    assert method in METHODS
    statuses = set(operation["responses"])
    assert statuses >= {"400", "500"}
    if "{model}" in path:
        assert statuses >= {"401", "403", "503"}
    if "requestBody" in operation:
        assert statuses >= {"413", "415"}


def test_every_reference_resolves():
    found = re.findall(r"'\$ref': '#/([^']*)'", str(DOCUMENT))
    assert len(found) > 100
    for reference in found:
        place = DOCUMENT
        for part in reference.split("/"):
            place = place[part]
    assert "$defs" not in str(DOCUMENT)


@pytest.mark.long
def test_the_server_does_what_the_document_says(tmp_path):
    """Schemathesis sends each route valid and invalid values according to the schema."""
    settings = {"models_max": 30, "dim_max": 2000, "points_max": 1000, "cache_mb": 8}
    with RunningServer(tmp_path / "data", limits={"heartbeat_s": 0.2}, **settings) as server, Asking(server.url) as ask:
        model = ask.new_model("weather")
        model.learn(example([0.9, 0.1], "sun", "mon"), example([0.2, 0.8], "rain", "tue"))
        ask.new_model("dust", solver="bsgd", budget=5, features={"type": "sparse", "dim": 5}, labels={"overlap": 2})
        named = ask.new_model("named", features={"type": "named", "warmup": 2})
        named.learn(*[{"x": {"a": k, "b": "uv"[k % 2]}, "y": k % 2 == 0} for k in range(4)])
        ask.new_model("untaught")
        command = [
            sys.executable, "-m", "schemathesis.cli", "--config-file", ROOT / "tests" / "helpers" / "schemathesis.toml",
            "run", f"{server.url}/openapi.json",
        ]  # fmt: skip
        hooks = {"SCHEMATHESIS_HOOKS": "tests.helpers.schemathesis_hooks", "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            command, cwd=tmp_path, env=os.environ | {"NO_COLOR": "1"} | hooks, capture_output=True, text=True,
            timeout=580, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout[-20_000:] + ended.stderr[-2000:]
        assert ask("GET", "/readyz").status_code == 200
        assert "Traceback" not in server.log.read_text()
