"""Write README.md from page.md and the saved results: `python benchmarks/tables.py`.

A line `<!-- NAME NAME ... -->` of page.md is replaced by the tables of these results, with a line about each machine
and command. Tables with equal columns are joined. `<!-- NAME | COLUMN | COLUMN -->` chooses columns; a table without
the first of these columns is shown whole. Results that page.md does not mention are added at the end.
"""

import json
import re
from itertools import groupby
from pathlib import Path

from results import FOLDER, lines

PAGE, README = Path(__file__).with_name("page.md"), Path(__file__).with_name("README.md")
NOTE = "<!-- written by benchmarks/tables.py from page.md and results/*.json -->\n\n"
PLACE = re.compile(r"^<!-- ([^>]+) -->$", re.MULTILINE)
FURTHER = "further results"
"""The place for results that have no other place."""


def results(folder=FOLDER):
    """Return the saved results by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def machine_of(result):
    """Return processor, cores and memory of a result, as far as they are known."""
    machine = result["machine"]
    memory, load = machine.get("memory_gib"), machine.get("load")
    parts = [machine["processor"], f"{machine['cores']} cores", f"{memory} GiB" if memory else ""]
    return ", ".join([*filter(None, parts), *([f"load {load:g}"] if load is not None else [])])


def origin(result):
    """Return machine, date and commit of a result in a few words."""
    copied = ", copied from notes" if result.get("by_hand") else ""
    return f"{machine_of(result)}; {result['date']}, commit {result['commit']}{copied}"


def chosen(table, columns):
    """Return the table with only these columns, or the whole table if it lacks the first of them."""
    if not columns or columns[0] not in table["columns"]:
        return table
    places = [table["columns"].index(column) for column in columns]
    return {**table, "columns": columns, "rows": [[row[place] for place in places] for row in table["rows"]]}


def shown(found, columns=()):
    """Return the tables of some results, then their origins and commands."""
    text = []
    tables = [chosen(table, list(columns)) for result in found for table in result["tables"]]
    for heads, group in groupby(tables, key=lambda table: table["columns"]):
        members = list(group)
        title = members[0]["title"]
        text += [*([f"{title}:", ""] if title else []), *lines(heads, [row for t in members for row in t["rows"]]), ""]
    named = {}
    for result in found:
        named.setdefault(origin(result), []).append(result["name"])
    several = len(named) > 1
    origins = [f"- {', '.join(names)}: {each}" if several else f"Measured: {each}" for each, names in named.items()]
    commands = dict.fromkeys(result["command"] for result in found)
    return "\n".join([*text, *origins, "", "```text", *commands, "```"])


def listed(found):
    """Return a line for each result, with a link to its file."""
    heads = "result", "date", "commit", "command"
    rows = [
        [f"[{r['name']}](results/{r['name']}.json)", r["date"], r["commit"], f"`{r['command'].split(' python ')[-1]}`"]
        for r in found
    ]
    return "\n".join(lines(heads, rows))


def written(page, found):
    """README.md."""
    left = dict(found)

    def put(place):
        if place[1] == FURTHER:
            return place[0]
        names, *columns = (" ".join(part.split()) for part in place[1].split("|"))
        return shown([left.pop(name) for name in names.split()], columns)

    text = PLACE.sub(put, page)
    return NOTE + text.replace(f"<!-- {FURTHER} -->", listed(left.values()))


if __name__ == "__main__":
    README.write_text(written(PAGE.read_text(), results()))
