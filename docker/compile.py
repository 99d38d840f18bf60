"""Compile the kernels of every solver, or of the named solvers, into numba's cache."""

import sys

import numpy as np

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.warm import warm_up

if __name__ == "__main__":
    for name in sys.argv[1:] or SOLVERS:
        for dtype in (np.float32, np.float64):
            warm_up(name, dtype)
