"""The two forms of a compiled function, in processes that share a cache."""

import os
from pathlib import Path

import pytest

from tests.helpers import forked_programs

ROOT = Path(__file__).parent.parent.parent.parent

FUNCTIONS = """
import numpy as np
from hinged.solvers.jit.compiled import compiled, in_place

@in_place
def double(x):
    return 2 * x

@compiled
def doubled(x):
    made = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        made[i] = double(x[i])
    return made

@compiled
def total(x):
    return doubled(x).sum()

@compiled
def checked(x):
    if x < 0.0:
        raise ValueError("must be >= 0, got", x)
    print("takes", x)
    return x

@compiled
def checked_twice(x):
    return checked(x) + checked(2.0 * x)

@in_place
def power(x, times):
    result = 1.0
    for _ in range(times):
        result *= x
    return result

@compiled
def powers(x, times):
    return power(x, 0) + power(x, 1) + power(x, times=2) + power(x, times)

@in_place
def total_in_place(x):
    return total(x)

def refusal(function, x):
    try:
        function(x)
    except ValueError as error:
        return error.args

def forms(function):
    inner = function.inner
    return [len(function.overloads), len(inner.overloads), sum(inner.stats.cache_hits.values())]

"""
THE_FIRST = "print(doubled(np.arange(3.0)).tolist(), forms(double), forms(doubled))"
ANOTHER_CALLER = "print(total(np.arange(3.0)), forms(double), forms(doubled), forms(total))"
FROM_PYTHON = "print(double(3.0), double(3), forms(double))"
LOADED = "print(total(np.arange(3.0)), forms(double), forms(doubled), sum(total.stats.cache_misses.values()))"
WITH_CONSTANTS = "print(powers(2.0, 3), forms(power))"
WITH_OBJECTS = "print(checked_twice(1.0), refusal(checked_twice, -1.0), forms(checked)[0])"


def said(folder, line):
    """Return the output of a process that finds these functions in the same file as earlier processes."""
    file = folder / "functions.py"
    if not file.exists():
        file.write_text(FUNCTIONS)
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\nfrom functions import *\n{line}"
    env = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    done = forked_programs.run(["-c", program], env, ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_constant_makes_no_variant_of_the_function_called(tmp_path):
    assert said(tmp_path, WITH_CONSTANTS) == "15.0 [0, 1, 0]\n"


@pytest.mark.long
def test_each_form_is_compiled_when_needed_and_found_by_the_next_process(tmp_path):
    assert said(tmp_path, THE_FIRST) == "[0.0, 2.0, 4.0] [0, 1, 0] [1, 0, 0]\n"
    assert said(tmp_path, ANOTHER_CALLER) == "6.0 [0, 1, 1] [0, 1, 0] [1, 0, 0]\n"
    assert said(tmp_path, FROM_PYTHON) == "6.0 6 [2, 0, 0]\n"
    assert said(tmp_path, LOADED) == "6.0 [0, 0, 0] [0, 0, 0] 0\n"


@pytest.mark.long
def test_a_function_that_counts_references_does_so_for_a_caller_that_does_not(tmp_path):
    assert said(tmp_path, "print(total_in_place(np.arange(3.0)))") == "6.0\n"


@pytest.mark.long
def test_what_a_function_prints_and_raises_comes_through_its_compiled_callers(tmp_path):
    for _ in ("compiled", "loaded"):
        assert said(tmp_path, WITH_OBJECTS) == "takes 1.0\ntakes 2.0\n3.0 ('must be >= 0, got', -1.0) 0\n"
