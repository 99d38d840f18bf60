"""What the parts share: programs side by side, peak memory, lines of the table. Not a program."""

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_limits

# One thread each, here, where numpy may be loaded already, and in processes that follow. A second one of OpenBLAS would
# wait at full speed for a tenth of a second after a product, in the figures of whoever comes next.
threadpool_limits(1)
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))


def versions():
    packages = ", ".join(f"{name} {version(name)}" for name in ("numba", "numpy", "scikit-learn"))
    return f"Python {platform.python_version()}, {packages}"


def rounds(quick, slow, runs):
    """What each program returned: in every round the quick ones run before and, in reverse order, after the slow ones.

    quick, slow: {name: program}; a program takes the number of its run.
    """
    found = {name: [] for name in (*quick, *slow)}
    for _ in range(runs):
        for name in (*quick, *slow, *reversed(quick)):
            found[name].append({**quick, **slow}[name](len(found[name])))
    return found


def cpu(act):
    """(CPU seconds, result) of one call."""
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


def wall(act):
    """(Wall seconds, result) of one call."""
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def peak_mib(program, data):
    """Peak memory of a process of its own that imports all this, loads Adult and runs one program, MiB."""
    command = [sys.executable, Path(__file__).with_name("memory.py"), "--data", data, "--program", program]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
