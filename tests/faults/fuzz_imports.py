"""Files of models that are damaged under valid checksums. Each is refused, or its model learns and is read again.

    python -m tests.faults.fuzz_imports --seconds 3600
    python -m tests.faults.fuzz_imports --case 4711

Real models of every solver are exported: over dense, sparse and named features, with and without windows, with
candidates, pending predictions, challengers, forgotten and corrected examples. Estimators of every class are saved. One
to four things in such a file are changed. A number becomes an extreme or a neighbouring value, a row is swapped or
repeated, an array gets another shape or another model's shape, or a fact in two places changes in both. The file is
encoded again and imported. An accepted model must learn, forget, finish, let examples leave its window, predict and
show its metrics. After each step it is written, and read again as the same model. An estimator's file is also loaded as
an estimator, which learns, predicts and is saved again.

The cases run in a separate process: compiled code checks no bounds, so it may crash, or never return. The number of a
case determines everything in it. Each fault is printed with its number, as a line of JSON; the exit status is then 1.
"""

import argparse
import asyncio
import contextlib
import faulthandler
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from io import BytesIO
from pathlib import Path

import numpy as np

from hinged.frames import kind_of
from hinged.service.commands.ask import Ask
from hinged.service.engine.creation import import_file
from hinged.service.engine.registry import Registry
from hinged.service.engine.transfer.exports import pack_export
from hinged.service.errors import Invalid
from hinged.service.model.events import decode_event
from hinged.service.model.events.states import ModelImported
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from hinged.solvers.estimators.files import KIND as ESTIMATOR
from tests.faults.fuzz_damage import damaged
from tests.faults.fuzz_estimators import damaged_file
from tests.faults.fuzz_estimators import live as live_as_estimator
from tests.faults.fuzz_scenes import NOW, SIZES, Stream
from tests.helpers.states import digest_of

ESTIMATORS_SHARE = 0.25
CASE_S = 120
"""Seconds after which a case counts as hung. Most cases take a hundredth of this time."""


def read_again(model):
    """Check that a model read from the model's snapshot equals the model."""
    assert digest_of(Model.restore("m", model.snapshot(), **SIZES)) == digest_of(model), "it is read as another model"
    model.describe(NOW)


def live(model, choices):
    """Make an accepted model do everything that models do."""
    stream = Stream(model, choices.randrange(2**30))
    acts = {
        "learn": lambda: stream.learn(choices.choice([1, 3, 20])),
        "predict": lambda: stream.predict(3, keep=choices.random() < 0.5),
        "finish": stream.finish,
        "change": lambda: stream.change(choices.sample(ids, min(len(ids), 3))),
        "numbered": lambda: stream.change([f"@{choices.randrange(1, max(2, model.learned + 1))}"]),
        "drop": lambda: model.learner.forget(model.solver.keys()[: choices.choice([1, 5, 1000])].tolist()),
        "offer": lambda: stream.offer(3),
        "ask": lambda: stream.plan(Ask(2, "bob", choices.choice(["active", "random", "gradient"]), 60_000, None, 100)),
        "class": lambda: stream.learn(4, ("n", "p", "q", "new")),
        "wait": lambda: setattr(stream, "now", stream.now + choices.choice([1000, 30_000])),
    }
    done = []
    for _ in range(8):
        ids = list(model.answers.given_ids)
        name = choices.choice(sorted(acts))
        done.append(name)
        try:
            acts[name]()
            read_again(model)
        except BaseException as error:
            raise AssertionError(f"after {done}: {error!r}") from error


def changed(number):
    """Return the file of a case, the changes in it, and the case's random choices. One file in four is an estimator's
    file.
    """
    choices = random.Random(f"kind {number}")
    if choices.random() < ESTIMATORS_SHARE:
        return *damaged_file(choices), choices
    snapshot, told, choices = damaged(number)
    return pack_export("m", 1, snapshot), told, choices


def case(number, registry):
    """Return the outcome, "refused" or "accepted". Raise an error if the case shows a fault."""
    faulty = {"case": number}
    try:
        data, told, choices = changed(number)
        faulty["told"] = told
        if kind_of(data) == ESTIMATOR:
            told.append(f"read as an estimator: {live_as_estimator(data, choices)}")
        try:
            model = import_file(registry.store, "m", BytesIO(data), registry.settings)
        except Invalid as error:
            return "refused", str(error)
        try:
            (_, event), *_ = registry.store.read("m", 0)
            first = decode_event(event.kind, event.payload)
            assert isinstance(first, ModelImported)
            there = Model.begin("m", 1, first, **SIZES)
            assert digest_of(there) == digest_of(Model.restore("m", model.snapshot(), **SIZES))
        finally:
            registry.store.delete("m")
        live(there, choices)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(json.dumps(faulty | {"error": traceback.format_exc().splitlines()})) from error
    return "accepted", told


async def _registry(store):
    return Registry(store, Settings())


def run_cases(numbers, say, folder):
    """Run cases in a separate process, and report the beginning and outcome of each case."""
    faulthandler.enable()
    np.seterr(all="ignore")
    import logging  # noqa: PLC0415

    logging.disable(logging.CRITICAL)
    store = SQLiteStore(Path(folder) / "data")
    registry = asyncio.run(_registry(store))
    for number in numbers:
        with contextlib.suppress(Exception):  # the case reports it
            changed(number)  # makes and compiles models and donors before the time of the case begins
        say.send(("begin", number))
        try:
            say.send(("end", case(number, registry)))
        except AssertionError as error:
            say.send(("wrong", str(error)))
    say.send(("done", None))


def fuzz(seconds, first, *, verbose=False):
    """Run cases from number `first` on, for `seconds` after the first case begins, and until each outcome has occurred.

    Return the number of cases with each outcome, and the faults.
    """
    context = multiprocessing.get_context("spawn")
    counts, found = {"refused": 0, "accepted": 0}, []
    end, number = None, first
    reasons: dict[str, int] = {}

    def over():
        if end is None:
            return bool(found)  # a fault before the first case begins
        return time.monotonic() >= end and (bool(found) or all(counts.values()))

    while not over():
        folder = tempfile.mkdtemp()
        told, say = context.Pipe(duplex=False)
        process = context.Process(target=run_cases, args=(range(number, number + 10**9), say, folder), daemon=True)
        process.start()
        say.close()
        under_way = None
        try:
            while not over() or under_way is not None:
                if not told.poll(CASE_S if under_way is not None else 10 * CASE_S):
                    found.append({"case": under_way, "error": f"it takes longer than {CASE_S} s"})
                    break
                try:
                    kind, what = told.recv()
                except EOFError:
                    process.join()
                    found.append({"case": under_way, "error": f"the process ended with {process.exitcode}"})
                    break
                if kind == "begin":
                    under_way = number = what
                    end = end or time.monotonic() + seconds
                    continue
                under_way, number = None, number + 1
                if kind == "wrong":
                    found.append(json.loads(what) if what.startswith("{") else {"case": number - 1, "error": what})
                    print(json.dumps(found[-1]), flush=True)
                elif kind == "end":
                    counts[what[0]] += 1
                    if what[0] == "refused":
                        reason = what[1][:45]
                        reasons[reason] = reasons.get(reason, 0) + 1
                    elif verbose:
                        print(what, flush=True)
            else:
                break
            print(json.dumps(found[-1] | {"case": number}), flush=True)
            number += 1
        finally:
            process.kill()
            process.join()
            shutil.rmtree(folder, ignore_errors=True)
    if verbose:
        print(json.dumps(dict(sorted(reasons.items(), key=lambda r: -r[1])[:60]), indent=1))
    return counts, found


def main():
    """Fuzz with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="one case alone, in this process")
    parser.add_argument("--verbose", action="store_true", help="tell what was accepted, and why the rest was not")
    asked = parser.parse_args()
    if asked.case is not None:
        np.seterr(all="ignore")
        with tempfile.TemporaryDirectory() as folder:
            store = SQLiteStore(Path(folder) / "data")
            print(case(asked.case, asyncio.run(_registry(store))))
            store.close()
        return
    counts, found = fuzz(asked.seconds, asked.first, verbose=asked.verbose)
    print(json.dumps(counts | {"found": len(found)}))
    sys.exit(bool(found))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
