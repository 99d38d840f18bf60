"""`hinged models`, `predict` and `query` against a real server, through pipes and in a terminal."""

import json

import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.command import argv, hinged
from tests.helpers.server import RunningServer
from tests.helpers.terminal import Terminal

KERNEL = {"type": "rbf", "gamma": 1.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with keys. `.keys` contains a key for each role."""
    folder = tmp_path_factory.mktemp("asking")
    keys = {role: create_key(folder / "keys.json", role, role) for role in ("reader", "annotator", "admin")}
    with RunningServer(folder / "data", keys_file=folder / "keys.json") as running:
        running.keys = keys
        with Client(running.url, key=keys["admin"]) as client:
            client.create_model("spam", kernel=KERNEL, features={"type": "dense", "dim": 2}, labels={"explore": 0.0})
            client.learn("spam", [{"id": "a", "x": [0, 1], "y": "ham"}, {"id": "b", "x": [1, 0], "y": "spam"}])
            client.offer("spam", [{"id": f"m{i}", "x": [i / 10, 1 - i / 10]} for i in range(11)])
            client.create_model("words", kernel={"type": "linear"}, features={"type": "named"})
            client.learn("words", [{"x": {"n": 1.0, "word": "cheap"}, "y": True}, {"x": {"n": -1.0}, "y": False}])
        yield running


def environment(server, role):
    return {"HINGED_URL": server.url, "HINGED_KEY": server.keys.get(role, "")}


@pytest.fixture
def run(server):
    """Run a command with the key of a role. The command's stdout is a pipe."""

    def run(*arguments, stdin="", role="reader", code=0):
        return hinged(*arguments, input=stdin, code=code, env=environment(server, role))

    return run


@pytest.fixture
def terminal(server):
    """Run a command in a terminal, and return its output."""

    def terminal(*arguments, role="reader"):
        with Terminal(argv(*arguments), environment(server, role) | {"COLUMNS": "160"}) as opened:
            assert opened.wait() == 0, opened.text
            return opened.text

    return terminal


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_models_prints_a_table_in_a_terminal_and_json_lines_elsewhere(run, terminal):
    spam, words = lines(run("models"))
    assert (spam["model"], words["model"]) == ("spam", "words")
    assert spam["configuration"]["kernel"] == KERNEL
    shown = terminal("models")
    for word in ("spam", "lasvm", "rbf", "dense 2", "ham, spam", "words", "linear"):
        assert word in shown
    assert not any(word in shown for word in ("None", "True"))
    assert [json.loads(line) for line in terminal("models", "--json").splitlines()] == [spam, words]


@pytest.mark.long
def test_predict_reads_examples_from_json_lines(run, server, tmp_path):
    text = '[0.1, 0.9]\n\n{"id": "late", "x": [0.9, 0.1]}\n{"indices": [0], "values": [1]}\n'
    results = lines(run("predict", "spam", stdin=text))
    assert [(r["id"], r["prediction"]) for r in results] == [(None, "ham"), ("late", "spam"), (None, "spam")]
    path = tmp_path / "examples.jsonl"
    path.write_text(text)
    assert lines(run("predict", "spam", path, "--batch", 2)) == results
    with Client(server.url, key=server.keys["annotator"]) as client:
        client.learn("spam", [{"id": "late", "y": "spam"}])  # the model has kept the x of the prediction


@pytest.mark.long
def test_predict_takes_an_example_as_an_option(run, terminal):
    (found,) = lines(run("predict", "spam", "--x", "[0.1, 0.9]"))
    assert found["prediction"] == "ham"
    assert "support_vectors" not in found
    (found,) = lines(run("predict", "spam", "--x", "[0.1, 0.9]", "--explain", 1))
    assert [vector["label"] for vector in found["support_vectors"]] == ["ham"]
    shown = terminal("predict", "spam", "--x", "[0.1, 0.9]", "--explain", 1)
    assert "because of" in shown
    assert "a (ham) +" in shown


@pytest.mark.long
def test_a_line_may_be_the_named_features_themselves_even_with_a_feature_x(run):
    text = '{"n": 2.5, "word": "cheap"}\n{"x": {"n": -3}}\n{"x": 1.0, "n": 2}\n'
    _, wrapped, _ = lines(run("predict", "words", stdin=text))
    assert lines(run("predict", "words", "--x", '{"n": -3}')) == [wrapped]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (["predict", "spam"], "[1\n[1, 2]", 1, "<stdin>, line 1: expected JSON"),
        (["predict", "spam", "--x", "[1"], "", 1, "--x: expected JSON"),
        (["predict", "spam", "--x", "[1]"], "", 1, "expected 2 features, got 1 (invalid, index 0)"),
        (["predict", "absent", "--x", "[1]"], "", 1, "there is no model 'absent' (not_found)"),
        (["predict", "spam", "absent.jsonl"], "", 2, "absent.jsonl"),
        (["query", "spam"], "", 2, "--annotator"),
        (["query", "spam", "--annotator", "ann"], "", 1, "yours is reader (forbidden)"),
        (["label", "spam", "--annotator", "ann"], "", 1, "needs a terminal"),
    ],
)
def test_an_error_gives_one_line(run, arguments, stdin, code, words):
    done = run(*arguments, stdin=stdin, code=code)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert words in line


@pytest.mark.long
def test_query_leases_candidates_again_to_the_same_annotator(run, terminal):
    first = lines(run("query", "spam", "-n", 2, "--annotator", "ann", role="annotator"))
    assert all(query["id"].startswith("m") for query in first)
    again = lines(run("query", "spam", "-n", 2, "--annotator", "ann", role="annotator"))
    assert [query["lease"] for query in again] == [query["lease"] for query in first]
    shown = terminal("query", "spam", "-n", 2, "--annotator", "ann", role="annotator")
    assert "  ".join(f"{value:.4g}" for value in first[0]["x"]) in shown
    assert first[0]["lease"] in shown


def test_query_reports_an_empty_pool_on_stderr(run, server):
    with Client(server.url, key=server.keys["admin"]) as client:
        client.create_model("empty", kernel=KERNEL, features={"type": "dense", "dim": 2})
        done = run("query", "empty", "--annotator", "ann", role="annotator")
        client.delete_model("empty")
    assert (done.stdout, done.stderr) == ("", "nothing to ask: the pool has no free candidate\n")


@pytest.mark.long
def test_a_wrong_key_gives_one_line_without_the_key(run, server):
    server.keys["stranger"] = "hinged_0123456789"
    done = run("models", role="stranger", code=1)
    assert (
        done.stderr
        == "hinged: this key is not known, or was revoked (unauthenticated); set HINGED_KEY to a key of this server\n"
    )
    server.keys["stranger"] = "not a key"
    done = run("models", role="stranger", code=2)
    assert "HINGED_KEY" in done.stderr
    assert "not a key" not in done.stderr


def test_a_missing_key_gives_one_line_that_says_so(run):
    assert "Authorization: Bearer KEY" in run("models", role="nobody", code=1).stderr
