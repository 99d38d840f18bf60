import asyncio

import pytest
from importing import KINDS, States, taught

from hinged.service.engine.registry import Registry
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore


@pytest.fixture(scope="module")
def states():
    return States((kind, taught(kind).snapshot()) for kind in KINDS)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    store = SQLiteStore(tmp_path_factory.mktemp("imports") / "data")

    async def make():
        return Registry(store, Settings())

    yield asyncio.run(make())
    store.close()
