"""A model whose solver is not compiled yet, on a real server whose compile cache lacks this solver."""

import os
import shutil
import sys
import time

import httpx
import pytest

from hinged.solvers.jit.cache import FOLDER, STATE
from tests.helpers.http_client import example, refusal
from tests.helpers.server import PATIENCE_S, RunningServer
from tests.helpers.terminal import Terminal

pytestmark = pytest.mark.long

FEATURES = {"type": "dense", "dim": 2}
MODEL = {"solver": "fogd", "frequencies": 10, "kernel": {"type": "rbf", "gamma": 1.0}, "features": FEATURES}
USUAL = {"kernel": {"type": "rbf"}, "features": FEATURES}  # its solver is compiled when a server is ready
LACKING = "online/features.*"  # the functions that only this solver has


@pytest.fixture
def cold(tmp_path):
    """Start a server on which the solver of MODEL is not compiled, and wait until it is ready."""
    cache = tmp_path / "cache"
    shutil.copytree(FOLDER, cache / STATE)
    for file in (cache / STATE).glob(LACKING):
        file.unlink()
    server = RunningServer(tmp_path / "data")
    server.env["NUMBA_CACHE_DIR"] = str(cache)
    with server, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as ask:
        yield server, ask


def wait_until_it_serves(ask):
    end = time.monotonic() + PATIENCE_S
    while (answer := ask.get("/models/new")).status_code == 503:
        assert answer.json()["error"]["details"]["state"] in {"compiling", "loading"}
        assert time.monotonic() < end
        time.sleep(float(answer.headers["retry-after"]))
    assert answer.json()["state"] == "serving"


def test_a_model_exists_at_once_and_serves_once_its_solver_is_compiled(cold):
    _, ask = cold
    created = ask.put("/models/new", json=MODEL)
    assert created.status_code == 201
    assert created.json()["state"] == "compiling"
    again = ask.put("/models/new", json=MODEL)
    assert again.status_code == 200
    assert again.json() == created.json()
    refusal(ask.put("/models/new", json=MODEL | {"frequencies": 20}), 409, "conflict")
    for refused in (
        ask.get("/models/new"),
        ask.post("/models/new/learn", json=example([0, 1], 1)),
        ask.post("/models/new/predict", json={"x": [0, 1]}),
        ask.delete("/models/new"),
    ):
        assert refusal(refused, 503, "unavailable")["details"]["state"] == "compiling"
        assert refused.headers["retry-after"]
    for listed in ("/models", "/overview"):
        assert ask.get(listed).json()["models"] == [{"model": "new", "state": "compiling"}]
    assert ask.get("/readyz").json()["models"]["loading"] == 1
    other = ask.put("/models/other", json=USUAL)
    assert "state" not in other.json()
    assert ask.post("/models/other/learn", json=example([0, 1], 1)).status_code == 200
    wait_until_it_serves(ask)
    assert ask.put("/models/new", json=MODEL).json() == {k: created.json()[k] for k in ("model", "configuration")}
    assert ask.post("/models/new/learn", json=example([0, 1], 1)).status_code == 200


def test_a_terminal_lists_a_model_that_is_being_compiled(cold):
    server, ask = cold
    assert ask.put("/models/new", json=MODEL).json()["state"] == "compiling"
    with Terminal(
        [sys.executable, "-m", "hinged", "models", "--url", server.url], os.environ | {"COLUMNS": "160"}
    ) as opened:
        assert opened.wait() == 0, opened.text
        assert "new" in opened.text
        assert "compiling" in opened.text


def test_a_model_whose_solver_was_being_compiled_survives_the_end_of_the_server(cold):
    server, ask = cold
    assert ask.put("/models/new", json=MODEL).json()["state"] == "compiling"
    server.kill()
    server.start()
    wait_until_it_serves(ask)
