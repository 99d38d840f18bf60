"""Models of several kinds, and a function that imports their states."""

import json
import time
from io import BytesIO

import numpy as np

from hinged.service.commands.ask import Ask, Offer
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.creation import import_file
from hinged.service.engine.transfer.exports import pack_export
from hinged.service.errors import Invalid
from hinged.service.model.events.learning import PredictionsMade
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.states import digest_of

NOW = time.time_ns() // 1_000_000
SIZES = {"cache_bytes": 2**20, "answers_kept": 100}
RBF, DENSE = {"type": "rbf", "gamma": 1.0}, {"type": "dense", "dim": 3}
KINDS = {
    "lasvm": {"solver": "lasvm", "kernel": RBF, "features": DENSE},
    "bsgd": {
        "solver": "bsgd",
        "kernel": {"type": "rbf", "gamma": 1.0},
        "features": {"type": "dense", "dim": 3},
        "budget": 6,
    },
    "exact": {"solver": "exact", "kernel": {"type": "polynomial"}, "features": DENSE},
    "named": {"kernel": {"type": "rbf", "gamma": "auto"}, "features": {"type": "named", "warmup": 30}},
    "written": {
        "kernel": {"type": "rbf", "gamma": "auto"},
        "features": {"type": "named", "warmup": 30, "times": True, "columns": {"note": {"type": "text"}}},
    },
    "scaled": {
        "kernel": {"type": "rbf"},
        "features": {**DENSE, "scale": "auto", "warmup": 30, "warmup_candidates": True},
    },
}


def taught(kind):
    """Return a model that has learned examples, candidates, leases, and predictions that wait for labels."""
    configuration = parse_configuration(json.dumps(KINDS[kind]), Settings())
    model = models.created(configuration, SIZES, NOW)
    random = np.random.default_rng(0)

    def xs(n):
        rows = random.standard_normal((n, 3)).round(2).tolist()
        if kind == "written":
            return [{"a": r[0], "when": f"2026-05-01T{int(9 + r[1]):02}:30", "note": f"{r[2]} is it"} for r in rows]
        return [{"a": r[0], "b": r[1], "c": "xyz"[int(abs(r[2])) % 3]} if kind == "named" else r for r in rows]

    inputs = to_inputs(xs(20), configuration)
    models.learn(model, models.request_of(inputs, ["n", "p"] * 10, [f"e{k}" for k in range(20)]), now_ms=NOW)
    inputs = to_inputs(xs(4), configuration)
    offer = Offer([f"c{k}" for k in range(4)], inputs, x_digests(inputs), [None] * 4)
    models.take(model, offer.plan(model, NOW).events)
    models.take(model, Ask(2, "ann", "active", 60_000, "r", 100).plan(model, NOW).events)
    decided, found = model.published().decide(inputs), x_digests(inputs)
    waiting = [
        Prediction(f"w{r}", inputs.take(np.array([r])), found[r], decided.columns[r], int(decided.numbers[r]), 0, NOW)
        for r in range(4)
    ]
    models.take(model, [PredictionsMade(waiting, NOW)])
    return model


class States(dict):
    """The state of a model of each kind."""

    def __repr__(self):  # Hypothesis prints a test's arguments, and refuses to print a megabyte
        return f"states of {', '.join(self)}"


def take(registry, state):
    """Import a state. Return None if it is refused; otherwise return the model, after reading its description and
    its snapshot.
    """
    try:
        model = import_file(registry.store, "m", BytesIO(pack_export("m", 1, state)), registry.settings)
    except Invalid:
        return None
    try:
        model.describe()
        assert digest_of(Model.restore("m", model.snapshot(), **SIZES)) == digest_of(model)
    finally:
        registry.store.delete("m")
    return model
