"""Each walk of docs/contributing/ works on a copy of the tree, and changes as many files as it says.

The title of a block is the path of a file. A `diff` block changes that file: its lines with a minus or without a sign
stand in the file exactly once. Any other block is a whole new file. The last block is code that works after the change.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.helpers.server import ROOT

WALKS = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "contributing").glob("*.md"))}
FILES_MAX = {
    "column": 2,
    "distance-kernel": 3,
    "event": 2,
    "kernel": 2,
    "metric": 2,
    "parameter": 1,
    "route": 2,
    "solver": 2,
}
"""How many files of the product each change may touch. If it touches more, a fact stands in several places."""
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
AT_LAST = "what works then"


def changed(text, diff):
    lines = [line or " " for line in diff.splitlines()]
    before, after = ("\n".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    assert text.count(before) == 1, f"the file contains these lines {text.count(before)} times, not once:\n{before}"
    return text.replace(before, after)


def walked(walk, copy):
    """Do a walk on a copy of the tree in `copy`; return the files that it touches and the code of its last block."""
    for part in ("hinged", "service", "solvers"):
        shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    *blocks, (_, title, code) = BLOCK.findall(walk)
    assert title == AT_LAST
    for kind, name, block in blocks:
        file = copy / name
        assert file.exists() == (kind == "diff"), name
        file.write_text(changed(file.read_text(), block) if kind == "diff" else block)
    return sorted({name for _, name, _ in blocks}), code


def test_each_walk_has_a_limit_of_files():
    assert WALKS.keys() == FILES_MAX.keys()


@pytest.mark.long
@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_touches_as_many_files_as_it_says_and_its_change_works(walk, tmp_path):
    files, code = walked(WALKS[walk], tmp_path)
    assert len(files) <= FILES_MAX[walk]
    assert int(re.search(r"^\*\*(\d+) files?\*\*", WALKS[walk], re.MULTILINE)[1]) == len(files)
    here = f"import hinged\nassert hinged.__file__.startswith({str(tmp_path)!r})\n"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for command in ([sys.executable, "-c", here + code], [sys.executable, "-m", "ruff", "check", "--no-cache", *files]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
