"""Compile the kernels of every solver into numba's cache, here: what they share is compiled once."""

import numpy as np

from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.warm import exercise

for name in SOLVERS:
    for dtype in (np.float32, np.float64):
        exercise(name, dtype)
