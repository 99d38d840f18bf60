"""Waiting times of two hundred clients that learn continuously, on one model or on twenty.

    PYTHONPATH=.:benchmarks python benchmarks/server/crowd.py [--clients N] [--examples N] [--models N ...]

Each client sends ten examples of eight numbers, and sends the next ten examples after the answer. If a request is
refused with 429, the client sends it again after the time that the answer states. Models are LASVM with at most 2,000
points, or the exact solver with a window of 500. With the exact solver, an example takes about twelve times as long.
The table shows the seconds from a request to its answer (200). For refused requests, it shows the seconds since the
request was first sent, and the number of refusals. It also shows the smallest and the largest number of answers that a
client got.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
from load import load, request_bytes
from neighbours import FEATURES
from targets import Line, print_table

from tests.helpers.server import RunningServer

KERNEL = {"kernel": {"type": "rbf", "gamma": 0.3}, "C": 10, "features": FEATURES}
SOLVERS = {
    "lasvm": {**KERNEL, "solver": "lasvm", "points_max": 2_000, "when_full": "remove"},
    "exact": {**KERNEL, "solver": "exact", "window": {"examples": 500}},
}
REQUESTS = 2_000
P99_S = 2.0


def bodies(examples):
    """Return bodies of requests with `examples` examples each, with random labels."""
    random = np.random.default_rng(0)
    for _ in range(REQUESTS):
        xs, ys = random.random((examples, 8)).round(4).tolist(), random.integers(0, 2, examples).tolist()
        yield json.dumps({"examples": [{"x": x, "y": y} for x, y in zip(xs, ys, strict=True)]}).encode()


def crowd(options, solver, models):
    """Measure one load and return its table row."""
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as running:
        for k in range(models):
            httpx.put(f"{running.url}/models/m{k}", json=SOLVERS[solver], timeout=300).raise_for_status()
        numbered = enumerate(bodies(options.examples))
        requests = [request_bytes("POST", f"/models/m{k % models}/learn", body) for k, body in numbered]
        load(running.port, requests, models, options.seconds / 4)  # until the models are full
        found = load(running.port, requests, options.clients, options.seconds, patient=True)
    answered = Counter(found.clients.tolist())
    p99 = found.quantile_ms(0.99) / 1000
    waits = np.quantile(found.waits, [0.5, 0.99, 1.0])
    return Line(
        solver, f"{models} model{'s' * (models > 1)}: seconds until a learned request is answered, 99 of 100",
        f"{P99_S:g} s",
        f"{p99:.2f}, half {found.quantile_ms(0.5) / 1000:.2f}, all {found.quantile_ms(1) / 1000:.2f}; since it was "
        f"first sent {waits[1]:.2f}, {waits[0]:.2f}, {waits[2]:.2f}; {options.examples * found.rate:,.0f} examples/s; "
        f"refused {found.refused} times of {found.refused + found.requests:,}; the fewest answers to a client are "
        f"{min(answered[client] for client in range(options.clients))}, the most {max(answered.values())}",
        p99 <= P99_S,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--examples", type=int, default=10, help="of each request")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 20])
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    options = parser.parse_args()
    cases = [(solver, models) for solver in options.solvers for models in options.models]
    print_table({"crowd": [lambda options, case=case: [crowd(options, *case)] for case in cases]}, options)


if __name__ == "__main__":
    main()
