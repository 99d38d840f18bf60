"""`hinged mcp`, with the client of the package mcp and a real server that has keys."""

import asyncio
import contextlib
import json
import sys

import pytest
from anyio.from_thread import start_blocking_portal

from hinged import Client
from hinged.commands import agents
from hinged.service.edge.keys import create_key
from tests.helpers.command import argv
from tests.helpers.server import PATIENCE_S, ROOT, RunningServer

mcp = pytest.importorskip("mcp")

DENSE = {"features": {"type": "dense", "dim": 2}, "kernel": {"type": "rbf", "gamma": 1}, "labels": {"explore": 0}}
READING, CHANGING = {"models", "predict", "explain", "figures"}, {"ask", "answer"}


@contextlib.asynccontextmanager
async def connection(url, key, log, *arguments):
    """Start `hinged mcp` as an agent does, and connect to it. Its stderr goes to a file."""
    command, *rest = argv("mcp", "--url", url, *arguments)
    program = mcp.StdioServerParameters(command=command, args=rest, env={"HINGED_KEY": key, "PYTHONPATH": str(ROOT)})
    with log.open("w") as errors:
        async with (
            mcp.stdio_client(program, errors) as streams,
            mcp.ClientSession(*streams, read_timeout_seconds=PATIENCE_S) as session,
        ):
            await session.initialize()
            yield session


class Agent:
    """Calls the tools of a connection, which a portal's event loop serves."""

    def __init__(self, portal, session, log, key):
        self._portal, self._session = portal, session
        self.log, self.key = log, key

    def tools(self):
        return {tool.name: tool for tool in self._portal.call(self._session.list_tools).tools}

    def result(self, tool, **arguments):
        return self._portal.call(self._session.call_tool, tool, arguments)

    def __call__(self, tool, **arguments):
        result = self.result(tool, **arguments)
        assert not result.is_error, result.content
        return result.structured_content

    def refusal(self, tool, **arguments):
        result = self.result(tool, **arguments)
        assert result.is_error
        (text,) = result.content
        return text.text


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A server with keys, and the keys."""
    folder = tmp_path_factory.mktemp("agents")
    file = folder / "keys.json"
    keys = {role: create_key(file, f"my-{role}", role) for role in ("reader", "annotator", "admin")}
    with RunningServer(folder / "data", keys_file=file) as server:
        yield server, keys


@pytest.fixture(scope="module")
def admin(keyed):
    server, keys = keyed
    with Client(server.url, key=keys["admin"]) as client:
        client.create_model("m", **DENSE)
        client.learn("m", [{"x": [n % 2, n / 8], "y": ["a", 1][n % 2], "id": f"e{n}"} for n in range(8)])
        client.offer("m", [{"id": f"p{n}", "x": [0.5, n / 4]} for n in range(4)])
        client.create_model("texts", features={"type": "text"}, kernel={"type": "linear"})
        client.learn("texts", [{"x": "[1]", "y": "list"}, {"x": "word", "y": "word"}])
        yield client


def agent_of(role):
    @pytest.fixture(scope="module")
    def agent(keyed, tmp_path_factory):
        server, keys = keyed
        log = tmp_path_factory.mktemp("agent") / "stderr"
        opened = connection(server.url, keys[role], log)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as session:
            yield Agent(portal, session, log, keys[role])

    return agent


reader, annotator = agent_of("reader"), agent_of("annotator")


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(ImportError, match=r"hinged mcp needs the package mcp, .*hinged\[mcp\]"):
        agents.server_of(agents.Tools(None, None, keyed=False))


@pytest.mark.parametrize(
    ("given", "keyed", "name"), [(None, False, "agent"), ("ann", False, "ann"), ("ann", True, "ann")]
)
def test_the_agent_asks_under_the_name_of_the_option_or_as_agent(given, keyed, name):
    assert agents.Tools(None, given, keyed=keyed)._name() == name


def test_each_tool_has_a_description_and_schemas_and_says_whether_it_only_reads():
    tools = asyncio.run(agents.server_of(agents.Tools(None, None, keyed=False)).list_tools())
    assert {tool.name for tool in tools} == READING | CHANGING
    for tool in tools:
        assert tool.description
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.annotations.read_only_hint == (tool.name in READING)


@pytest.mark.long
def test_an_agent_finds_the_tools_and_the_models(annotator, admin):
    assert annotator.tools().keys() == READING | CHANGING
    found = annotator("models")["result"]
    accuracies = {glance["model"]: glance["accuracy"] for glance in admin.overview()["models"]}
    assert found == [{**model, "accuracy": accuracies[model["model"]]} for model in admin.models()]
    assert {model["model"] for model in found} == {"m", "texts"}


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_prediction_equals_the_prediction_of_the_client(annotator, admin, probabilities):
    xs = [[0.1, 0.2], [1, 0.5]]
    wanted = admin.predict("m", [{"x": x} for x in xs], probabilities=probabilities)
    result = annotator.result("predict", model="m", examples=xs, probabilities=probabilities)
    assert result.structured_content == wanted
    assert json.loads(result.content[0].text) == wanted


def test_a_text_that_looks_like_json_is_a_text(annotator, admin):
    assert annotator("predict", model="texts", examples=["[1]", "1"]) == admin.predict(
        "texts", [{"x": "[1]"}, {"x": "1"}]
    )


def test_an_explanation_names_the_learned_examples_that_decide(annotator, admin):
    found = annotator("explain", model="m", examples=[[0.1, 0.2]], n=2)
    assert found == admin.predict("m", [{"x": [0.1, 0.2]}], explain=2)
    assert len(found["results"][0]["support_vectors"]) == 2


def test_figures_are_parts_of_the_description_of_the_model(annotator, admin):
    found, described = annotator("figures", model="m"), admin.model("m")
    assert found.keys() == {*agents.DESCRIBED, *agents.MEASURED} - {"error", "estimate"}
    assert found == {name: {**described["metrics"], **described}[name] for name in found}
    assert "balanced_accuracy" in found["window"]


def test_an_answer_to_a_question_teaches_under_the_name_of_the_key(annotator, admin):
    before = annotator("figures", model="m")["examples"]
    first, second = annotator("ask", model="m", n=2)["queries"]
    for question, label in ((first, "a"), (second, 1)):
        annotator("answer", model="m", id=question["id"], label=label, lease=question["lease"])
    assert annotator("figures", model="m")["examples"] == before + 2
    given = {answer["id"]: (answer["annotator"], answer["label"]) for answer in admin.answers("m")["answers"]}
    assert given == {first["id"]: ("my-annotator", "a"), second["id"]: ("my-annotator", 1)}


@pytest.mark.usefixtures("admin")
def test_a_refusal_is_a_tool_error_with_the_words_of_the_server(annotator):
    refusal = annotator.refusal("predict", model="none", examples=[[0, 0]])
    assert refusal.endswith(": there is no model 'none' (not_found)")
    assert "expected 2 features, got 3" in annotator.refusal("predict", model="m", examples=[[0, 0, 0]])
    assert "(invalid" in annotator.refusal("ask", model="m", n=0)
    assert annotator("predict", model="m", examples=[[0, 0]])


@pytest.mark.long
def test_the_key_of_a_reader_predicts_and_does_not_answer(reader, admin):
    assert reader("predict", model="m", examples=[[0, 0]]) == admin.predict("m", [{"x": [0, 0]}])
    before = admin.model("m")["examples"]
    for refusal in (
        reader.refusal("ask", model="m"),
        reader.refusal("answer", model="m", id="p0", label="a", lease="none"),
    ):
        assert refusal.endswith(": this needs a key with the role annotator; yours is reader (forbidden)")
    assert admin.model("m")["examples"] == before


def test_no_message_shows_the_key(reader):
    said = [str(reader.result("predict", model=model, examples=["x"])) for model in ("m", "none", "a/b", "")]
    assert reader.key not in "".join(said) + reader.log.read_text()


def test_a_wrong_key_is_refused_without_showing_it(keyed):
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415

    with Client(keyed[0].url, key="wrong-key") as client:
        server = agents.server_of(agents.Tools(client, None, keyed=True))
        with pytest.raises(ToolError, match="set HINGED_KEY to a key of this server") as refusal:
            asyncio.run(server.call_tool("models", {}))
    assert "wrong-key" not in str(refusal.value)
