"""Compile the kernels of every solver into numba's cache."""

import numpy as np

from solvers.catalogue import SOLVERS
from solvers.warm import warm_up

for name in SOLVERS:
    for dtype in (np.float32, np.float64):
        warm_up(name, dtype)
