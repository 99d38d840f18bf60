"""Run the program of random histories for a while. It needs a separate process, because each history is a
fork of it.
"""

import ast
import random
import subprocess
import sys

import pytest

from tests.helpers.server import ROOT


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_random_histories_can_be_read_again_and_nothing_is_lost_invented_or_misread(store):
    seed = str(random.randrange(10**6))  # new in each run; the program prints the seed of each failed history
    program = [sys.executable, "-m", "tests.faults.histories"]
    options = ["--store", store, "--times", "5", "--steps", "8", "--seed", seed]
    ran = subprocess.run([*program, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = ast.literal_eval(ran.stdout.splitlines()[-1].partition("}")[0] + "}")
    assert figures["histories"] == 5
    assert figures["learned"] > 25
