"""Small models of every solver in many states, to be exported."""

import contextlib
import json
import random
import time
from functools import cache

import numpy as np

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.change import Correct, Forget
from hinged.service.commands.learn import LearnRequest, make_plan
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.errors import ServiceError
from hinged.service.model.events.learning import PredictionsMade, TrainingFinished
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings
from hinged.solvers.catalogue import SOLVERS
from hinged.solvers.warm import warm_up

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
    """Return the configuration of a small random model with this solver."""
    kernel = dict(choices.choice(KERNELS[::3] if solver == "fogd" else KERNELS))
    form = choices.choice(FORMS)
    parts = {"solver": solver, "kernel": kernel, "points_max": choices.choice([40, 1000]), "seed": 5}
    if form == "named":
        parts["features"] = {"type": "named", "warmup": choices.choice([0, 18, 40, 60, 200]), "columns_max": 12}
        parts["features"] |= {part: choices.random() < 0.5 for part in ("times", "identifiers", "tails")}
        if choices.random() < 0.4:
            parts["features"]["columns"] = {"t": {"type": "text"}, "w": {"type": "time"}}
        parts["points_max"] = 1000
        parts["segments"] = choices.choice([None, ["c", "u"], ["d", "none"]])
        if parts["features"]["warmup"] and kernel["type"] != "linear":
            kernel["gamma"] = "auto"
    else:
        parts["features"] = {"type": form, "dim": DIM, "scale": choices.choice([None, "auto"])}
        if parts["features"]["scale"]:
            parts["features"]["warmup"] = choices.choice([1, 18, 24])
            if kernel["type"] != "linear":
                kernel["gamma"] = choices.choice([0.5, "scale"])
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
    """Makes examples for a model, and applies the events that the server's commands plan."""

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
            for x in xs:
                x |= {"w": f"2026-05-{int(10 + 2 * x['a']):02}T09:00", "t": f"{x['c']} and {x['b']}"}
                x["u"] = f"{x['a']} {x['b']}"
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
        with contextlib.suppress(ServiceError):  # the model stays unchanged
            self.take(command.plan(self.model, self.now).events)

    def predict(self, m, *, keep=False):
        inputs = self.inputs(m)
        decided, found = self.model.published().decide(inputs), x_digests(inputs)
        assert np.isfinite(decided.columns).all(), "a decision value is not finite"
        if keep:
            waiting = [
                Prediction(
                    f"{self.name}w{self.given + r}", inputs.take(np.array([r])), found[r], decided.columns[r],
                    int(decided.numbers[r]), r % 3, self.now, chance=0.5 * (r % 3 > 0),
                )
                for r in range(m)
            ]  # fmt: skip
            self.given += m
            self.take([PredictionsMade(waiting, self.now)])

    def finish(self):
        self.take([TrainingFinished(self.now)])

    def change(self, known):
        """Forget and correct some of the known examples."""
        for given in known[:2]:
            self.plan(Forget(given))
        for given in known[2:3]:
            self.plan(Correct(given, self.model.labels.labels[0], 8))


@cache
def scene(number):
    """Return the configuration and the snapshot of a model, which is different for each number."""
    choices = random.Random(f"scene {number}")
    solver = list(SOLVERS)[number % len(SOLVERS)]
    configuration = configuration_of(solver, choices)
    warm_up(configuration.solver, configuration.dtype)
    model = Model("m", configuration, **SIZES)
    model.apply(1, ModelCreated(configuration.model_dump(mode="json"), NOW))
    if choices.random() < 0.3:
        other = configuration.model_copy(update={"seed": 9})
        model.shadows["other"] = ModelLearner(other, SIZES["cache_bytes"])
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
