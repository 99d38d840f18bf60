"""Messages about compiling, in real processes, with the solver that compiles fastest."""

import asyncio
import functools
import logging
import os

import pytest

from hinged.service.engine.kernels import load_kernels
from hinged.solvers.warm import warm_up
from tests.helpers import forked_programs
from tests.helpers.server import ROOT

LEARN = """
from hinged.sklearn import FOGDClassifier
model = FOGDClassifier(gamma=1.0).fit([[0, 1], [1, 1], [2, 1], [3, 1]], [0, 1, 0, 1])
print("learned", model.predict([[1, 1]]))
"""


def run(program, environment):
    done = forked_programs.run(["-c", program], {**os.environ, "PYTHONPATH": str(ROOT), **environment}, ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.long
def test_the_first_fit_on_a_machine_says_what_it_does_and_a_later_one_nothing(tmp_path):
    cold = {"NUMBA_CACHE_DIR": str(tmp_path)}
    said, told = run(LEARN, cold)
    assert said.startswith("learned")
    assert told == "hinged: compiling fogd, which takes 5 to 30 s, on this machine only once\n"
    compiled = sorted(tmp_path.rglob("*.code"))
    again, told = run(LEARN, cold)
    assert (again, told) == (said, "")
    assert sorted(tmp_path.rglob("*.code")) == compiled


def test_a_server_tells_of_the_compiler_only_where_there_is_something_to_compile(caplog):
    warm_up("auto")

    async def loaded():
        loop = asyncio.get_running_loop()
        await load_kernels(functools.partial(loop.run_in_executor, None))

    with caplog.at_level(logging.INFO):
        asyncio.run(loaded())
    assert [record.message.partition(",")[0] for record in caplog.records] == ["kernels are there"]
