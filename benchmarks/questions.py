"""The cost of a question: processor time to choose one of a pool's candidates.

    PYTHONPATH=.:benchmarks python benchmarks/questions.py [--candidates N] [--learned N] [--dim D]

A LASVM model that has learned some examples of two overlapping clusters has a pool of candidates. A question compares
`searched` candidates, drawn at random. The table shows medians over 20 questions.
"""

import argparse
import json
import time

import numpy as np
from results import Table, keep

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.settings import Settings

RUNS = 20


def model_of(options):
    """Return a model that has learned and has a pool."""
    text = json.dumps(
        {
            "kernel": {"type": "rbf", "gamma": 1 / options.dim},
            "C": 1,
            "features": {"type": "dense", "dim": options.dim},
            "labels": {"pool_max": options.candidates, "explore": 0},
        }
    )
    configuration = parse_configuration(text, Settings())
    model = Model("questions", configuration, cache_bytes=2**26, answers_kept=1000)
    random = np.random.default_rng(0)

    def commit(events):
        for event in events:
            model.apply(model.position + 1, event)

    def rows(n):
        return random.normal(size=(n, options.dim)).astype(np.float32)

    commit([ModelCreated(configuration.model_dump(mode="json"), 1)])
    x = rows(options.learned)
    y = np.where(x[:, 0] + 0.5 * random.normal(size=len(x)) > 0, "ham", "spam").tolist()
    inputs = to_inputs(x.tolist(), configuration)
    request = LearnRequest([None] * len(y), y, inputs, digests(inputs, y))
    commit(make_plan(model, [request], lambda _: {}, 8, 1).events)
    offered = to_inputs(rows(options.candidates).tolist(), configuration)
    ids = [f"c{k}" for k in range(options.candidates)]
    commit(Offer(ids, offered, x_digests(offered), [None] * len(ids)).plan(model, 1).events)
    return model


def question_ms(model, searched):
    """Return the milliseconds of processor time to plan a question. Planning does not change the pool."""
    found = []
    for _ in range(RUNS):
        began = time.process_time()
        Ask(1, "ann", "active", 60_000, None, searched).plan(model, 1)
        found.append(time.process_time() - began)
    return 1000 * float(np.median(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--learned", type=int, default=1_000)
    parser.add_argument("--dim", type=int, default=16)
    options = parser.parse_args()
    model = model_of(options)
    table = Table("candidates", "points", "searched", "time a question, ms")
    for searched in (50, 200, 1_000, options.candidates):
        counts = f"{len(model.pool):,}", f"{model.solver.live:,}", f"{searched:,}"
        table.add(*counts, f"{question_ms(model, searched):.2f}")
    keep("questions", table)


if __name__ == "__main__":
    main()
