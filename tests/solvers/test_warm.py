"""What is compiled, and by whom: real processes, on the solver that is compiled soonest."""

import json
import os
import queue
import shutil
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config

from hinged.solvers import crew, warm
from hinged.solvers.core import cache
from hinged.solvers.core.calls import Call
from tests.helpers import forked_programs
from tests.helpers.server import PATIENCE_S, ended

pytestmark = [pytest.mark.compiles, pytest.mark.longest]

ROOT = Path(__file__).parent.parent.parent
SOLVER = "fogd"
MISSING = "/nonexistent/python"  # to start it fails, which is logged

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
from hinged.solvers.core.compiled import compiled

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
    """What a process compiled itself while it warmed up, and what it logged; `others` is what it starts beside it."""
    said, logged = python(["-c", WARM_UP.format(do=do), others], cache, root).communicate()
    return SimpleNamespace(compiled=json.loads(said), logged=logged)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The first warm-up on a cache, what a new model runs before the rest."""
    cache = tmp_path_factory.mktemp("first") / "cache"
    return SimpleNamespace(cache=cache, **vars(warmed_up(cache, do=FIRST_THINGS_FIRST)))


@pytest.fixture
def lacking(first, tmp_path):
    """A cache that lacks one function."""
    cache = tmp_path / "cache"
    shutil.copytree(first.cache, cache)
    for file in cache.rglob("tally.write_losses-*"):
        file.unlink()
    return cache


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_what_a_new_model_does_not_run_can_be_waited_for_apart(first):
    assert (first.compiled, first.logged) == ([], "")
    assert warmed_up(first.cache, MISSING).compiled == []


def test_what_the_cache_lacks_is_compiled_by_other_processes(lacking):
    found = warmed_up(lacking)
    assert (found.compiled, found.logged) == ([], "")
    assert warmed_up(lacking, MISSING).compiled == []


def test_a_new_model_waits_for_nobody_where_what_is_lacking_is_needed_later(first, tmp_path):
    cache = tmp_path / "cache"
    shutil.copytree(first.cache, cache)
    for file in cache.rglob("points._fill_slots-*"):
        file.unlink()
    silent = script(tmp_path / "others", "exec cat > /dev/null")  # who is asked to compile never does
    found = warmed_up(cache, silent, do=f"warm_up_first('{SOLVER}'); assert load('{SOLVER}')")
    assert (found.compiled, found.logged) == ([], "")


def test_where_nothing_is_lacking_no_process_is_started(first):
    again = warmed_up(first.cache, MISSING)
    assert (again.compiled, again.logged) == ([], "")


@pytest.fixture
def elsewhere(tmp_path):
    """The same sources at another place, with times of their own."""
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


def test_of_estimators_nothing_is_compiled(first, elsewhere):
    with (elsewhere / "solvers" / "estimators" / "base.py").open("a") as source:
        source.write("# edited\n")
    assert warmed_up(first.cache, MISSING, elsewhere).compiled == []


NOTHING_IN_PLACE = """
from hinged.solvers.core.compiled import compiled
from hinged.solvers.core.lanes import dot
import numpy as np
assert dot(np.ones(3), np.ones(3, np.float32)) == 3.0
print(dot._cache.cache_path)
"""


@pytest.mark.parametrize("chosen", [True, False])
def test_where_the_folder_cannot_be_written_another_is_taken(elsewhere, tmp_path, chosen):
    taken, place = tmp_path / "taken", tmp_path / "place"
    place.mkdir()
    if chosen:
        taken.write_text("a file where the folder would be")
    else:
        (taken / "hinged").mkdir(parents=True)
        state = cache.STATE
        (taken / "hinged" / state).write_text("a file where the folder would be")
    environment = {"XDG_CACHE_HOME": str(taken), "TMPDIR": str(place)}
    process = python(["-c", NOTHING_IN_PLACE], taken if chosen else "", elsewhere, **environment)
    said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert Path(said.strip()).is_relative_to(elsewhere if chosen else place)


@pytest.mark.parametrize(
    ("line", "problem"), [("exit 3", "ended with 3"), ("kill -9 $$", "ended with -9"), (None, "No such file")]
)
def test_where_other_processes_fail_this_one_compiles_and_says_so_once(lacking, tmp_path, line, problem):
    others = MISSING if line is None else script(tmp_path / "python", line)
    found = warmed_up(lacking, others)
    assert found.compiled == ["write_losses"]
    assert problem in found.logged
    assert found.logged.count("\n") == 1
    assert warmed_up(lacking, MISSING).compiled == []


ROLES = sorted([*[crew.COMPILER] * crew.COMPILERS, crew.PLAIN])


@pytest.fixture
def processes(tmp_path, monkeypatch):
    """Waits for as many processes of crews as are asked for: their roles and numbers. They compile nothing."""
    started = tmp_path / "started"
    others = script(tmp_path / "python", f"echo $4 $$ >> {started}; exec sleep 1000")
    monkeypatch.setattr(sys, "executable", str(others))

    def found(count):
        end = time.monotonic() + PATIENCE_S
        while (started.read_text() if started.exists() else "").count("\n") < count:
            assert time.monotonic() < end
            time.sleep(0.01)
        lines = [line.split() for line in started.read_text().splitlines()] if count else []
        return sorted(role for role, _ in lines), [int(pid) for _, pid in lines]

    return found


def compiling_until_ended(name, processes):
    """Compile by processes that do nothing, and end it: what came of it, and what processes there were."""
    raised = []

    def wait():
        try:
            warm._compile_beside(name, np.float32, warm._ended)
        except warm.Ended as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    found = processes(len(ROLES))
    warm.end_compiling()
    waiting.join(PATIENCE_S)
    assert len(raised) == 1
    return found


def test_who_waits_for_processes_that_compile_can_be_told_to_stop(processes):
    roles, pids = compiling_until_ended(SOLVER, processes)
    assert roles == ROLES
    assert all(map(ended, pids))


def test_processes_that_were_started_early_are_those_that_compile(processes, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(warm, "_first", set())
    crew.start_early()
    early = processes(len(ROLES))
    assert compiling_until_ended("auto", processes) == early
    assert early[0] == ROLES
    assert processes(len(ROLES)) == early
    assert all(map(ended, early[1]))


def test_processes_that_were_started_early_and_are_not_needed_end(processes, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    crew.start_early()
    _, pids = processes(len(ROLES))
    crew.dismiss()
    assert all(map(ended, pids))


def test_where_something_is_compiled_no_process_is_started_early(first, processes, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(first.cache))
    crew.start_early()
    assert processes(0) == ([], [])
    assert not crew._early


def test_a_solver_that_is_not_compiled_is_not_loaded_and_nothing_is_compiled_for_it(first, lacking):
    for folder, there in ((first.cache, "True"), (lacking, "False")):
        before = sorted(folder.rglob("*.nbc"))
        assert python(["-c", LOADED], folder).communicate() == (f"{there}\n", "")
        assert sorted(folder.rglob("*.nbc")) == before


CALLS = """
import numpy as np
from hinged.solvers.core.calls import Calls, watching
from hinged.solvers.core.compiled import compiled

@compiled
def double(x):
    return 2 * x

@compiled
def both(x, y):
    return double(x) + double(y)

@compiled
def now_and_then(x):
    return double(2.0 * x) if x > 0.0 else x

watching.append(Calls())
both(np.ones(2), 1)
both(np.ones(2), 2)
double(3)
watching[0].told()
now_and_then(-1.0)
now_and_then(1.0)
for call in watching[0].told():
    print("inner" if call.inner else "outer", call.name, call.types, sorted(call.needs))
"""


def test_without_a_compiler_it_is_seen_who_calls_whom_with_which_types(tmp_path):
    said, errors = python(["-c", CALLS], tmp_path, NUMBA_DISABLE_JIT="1").communicate()
    assert errors == ""
    array = "Array(float64, 1, 'C', False, aligned=True)"
    assert said.splitlines() == [
        f"inner double ({array},) []",
        "inner double (int64,) []",
        f"outer both ({array}, int64) [0, 1]",
        "outer double (int64,) []",
        "inner double (float64,) []",
        "outer now_and_then (float64,) [4]",
    ]


def call(size, *needs):
    return Call("", "", (), True, size, set(needs))


def planned(calls):
    plan = crew.Plan(calls)
    plan.add(calls)
    return plan


def from_outside(size, *needs):
    return Call("", "", (), False, size, set(needs))


def test_what_most_waits_for_is_compiled_first_and_nothing_before_what_it_calls():
    plan = planned([call(1), call(2), call(5, 0), call(1, 1), call(1, 2, 3)])
    assert plan.take() == 0  # 1 + 5 + 1 until the end
    assert plan.take() == 1
    plan.done(1)
    assert plan.take() == 3
    plan.done(0)
    assert plan.take() == 2
    plan.done(3)
    plan.done(2)
    assert plan.take() == 4
    assert plan.take() is None


def test_what_python_calls_is_optimised_with_all_that_it_calls():
    plan = planned([call(5), call(1), from_outside(4), from_outside(1, 0)])
    assert plan.take() == 0  # 5 + 6 until the end
    assert plan.take() == 2
    assert plan.take() == 1
    plan.done(0)
    assert plan.take() == 3


def test_what_comes_first_is_compiled_before_what_is_needed_later_and_told_when_it_is():
    told = []
    plan = crew.Plan([call(1), call(2)], lambda: told.append("reached"))
    assert plan.take() == 1
    plan.add([call(1), call(2), call(9), call(1, 0), call(1, 1)])
    assert plan.take() == 0
    plan.done(1)
    assert plan.take() == 2
    assert plan.take() == 4
    assert not told
    plan.done(0)
    assert told == ["reached"]
    assert plan.take() == 3
    assert plan.take() is None


def test_who_asks_before_all_calls_are_known_waits_for_the_others():
    plan = crew.Plan([call(1)])
    assert plan.take() == 0
    taken = queue.SimpleQueue()
    asking = threading.Thread(target=lambda: taken.put(plan.take()))
    asking.start()
    plan.done(0)
    assert asking.is_alive()
    plan.add([call(1), call(1, 0)])
    assert taken.get(timeout=PATIENCE_S) == 1
    asking.join()


def test_what_was_given_up_is_not_taken_up_again_when_more_calls_are_known():
    plan = crew.Plan([call(1), call(1)])
    assert plan.take() is not None
    plan.give_up()
    plan.add([call(1), call(1), call(1)])
    assert plan.take() is None


def test_functions_that_call_each_other_are_compiled_all_the_same():
    plan = planned([call(1, 1), call(1, 0)])
    taken = {plan.take()}
    plan.done(*taken)
    assert taken | {plan.take()} == {0, 1}


def test_two_processes_can_add_variants_of_one_function_to_the_cache(tmp_path):
    (tmp_path / "variants.py").write_text(VARIANTS)
    adding = [python([tmp_path / "variants.py", kinds], tmp_path / "cache") for kinds in ("bhi", "BHI")]
    assert [process.communicate() for process in adding] == [("18\n", ""), ("18\n", "")]
    assert python([tmp_path / "variants.py", "bhiBHI"], tmp_path / "cache").communicate() == (
        "0\n",
        "",
    )
