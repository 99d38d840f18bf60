"""Random draws in compiled code. The whole state of a generator is one number, which the solver's state holds."""

from __future__ import annotations

import numpy as np

from hinged.solvers.jit.compiled import in_place


@in_place
def next_random(state):
    """splitmix64: the next 64 random bits of a one-element uint64 state (Steele, Lea and Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@in_place
def random_below(state, n):
    """A uniform integer from 0 to n - 1, for n > 0."""
    return np.int64(next_random(state) % np.uint64(n))
