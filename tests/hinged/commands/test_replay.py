import io
import json

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from hinged.commands.cli import cli
from hinged.commands.showing import same_label
from hinged.commands.stream import StreamTally

LABEL = ("--label", "y")


class LastLabel:
    """The routes of the server with the simplest learner, which always predicts the last label that it learned."""

    def __init__(self):
        self.configuration = None
        self.answers = {}
        self.learned = []
        self.last = None

    def __call__(self, method, path, body):
        if path == "/readyz":
            return 200, {}
        if method == "PUT":
            self.configuration = body
            return 201, {"configuration": {"solver": "auto", **body}}
        if self.configuration is None:
            return 404, {"error": {"code": "not_found", "message": "no such model"}}
        figures = {"support_vectors": len(self.learned), "duality_gap": 0.5}
        if method == "GET":
            return 200, {"configuration": self.configuration, "metrics": {"warning": "few labels are fraud"}, **figures}
        if path.endswith("/finish"):
            return 200, {**figures, "support_vectors": 1, "steps": 1}
        if path.endswith("/predict"):
            return 200, {"results": [{"id": e["id"], "prediction": self.last} for e in body["examples"]]}
        return self.learn(body["examples"])

    def learn(self, examples):
        results = []
        for example in examples:
            content = json.dumps([example["x"], example["y"]])
            known = self.answers.get(example["id"])
            if known and known[0] != content:
                return 409, {"error": {"code": "conflict", "message": f"id {example['id']} is taken"}}
            if not known:
                self.answers[example["id"]] = (content, self.last)
                self.learned.append(example)
                self.last = example["y"]
            prediction = self.answers[example["id"]][1]
            results.append({"id": example["id"], "prediction": prediction, "duplicate": bool(known)})
        return 200, {"results": results}


@pytest.fixture
def learner(server):
    server.answer = LastLabel()
    return server.answer


@pytest.fixture
def run(server):
    """Run the command on a file, and return the output, or raise the error of the command."""

    def run(path, *options):
        command = ["replay", path, "--url", server.url, *options]
        found = CliRunner(env={"COLUMNS": "100"}).invoke(cli, [*map(str, command)])
        if found.exit_code:
            raise ValueError(found.stderr)
        return found.stdout

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n" + "".join(f"{i},{-i},{i // 5}\n" for i in range(10)))
    return path


def test_replay_waits_for_a_model_whose_solver_compiles(server, learner, run, table):
    asked = []

    def answer(method, path, body):
        status, found = learner(method, path, body)
        if method == "PUT":
            return status, found | {"state": "compiling"}
        if learner.configuration is not None and len(asked) < 3:  # more often than the client's tries_max
            asked.append(path)
            return 503, {"error": {"code": "unavailable", "message": "no", "details": {"state": "compiling"}}}
        return status, found

    server.answer = answer
    printed = run(table, *LABEL)
    assert "compiling auto, once on this machine ...\n" in printed
    assert asked == ["/models/replay"] * 3
    assert len(learner.learned) == 10


def test_replay_creates_a_model_and_streams_a_file_in_batches(server, learner, run, table):
    printed = run(table, *LABEL, "--batch", 4, "--C", 2, "--gamma", 0.25)
    assert learner.configuration == {
        "kernel": {"type": "rbf", "gamma": 0.25},
        "C": 2.0,
        "features": {"type": "dense", "dim": 2},
        "classes": None,
        "seed": 0,
    }
    assert [e["x"] for e in learner.learned] == [[i, -i] for i in range(10)]
    sent = [body["examples"] for _, path, body in server.requests if path.endswith("/learn")]
    assert [len(batch) for batch in sent] == [4, 4, 2]
    # The model made nine predictions. The prediction at the change of the label is wrong.
    assert "88.89 %" in printed
    assert "few labels are fraud" in printed
    assert "learning 10/10" in printed
    assert f"curl -s {server.url}/models/replay\n" in printed


def test_a_second_run_continues_where_the_first_was_interrupted(learner, run, table):
    run(table, *LABEL, "--limit", 6, "--no-finish")
    first = list(learner.learned)
    printed = run(table, *LABEL)
    assert learner.learned[:6] == first
    assert [e["x"][0] for e in learner.learned] == list(range(10))
    assert "6 of 10 examples had been learned before" in printed
    # Shuffling gives the same examples in a different order.
    printed = run(table, *LABEL, "--shuffle", "--seed", 1)
    assert "10 of 10 examples had been learned before" in printed


def test_rows_of_another_file_with_the_same_name_are_new_examples(learner, run, table, tmp_path):
    run(table, *LABEL)
    other = tmp_path / "folder" / "a.csv"
    other.parent.mkdir()
    other.write_text("a,b,y\n5,5,1\n")
    run(other, *LABEL)
    assert len(learner.learned) == 11


def test_replay_uses_the_ids_of_the_file_and_a_conflict_says_what_to_do(learner, run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,y\nu1,1,0\nu2,2,1\n")
    run(path, *LABEL, "--id", "id")
    assert [e["id"] for e in learner.learned] == ["u1", "u2"]
    path.write_text("id,a,y\nu1,3,0\n")
    with pytest.raises(ValueError, match=r"id u1 is taken.*another --model"):
        run(path, *LABEL, "--id", "id")


def test_the_held_out_part_is_predicted_before_and_after_finishing(server, learner, run, table, tmp_path):
    held_out = tmp_path / "test.csv"
    held_out.write_text("y,b,a\n1,2,3\n1,2,3\n0,2,3\n1,2,3\n")
    printed = run(table, *LABEL, "--test", held_out, "--batch", 3)
    posted = [(path.rpartition("/")[2], body) for method, path, body in server.requests if method == "POST"]
    assert [step for step, _ in posted[-5:]] == ["predict", "predict", "finish", "predict", "predict"]
    assert printed.count("75.00 %") >= 2
    assert posted[-1][1]["examples"][0]["x"] == [3.0, 2.0]
    assert "streamed" in printed
    assert "finished" in printed
    assert "finished" not in run(table, *LABEL, "--no-finish")
    assert learner.last == 1


def test_sparse_features_have_the_larger_dim_of_both_files(learner, run, tmp_path):
    train, held_out = tmp_path / "train.svm", tmp_path / "test.svm"
    train.write_text("1 1:1\n-1 2:1\n")
    held_out.write_text("1 9:1\n")
    run(train, "--test", held_out)
    assert learner.configuration["features"] == {"type": "sparse", "dim": 9}
    assert learner.learned[0]["x"] == {"indices": [0], "values": [1.0]}


def test_an_existing_model_must_match_the_file_and_the_given_options(learner, run, table, tmp_path):
    same = ("--C", 1, "--gamma", 0.25)
    run(table, *LABEL, *same, "--set", "seed=3")
    learner.configuration["kernel"]["type"] = "laplacian"
    said = run(table, *LABEL)  # the command line gives no kernel, so the default need not match
    assert "continuing with the existing model" in said
    for options, name in (
        (("--C", 9), "C"),
        (("--gamma", 0.5), "gamma"),
        (("--kernel", "linear"), "kernel"),
        (("--solver", "smo"), "solver"),
        (("--set", "seed=4"), "seed"),
    ):
        with pytest.raises(ValueError, match=f"exists with {name} = "):
            run(table, *LABEL, *options)
    run(table, *LABEL, *same)
    for name, text in (("b.csv", "a,y\n1,1\n"), ("b.svm", "1 1:1\n")):
        other = tmp_path / name
        other.write_text(text)
        with pytest.raises(ValueError, match="has dense features of dim 2"):
            run(other, *(LABEL if name == "b.csv" else ()))
    assert learner.configuration["C"] == 1.0
    assert learner.configuration["seed"] == 3


def test_a_linear_kernel_has_no_gamma(learner, run, table):
    run(table, *LABEL, "--kernel", "linear")
    assert learner.configuration["kernel"] == {"type": "linear"}


def test_replay_waits_for_a_server_that_starts(server, learner, run, table):
    starting = (503, {"error": {"code": "unavailable", "message": "compiling"}}, {})
    server.script = [starting, starting]
    assert "waiting for the server" in run(table, *LABEL)
    assert len(learner.learned) == 10


def test_replay_raises_a_refusal_of_the_server(server, run, table):
    refusal = (422, {"error": {"code": "invalid", "message": "no such kernel"}})
    learner = LastLabel()
    server.answer = lambda method, *rest: refusal if method == "PUT" else learner(method, *rest)
    with pytest.raises(ValueError, match="no such kernel"):
        run(table, *LABEL, "--kernel", "magic")


def test_replay_reports_an_empty_file(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n")
    with pytest.raises(ValueError, match=r"a\.csv holds no examples"):
        run(path, *LABEL)


@pytest.mark.parametrize(
    ("options", "kernel", "scale"),
    [
        ((), {"type": "rbf", "gamma": "scale"}, {}),
        (("--scale", "none"), {"type": "rbf", "gamma": "scale"}, {"scale": None}),
        (("--gamma", 0.5, "--scale", "auto"), {"type": "rbf", "gamma": 0.5}, {"scale": "auto"}),
    ],
)
def test_the_server_chooses_scales_and_gamma_by_default(learner, run, table, options, kernel, scale):
    run(table, *LABEL, *options)
    assert learner.configuration["kernel"] == kernel
    assert learner.configuration["features"] == {"type": "dense", "dim": 2} | scale


def test_true_one_and_the_text_one_are_different_labels():
    labels = [True, 1, "1", 1.0]
    assert [[same_label(a, b) for b in labels] for a in labels] == np.eye(4, dtype=bool).tolist()


def test_the_accuracy_ignores_examples_without_a_prediction():
    tally = StreamTally()
    assert tally.accuracy is None
    tally.count([1, 1, 2], [{"prediction": None}, {"prediction": 1}, {"prediction": 1, "duplicate": True}])
    assert (tally.learned, tally.duplicates, tally.accuracy) == (2, 1, 0.5)


def test_a_terminal_shows_a_progress_bar_with_figures(learner, run, table, monkeypatch):
    printed = io.StringIO()
    terminal = Console(file=printed, width=100, force_terminal=True)
    monkeypatch.setattr("hinged.commands.cli.PlainConsole", lambda: terminal)
    run(table, *LABEL)
    assert "10/10" in printed.getvalue()
    assert "gap 5.00e-01" in printed.getvalue()
    assert len(learner.learned) == 10
