"""Commands that read tables and texts, against a real server."""

import csv
import io
import itertools
import json

import pytest

from tests.helpers.command import hinged

pytestmark = pytest.mark.long

NUMBERS = itertools.count()
HAM = ["see you at noon", "the meeting is over", "lunch at my place"]
SPAM = ["win a free phone", "free money now", "you won money"]


@pytest.fixture
def run(real):
    """Run a command. Return its output, or its stderr if it fails."""

    def run(*arguments, code=0, stdin=""):
        done = hinged(*arguments, "--url", real.url, code=code, input=stdin)
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.fixture
def name():
    return f"t{next(NUMBERS)}"


@pytest.fixture
def table(tmp_path):
    def table(rows, name="rows.csv"):
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return path

    return table


def messages(n):
    return [
        {"number": f"m{k}", "label": ["ham", "spam"][k % 2], "text": f"{(HAM, SPAM)[k % 2][k // 2 % 3]}, {k}",
         "when": f"2026-05-{1 + k % 28:02} {k % 24:02}:15"}
        for k in range(n)
    ]  # fmt: skip


def without(rows, *names):
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def test_a_table_of_texts_becomes_a_model_of_texts(run, client, table, name):
    path = table(without(messages(80), "when"))
    said = run("replay", path, "--label", "label", "--id", "number", "--text", "text", "--model", name)
    assert "linear kernel, text features" in said
    configuration = client.model(name)["configuration"]
    assert configuration["features"]["type"] == "text"
    assert client.model(name)["examples"] == 80
    run("replay", path, "--label", "label", "--id", "number", "--text", "text", "--model", name)
    assert client.model(name)["examples"] == 80
    asked = table(
        [{"number": "q1", "text": "money for free"}, {"number": "q2", "text": "noon, at my place"}], "asked.csv"
    )
    found = [json.loads(line) for line in run("predict", name, asked, "--id", "number").splitlines()]
    assert [(result["id"], result["prediction"]) for result in found] == [("q1", "spam"), ("q2", "ham")]
    rows = list(csv.DictReader(io.StringIO(run("predict", name, asked, "--id", "number", "--csv", "--batch", 1))))
    assert [(row["number"], row["prediction"]) for row in rows] == [("q1", "spam"), ("q2", "ham")]
    chances = ["probability of ham", "probability of spam"]
    assert list(rows[0]) == ["number", "text", "prediction", "probability", *chances, "outside"]
    assert all(row[f"probability of {row['prediction']}"] == row["probability"] for row in rows)
    assert [row["outside"] for row in rows] == ["", ""]
    strange = table([{"number": "q3", "text": "xyzzy plugh"}], "strange.csv")
    said = run("predict", name, strange, "--id", "number", "--csv")
    assert said.splitlines()[-1].endswith(",text")
    answer = run("predict", name, stdin='"free money"\n{"x": "lunch", "id": "l1"}\n').splitlines()
    assert [json.loads(line)["prediction"] for line in answer] == ["spam", "ham"]


def test_texts_and_times_are_learned_beside_other_columns(run, client, table, name):
    path = table(messages(60))
    options = ["--label", "label", "--id", "number", "--text", "text", "--time", "when", "--model", name]
    run("replay", path, *options)
    features = client.model(name)["features"]
    assert features["texts"] == ["text"]
    assert [field["name"] for field in features["fields"] if "time" in field] == ["when"]
    later = table(without(messages(5), "label"), "later.csv")
    assert len(run("predict", name, later, "--id", "number").splitlines()) == 5


def test_offer_sends_the_columns_that_people_see(run, client, table, name):
    run("create", name, "--features", "text")
    assert client.model(name)["configuration"]["kernel"] == {"type": "linear"}
    rows = [{**row, "link": f"https://a.example/{k}"} for k, row in enumerate(without(messages(12), "label", "when"))]
    path = table(rows, "pool.csv")
    said = json.loads(run("offer", name, path, "--id", "number", "--show", "link", "--batch", 5))
    assert (said["added"], said["size"]) == (12, 12)
    assert client.candidates(name)["candidates"][3]["show"] == "https://a.example/3"
    assert client.example(name, "m3")["x"] == rows[3]["text"]
    assert json.loads(run("offer", name, path, "--id", "number", "--show", "link"))["added"] == 0
    assert json.loads(run("query", name, "--annotator", "ann"))["show"].startswith("https://a.example/")
    error = run("offer", name, path, "--show", "link", code=1)
    assert "the model learns from one text: --features names its column" in error


def test_rows_without_ids_are_offered_once(run, client, table, name):
    client.create_model(name, kernel={"type": "rbf"}, features={"type": "dense", "dim": 2})
    path = table([{"a": k, "b": -k} for k in range(5)])
    assert json.loads(run("offer", name, path))["added"] == 5
    assert json.loads(run("offer", name, path))["added"] == 0
    assert client.example(name, client.candidates(name)["candidates"][2]["id"])["x"] == [2, -2]
    lines = path.with_suffix(".jsonl")
    lines.write_text('{"id": "c", "x": [1, 2], "show": {"a": 1}}\n')
    assert json.loads(run("offer", name, lines))["added"] == 1
    assert client.example(name, "c")["show"] == {"a": 1}
    assert "--show names columns of a table" in run("offer", name, lines, "--show", "a", code=2)


@pytest.mark.parametrize("kernel", [{"type": "rbf"}, {"type": "rbf", "gamma": 1.0}])
def test_predict_leaves_out_bad_rows_and_its_answers_stay_beside_their_rows(run, client, tmp_path, name, kernel):
    client.create_model(name, kernel=kernel, features={"type": "dense", "dim": 2})
    client.learn(name, [{"x": [0, 0], "y": "low"}, {"x": [9, 9], "y": "high"}])
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n0,0\n9\n9,9\n,1\n8,9\n")
    stopped = run("predict", name, path, "--csv", code=1)
    assert "rows.csv, line 3: expected 2 fields, found 1; --bad-rows skip omits such rows" in stopped
    for batch in (1, 100):
        said = run("predict", name, path, "--csv", "--batch", batch, "--bad-rows", tmp_path / "bad.jsonl")
        rows = [(row["a"], row["prediction"]) for row in csv.DictReader(io.StringIO(said))]
        assert rows == [("0", "low"), ("9", "high"), ("8", "high")]
        bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
        assert [row["line"] for row in bad] == [3, 5]
    lines = run("predict", name, "--bad-rows", "skip", stdin="[0, 0]\nnonsense\n[9, 9]\n").splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == ["low", "high"]
    nothing = run("predict", name, "--bad-rows", "skip", stdin="nonsense\n", code=1)
    assert "1 bad row was skipped" in nothing
    assert "<stdin> holds no examples" in nothing


@pytest.mark.parametrize("more", [(), ("--csv",), ("--csv", "--decide"), ("--csv", "--decide", "--batch", 1)])
def test_at_a_bad_row_the_answers_for_the_rows_before_it_are_written(real, client, tmp_path, name, more):
    costs = {"high": {"low": 9}, "ask": 0.4}
    client.create_model(name, kernel={"type": "rbf"}, features={"type": "dense", "dim": 2}, costs=costs)
    client.learn(name, [{"x": [k % 2 * 9, k % 2 * 9], "y": ["low", "high"][k % 2]} for k in range(60)])
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "0,0\n9,9\n" * 501 + "9\n8,9\n")  # the command reads 1,000 rows before it asks
    done = hinged("predict", name, path, *more, "--url", real.url, code=1)
    assert "rows.csv, line 1004: expected 2 fields, found 1; --bad-rows skip omits such rows" in done.stderr
    lines = done.stdout.splitlines()
    rows = list(csv.DictReader(lines)) if "--csv" in more else [json.loads(line) for line in lines]
    assert len(rows) == 1002
    if "--decide" in more:
        assert "1" in [row["rank"] for row in rows]


def test_a_file_of_one_day_needs_an_order_where_the_model_has_learned_dates(run, table, name):
    rows = [{"when": f"{1 + k % 28:02}.03.2026 {k % 24:02}:15", "y": ["u", "v"][k % 2]} for k in range(60)]
    run("replay", table(rows), "--label", "y", "--model", name)
    day = table([{"when": f"05.03.2026 {hour:02}:30"} for hour in range(9)], "day.csv")
    for command in ("predict", "offer"):
        said = run(command, name, day, code=1)
        assert "day.csv: column 'when' read as texts, not as dates; --dates day-first or --dates month-first" in said
    answers = [json.loads(line) for line in run("predict", name, day, "--dates", "day-first").splitlines()]
    assert len(answers) == 9
    assert not any("outside" in answer for answer in answers)
