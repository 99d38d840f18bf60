"""Functions that the speed benchmarks share: run programs alternately, measure CPU and wall time and peak memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

# Use one thread, in this process (numpy may be loaded already) and in its children. A second thread of OpenBLAS spins
# for a tenth of a second after a product, and this time would be added to the next measurement.
threadpool_limits(1)
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))


def rounds(quick, slow, runs):
    """Return the results of each program. In every round the quick programs run before and after the slow programs.

    After the slow programs, the quick programs run in reverse order. quick, slow: {name: program}. A program takes the
    number of its run as its argument.
    """
    found = {name: [] for name in (*quick, *slow)}
    for _ in range(runs):
        for name in (*quick, *slow, *reversed(quick)):
            found[name].append({**quick, **slow}[name](len(found[name])))
    return found


def cpu(act):
    """Return (CPU seconds, result) of one call."""
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


def wall(act):
    """Return (wall seconds, result) of one call."""
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def peak_mib(program, data):
    """Return the peak memory, in MiB, of a separate process that loads Adult and runs one program."""
    command = [sys.executable, Path(__file__).with_name("memory.py"), "--data", data, "--program", program]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
