"""The cost of an empty compile cache: the time to compile each solver, and the time of a first fit.

    PYTHONPATH=. python benchmarks/cold.py [SOLVER ...]

Each solver is compiled into its own empty cache, by two processes as in a server. Without names, only "auto" is
compiled. Code that several solvers share is compiled again for each solver. benchmarks/server/run.py measures the time
until a server answers /readyz.
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
    """Run a Python program with an empty cache, and again with the cache that the first run left."""
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
