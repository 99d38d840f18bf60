"""The effect of each constant of the scheduler on a small model, while slow models on the same server compute.

    PYTHONPATH=.:benchmarks python benchmarks/server/constants.py [--rounds N] [--seconds S] [--only NAME=VALUE ...]

In each round a server starts twice with the constants unchanged, and once with each changed constant, in random order.
One client learns one example after another on a small model, then predicts, while 16 models learn with the exact solver
(neighbours.py). The table shows the times relative to the first unchanged server of the same round: median, minimum and
maximum. The second unchanged server shows how noisy these ratios are.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

import httpx
import numpy as np
from load import load
from neighbours import FEATURES, SLOW, SMALL, Slow, examples, requests
from results import Table, keep

from hinged.commands.cli import main as run_command
from hinged.service.engine.scheduling import gates, turns
from tests.helpers.server import RunningServer

OTHERS = [
    "SHORT_S=0", "SHORT_S=0.2", "ASIDE=0", "QUICK_S=0", "QUICK_S=1e9", "LOOK_S=0.001", "ASKED_S=0", "HELD_S=0",
    "GAIN=0",
]  # fmt: skip
AS_THEY_ARE = ("", " ")


def serve():
    """Run `hinged serve` with one constant changed."""
    name, _, value = os.environ["SLOW_CONSTANT"].strip().partition("=")
    if name:
        for module in (turns, gates):
            if hasattr(module, name):
                setattr(module, name, float(value))
    run_command()


def measured(constant, seconds):
    """Return p50 and p99 in milliseconds for each kind of request."""
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder) / "data", (__file__,))
        server.env |= {"SLOW_CONSTANT": constant, "PYTHONPATH": os.pathsep.join(sys.path)}
        with server as running:
            small = {**SMALL, "features": FEATURES, "when_full": "remove", "points_max": 500}
            for name, configuration in (("small", small), ("compiled", {**SLOW, "features": FEATURES})):
                httpx.put(f"{running.url}/models/{name}", json=configuration, timeout=300).raise_for_status()
            taught = httpx.post(f"{running.url}/models/small/learn", json={"examples": examples(0, 600)}, timeout=300)
            taught.raise_for_status()
            with Slow(running.url, 16, SLOW):
                sent = requests(5)
                found = {what: load(running.port, sent[what], 1, seconds) for what in ("learn", "predict")}
    return {f"{what} p{q}": loaded.quantile_ms(q / 100) for what, loaded in found.items() for q in (50, 99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each kind of request")
    parser.add_argument("--only", nargs="+", default=OTHERS)
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        constants = [*AS_THEY_ARE, *options.only]
        random.shuffle(constants)
        rounds.append({constant: measured(constant, options.seconds) for constant in constants})
        print(json.dumps(rounds[-1]), file=sys.stderr)
    whats = list(rounds[0][""])
    table = Table("constant", *whats)
    for constant in [" ", *options.only]:
        ratios = [[found[constant][what] / found[""][what] for found in rounds] for what in whats]
        cells = [f"{np.median(x):.2f} ({min(x):.2f} to {max(x):.2f})" for x in ratios]
        table.add(constant.strip() or "the same", *cells)
    keep("constants", table)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
