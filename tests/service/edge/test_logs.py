import json
import logging
import sys

import pytest

from hinged.service.edge.keys import create_key
from hinged.service.edge.logs import JSONLines
from tests.helpers.http_client import BASE, Asking, bearer, example
from tests.helpers.server import RunningServer

CONTENT = "4.56789"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The log lines of a server that logs JSON and requests, after requests with CONTENT in every possible place."""
    folder = tmp_path_factory.mktemp("logs")
    key = create_key(folder / "keys.json", "ann", "admin")
    settings = {"keys_file": folder / "keys.json", "log_format": "json", "log_requests": "yes"}
    with RunningServer(folder / "data", **settings) as server, Asking(server.url) as ask:
        headers = bearer(key)
        json_body = {"content-type": "application/json"}
        number = float(CONTENT)
        ask("PUT", "/models/m", json=BASE, headers=headers)
        for body in (example([number, 1], CONTENT, CONTENT), example([number], "up"), {"x": CONTENT}, [CONTENT]):
            ask("POST", "/models/m/learn", json=body, headers=headers)
        ask("POST", "/models/m/learn", content=f'{{"x": [{CONTENT}'.encode(), headers=headers | json_body)
        ask("GET", f"/models/m/predict?x=[{CONTENT},1]", headers=headers)
        ask("GET", f"/models/x{CONTENT} y/predict?x=[1]", headers=headers)
        ask("GET", f"/{CONTENT}", headers=headers)
        ask("GET", "/models", headers=bearer(CONTENT))
        ask("GET", "/models", headers={"host": CONTENT})
        server.terminate()
        text = server.log.read_text()
    assert key not in text
    return text


def requests(told):
    return [line for line in map(json.loads, told.splitlines()) if "route" in line]


def test_every_line_is_an_object_with_time_level_logger_and_message(told):
    for line in map(json.loads, told.splitlines()):
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert line["time"].endswith("Z")


def test_a_request_is_logged_by_template_model_and_key(told):
    first = requests(told)[[line["method"] for line in requests(told)].index("PUT")]
    assert {name: first[name] for name in ("route", "status", "model", "key")} == {
        "route": "/models/{model}",
        "status": 201,
        "model": "m",
        "key": "ann",
    }
    assert first["ms"] > 0
    statuses = [line["status"] for line in requests(told) if line["route"] == "/models/{model}/learn"]
    assert statuses == [200, 422, 422, 422, 422]
    assert {line["status"] for line in requests(told)} >= {400, 401, 404}


def test_nothing_that_a_client_sent_is_logged(told):
    assert CONTENT not in told


def test_requests_are_not_logged_by_default(tmp_path):
    with RunningServer(tmp_path / "data") as server, Asking(server.url) as ask:
        ask("GET", "/models")
        assert "/models" not in server.log.read_text()
        assert " INFO hinged.service.engine.registry: " in server.log.read_text()


def test_a_traceback_is_part_of_its_line():
    try:
        raise ValueError("a\nb")  # noqa: TRY301
    except ValueError:
        record = logging.makeLogRecord({"msg": "it %s", "args": ("failed",), "exc_info": sys.exc_info(), "model": "m"})
    text = JSONLines().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert (line["message"], line["model"]) == ("it failed", "m")
    assert "ValueError: a\nb" in line["traceback"]
