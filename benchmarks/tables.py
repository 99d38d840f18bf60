"""Write README.md from page.md and the kept results: `python benchmarks/tables.py`.

A line `<!-- NAME NAME ... -->` of page.md becomes the tables of these results, joined where their columns are equal,
and a line about each machine and command. Results without a place in page.md are listed at its end.
"""

import json
import re
from itertools import groupby
from pathlib import Path

from results import FOLDER, lines

PAGE, README = Path(__file__).with_name("page.md"), Path(__file__).with_name("README.md")
NOTE = "<!-- written by benchmarks/tables.py from page.md and results/*.json -->\n\n"
PLACE = re.compile(r"^<!-- ([\w -]+) -->$", re.MULTILINE)
FURTHER = "further results"
"""The place of the list of results that have no other place."""


def results(folder=FOLDER):
    """The kept results by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def machine_of(result):
    """Processor, cores and memory of a result, as far as they are known."""
    machine = result["machine"]
    memory, load = machine.get("memory_gib"), machine.get("load")
    parts = [machine["processor"], f"{machine['cores']} cores", f"{memory} GiB" if memory else ""]
    return ", ".join([*filter(None, parts), *([f"load {load:g}"] if load is not None else [])])


def origin(result):
    """Machine, date and commit of a result in a few words."""
    copied = ", copied from notes" if result.get("by_hand") else ""
    return f"{machine_of(result)}; {result['date']}, commit {result['commit']}{copied}"


def shown(found):
    """The tables of some results, each followed by its origins and commands."""
    tables = [(table, result) for result in found for table in result["tables"]]
    text = []
    for columns, group in groupby(tables, key=lambda pair: pair[0]["columns"]):
        members = list(group)
        text += lines(columns, [row for table, _ in members for row in table["rows"]])
        origins = dict.fromkeys(origin(result) for _, result in members)
        commands = dict.fromkeys(result["command"] for _, result in members)
        text += ["", *(f"*{each}.*" for each in origins), "", "```text", *commands, "```", ""]
    return "\n".join(text).rstrip("\n")


def listed(found):
    """A line for each result, with a link to its file."""
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
        return shown([left.pop(name) for name in place[1].split()])

    text = PLACE.sub(put, page)
    return NOTE + text.replace(f"<!-- {FURTHER} -->", listed(left.values()))


if __name__ == "__main__":
    README.write_text(written(PAGE.read_text(), results()))
