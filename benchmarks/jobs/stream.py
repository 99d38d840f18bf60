"""The data of the jobs: two classes of points in the plane, and three examples with a wrong label."""

import random

WRONG = ("e17", "e40", "e63")


def examples(count=200, seed=7):
    """Return (id, x, y) for each example."""
    rng, found = random.Random(seed), []
    for number in range(count):
        y = number % 2
        x = {"a": rng.gauss(4 * y, 1.0), "b": rng.gauss(0.0, 1.0)}
        given = f"e{number}"
        found.append((given, x, ("yes", "no")[y ^ (given in WRONG)]))
    return found


def events():
    """Return a stream with late labels: (id, x, None) when x comes, and (id, None, y) 20 steps later."""
    made = examples()
    for step in range(len(made) + 20):
        if step < len(made):
            yield made[step][0], made[step][1], None
        if step >= 20:
            yield made[step - 20][0], None, made[step - 20][2]
