"""The registry with a real store that fails in the middle of a creation or a deletion."""

import asyncio
import json

import pytest

from hinged.service.data.configuration import parse_configuration
from hinged.service.engine.registry import Registry
from hinged.service.errors import Conflict, NotFound, Unavailable
from hinged.service.settings import Settings
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.worker import examples_of, learning


class CutOffStore(SQLiteStore):
    """The real store. Its next creation or deletion succeeds, but reports an unknown outcome."""

    cut_off = False

    def create(self, model, first):
        super().create(model, first)
        self._fail()

    def delete(self, model):
        super().delete(model)
        self._fail()

    def _fail(self):
        if self.cut_off:
            self.cut_off = False
            raise OutcomeUnknown("the disk failed at fsync")


def configured(C=1):
    body = {"kernel": {"type": "linear"}, "C": C, "features": {"type": "dense", "dim": 2}}
    return parse_configuration(json.dumps(body), Settings())


@pytest.fixture
def run(tmp_path):
    store = CutOffStore(tmp_path / "data")

    def run(scenario):
        async def main():
            registry = Registry(store, Settings())
            await registry.start()
            try:
                await scenario(registry, store)
            finally:
                await registry.stop()

        asyncio.run(main())

    yield run
    store.close()


def test_a_creation_of_unknown_outcome_can_be_repeated(run):
    async def scenario(registry, store):
        store.cut_off = True
        with pytest.raises(OutcomeUnknown):
            await registry.create("m", configured())
        with pytest.raises(NotFound):
            registry.get("m")
        worker, new = await registry.create("m", configured())
        assert new
        assert worker.model.position == store.end("m") == 1

    run(scenario)


def test_a_creation_of_unknown_outcome_conflicts_with_another_configuration(run):
    async def scenario(registry, store):
        store.cut_off = True
        with pytest.raises(OutcomeUnknown):
            await registry.create("m", configured(C=1))
        with pytest.raises(Conflict, match="exists with another configuration"):
            await registry.create("m", configured(C=2))
        assert registry.get("m").model.configuration.C == 1

    run(scenario)


def test_a_deletion_of_unknown_outcome_can_be_repeated(run):
    async def scenario(registry, store):
        await registry.create("m", configured())
        store.cut_off = True
        with pytest.raises(OutcomeUnknown):
            await registry.delete("m")
        with pytest.raises(Unavailable, match="deletion was cut off"):
            registry.get("m")
        await registry.delete("m")
        with pytest.raises(NotFound):
            registry.get("m")
        assert store.models() == []

    run(scenario)


def test_an_export_with_the_log_breaks_off_if_an_example_is_forgotten_meanwhile(run):
    async def scenario(registry, _):
        worker, _ = await registry.create("m", configured())
        await worker.learn(learning(worker.model, examples_of(1, 10)))
        for forgets in (False, True):
            _, pieces = await registry.export("m", None, log=True)
            if forgets:
                await worker.ended((await worker.forget("s1-1"))["at"])
                with pytest.raises(Conflict, match="forgotten meanwhile"):
                    list(pieces)
            else:
                assert b"".join(pieces)

    run(scenario)
