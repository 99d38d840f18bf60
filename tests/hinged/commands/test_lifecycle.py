"""Commands that create, train, show and delete models. The commands run against a real server, through pipes and in a
terminal.
"""

import csv
import json
import os
import re
from datetime import UTC, datetime
from io import BytesIO, StringIO

import pytest
from pyarrow import parquet

from tests.helpers.command import argv, hinged
from tests.helpers.server import ROOT
from tests.helpers.terminal import Terminal

COMMANDS = (
    "create", "show", "delete", "learn", "offer", "finish", "forget", "correct", "suspects", "labels", "backup",
    "restore",
)  # fmt: skip
XY = [{"id": f"e{k}", "x": [k % 2, k / 10], "y": "no" if k % 2 else "yes"} for k in range(6)]


@pytest.fixture
def raw(real):
    """Run a command. The command's stdout is a pipe of bytes."""

    def run(*arguments, stdin="", code=0, first=None):
        """Run a command. first: the folder where Python looks for modules first."""
        env = {"HINGED_URL": real.url} | ({"PYTHONPATH": f"{first}{os.pathsep}{ROOT}"} if first else {})
        return hinged(*arguments, code=code, env=env, text=False, input=stdin.encode(), process=first is not None)

    return run


@pytest.fixture
def run(raw):
    """Run a command, and return the JSON objects that it wrote."""
    return lambda *a, **m: [json.loads(line) for line in raw(*a, **m).stdout.decode().splitlines()]


@pytest.fixture
def refused(raw):
    """Run a command that fails with one line on stderr, and return the line."""

    def refused(*arguments, code=1, **more):
        (line,) = raw(*arguments, code=code, **more).stderr.decode().splitlines()
        return line

    return refused


@pytest.fixture
def terminal(real):
    """Run a command in a terminal."""
    opened = []

    def terminal(*arguments):
        opened.append(Terminal(argv(*arguments), {"HINGED_URL": real.url, "COLUMNS": "120"}))
        return opened[-1].__enter__()

    yield terminal
    for one in opened:
        one.__exit__()


def text_of(objects):
    return "\n".join(map(json.dumps, objects))


@pytest.fixture
def model(request, client):
    """A model that has learned six examples and has two candidates."""
    name = request.node.name.split("[")[0][-50:].lstrip("_")
    client.create_model(name, kernel={"type": "rbf", "gamma": 1.0}, C=10, features={"type": "dense", "dim": 2})
    client.learn(name, XY)
    client.offer(name, [{"id": "c1", "x": [0.5, 0.5]}, {"id": "c2", "x": [0.2, 0.3]}])
    return name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(raw, command):
    assert f"Example: hinged {command} " in raw(command, "--help").stdout.decode()


def test_create_makes_a_model_from_options_and_show_finds_it(run, client, terminal):
    arguments = ("create", "made", "--features", "sparse", "--dim", 9, "--kernel", "linear", "--set", "C=3")
    (made,) = run(*arguments)
    configuration = client.model("made")["configuration"]
    assert made == {"model": "made", "configuration": configuration}
    features = configuration["features"]
    assert (features["type"], features["dim"], configuration["kernel"]) == ("sparse", 9, {"type": "linear"})
    assert configuration["C"] == 3
    again = terminal(*arguments)
    assert again.wait() == 0
    assert again.text.strip() == "made: lasvm, linear kernel, sparse 9 features"


def test_create_without_options_makes_a_model_that_waits_for_its_first_examples(run, terminal):
    made = terminal("create", "formless")
    assert made.wait() == 0
    assert made.text.strip() == "formless: its first examples determine its features"
    run("delete", "formless", "--yes")


def test_create_makes_a_model_from_a_file_and_options_override_the_file(run, client, tmp_path):
    file = tmp_path / "model.json"
    file.write_text(json.dumps({"kernel": {"type": "rbf", "gamma": 2.0}, "features": {"type": "dense", "dim": 3}}))
    run("create", "of-a-file", "--config", file, "--gamma", 0.5, "--solver", "smo", "--dim", 4)
    made = client.model("of-a-file")["configuration"]
    assert (made["solver"], made["kernel"]["gamma"], made["features"]["dim"]) == ("smo", 0.5, 4)


def test_show_prints_the_figures_of_a_model(run, terminal, client, model):
    (found,) = run("show", model)
    assert found == client.model(model)
    shown = terminal("show", model)
    assert shown.wait() == 0
    for words in ("lasvm", "rbf, gamma 1.0", "dense 2", "yes, no", "2 candidates, 0 leased", "support vectors"):
        assert words in shown.text


def test_show_warns_of_a_rare_class(terminal, client, model):
    client.learn(model, [{"x": [k % 7, k % 5], "y": "no" if k % 40 else "yes"} for k in range(400)])
    warning = client.model(model)["metrics"]["warning"]
    shown = terminal("show", model)
    assert shown.wait() == 0
    assert warning[:30] in shown.text


@pytest.mark.long
def test_delete_asks_for_confirmation(run, refused, terminal, client, model):
    assert "--yes" in refused("delete", model)
    asked = terminal("delete", model)
    asked.expect("with 6 examples? [y/N]")
    asked.send("n\n")
    assert asked.wait() != 0
    assert run("delete", model, "--yes") == [{"model": model, "deleted": True}]
    assert model not in [m["model"] for m in client.models()]


@pytest.mark.long
def test_learn_reads_lines_and_repeats_are_duplicates(run, terminal, client, tmp_path):
    client.create_model("lines", kernel={"type": "linear"}, features={"type": "dense", "dim": 2})
    file = tmp_path / "examples.jsonl"
    file.write_text(text_of(XY))
    first = run("learn", "lines", file, "--batch", 4)
    assert [(r["id"], r["duplicate"]) for r in first] == [(e["id"], False) for e in XY]
    again = terminal("learn", "lines", file)
    assert again.wait() == 0
    assert again.text.count("known already") == len(XY)
    (one,) = run("learn", "lines", "--x", "[1, 0]", "--y", "7", "--id", "one")
    assert one["id"] == "one"
    assert client.example("lines", "one")["label"] == 7
    client.offer("lines", [{"id": "pooled", "x": [0, 0]}])
    run("learn", "lines", stdin='{"id": "pooled", "y": "no"}')
    assert client.example("lines", "pooled")["number"] == len(XY) + 2


def test_offer_reads_candidates_from_lines(run, client, model):
    text = text_of({"id": f"n{k}", "x": [k / 7, 0]} for k in range(5))
    (found,) = run("offer", model, "--batch", 2, stdin=text)
    assert (found["added"], found["size"], found["dropped"]) == (5, 7, 0)
    assert len(client.candidates(model)["candidates"]) == 7


def test_finish_completes_a_models_optimisation(run, model):
    (found,) = run("finish", model, "--epochs", 1)
    assert found["converged"]


def test_finish_says_how_many_examples_violate_where_points_max_leaves_no_room(terminal, client):
    parts = {"kernel": {"type": "rbf", "gamma": 1.0}, "C": 1.0, "features": {"type": "dense", "dim": 2}}
    client.create_model("narrow", solver="lasvm", points_max=20, **parts)
    client.learn("narrow", [{"x": [k % 7, k % 5], "y": "no" if k % 3 else "yes"} for k in range(100)])
    finished = terminal("finish", "narrow", "--epochs", 1)
    assert finished.wait() == 0
    assert re.search(r"not converged: points_max leaves no room for \d+ examples that violate", finished.text)


@pytest.mark.long
def test_forget_removes_an_example(run, refused, client, model):
    (found,) = run("forget", model, "e1")
    assert found["state"] == "done"
    assert "e1" not in [e["id"] for e in client.examples(model)["examples"]]
    run("forget", model, "c1")
    assert [c["id"] for c in client.candidates(model)["candidates"]] == ["c2"]
    assert "was forgotten (gone" in refused("correct", model, "e1", "yes")


@pytest.mark.long
def test_correct_corrects_or_confirms_a_label(run, terminal, client, model):
    (found,) = run("correct", model, "e2", "no")
    assert found["state"] == "done"
    said = terminal("correct", model, "e2", "no")
    assert said.wait() == 0
    assert said.text.strip() == "e2: no stands"
    (job,) = run("correct", model, "e4", '"1"', "--no-wait")
    assert client.wait(job)["state"] == "done"
    assert (client.example(model, "e2")["label"], client.example(model, "e4")["label"]) == ("no", "1")


@pytest.mark.long
def test_suspects_are_listed(run, terminal, client, model):
    client.learn(model, [{"id": f"s{k}", "x": [0, 0.1 * k], "y": "yes"} for k in range(8)])
    client.learn(model, [{"id": "wrong", "x": [0, 0.35], "y": "no"}])
    found = run("suspects", model, "-n", 3)
    assert found == client.suspects(model, n=3)["suspects"]
    assert found[0]["id"] == "wrong"
    shown = terminal("suspects", model)
    assert shown.wait() == 0
    assert "wrong" in shown.text


@pytest.fixture
def answered(client, model):
    """The model after an annotator has labelled both candidates."""
    for question in client.query(model, annotator="ann", n=2)["queries"]:
        client.learn(model, [{"id": question["id"], "y": 1, "lease": question["lease"]}])
    return model


def test_labels_are_written_as_csv(raw, client, answered):
    rows = list(csv.DictReader(StringIO(raw("labels", answered).stdout.decode())))
    assert list(rows[0]) == ["id", "label", "answers", "corrected", "prediction", "source", "at"]
    examples = client.examples(answered)["examples"]
    assert [(r["id"], r["at"]) for r in rows] == [(e["id"], e["at"]) for e in examples]
    assert [r["label"] for r in rows] == [e["y"] for e in XY] + ["1", "1"]
    assert [r["answers"] for r in rows] == [""] * 6 + ['{"ann": 1}'] * 2
    assert {r["corrected"] for r in rows} == {"no"}


@pytest.mark.long
def test_labels_are_written_as_json_lines_and_filtered(run, client, answered):
    assert run("labels", answered, "--format", "jsonl") == client.examples(answered)["examples"]
    assert [e["id"] for e in run("labels", answered, "--format", "jsonl", "--label", "no")] == ["e1", "e3", "e5"]
    assert {e["id"] for e in run("labels", answered, "--format", "jsonl", "--annotator", "ann")} == {"c1", "c2"}
    assert run("labels", answered, "--format", "jsonl", "--until", "2020-01-01") == []


@pytest.mark.long
def test_labels_are_written_as_parquet(raw, client, answered, terminal):
    table = parquet.read_table(BytesIO(raw("labels", answered, "--format", "parquet").stdout))
    examples = client.examples(answered)["examples"]
    assert table["id"].to_pylist() == [e["id"] for e in examples]
    assert table["at"].to_pylist() == [datetime.fromisoformat(e["at"]).astimezone(UTC) for e in examples]
    assert table["corrected"].to_pylist() == [False] * len(examples)
    shown = terminal("labels", answered, "--format", "parquet")
    assert shown.wait() == 1
    assert "Parquet is binary" in shown.text


def test_labels_as_parquet_without_pyarrow_names_the_extra(refused, model, tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('none', name='pyarrow')\n")
    line = refused("labels", model, "--format", "parquet", first=tmp_path)
    assert 'pip install "hinged[files]"' in line


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "words"),
    [
        (["create", "bad name", "--dim", 2], "", 1, "(invalid"),
        (["create", "new", "--config", "absent.json"], "", 2, "absent.json"),
        (["create", "new", "--gamma", "wide"], "", 2, "expected a number > 0, found 'wide'"),
        (["show", "absent"], "", 1, "there is no model 'absent' (not_found)"),
        (["delete", "absent", "--yes"], "", 1, "there is no model 'absent' (not_found)"),
        (["learn", "absent"], '{"x": [1]}', 1, "<stdin>, line 1: expected an object with y, found"),
        (["learn", "absent"], "\n[1, 2]\n", 1, "<stdin>, line 2: expected an object with y, found [1, 2]"),
        (["learn", "absent"], "{", 1, "<stdin>, line 1: expected JSON"),
        (["learn", "absent", "--x", "[1]"], "", 2, "--y is missing"),
        (["learn", "absent", "--y", "a"], "", 2, "--x is missing"),
        (["offer", "absent"], '{"x": [1]}', 1, "expected an object with id"),
        (["offer", "absent"], "", 1, "<stdin> holds no examples"),
        (["learn", "absent"], "", 1, "<stdin> holds no examples"),
        (["predict", "absent"], "\n", 1, "<stdin> holds no examples"),
        (["finish", "absent"], "", 1, "(not_found)"),
        (["forget", "absent", "e"], "", 1, "(not_found)"),
        (["correct", "absent", "e", "1"], "", 1, "(not_found)"),
        (["suspects", "absent"], "", 1, "(not_found)"),
        (["labels", "absent"], "", 1, "(not_found)"),
    ],
)
def test_an_impossible_command_gives_one_line(refused, arguments, stdin, code, words):
    assert words in refused(*arguments, stdin=stdin, code=code)
