"""The cost of an empty compile cache: each solver's kernels, then a first fit.

    PYTHONPATH=. python benchmarks/cold.py [SOLVER ...]

Each solver compiles in an empty cache of its own, with a second process beside the first, as in a server; without names
the solver is "auto". Code that solvers share is compiled for each. benchmarks/server/run.py measures a server until
/readyz.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

from results import Table, keep

FIT = """
from hinged.sklearn import LASVMClassifier
LASVMClassifier(C=1.0, gamma=0.5).fit([[0, 1], [1, 0]] * 9, [0, 1] * 9)
"""


def measured(table, title, program):
    """Run a program of Python on an empty cache, and again on the cache that it left."""
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "warm"):
            before, start = children_s(), time.perf_counter()
            env = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, "-c", program], env=env, check=True, stderr=subprocess.DEVNULL)
            table.add(title, cache, f"{time.perf_counter() - start:.1f}", f"{children_s() - before:.1f}")


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    found = Table("compiled", "cache", "time, s", "CPU, s")
    for name in sys.argv[1:] or ["auto"]:
        measured(found, name, f"from hinged.solvers.warm import warm_up; warm_up({name!r})")
    measured(found, "the first fit of LASVMClassifier", FIT)
    keep("cold", found)
