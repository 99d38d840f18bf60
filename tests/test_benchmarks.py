"""Benchmarks can start and save their results, and benchmarks/README.md shows the saved results."""

import ast
import importlib
import json
import sys

import pytest

from tests.helpers.server import ROOT

BENCHMARKS = ROOT / "benchmarks"
PROGRAMS = sorted(path.relative_to(BENCHMARKS).as_posix() for path in BENCHMARKS.rglob("*.py"))
WORDS_MAX = 3000
KEYS = {"name", "date", "commit", "machine", "versions", "command", "tables"}


@pytest.fixture
def module(monkeypatch):
    """Returns a function that loads a module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield importlib.import_module
    for name in ("results", "tables", "targets"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_that_a_benchmark_imports_from_hinged_and_its_tests_exist(program):
    for node in ast.walk(ast.parse((BENCHMARKS / program).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("hinged", "tests"):
            found = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(found, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_the_comparison_has_the_lines_of_code_of_each_job(module):
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text()
    counted = module("jobs.__main__").counted
    columns = [counted(library).values() for library in ("hinged", "river", "vowpal_wabbit", "capymoa")]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in page.splitlines() if line.startswith("| ")]
    for lines in zip(*columns, strict=True):
        assert ["" if count is None else str(count) for count in lines] in rows


def test_the_page_says_what_the_kept_results_say(module):
    tables = module("tables")
    written = tables.written(tables.PAGE.read_text(), tables.results())
    assert tables.README.read_text() == written, "python benchmarks/tables.py writes it again"
    assert len(written.split()) < WORDS_MAX


def test_each_kept_result_says_where_it_comes_from(module):
    for name, found in module("tables").results().items():
        assert found["name"] == name
        assert KEYS <= found.keys() <= KEYS | {"by_hand"}
        for table in found["tables"]:
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}, name


def test_a_table_prints_its_rows_and_is_kept_with_machine_commit_and_command(module, tmp_path, capsys, monkeypatch):
    results = module("results")
    folder = "/somewhere/else"
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "half_life.py"), "--data", folder, "--runs", "2"])
    table = results.Table("stream", "time, s")
    table.add("letters", 3)
    results.keep("short", table, folder=tmp_path)
    assert capsys.readouterr().out == "| stream | time, s |\n|---|---|\n| letters | 3 |\n"
    found = json.loads((tmp_path / "short.json").read_text())
    assert found["command"] == "PYTHONPATH=.:benchmarks python benchmarks/half_life.py --data DATA --runs 2"
    assert found["tables"] == [{"title": "", "columns": ["stream", "time, s"], "rows": [["letters", "3"]]}]
    assert found["machine"]["cores"] > 0
    assert "Python" in found["versions"]


def test_a_row_of_another_length_is_refused(module):
    table = module("results").Table("stream", "time, s")
    with pytest.raises(ValueError, match="a row of 1 cells for 2 columns"):
        table.add("letters")


def test_results_with_equal_columns_become_one_table_with_each_origin(module):
    tables = module("tables")
    machine = {"processor": "A", "cores": 2, "memory_gib": 4, "load": 1.5}
    first, second = (
        {
            "name": name, "date": "2026-01-02", "commit": commit, "machine": machine, "versions": {},
            "command": f"python {name}.py", "tables": [{"title": "", "columns": ["x"], "rows": [[name]]}],
        }
        for name, commit in (("one", "aaaaaaa"), ("two", "bbbbbbb"))
    )  # fmt: skip
    shown = tables.shown([first, second | {"by_hand": True}])
    origin = "A, 2 cores, 4 GiB, load 1.5; 2026-01-02, commit"
    assert shown.startswith(
        f"| x |\n|---|\n| one |\n| two |\n\n- one: {origin} aaaaaaa\n- two: {origin} bbbbbbb, copied from"
    )
    assert shown.endswith("```text\npython one.py\npython two.py\n```")


def test_a_place_chooses_columns(module):
    table = {"title": "", "columns": ["x", "y", "z"], "rows": [["1", "2", "3"]]}
    assert module("tables").chosen(table, ["z", "x"]) == {"title": "", "columns": ["z", "x"], "rows": [["3", "1"]]}
    assert module("tables").chosen(table, ["other"]) == table


def test_results_without_a_place_are_listed(module):
    tables = module("tables")
    found = {"name": "one", "date": "2026-01-02", "commit": "aaaaaaa", "command": "PYTHONPATH=. python one.py"}
    text = tables.written("<!-- further results -->\n", {"one": found})
    assert "| [one](results/one.json) | 2026-01-02 | aaaaaaa | `one.py` |" in text


def test_targets_are_printed_as_one_table_and_kept_by_part(module, capsys, monkeypatch):
    targets = module("targets")
    line = targets.Line("1", "a pass", "1 s", "0.9 s", met=True)
    kept = {}
    monkeypatch.setattr(targets, "keep", lambda name, table, packages: kept.update({name: table.rows}))
    targets.print_table({"a": [lambda _: [line]], "b": [lambda _: [line._replace(met=False)]]}, None)
    assert kept == {"a": [["1", "a pass", "1 s", "0.9 s", "yes"]], "b": [["1", "a pass", "1 s", "0.9 s", "no"]]}
    assert capsys.readouterr().out.count("| target |") == 1
