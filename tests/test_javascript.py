"""docs/clients/hinged.js with a real server, in Chromium, and under Node if Node is installed."""

import base64
import json
import os
import re
import shutil
import subprocess

import pytest

from hinged.service.edge.keys import EVERY, create_key
from tests.helpers.browser import ARGUMENTS, executable
from tests.helpers.server import PATIENCE_S, ROOT, RunningServer

DOCUMENT = ROOT / "docs" / "reference" / "javascript.md"
CLIENT = ROOT / "docs" / "clients" / "hinged.js"
DRIVE = """
const client = new Hinged(url, { key });
const found = {};
await client.create("weather", { kernel: { type: "rbf", gamma: 1 }, C: 10, features: { type: "dense", dim: 2 } });
const days = [...Array(20)].map((_, k) => ({ id: `day-${k}`, x: [k % 2, 0.5], y: k % 2 ? "sun" : "rain" }));
await client.learn("weather", days);
found.repeated = (await client.learn("weather", days)).results.every((day) => day.duplicate);
const { results } = await client.predict("weather", [{ x: [1, 0.5] }, { x: [0, 0.5] }]);
found.predicted = results.map((each) => each.prediction);
const refused = (error) => { found.refused = [error.status, error.code]; };
await client.learn("weather", [{ x: [1], y: "sun" }]).catch(refused);
const stream = await client.stream("weather");
const answers = [...Array(30)].map((_, k) => stream.learn([{ x: [k % 2, 0.25], y: k % 2 ? "sun" : "rain" }]));
answers.push(stream.predict([{ x: [1, 0.25] }]));
found.streamed = (await Promise.all(answers)).at(-1).results[0].prediction;
await stream.learn([{ x: [1], y: "sun" }]).catch((error) => { found.wrong = error.code; });
await client.call("DELETE", "/models/weather");
try {
  for (;;) await stream.predict([{ x: [1, 1] }]);
} catch (error) {
  found.closed = error instanceof HingedError;
}
"""
FOUND = {
    "repeated": True,
    "predicted": ["sun", "rain"],
    "refused": [422, "invalid"],
    "streamed": "sun",
    "wrong": "invalid",
    "closed": True,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with keys, and the key of an admin."""
    folder = tmp_path_factory.mktemp("javascript")
    key = create_key(folder / "keys.json", "me", "admin", (EVERY,))
    with RunningServer(folder / "data", keys_file=folder / "keys.json") as server:
        yield server, key


@pytest.fixture
def page(server):
    """A browser tab with the server's origin and without a content security policy."""
    running, _ = server
    path = executable()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        page = browser.new_page()
        page.goto(f"{running.url}/healthz")
        yield page
        browser.close()


def driven(page, server, program):
    """Run a program in the browser; return the value of its `found`."""
    source = base64.b64encode(CLIENT.read_bytes()).decode()
    load = f'const {{ Hinged, HingedError }} = await import("data:text/javascript;base64,{source}");'
    return page.evaluate(f"async ([url, key]) => {{ {load} {program} return found; }}", [server[0].url, server[1]])


@pytest.mark.long
def test_the_client_learns_predicts_streams_and_reports_refusals_in_a_browser(page, server):
    assert driven(page, server, DRIVE) == FOUND


@pytest.mark.long
def test_the_client_asks_again_as_often_as_needed_until_a_model_is_compiled(page, server):
    asked = []

    def compiling(route):
        asked.append(route.request.url)
        if len(asked) > 8:  # more often than the client usually tries
            route.continue_()
            return
        route.fulfill(
            status=503,
            headers={"retry-after": "0.01"},
            json={"error": {"code": "unavailable", "message": "soon", "details": {"state": "compiling"}}},
        )

    page.route("**/models/coming", compiling)
    program = """
        const client = new Hinged(url, { key });
        const body = { kernel: { type: "rbf", gamma: 1 }, features: { type: "dense", dim: 2 } };
        const found = (await client.create("coming", body)).model;
    """
    assert driven(page, server, program) == "coming"
    assert len(asked) == 9
    once = 'const found = await new Hinged(url, { key, tries: 1 }).model("coming").catch((error) => error.status);'
    del asked[:]
    assert driven(page, server, once) == 503


@pytest.fixture
def node(server, tmp_path):
    """Returns a function that runs a program under Node with the client, and returns the program's output."""
    running, key = server
    path = shutil.which("node")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout if path else "v0"
    if int(version[1:].split(".")[0]) < 20:
        pytest.skip("there is no node of version 20 or newer")  # in CI, too: the browser runs the same program
    shutil.copy(CLIENT, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def run(text):
        (tmp_path / "program.js").write_text(text)
        ended = subprocess.run(
            [path, "--experimental-websocket", "--no-warnings", "program.js", running.url, key],
            cwd=tmp_path, env={**os.environ, "HINGED_KEY": key}, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def test_the_client_does_the_same_under_node(node):
    load = 'import { Hinged, HingedError } from "./hinged.js";\nconst [url, key] = process.argv.slice(2);'
    assert json.loads(node(f"{load}\n{DRIVE}\nconsole.log(JSON.stringify(found));\n")) == FOUND


def test_the_example_of_the_clients_document_works(node, server):
    (text,) = re.findall(r"^```js\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    assert node(text.replace("http://127.0.0.1:8000", server[0].url)) == "rain\n"
