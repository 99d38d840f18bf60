import asyncio

import pytest

from hinged.service.engine.registry import Registry
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.imported_models import KINDS, States, taught


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
