"""The functions that are compiled, and the processes that compile them, with the solver that compiles fastest."""

import json
import os
import shutil
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from hinged.solvers import warm
from hinged.solvers.jit import cache
from tests.helpers import forked_programs
from tests.helpers.server import PATIENCE_S, ended

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
SOLVER = "fogd"
MISSING = "/nonexistent/python"  # its start fails and is logged

WARM_UP = """
import json, logging, sys
from numba.core import event
import numpy as np
from hinged.solvers.warm import load, wait_for_rest, warm_up, warm_up_first

class Compiled(event.Listener):
    names = []
    def on_start(self, event):
        pass
    def on_end(self, event):
        dispatcher = event.data["dispatcher"]
        ours = dispatcher.py_func.__module__.startswith("hinged.solvers.")
        if ours and tuple(event.data["args"]) in dispatcher.overloads:
            self.names.append(dispatcher.py_func.__name__)

logging.basicConfig(format="%(message)s")
sys.executable = sys.argv[1]
event.register("numba:compile", Compiled())
{do}
print(json.dumps(Compiled.names))
"""
ALL_AT_ONCE = f"warm_up('{SOLVER}')"
FIRST_THINGS_FIRST = f"""
warm_up_first("{SOLVER}")
assert load("{SOLVER}")
wait_for_rest("{SOLVER}", np.float32)
"""
LOADED = f"from hinged.solvers.warm import load; print(load('{SOLVER}'))"

VARIANTS = """
import sys
import numpy as np
from hinged.solvers.jit.compiled import compiled

@compiled
def nothing(x):
    return 0

for kind in sys.argv[1]:
    for dims in range(1, 7):
        nothing(np.ones((1,) * dims, kind))
print(sum(nothing.stats.cache_misses.values()))
"""


def python(arguments, cache, root=ROOT, **environment):
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(root)} | environment
    return forked_programs.start(arguments, env, root)


def warmed_up(cache, others=sys.executable, root=ROOT, do=ALL_AT_ONCE):
    """Return the functions that a process compiled while it warmed up, and its log.

    `others`: the program that it starts.
    """
    said, logged = python(["-c", WARM_UP.format(do=do), others], cache, root).communicate()
    return SimpleNamespace(compiled=json.loads(said), logged=logged)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Return the result of the first warm-up on a cache: the part for a new model."""
    cache = tmp_path_factory.mktemp("first") / "cache"
    return SimpleNamespace(cache=cache, **vars(warmed_up(cache, do=FIRST_THINGS_FIRST)))


@pytest.fixture
def lacking(first, tmp_path):
    """Return a cache that lacks one function."""
    cache = tmp_path / "cache"
    shutil.copytree(first.cache, cache)
    for file in cache.rglob("tally.write_losses-*"):
        file.unlink()
    return cache


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_functions_that_a_model_needs_later_can_be_waited_for(first):
    assert (first.compiled, first.logged) == ([], "")
    assert warmed_up(first.cache, MISSING).compiled == []


def test_functions_that_the_cache_lacks_are_compiled_by_other_processes(lacking):
    found = warmed_up(lacking)
    assert (found.compiled, found.logged) == ([], "")
    assert warmed_up(lacking, MISSING).compiled == []


def test_a_new_model_does_not_wait_for_functions_needed_later(first, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(first.cache, cache)
    for file in cache.rglob("points._fill_slots-*"):
        file.unlink()
    silent = script(tmp_path / "others", "exec cat > /dev/null")  # a compiler process that never compiles
    found = warmed_up(cache, silent, do=f"warm_up_first('{SOLVER}'); assert load('{SOLVER}')")
    assert (found.compiled, found.logged) == ([], "")


def test_where_nothing_is_lacking_no_process_is_started(first):
    again = warmed_up(first.cache, MISSING)
    assert (again.compiled, again.logged) == ([], "")


@pytest.fixture
def elsewhere(tmp_path):
    """Return the same sources in another folder, with other file times."""
    root = tmp_path / "elsewhere"
    for folder in ("solvers", "hinged"):
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_the_same_sources_elsewhere_load_what_was_compiled(first, elsewhere):
    again = warmed_up(first.cache, MISSING, elsewhere)
    assert (again.compiled, again.logged) == ([], "")


def test_after_an_edit_anywhere_nothing_is_loaded_even_from_a_folder_that_the_user_chose(first, elsewhere):
    with (elsewhere / "solvers" / "core" / "lanes.py").open("a") as source:
        source.write("# edited\n")
    assert python(["-c", LOADED], first.cache, elsewhere).communicate() == ("False\n", "")


def test_an_edit_of_an_estimator_compiles_nothing(first, elsewhere):
    with (elsewhere / "solvers" / "estimators" / "base.py").open("a") as source:
        source.write("# edited\n")
    assert warmed_up(first.cache, MISSING, elsewhere).compiled == []


NOTHING_IN_PLACE = """
from hinged.solvers.jit.cache import FOLDER
from hinged.solvers.core.simd.lanes import dot
import numpy as np
assert dot(np.ones(3), np.ones(3, np.float32)) == 3.0
print(next(FOLDER.rglob("*.code")))
"""


def test_if_the_folder_cannot_be_written_another_is_used(elsewhere, tmp_path):
    taken, place = tmp_path / "taken", tmp_path / "place"
    place.mkdir()
    (taken / "hinged").mkdir(parents=True)
    (taken / "hinged" / cache.STATE).write_text("a file where the folder would be")
    environment = {"XDG_CACHE_HOME": str(taken), "TMPDIR": str(place)}
    process = python(["-c", NOTHING_IN_PLACE], "", elsewhere, **environment)
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert Path(said.strip()).is_relative_to(place)


@pytest.mark.parametrize(
    ("line", "problem"), [("exit 3", "ended with 3"), ("kill -9 $$", "ended with -9"), (None, "No such file")]
)
def test_if_other_processes_fail_this_process_compiles_and_says_so_once(lacking, tmp_path, line, problem):
    others = MISSING if line is None else script(tmp_path / "python", line)
    found = warmed_up(lacking, others)
    assert found.compiled == ["write_losses"]
    assert problem in found.logged
    assert found.logged.count("\n") == 1
    assert warmed_up(lacking, MISSING).compiled == []


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Wait for a number of compiler processes; return their arguments and process ids. They compile nothing.

    They compile nothing.
    """
    started = tmp_path / "started"
    others = script(tmp_path / "python", f"echo $4 $$ >> {started}; exec sleep 1000")
    monkeypatch.setattr(sys, "executable", str(others))
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "cache")

    def found(count):
        end = time.monotonic() + PATIENCE_S
        while (started.read_text() if started.exists() else "").count("\n") < count:
            assert time.monotonic() < end
            time.sleep(0.01)
        lines = [line.split() for line in started.read_text().splitlines()]
        return sorted(name for name, _ in lines), [int(pid) for _, pid in lines]

    return found


@pytest.mark.parametrize(("name", "compiled"), [(SOLVER, [SOLVER, "smo"]), ("auto", ["auto", "smo"])])
def test_waiting_for_compiling_processes_can_be_ended(processes, monkeypatch, name, compiled):
    monkeypatch.setattr(warm, "_ready", defaultdict(frozenset))
    monkeypatch.setattr(warm, "_loads", lambda *_: False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    raised = []

    def wait():
        try:
            warm.warm_up(name)
        except warm.Ended as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    names, pids = processes(len(compiled))
    warm.end_compiling()
    waiting.join(PATIENCE_S)
    assert len(raised) == 1
    assert names == compiled
    assert all(map(ended, pids))


def test_a_solver_that_is_not_compiled_is_not_loaded_and_nothing_is_compiled_for_it(first, lacking):
    for folder, there in ((first.cache, "True"), (lacking, "False")):
        before = sorted(folder.rglob("*.code"))
        assert python(["-c", LOADED], folder).communicate() == (f"{there}\n", "")
        assert sorted(folder.rglob("*.code")) == before


def test_two_processes_can_add_variants_of_one_function_to_the_cache(tmp_path):
    (tmp_path / "variants.py").write_text(VARIANTS)
    adding = [python([tmp_path / "variants.py", kinds], tmp_path / "cache") for kinds in ("bhi", "BHI")]
    assert [process.communicate() for process in adding] == [("18\n", ""), ("18\n", "")]
    assert python([tmp_path / "variants.py", "bhiBHI"], tmp_path / "cache").communicate() == ("0\n", "")
