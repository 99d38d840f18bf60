"""Each walk of docs/contributing/ is done on a copy of the tree, and works; it takes the files that it says.

A block of a page has the path of a file as its title. `diff` changes it: what has no sign, and what has a minus, stands
there once. Any other block is the whole of a new file. What the last block does works then.
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
"""Files of the product that a change may take. Where one takes more, a fact stands in several places."""
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
AT_LAST = "what works then"


def changed(text, diff):
    lines = [line or " " for line in diff.splitlines()]
    before, after = ("\n".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    assert text.count(before) == 1, f"this stands there {text.count(before)} times:\n{before}"
    return text.replace(before, after)


def walked(walk, copy):
    """The files that the walk touches, and what works then; copy: where the tree is to be."""
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


def test_every_walk_says_how_many_files_it_may_take():
    assert WALKS.keys() == FILES_MAX.keys()


@pytest.mark.long
@pytest.mark.parametrize("walk", WALKS)
def test_a_change_takes_the_files_that_its_walk_says_and_works_then(walk, tmp_path):
    files, code = walked(WALKS[walk], tmp_path)
    assert len(files) <= FILES_MAX[walk]
    assert int(re.search(r"^\*\*(\d+) files?\*\*", WALKS[walk], re.MULTILINE)[1]) == len(files)
    here = f"import hinged\nassert hinged.__file__.startswith({str(tmp_path)!r})\n"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for command in ([sys.executable, "-c", here + code], [sys.executable, "-m", "ruff", "check", "--no-cache", *files]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
