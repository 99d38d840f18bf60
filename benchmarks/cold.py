"""What an empty compile cache costs: each solver's kernels, then a first fit, seconds and CPU.

    PYTHONPATH=. python benchmarks/cold.py [SOLVER ...]

Each in an empty cache of its own, by processes beside one that then loads what they left, as a server has it; "auto"
where none is named. What is shared between solvers is compiled for each. Another row of the tables, until a server's
/readyz, comes from benchmarks/server/run.py.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

FIT = """
from hinged.sklearn import LASVMClassifier
LASVMClassifier(C=1.0, gamma=0.5).fit([[0, 1], [1, 0]] * 9, [0, 1] * 9)
"""


def measured(title, program):
    """Run a program of Python on an empty cache, and once more on what it left there."""
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "warm"):
            before, start = children_s(), time.perf_counter()
            env = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, "-c", program], env=env, check=True, stderr=subprocess.DEVNULL)
            print(f"{title}, {cache} cache: {time.perf_counter() - start:.1f} s; CPU {children_s() - before:.1f} s")


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for name in sys.argv[1:] or ["auto"]:
        measured(name, f"from hinged.solvers.warm import warm_up; warm_up({name!r})")
    measured("the first fit of LASVMClassifier", FIT)
