import pytest
from streams import two_moons


@pytest.fixture
def moons():
    X, y = two_moons(400)
    return X, (y > 0).astype(int)
