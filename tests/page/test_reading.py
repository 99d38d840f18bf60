"""The page reads a table as the command line does, however odd the table is."""

import random

import pytest

from hinged.readers import open_source
from hinged.readers.bad_rows import SkippedRows
from hinged.readers.table import MISSING, TableColumns

READING = """async (tables) => {
  const { guess, labelOf, open, readAs, recordOf } = await import("./ui/read.js");
  const found = [];
  for (const { text, choices } of tables) {
    const source = await open(new File([text], "table.csv"), choices), rows = [], bad = [];
    for await (const [number, row] of source.rows()) (row instanceof Error ? bad : rows).push(row);
    const features = readAs(guess(source.names, rows, source), source).filter((column) => column.name !== "y");
    const x = rows.map((row) => recordOf(row, features)), y = rows.map((row) => labelOf(row.y));
    found.push({ bad: bad.length, x, y });
  }
  return found;
}"""
CELLS = {
    "numbers": ["1", "-2", "+3", "1.5", ".5", "2.", "1e3", "1E-3", "007", " 4 "],
    "commas": ["1,5", "-0,25", "12,0", "3", " 4,5 "],
    "thousands": ["1.234,5", "2.000,0", "-1.234.567,25"],
    "commas between": ["1,234.5", "-1,234,567.25", "950.00"],
    "days": ["31.12.2025", "1.2.2026", "30.04.2024 7:15"],
    "months": ["12/31/2025", "1-2-2026"],
    "texts": ["red", "blue sky", "1_0", "inf", "0x10", "1,2,3", "--1", "1.2.3", "12,", "\u00e9t\u00e9", '"', "a'b"],
    "missing": [*sorted(MISSING), " NA ", "  "],
}
LABELS = ["a", "b", "7", "007", "-3", "+5", "0", "-0", "1.0", "1,5", " spaced "]


def quoted(rng, cell, separator):
    """Write a cell: in quotes if it must be, or sometimes without need; sometimes after a space."""
    if separator in cell or '"' in cell or "\n" in cell or rng.random() < 0.1:
        cell = '"' + cell.replace('"', '""') + '"'
    return " " * (rng.random() < 0.1) + cell


def table(rng):
    """Return a table whose columns hold cells of one or several kinds, and what its reader chooses."""
    separator = rng.choice([",", ";", "\t", "|"])
    kinds = [rng.choices(list(CELLS), k=rng.choice([1, 1, 1, 2])) for _ in range(rng.randint(2, 5))]
    head = [f"column {k}" if rng.random() < 0.2 else f"c{k}" for k in range(len(kinds))]
    rows = [[*head, "y"]]
    for _ in range(rng.randint(2, 12)):
        cells = [rng.choice(CELLS[rng.choice(kind)] + CELLS["missing"] * (rng.random() < 0.1)) for kind in kinds]
        cells = [cell + "\nmore" if rng.random() < 0.02 else cell for cell in cells]
        rows.append([*cells, rng.choice(LABELS)])
    if rng.random() < 0.3:
        rows.append(rows[-1][: rng.randint(1, len(kinds))])
    end = rng.choice(["\n", "\r\n"])
    lines = [separator.join(quoted(rng, cell, separator) for cell in row) for row in rows]
    if rng.random() < 0.2:
        lines.insert(rng.randint(1, len(lines)), "")
    text = "\ufeff" * (rng.random() < 0.2) + end.join(lines) + end * (rng.random() < 0.8)
    choices = {}
    if rng.random() < 0.3:
        choices["separator"] = separator
    if rng.random() < 0.3:
        choices["missing"] = rng.sample(["red", "NA", "3", "1,5", "--1", "31.12.2025", "007", "null"], 3)
    return {"text": text, "choices": choices}


def read(path, choices):
    """Read a table as the commands do."""
    bad = SkippedRows()
    choice = TableColumns("y", None, named=True, missing=frozenset(["", *choices.get("missing", MISSING)]))
    rows = list(open_source(path, choice=choice, delimiter=choices.get("separator"), bad_rows=bad))
    return {"bad": bad.count, "x": [row.x for row in rows], "y": [row.y for row in rows]}


@pytest.mark.long
def test_any_table_is_read_like_by_the_commands(server, tab, tmp_path):
    rng, tables, expected = random.Random(3), [], []
    while len(tables) < 700:
        tables.append(table(rng))
        (tmp_path / "table.csv").write_text(tables[-1]["text"], newline="")
        expected.append(read(tmp_path / "table.csv", tables[-1]["choices"]))
    found = tab(server.url).open("", "h1").evaluate(READING, tables)
    for asked, one, other in zip(tables, found, expected, strict=True):
        assert one == other, asked
