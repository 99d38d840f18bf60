"""A worker of a new model with a real store, without a server around it."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from functools import partial, wraps
from inspect import Parameter, signature
from tempfile import TemporaryDirectory

import numpy as np

from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.engine.worker import Worker
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.metrics import UNKNOWN
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.failing_store import FailingStore
from tests.helpers.http_client import BASE
from tests.helpers.server import PATIENCE_S

SIZES = {"cache_bytes": 2**20, "answers_kept": 30}


@asynccontextmanager
async def working(store, sizes=SIZES, configuration=None, found=None, **changes):
    """A worker of a new model "m", or of `found`: a model from the store and its obstacle or None."""
    model, obstacle = found or (begun(store, sizes, configuration or {}), None)
    with ThreadPoolExecutor(4) as executor:
        worker = Worker(model, store, Settings(**changes), executor, obstacle=obstacle)
        try:
            yield worker
        finally:
            await worker.stop(keep_snapshot=False)


def begun(store, sizes, changes):
    configuration = parse_configuration(json.dumps(BASE | changes), Settings())
    model = Model("m", configuration, **sizes)
    created = ModelCreated(configuration.model_dump(mode="json"), 0)
    store.create("m", created.record())
    model.apply(1, created)
    return model


def with_worker(scenario, kind=SQLiteStore, **changes):
    """Run an async scenario(worker, store) with a new model in a store of this kind."""

    async def main():
        with TemporaryDirectory() as folder, closing(kind(folder_of(folder))) as store:
            async with working(store, **changes) as worker:
                try:
                    return await scenario(worker, store)
                finally:
                    if isinstance(store, FailingStore):
                        store.let_go()

    return asyncio.run(main())


def on_worker(*told, **changes):
    """Turn an async function of `worker`, `store` and fixtures into a test.

    told: parameters of the test that go to `with_worker`. changes: further arguments of `with_worker`.
    """

    def decorated(scenario):
        asked = signature(scenario)

        @wraps(scenario)
        def test(**given):
            more = {name: given.pop(name) for name in told}

            def scene(worker, store):
                here = {"worker": worker, "store": store}
                return scenario(**given, **{name: here[name] for name in here if name in asked.parameters})

            with_worker(scene, **changes, **more)

        fixtures = [each for each in asked.parameters.values() if each.name not in ("worker", "store")]
        fixtures += [Parameter(name, Parameter.KEYWORD_ONLY) for name in told]
        test.__signature__ = asked.replace(parameters=fixtures)
        return test

    return decorated


async def until(true):
    """Wait until a function returns something true."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110  it may ask for the state of a thread or a store
            await asyncio.sleep(0.005)


def folder_of(path):
    return type(Settings().data_dir)(path) / "data"


def learning(model, examples):
    """A learn request for a model. If the model's configuration changes first, the model reads the examples again."""
    return read_for(model.configuration, examples)


def read_for(configuration, examples):
    ids, xs, labels = (list(part) for part in zip(*examples, strict=True))
    rows = to_inputs(xs, configuration)
    return LearnRequest(ids, labels, rows, digests(rows, labels), reread=partial(read_for, examples=examples))


def examples_of(seed, n):
    random = np.random.default_rng(seed)
    return [
        (f"s{seed}-{k}" if k % 3 else None, random.standard_normal(2).tolist(), "abc"[random.integers(3)])
        for k in range(n)
    ]


def predictions_of(published, inputs):
    """For each row the predicted label (None while no class is known) and the score of each class by name."""
    decided = published.decide(inputs)
    labels = [None if number == UNKNOWN else published.labels[number] for number in decided.numbers.tolist()]
    return list(zip(labels, published.scores(decided), strict=True))
