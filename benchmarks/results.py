"""Tables that a benchmark prints and saves. Not a program.

A benchmark adds rows to a `Table`, which prints each row at once. Then it calls `keep`, which writes the tables to
results/NAME.json, with the machine, the versions, the commit, the date and the command. `python benchmarks/tables.py`
writes README.md from these files.
"""

import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks/results"
PACKAGES = ("hinged", "numba", "numpy", "scikit-learn")
"""Packages whose versions each result contains, if they are installed."""


class Table:
    """A Markdown table that prints its head at once and each row when it is added.

    columns: the heads; a unit is part of the head ("time an example, us"). head: False for a table that continues
    another table with the same columns.
    """

    def __init__(self, *columns, title="", head=True):
        self.columns, self.title, self.rows = [str(column) for column in columns], title, []
        if title:
            print(f"\n### {title}\n")
        if head:
            print("\n".join(lines(self.columns, [])), flush=True)

    def add(self, *cells):
        """Print a row and store it; None is an empty cell."""
        row = ["" if cell is None else str(cell) for cell in cells]
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {len(row)} cells for {len(self.columns)} columns: {row}")
        self.rows.append(row)
        print(line(row), flush=True)


def line(cells):
    return f"| {' | '.join(cells)} |"


def lines(columns, rows):
    """Return the lines of a Markdown table."""
    return [line(columns), "|---" * len(columns) + "|", *map(line, rows)]


def keep(name, *tables, command=None, packages=(), folder=FOLDER):
    """Write the tables of a benchmark to NAME.json in the folder, and print the path.

    command: how to measure again, by default this program with its options. packages: peers whose versions matter.
    """
    found = {
        "name": name,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": versions((*PACKAGES, *packages)),
        "command": command or command_line(sys.argv),
        "tables": [{"title": table.title, "columns": table.columns, "rows": table.rows} for table in tables],
    }
    path = Path(folder) / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"\nkept in {path.name}; python benchmarks/tables.py writes benchmarks/README.md", file=sys.stderr)


def machine():
    """Return processor, cores, memory and the load before now."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [row.partition(":")[2].strip() for row in cpuinfo.read_text().splitlines() if "model name" in row]
        processor = models[0] if models else processor
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = round(os.getloadavg()[0], 1)
    return {"processor": processor, "cores": os.cpu_count(), "memory_gib": round(memory), "load": load}


def versions(packages):
    """Return the versions of Python and of the installed packages among `packages`."""
    found = {"Python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit():
    """Return the commit of the checkout. A plus sign means that the code differs from the commit."""
    try:
        name = _git("rev-parse", "--short=7", "HEAD")
        measured = "service", "solvers", "hinged", "benchmarks/*.py"
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no", "--", *measured) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*command):
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def command_line(arguments):
    """Return the command that starts this program again from the root of a checkout. DATA and WORK replace folders."""
    program, *options = arguments
    for option in {"--data", "--work"} & set(options):
        options[options.index(option) + 1] = option.removeprefix("--").upper()
    path = Path(program).resolve()
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"PYTHONPATH=.:benchmarks python {shlex.join([name, *options])}"
