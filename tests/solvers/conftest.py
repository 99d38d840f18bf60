import pytest

from tests.helpers.solvers.streams import two_moons


@pytest.fixture
def moons():
    X, y = two_moons(400)
    return X, (y > 0).astype(int)


@pytest.fixture
def noisy():
    X, y = two_moons(60, noise=0.5, seed=3)
    return X, (y > 0).astype(int)
