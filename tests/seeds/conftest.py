"""The seeds need a Lua and greenlets."""

from importlib.util import find_spec

import pytest

from tests.helpers.server import missing


@pytest.fixture(autouse=True)
def packages():
    for name in ("lupa", "greenlet"):
        if find_spec(name) is None:
            missing(f"there is no {name}: pip install -e '.[dev]'")
