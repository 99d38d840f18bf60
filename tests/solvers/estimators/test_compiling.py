"""Who waits for the compiler is told so: real processes, on the solver that is compiled soonest."""

import asyncio
import functools
import logging
import os
import sys

import pytest

from hinged.service.engine.kernels import load_kernels
from hinged.solvers.estimators.compiling import FEWEST, Functions, of_a_server
from hinged.solvers.warm import warm_up
from tests.helpers import forked_programs
from tests.helpers.server import ROOT
from tests.helpers.terminal import Terminal

pytestmark = pytest.mark.server

LEARN = """
from hinged.river import SVMClassifier
model = SVMClassifier("fogd", gamma=1.0, scale=None)
for k in range(4):
    model.learn_one({"a": k, "b": 1}, k % 2)
print("learned", model.predict_one({"a": 1, "b": 1}))
"""
COUNT = """
from hinged.solvers.estimators.compiling import Functions
print(Functions("fogd").there())
"""


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    return {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}


def run(program, environment):
    done = forked_programs.run(["-c", program], {**os.environ, "PYTHONPATH": str(ROOT), **environment}, ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.compiles
def test_the_first_fit_on_a_machine_says_what_it_does_and_a_later_one_nothing(cold):
    assert run(COUNT, cold) == ("0", "")
    functions = len(Functions("fogd"))
    with Terminal([sys.executable, "-c", LEARN], cold) as terminal:
        terminal.expect(f"hinged: compiling {functions} functions of fogd, about half a second each")
        terminal.expect(f"/{functions}")
        terminal.expect("learned")
    assert run(COUNT, cold)[0] == str(functions)
    said, told = run(LEARN, cold)
    assert said.startswith("learned")
    assert told == ""


@pytest.mark.compiles
def test_where_no_terminal_is_it_is_plain_lines(tmp_path):
    said, told = run(LEARN, {"NUMBA_CACHE_DIR": str(tmp_path)})
    assert said.startswith("learned")
    lines = [line.partition(",")[0] for line in told.splitlines()]
    assert lines[0] == "hinged: compiling 12 functions of fogd"
    assert len(lines) <= 2  # the map of a new one, and what learns


def test_a_server_tells_of_the_compiler_only_where_there_is_something_to_compile(caplog):
    warm_up("auto")
    functions = of_a_server("auto")
    assert 0 <= len(functions) - functions.there() < FEWEST

    async def loaded():
        loop = asyncio.get_running_loop()
        await load_kernels(functools.partial(loop.run_in_executor, None))

    with caplog.at_level(logging.INFO):
        asyncio.run(loaded())
    assert [record.message.partition(",")[0] for record in caplog.records] == ["kernels are there"]
