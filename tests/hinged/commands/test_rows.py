"""--bad-rows and --dry-run of `hinged learn` and `hinged replay`, against a real server."""

import itertools
import json

import pytest

from tests.helpers.command import hinged

NUMBERS = itertools.count()
LINES = [
    '{"id": "a", "x": [0, 1], "y": "u"}',
    "nonsense",
    '{"id": "b", "x": [1], "y": "v"}',
    '{"id": "c", "x": [1, 0], "y": "v"}',
]
CSV = "serial,t,site,state\na1,61.5,north,fine\na2,88.0\na3,59.0,south,worn\na4,60,south,\n"


@pytest.fixture
def run(real):
    def run(*arguments, code=0, stdin=""):
        return hinged(*arguments, "--url", real.url, code=code, input=stdin)

    return run


@pytest.fixture
def model(client):
    name = f"rows{next(NUMBERS)}"
    client.create_model(name, features={"type": "dense", "dim": 2}, solver="lasvm", kernel={"type": "linear"})
    return name


@pytest.fixture
def file(tmp_path):
    def file(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def learned(client, model):
    return [example["id"] for example in client.examples(model)["examples"]]


@pytest.mark.long
def test_learn_stops_at_the_first_bad_row_with_its_line(run, client, model, file):
    path = file("a.jsonl", "\n".join(LINES))
    assert "a.jsonl, line 2: expected JSON" in run("learn", model, path, "--batch", 1, code=1).stderr
    assert learned(client, model) == ["a"]
    path = file("a.jsonl", "\n".join(LINES[2:]))
    assert "a.jsonl, line 1: x: expected" in run("learn", model, path, code=1).stderr


@pytest.mark.long
@pytest.mark.parametrize("refused", ['{"id": "c", "x": [1], "y": 0}', '{"id": "a", "x": [5, 5], "y": 0}'])
def test_the_rows_before_a_refused_row_are_learned(run, client, model, file, refused):
    rows = ['{"id": "a", "x": [1, 2], "y": 0}', '{"id": "b", "x": [2, 1], "y": 1}', refused, '{"x": [3], "y": 0}']
    done = run("learn", model, file("a.jsonl", "\n".join(rows)), code=1)
    assert "a.jsonl, line 3: " in done.stderr
    assert "examples[" not in done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["a", "b"] == learned(client, model)


@pytest.mark.long
def test_learn_skips_bad_rows_of_the_file_and_of_the_server(run, client, model, file, tmp_path):
    path, aside = file("a.jsonl", "\n".join(LINES)), tmp_path / "aside.jsonl"
    done = run("learn", model, path, "--bad-rows", aside)
    assert learned(client, model) == ["a", "c"]
    assert "2 bad rows were skipped and written to" in done.stderr
    written = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [(row["line"], row["row"]) for row in written] == [(2, LINES[1]), (3, json.loads(LINES[2]))]
    assert len(run("learn", model, "--bad-rows", "skip", stdin="\n".join(LINES)).stdout.splitlines()) == 2


@pytest.mark.long
def test_replay_writes_the_bad_rows_of_a_table_to_a_file(run, client, file, tmp_path):
    name, path, aside = f"rows{next(NUMBERS)}", file("pumps.csv", CSV), tmp_path / "aside.jsonl"
    options = ["--model", name, "--label", "state", "--id", "serial", "--solver", "lasvm"]
    assert "pumps.csv, line 3: expected 4 fields, found 2" in run("replay", path, *options, code=1).stderr
    done = run("replay", path, *options, "--bad-rows", aside)
    assert learned(client, name) == ["a1", "a3"]
    assert "2 bad rows were skipped" in done.stderr
    assert [(row["line"], row["reason"]) for row in map(json.loads, aside.read_text().splitlines())] == [
        (3, "expected 4 fields, found 2"),
        (5, "the label is empty"),
    ]


@pytest.mark.long
def test_replay_writes_the_rows_that_the_server_refuses_to_a_file(run, client, file, tmp_path):
    bad = (3, 150, 151)
    examples = [
        {"id": f"e{k}", "x": {"a": k % 7, "b": "x" * (2000 if k in bad else 3)}, "y": k % 2} for k in range(200)
    ]
    lines = [*map(json.dumps, examples)]
    path, aside = file("long.jsonl", "\n".join(lines)), tmp_path / "aside.jsonl"
    name = f"rows{next(NUMBERS)}"
    options = ["--model", name, "--solver", "lasvm"]
    assert "long.jsonl, row 4: x: 'b': a string" in run("replay", path, *options, code=1).stderr
    done = run("replay", path, *options, "--bad-rows", aside)
    assert "3 bad rows were skipped and written to" in done.stderr
    assert client.model(name)["examples"] == 197
    rows = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [(row["number"], row["row"]) for row in rows] == [(k + 1, examples[k]) for k in bad]
    assert "'b': a string must have at most 1000 characters" in rows[0]["reason"]


@pytest.mark.long
def test_a_dry_run_describes_the_file_and_sends_nothing(free_url, file):
    path = file("pumps.csv", CSV)
    done = hinged("replay", path, "--label", "state", "--id", "serial", "--dry-run", "--url", free_url)
    assert done.stdout.splitlines() == [
        "pumps.csv: rows 2, bad rows 2",
        "x: named in 2 rows",
        "  t     number    2 values: 59 to 61.5",
        "  site  category  2 values: 'north', 'south'",
        "labels: 2: fine (1), worn (1)",
        "nothing was sent",
    ]
    assert "2 bad rows were skipped" in done.stderr
    done = hinged("learn", "m", "--dry-run", "--url", free_url, input="\n".join(LINES))
    assert done.stdout.splitlines()[:2] == [
        "<stdin>: rows 3, bad rows 1",
        "x: 2 numbers in 2 rows, 1 numbers in 1 rows",
    ]


@pytest.mark.long
def test_a_dry_run_names_dates_and_columns_of_numbers(free_url, file):
    path = file("a.csv", "a,b,y\n1,2,u\n3,4,v\n")
    done = hinged("replay", path, "--label", "y", "--dry-run", "--url", free_url)
    assert done.stdout.splitlines()[2:4] == ["  a  number    2 values: 1 to 3", "  b  number    2 values: 2 to 4"]
    path = file("b.csv", "when,ok,y\n2026-01-01,true,u\n2026-01-02,NA,v\n")
    lines = hinged("replay", path, "--label", "y", "--dry-run", "--url", free_url).stdout.splitlines()
    assert lines[2:4] == [
        "  when  time      2 values: '2026-01-01', '2026-01-02'",
        "  ok    category  1 values, 1 missing: 'true'",
    ]


@pytest.mark.long
def test_the_file_of_bad_rows_is_never_the_file_to_read(run, file):
    path = file("a.jsonl", "\n".join(LINES))
    assert "is the file to read" in run("learn", "m", path, "--bad-rows", path, code=2).stderr
    assert path.read_text() == "\n".join(LINES)
    assert "expected stop, skip or a file" in run("learn", "m", path, "--bad-rows", path.parent, code=2).stderr


def test_a_dry_run_tells_decimal_commas_and_the_option_sets_them(free_url, file):
    path = file("a.csv", "a;b;y\n1,5;2,25;u\n2;4,5;v\n")
    lines = hinged("replay", path, "--label", "y", "--dry-run", "--url", free_url).stdout.splitlines()
    assert lines[2:4] == ["  a  number    2 values: 1.5 to 2", "  b  number    2 values: 2.25 to 4.5"]
    assert "columns 'a', 'b' read with decimal commas; --decimal . reads such values as texts" in lines
    lines = hinged("replay", path, "--label", "y", "--dry-run", "--decimal", ".", "--url", free_url).stdout.splitlines()
    assert lines[2:4] == ["  a  category  2 values: '1,5', '2'", "  b  category  2 values: '2,25', '4,5'"]
