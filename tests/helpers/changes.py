"""Ask a model's worker for changes (forget, correct, reconfigure), and compute the results to compare with."""

import asyncio
import json
import time

import numpy as np

from hinged.service.commands.ask import Offer
from hinged.service.commands.change import Correct, Forget
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.inputs import x_digests
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.learner import ModelLearner
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings
from tests.helpers.worker import SIZES, learning, until

EXACT = {"solver": "exact", "C": 10}


NEEDLE = "needle-5e1f0c77aa"


async def ask_for(worker, command):
    return await (worker.change if isinstance(command, Forget | Correct) else worker.command)(command)


async def changed(worker, command):
    """Send a command, wait until its job is done, and return the command's answer."""
    answer = await ask_for(worker, command)
    if "at" in answer:
        ended = await asyncio.wait_for(worker.ended(answer["at"]), 300)
        assert ended["state"] == "done", ended
    return answer


def taught(model, examples, left=None, **changes):
    """Return a learner that has learned these examples in order. left: numbers of the only examples to learn, or None
    for all.
    """
    facts = {**json.loads(model.configuration.model_dump_json()), **changes}
    learner = ModelLearner(parse_configuration(json.dumps(facts), Settings()), SIZES["cache_bytes"])
    for number, (name, x, label) in enumerate(examples, 1):
        while len(learner.labels) <= model.labels.number(label):  # a class is known once its first example has arrived
            learner.add_class(model.labels.labels[len(learner.labels)])
        if left is None or number in left:
            request = learning(model, [(name, x, label)])
            classes, sources = np.array([model.labels.number(label)], np.int32), np.zeros(1, np.uint8)
            learner.follow(ExamplesLearned(number, [name], classes, request.inputs, list(request.contents), 0, sources))
    return learner


def same_solver(one, other):
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert np.array_equal(array, theirs[name]), name


def until_ended(ask, job, seconds=90):
    end = time.monotonic() + seconds
    while (found := ask("GET", job).json())["state"] == "running":
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def found_in(folder, needle):
    """Return the names of the files in a folder that contain these bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]


def offered(worker, n):
    rows = learning(worker.model, [(None, [k, 1.0], "a") for k in range(n)]).inputs
    return Offer([f"c{k}" for k in range(n)], rows, x_digests(rows), [None] * n)


async def while_folding(worker, command, meanwhile):
    """Ask for two changes. The second request is sent while the first change's retraining waits for its turn."""
    await worker._jobs._shared.places.acquire()
    first = await ask_for(worker, command)
    await until(lambda: not first.get("folds") or worker._jobs._retraining is not None)
    second = await ask_for(worker, meanwhile)
    worker._jobs._shared.places.release()
    for answer in (first, second):
        if "at" in answer:
            assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"


def predicted(worker, names):
    """Return predictions with these ids that wait for their labels."""
    rows = learning(worker.model, [(None, [k, 0.5], "a") for k in range(len(names))]).inputs
    parts = zip(names, x_digests(rows), strict=True)
    now = time.time_ns() // 1_000_000
    return [Prediction(n, rows.part(k, k + 1), digest, np.zeros(0), -1, 0, now) for k, (n, digest) in enumerate(parts)]
