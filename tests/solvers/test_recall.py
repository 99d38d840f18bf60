"""A process that only compiles remembers what type inference found, and compiles the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.longest

ROOT = Path(__file__).parents[2]

COMPILED = """
import hashlib, json, re, sys
import numpy as np
from hinged.solvers.estimators.compiling import of_a_server
from hinged.solvers.recall import _known, recall
from hinged.solvers.warm import exercise

if sys.argv[1] == "recall":
    recall()
exercise("fogd", np.float32)
found = {}
for function in of_a_server("fogd")._functions:
    for form in (function, function.inner):
        for types, variant in form.overloads.items():
            # Functions are numbered as they come, and those of numba that are known already do not come again.
            code = re.sub(r"v[0-9]+|B[0-9]+|[0-9]{9,}", "", str(variant.library._final_module))
            digest = hashlib.sha256(code.encode()).hexdigest()
            found[f"{function.py_func.__name__} {form is function} {types}"] = digest
print(json.dumps([found, len(_known)]))
"""


def compiled(cache, how):
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache / how), "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    return subprocess.Popen([sys.executable, "-c", COMPILED, how], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_the_same_code_is_compiled_where_answers_are_remembered(tmp_path):
    running = [compiled(tmp_path, how) for how in ("recall", "as numba does")]
    (remembering, answers), (usual, none) = [json.loads(process.communicate(timeout=300)[0]) for process in running]
    assert answers > 50
    assert none == 0
    assert len(usual) > 20
    assert remembering == usual
