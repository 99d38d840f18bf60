"""Files of models that are damaged under right checksums: refused, or models that learn, and are read again.

    PYTHONPATH=.:tests:tests/faults python tests/faults/fuzz_imports.py --seconds 3600
    PYTHONPATH=.:tests:tests/faults python tests/faults/fuzz_imports.py --case 4711

Real models of every solver, over dense, sparse and named features, with and without windows, with candidates, pending
predictions, challengers, forgotten and corrected examples, are exported. One to four things in such a file are changed:
a number becomes an extreme one or its neighbour, a row is swapped or comes twice, an array gets another shape or that
of another model, what is told in two places changes in both. It is encoded anew and imported. What is accepted has to
learn, forget, finish, let examples leave its window, predict, tell its figures, and after each of these be written and
read again as the same model.

The cases run in a process of their own, for compiled code checks no bounds: it may crash, or never return. Each case
follows from its number alone. What is found is told with it, on a line of JSON; the exit status is 1 then.
"""

import argparse
import asyncio
import contextlib
import copy
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
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
from states import digest_of

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.change import Correct, Forget
from hinged.service.commands.learn import LearnRequest, make_plan
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.registry import Registry
from hinged.service.engine.transfer.exports import pack_export
from hinged.service.errors import Invalid, ServiceError
from hinged.service.frames import decode, encode
from hinged.service.model.events import (
    Created,
    Finished,
    Imported,
    Predicted,
    decode_event,
)
from hinged.service.model.learner import Learner
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.warm import warm_up

CASE_S = 120
"""A case that takes longer hangs; most take a hundredth."""

SIZES = {"cache_bytes": 2**20, "answers_kept": 100}
NOW = time.time_ns() // 1_000_000
DIM = 3
KERNELS = (
    {"type": "rbf", "gamma": 0.7},
    {"type": "linear"},
    {"type": "polynomial", "degree": 2, "coef0": 1.0},
    {"type": "laplacian", "gamma": 0.5},
)
FORMS = ("dense", "sparse", "named")
WINDOWS = (None, {"examples": 25}, {"seconds": 20})
PARAMETERS = {
    "lasvm-g": {"idle_max": 3, "clean_every": 5},
    "lasvm-nc": {"idle_max": 3, "clean_every": 5, "ramp_start": 2},
    "lasvm-i": {"idle_max": 3, "clean_every": 5, "ramp_start": 2},
    "bsca": {"budget": 8, "extra_steps": 2, "reservoir": 10, "remembered": 50},
    "bsgd": {"budget": 8, "maintenance": "project"},
    "fogd": {"frequencies": 10},
    "nogd": {"budget": 8},
}
BUDGETED = ("budget-perceptron", "rbp", "forgetron", "projectron", "projectron++", "bpas", "bogd")


def configuration_of(solver, choices):
    """A small model of this solver, otherwise drawn."""
    kernel = dict(choices.choice(KERNELS[::3] if solver == "fogd" else KERNELS))
    form = choices.choice(FORMS)
    parts = {"solver": solver, "kernel": kernel, "points_max": choices.choice([40, 1000]), "seed": 5}
    if form == "named":
        parts["features"] = {"type": "named", "warmup": choices.choice([0, 18, 40, 200]), "columns_max": 12}
        parts["points_max"] = 1000
        if parts["features"]["warmup"] and kernel["type"] != "linear":
            kernel["gamma"] = "auto"
    else:
        parts["features"] = {"type": form, "dim": DIM}
    parts |= PARAMETERS.get(solver, {"budget": 8} if solver in BUDGETED else {})
    parts["when_full"] = choices.choice(["refuse", "remove"])
    if solver not in ("fogd", "nogd", "projectron", "projectron++"):
        parts["window"] = choices.choice(WINDOWS)
        if form == "named" and parts["window"] and "examples" in parts["window"]:
            parts["window"] = {"examples": 200}
    if choices.random() < 0.3:
        parts["class_weight"] = {"p": 2.5}
    return parse_configuration(json.dumps(parts), Settings())


class Stream:
    """Examples for a model, and what applies to it what the server's commands plan."""

    def __init__(self, model, seed):
        self.model, self.draws = model, np.random.default_rng(seed)
        self.now = max(NOW, model.at_ms)
        self.given = 0
        self.name = f"s{seed}-"

    def inputs(self, m):
        rows = self.draws.standard_normal((m, DIM)).round(2)
        configuration = self.model.configuration
        if configuration.features.type == "named":
            xs = [{"a": r[0], "b": r[1], "c": "xyz"[int(abs(r[2])) % 3], "d": bool(r[2] > 0)} for r in rows.tolist()]
        else:
            dim = configuration.features.dim
            xs = [(r + [0.0] * dim)[:dim] for r in rows.tolist()] if dim <= 10_000 else [
                {"indices": [0, dim - 1], "values": r[:2]} for r in rows.tolist()
            ]  # fmt: skip
        return to_inputs(xs, configuration)

    def take(self, events):
        for event in events:
            self.model.apply(self.model.position + 1, event)

    def learn(self, m, labels=("n", "p", "q")):
        m = max(0, min(m, self.model.room))
        if not m:
            return
        inputs = self.inputs(m)
        declared = self.model.configuration.classes or labels
        told = [declared[k] for k in self.draws.integers(0, len(declared), m)]
        ids = [f"{self.name}{self.given + k}" if k % 3 else None for k in range(m)]
        self.given += m
        request = LearnRequest(ids, told, inputs, digests(inputs, told))
        plan = make_plan(self.model, [request], lambda _: {}, 8, self.now)
        self.take(plan.events)

    def offer(self, m):
        inputs = self.inputs(m)
        ids = [f"{self.name}c{self.given + k}" for k in range(m)]
        self.given += m
        self.plan(Offer(ids, inputs, x_digests(inputs), [None] * m))

    def plan(self, command):
        with contextlib.suppress(ServiceError):  # the model stays as it is
            self.take(command.plan(self.model, self.now).events)

    def predict(self, m, *, keep=False):
        inputs = self.inputs(m)
        decided, found = self.model.published().decide(inputs), x_digests(inputs)
        assert np.isfinite(decided.columns).all(), "a decision value is not finite"
        if keep:
            waiting = [
                Prediction(
                    f"{self.name}w{self.given + r}", inputs.take(np.array([r])), found[r], decided.columns[r],
                    int(decided.numbers[r]), r % 3, self.now,
                )
                for r in range(m)
            ]  # fmt: skip
            self.given += m
            self.take([Predicted(waiting, self.now)])

    def finish(self):
        self.take([Finished(self.now)])

    def change(self, known):
        """Forget and correct examples, of those that are known."""
        for given in known[:2]:
            self.plan(Forget(given))
        for given in known[2:3]:
            self.plan(Correct(given, self.model.labels.labels[0], 8, 100))


@cache
def scene(number):
    """The configuration and the snapshot of a model; there are as many as one likes."""
    choices = random.Random(f"scene {number}")
    solver = list(SOLVERS)[number % len(SOLVERS)]
    configuration = configuration_of(solver, choices)
    warm_up(configuration.solver, configuration.dtype)
    model = Model("m", configuration, **SIZES)
    model.apply(1, Created(configuration.model_dump(mode="json"), NOW))
    if choices.random() < 0.3:
        other = configuration.model_copy(update={"seed": 9})
        model.shadows["other"] = Learner(other, SIZES["cache_bytes"])
    stream = Stream(model, number)
    labels = choices.choice([("n", "p"), ("n", "p", "q"), ("n",), (True, 1, "1")])
    for _ in range(choices.choice([0, 1, 6, 12])):
        stream.now += 1000
        stream.learn(choices.choice([1, 5, 9]), labels)
        if choices.random() < 0.1:
            stream.finish()
    for part in (
        lambda: stream.offer(4),
        lambda: stream.plan(Ask(2, "ann", "active", 60_000, "r", 100)),
        lambda: stream.predict(4, keep=True),
        lambda: stream.change(list(model.answers.given_ids)),
        lambda: stream.learn(3, labels),
    ):
        if choices.random() < 0.5:
            part()
    return configuration, model.snapshot()


# -- damage ----------------------------------------------------------------------------------------------------------

FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-45, 1.0, -1.0, 0.5, 2.0, 1e6, 1e15, 1e30,
          1e38, -1e38, 1e77, 1e100, 1e119, 1e120, 1e149, 1e200, 1e307, 1.7e308, -1.7e308]  # fmt: skip
INTEGERS = [0, 1, -1, -2, 2, 7, 31, 32, 64, 100, 255, 999, 1000, 1024, -100, 2**31 - 1, 2**31, 2**32, 2**52, 2**53 - 1,
            2**53, 2**60, 2**61, 2**62 - 1, 2**62, 2**63 - 1, -(2**62), -(2**63)]  # fmt: skip
ODD = [None, True, False, 0, 1, -1, 7, 2**31, 2**52, 2**53 - 1, 2**53, 2**63 - 1, 2**65, -(2**65), 0.5, -1.0, 1e-320,
       1e15, 1e308, float("nan"), float("inf"), "", "a", "\x00", "\ud800", "@1", "x" * 300, [], [None], [1, 2],
       ["a", [0]], [[0, "a"]], {}, {"a": 1}, {"dim": 2**40}, [{}], [[], []]]  # fmt: skip


def narrowed(value, dtype):
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.array(value, np.float64).astype(dtype)
        return np.array([int(value) % 2**64], np.uint64).astype(dtype)[0]


def an_extreme(choices, array):
    values = array.copy()
    pool = FLOATS if array.dtype.kind == "f" else INTEGERS
    value = choices.choice(pool)
    for _ in range(choices.choice([1, 1, 1, 2, 5])):
        values.flat[choices.randrange(array.size)] = narrowed(value, array.dtype)
    return values


def a_neighbour(choices, array):
    values = array.copy()
    at = choices.randrange(array.size)
    by = choices.choice([-1, 1, -2, 2, 32, -32])
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            value, kind = values.flat[at], array.dtype.type
            beside = np.nextafter(value, kind(by * np.inf))
            values.flat[at] = choices.choice([beside, value + kind(by), -value, value * kind(1 + by / 100)])
        else:
            values.flat[at] = narrowed(int(values.flat[at]) + by, array.dtype)
    return values


def scaled(choices, array):
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            return (array * array.dtype.type(choices.choice([0, -1, 0.5, 2, 1e3, 1e-30, 1e30, 1e100, 1e200]))).astype(
                array.dtype
            )
        return (array * choices.choice([0, 2, 3])).astype(array.dtype) if choices.random() < 0.5 else ~array


def another_order(choices, array):
    order = list(range(array.shape[0]))
    if choices.random() < 0.5 and len(order) > 1:
        a, b = choices.sample(order, 2)
        order[a], order[b] = order[b], order[a]
    else:
        choices.shuffle(order)
    return array[order]


def entries(choices, array):
    """Fewer entries, or some twice, along an axis."""
    axis = choices.randrange(array.ndim)
    n = array.shape[axis]
    kept = choices.choice([range(n - 1), range(1, n), [*range(n), n - 1], [*range(n), 0], [0] * n, [], range(n // 2)])
    return np.take(array, list(kept), axis)


def another_shape(choices, array):
    return choices.choice([
        lambda: array.reshape(-1), lambda: array[None], lambda: array[..., None], array.T.copy,
        lambda: np.resize(array, [choices.randrange(8) for _ in range(choices.randrange(4))]),
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
    ])()  # fmt: skip


def another_type(choices, array):
    with np.errstate(all="ignore"):
        return array.astype(choices.choice(["int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]))


def other_bits(choices, array):
    raw = bytearray(array.tobytes())
    for _ in range(choices.randrange(4) + 1):
        raw[choices.randrange(len(raw))] ^= 1 << choices.randrange(8)
    return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)


def constant(choices, array):
    return np.full_like(array, narrowed(choices.choice(FLOATS if array.dtype.kind == "f" else INTEGERS), array.dtype))


OF_AN_ARRAY = (an_extreme, an_extreme, an_extreme, a_neighbour, a_neighbour, scaled, another_order, entries,
               another_shape, another_type, other_bits, constant)  # fmt: skip


def damage_array(choices, _, arrays, donor):
    names = sorted(name for name, array in arrays.items() if array.size and array.ndim)
    # A state of the metrics has many arrays, and a solver's few decide more.
    name = choices.choice([n for n in names if choices.random() < 0.5 and "solver" in n] or names)
    if choices.random() < 0.05:
        del arrays[name]
        return f"{name} is gone"
    if choices.random() < 0.1:
        same = [other for other in names if arrays[other].dtype == arrays[name].dtype and other != name]
        if same:
            other = choices.choice(same)
            arrays[name], arrays[other] = arrays[other], arrays[name]
            return f"{name} and {other} are swapped"
    if choices.random() < 0.08 and name in donor[1]:
        arrays[name] = donor[1][name]
        return f"{name} is another model's"
    how = choices.choice(OF_AN_ARRAY)
    before = arrays[name]
    arrays[name] = how(choices, before)
    return f"{name}: {how.__name__} {changes(before, arrays[name])}"


def changes(before, after):
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"{before.dtype}{before.shape} {after.dtype}{after.shape}"
    at = np.flatnonzero(before.tobytes() != after.tobytes()) if before.size == 1 else np.flatnonzero(before != after)
    return [(int(p), before.flat[p].item(), after.flat[p].item()) for p in at[:4]]


def places(part, path=()):
    """Where anything stands in the facts."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def inside(facts, path):
    for key in path:
        facts = facts[key]
    return facts


def damage_facts(choices, facts, _, donor):
    path = choices.choice(list(places(facts)))
    holder, key = inside(facts, path[:-1]), path[-1]
    value = holder[key]
    how = choices.randrange(6)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(value, list) and value:
        value.insert(choices.randrange(len(value)), copy.deepcopy(choices.choice(value)))
    elif how == 2 and isinstance(value, list) and value:
        value.pop(choices.randrange(len(value)))
    elif how == 3 and type(value) in (int, float):
        holder[key] = choices.choice([value + 1, value - 1, -value, value * 2, value * 10**9])
    elif how == 4:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            holder[key] = copy.deepcopy(inside(donor[0], path))
    else:
        holder[key] = copy.deepcopy(choices.choice(ODD))
    return f"facts {path}: {str(value)[:40]!r} {how} {str(inside(facts, path[:-1]))[:60]!r}"


def damage_together(choices, facts, arrays, donor):
    """What is told in several places, changed in all of them."""
    prefixes = [name.removesuffix("solver.seen") for name in arrays if name.endswith("solver.seen")]
    prefix = choices.choice(prefixes)
    learner = facts["learner"] if prefix == "learner." else facts["shadows"].get(prefix.split(".")[1].rstrip("/"))
    big = choices.choice([2**20, 2**31, 2**40, 2**51, 2**52, 2**53 - 100, 2**53 - 1, 2**62 - 50, 2**63 - 1])

    def add(names, by):
        for name in names:
            full = prefix + name
            if full in arrays and arrays[full].size:
                values = arrays[full].copy()
                values.flat[0] = narrowed(int(values.flat[0]) + by, values.dtype)
                arrays[full] = values

    def multiply(names, by):
        for name in names:
            if prefix + name in arrays:
                with np.errstate(all="ignore"):
                    arrays[prefix + name] = arrays[prefix + name] * by

    def learned():
        facts["learned"] = facts["answers"]["newest"] = facts["learned"] + big
        if learner:
            learner["learned"] += big
        add(["solver.learned", "metrics.counts"], 0)

    def counted():
        learned()
        values = arrays[prefix + "metrics.counts"].copy()
        values[1] += min(big, 2**62)
        arrays[prefix + "metrics.counts"] = values

    def tallied():
        counted()
        sources = [n for n in ("streamed", "queried", "random") if prefix + f"metrics.{n}.cells" in arrays]
        add(["metrics.all.cells", "metrics.all.seen", "metrics.sigmoid.seen", "metrics.sigmoid.due"], big)
        for source in sources[:1]:
            add([f"metrics.{source}.cells", f"metrics.{source}.seen"], big)

    def solved():
        learned()
        add(["solver.seen", "solver.learned", "solver.steps"], big)
        counts = prefix + "solver.counts"
        if counts in arrays:
            values = arrays[counts].copy()
            values[1:] = np.minimum(values[1:].astype(object) + big, 2**63 - 1).astype(np.int64)
            arrays[counts] = values
        add(["solver.upkeep_counts"], big)

    def dropped():
        learned()
        add(["ages.dropped"], choices.choice([0, big // 2, big]))
        grains = prefix + "ages.grains"
        if grains in arrays and arrays[grains].size:
            values = arrays[grains].copy()
            values[:, 0] += min(big, 2**62)
            arrays[grains] = values

    def costs():
        by = choices.choice([1e-300, 1e-15, 1e3, 1e14, 1e30, 1e308])
        multiply(
            ["solver.alpha", "solver.lower", "solver.upper", "solver.smooth", "solver.C", "solver.memory_alpha"], by
        )
        if learner and isinstance(learner["configuration"], dict) and "C" in learner["configuration"]:
            learner["configuration"]["C"] *= by

    def coefficients():
        multiply(["solver.alpha", "solver.smooth", "solver.w"], choices.choice([1e-300, -1.0, 1e50, 1e100, 1e118]))

    def keys():
        learned()
        for name in ("solver.key", "solver.memory_key", "solver.recent_key", "warm_keys"):
            full = prefix + name
            if full in arrays:
                values = arrays[full].copy()
                values[values >= 0] += min(big, 2**62)
                arrays[full] = values

    def configuration():
        if learner and isinstance(learner["configuration"], dict):
            inner = learner["configuration"]
            key = choices.choice(sorted(inner))
            inner[key] = copy.deepcopy(choices.choice([*ODD, 2, 3, 1e-9, 40, "remove", 1000]))

    def labels():
        if learner and learner["labels"]:
            for other in (facts["learner"], *facts["shadows"].values()):
                other["labels"] = copy.deepcopy(other["labels"])
                other["labels"][0] = choices.choice(["zz", True, 1, 2**70, "x" * 500])

    def of_a_donor():
        part = choices.choice(["solver.", "metrics.", "ages.", "vocabulary."])
        own = prefix + part
        theirs = {name: array for name, array in donor[1].items() if name.startswith("learner." + part)}
        for name in [name for name in arrays if name.startswith(own)]:
            del arrays[name]
        arrays.update({prefix + name.removeprefix("learner."): array for name, array in theirs.items()})

    how = choices.choice([learned, counted, tallied, solved, dropped, costs, coefficients, keys, configuration,
                          configuration, labels, of_a_donor])  # fmt: skip
    how()
    return f"{prefix}{how.__name__} by {big}"


DAMAGES = (damage_array, damage_array, damage_array, damage_array, damage_facts, damage_together)


def damaged(number):
    """The changed snapshot of a case, and what was changed."""
    choices = random.Random(f"case {number}")
    scenes = choices.choice([len(SOLVERS), 4 * len(SOLVERS), 40 * len(SOLVERS)])
    at, other = number % len(SOLVERS), choices.randrange(scenes)
    at += len(SOLVERS) * choices.randrange(scenes // len(SOLVERS))
    if choices.random() < 0.5:  # of the same solver
        other = at % len(SOLVERS) + len(SOLVERS) * (other // len(SOLVERS))
    _, snapshot = scene(at)
    facts, arrays = decode(snapshot, SNAPSHOT)
    donor = decode(scene(other)[1], SNAPSHOT)
    told = [f"scene {at} {facts['learner']['configuration']['solver']}"]
    for _ in range(choices.choice([1, 1, 1, 2, 3, 4])):
        try:
            told.append(choices.choice(DAMAGES)(choices, facts, arrays, donor))
        except (KeyError, TypeError, IndexError, ValueError, OverflowError, AttributeError) as error:
            told.append(f"not changed: {error!r}")  # an earlier change took away what this one is about
    return encode(SNAPSHOT, facts, arrays), told, choices


# -- a case ------------------------------------------------------------------------------------------------------------


def read_again(model):
    """The model must be what is written of it."""
    assert digest_of(Model.restore("m", model.snapshot(), **SIZES)) == digest_of(model), "it is read as another model"
    model.describe(NOW)


def live(model, choices):
    """Let an accepted model do what models do."""
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


def case(number, registry):
    """refused, or accepted. What must not be is raised."""
    faulty = {"case": number}
    try:
        snapshot, told, choices = damaged(number)
        faulty["told"] = told
        try:
            model = registry._import("m", BytesIO(pack_export("m", 1, snapshot)))
        except Invalid as error:
            return "refused", str(error)
        try:
            (_, event), *_ = registry._store.read("m", 0)
            first = decode_event(event.kind, event.payload)
            assert isinstance(first, Imported)
            there = Model.begin("m", 1, first, **SIZES)
            assert digest_of(there) == digest_of(Model.restore("m", model.snapshot(), **SIZES))
        finally:
            registry._store.delete("m")
        live(there, choices)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(json.dumps(faulty | {"error": traceback.format_exc().splitlines()})) from error
    return "accepted", told


async def _registry(store):
    return Registry(store, Settings())


def run_cases(numbers, say, folder):
    """Run cases and tell of each when it begins and what came of it; in a process of its own."""
    faulthandler.enable()
    np.seterr(all="ignore")
    import logging  # noqa: PLC0415

    logging.disable(logging.CRITICAL)
    store = SQLiteStore(Path(folder) / "data")
    registry = asyncio.run(_registry(store))
    for number in numbers:
        with contextlib.suppress(Exception):  # the case tells it
            damaged(number)  # models and donors are made, and compiled, before its time begins
        say.send(("begin", number))
        try:
            say.send(("end", case(number, registry)))
        except AssertionError as error:
            say.send(("wrong", str(error)))
    say.send(("done", None))


def fuzz(seconds, first, *, verbose=False):
    """Cases from number `first` on, for so long. Returns how many there were, and what was found."""
    context = multiprocessing.get_context("spawn")
    counts, found = {"refused": 0, "accepted": 0}, []
    end, number = time.monotonic() + seconds, first
    reasons: dict[str, int] = {}
    while time.monotonic() < end:
        folder = tempfile.mkdtemp()
        told, say = context.Pipe(duplex=False)
        process = context.Process(target=run_cases, args=(range(number, number + 10**9), say, folder), daemon=True)
        process.start()
        say.close()
        under_way = None
        try:
            while time.monotonic() < end or under_way is not None:
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
    """Fuzz as the command line says."""
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
