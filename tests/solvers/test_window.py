"""A window of the newest examples on a stream whose labels flip."""

import numpy as np
import pytest

from tests.helpers.solvers.streams import stream_of, two_moons


def accuracies(name, windowed, **parameters):
    """Return prequential accuracy before the labels flip half way, in the next two windows, and in the last section.

    The result is the mean of three streams, because rounding determines which of a few hundred examples are right.
    """
    return np.mean([stretches(name, windowed, seed, **parameters) for seed in range(3)], axis=0)


def stretches(name, windowed, seed, *, n=1600, window=300, batch=50, **parameters):
    X, y = two_moons(n, noise=0.4, seed=seed)
    y[n // 2 :] *= -1
    classes = (y > 0).astype(int)
    stream = stream_of(name, X, classes, batch=batch, **parameters)
    for begin in range(0, n, batch):
        stream.learn(begin, begin + batch)
        if windowed and begin >= window:
            stream.solver.drop(np.arange(begin - window, begin - window + batch))
    right = (np.concatenate(stream.scores)[:, 0] > 0) == (classes == 1)
    half = n // 2
    return right[half - window : half].mean(), right[half : half + 2 * window].mean(), right[half + window :].mean()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("lasvm", {"C": 10.0}), ("bsca", {"C": 1.0, "budget": 100}), ("exact", {"C": 1.0}), ("tracking-1", {"C": 1.0})],
)
def test_a_window_recovers_from_a_flip_where_the_plain_stream_lags(name, parameters):
    before, plain, _ = accuracies(name, windowed=False, **parameters)
    windowed_before, windowed, at_last = accuracies(name, windowed=True, **parameters)
    assert windowed_before > before - 0.1
    assert windowed > plain + 0.05  # without a window, lasvm lags least, by 0.12
    assert at_last > before - 0.1
