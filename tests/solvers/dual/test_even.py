"""With `even`, exchanging the two classes negates everything exactly: removal, fading, finishing."""

import numpy as np
import pytest

from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.dual.direction import second_order_partner, second_order_partner_below
from tests.helpers.solvers.streams import stream_of, two_moons


def learned(classes, X, even, **parameters):
    stream = stream_of("lasvm", X, classes, kernel=make_kernel("rbf", 2.0), C=3.0, announced=2, **parameters)
    stream.solver.even = even
    for b in range(0, len(X), stream.batch):
        stream.learn(b, b + stream.batch)
        stream.solver.fade(0.9)
        stream.solver.drop(np.arange(max(0, b - 4 * stream.batch)))
    stream.solver.finish()
    return np.concatenate(stream.scores)[:, 0], stream.decision(X)[:, 0], stream.solver.certificate()


@pytest.mark.parametrize("parameters", [{}, {"points_max": 60, "when_full": "remove"}])
def test_exchanging_the_classes_negates_every_decision_value_exactly(parameters):
    X, y = two_moons(640, noise=0.6, seed=1)
    classes = (y > 0).astype(int)
    for even in (True, False):
        (scores, found, one), (other_scores, other_found, other) = (
            learned(given, X, even, **parameters) for given in (classes, 1 - classes)
        )
        assert (np.array_equal(scores, 0.0 - other_scores) and np.array_equal(found, 0.0 - other_found)) is even
        if even:
            assert one == other


def test_the_best_partner_of_the_lower_extreme_is_that_of_a_plain_loop():
    random = np.random.default_rng(0)
    for _ in range(20):
        n = int(random.integers(2, 700))
        g, row, up = random.normal(size=n), random.uniform(size=n).astype(np.float32), random.integers(0, 2, n)
        up, selves, j = up.astype(np.uint8), np.ones(n, np.float32), int(np.argmin(g))
        row[j] = 1.0
        gains = np.where((up != 0) & (g > g[j]), (g - g[j]) ** 2 / np.maximum(2.0 - 2.0 * row, 1e-12), 0.0)
        found = second_order_partner_below(j, g, row, selves, up)
        assert found == second_order_partner(j, -g, row, selves, up)
        if gains.any():
            assert gains[found] == pytest.approx(gains.max(), rel=1e-4)
        else:
            assert found < 0
