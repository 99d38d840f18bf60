"""Streams of examples that are easy to learn."""

import math
import random

from tests.helpers.http_client import example

MOONS = [([math.cos(k), math.sin(k) + k % 2], "up" if k % 2 else "down") for k in range(60)]


def heaps(n, labels, dim=2, seed=0):
    """Well separated heaps of points, one for each label, in random order."""
    rng = random.Random(seed)
    drawn = [rng.randrange(len(labels)) for _ in range(n)]
    return [([4.0 * (c == f) + rng.gauss(0, 0.3) for f in range(dim)], labels[c]) for c in drawn]


def examples_of(stream, prefix="e"):
    return [example(x, y, f"{prefix}{k}") for k, (x, y) in enumerate(stream)]
