"""Compile the kernels of every solver, or of the named solvers, into numba's cache."""

import sys

import numpy as np

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.warm import warm_up

if __name__ == "__main__":
    names = sys.argv[1:] or [*SOLVERS]
    for number, name in enumerate(names, 1):
        print(f"compiling {name}, {number} of {len(names)} solvers", flush=True)
        for dtype in (np.float32, np.float64):
            warm_up(name, dtype)
