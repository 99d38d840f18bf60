"""Response times of small models while other models on the server compute all the time.

    PYTHONPATH=.:benchmarks python benchmarks/server/neighbours.py [--slow N] [--seconds S] [--runs N]

In each round, a small model is measured on an idle server and while N slow models compute. Each slow model learns 120
examples at once with the exact solver and a polynomial kernel of degree 16. Meanwhile one client sends one request
after another to a small model: learn one example, predict one example, read the model's metrics. The table shows
medians over the rounds, with and without slow models, and their ratio. As a baseline, an unrelated process computes
instead of the slow models.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import httpx
import numpy as np
from load import load, request_bytes
from results import Table, keep

from tests.helpers.server import RunningServer

EXAMPLES = 120
SLOW = {"solver": "exact", "kernel": {"type": "polynomial", "gamma": 1, "degree": 16, "coef0": 1}, "C": 100}
SMALL = {"kernel": {"type": "rbf", "gamma": 1}, "C": 10}
FEATURES = {"type": "dense", "dim": 8}


def examples(seed, n):
    """Return random examples with random labels."""
    random = np.random.default_rng(seed)
    return [
        {"x": x, "y": int(y)}
        for x, y in zip(random.random((n, 8)).round(4).tolist(), random.integers(0, 3, n), strict=True)
    ]


class Slow:
    """Slow models that learn until the context ends."""

    def __init__(self, url, count, configuration):
        self._url = url
        self._names = [f"slow{k}" for k in range(count)]
        for name in self._names:
            httpx.put(f"{url}/models/{name}", json={**configuration, "features": FEATURES}).raise_for_status()
        self._threads = [threading.Thread(target=self._teach, args=(k,), daemon=True) for k in range(count)]
        self._ending = False

    def _teach(self, k):
        round_ = 0
        while not self._ending:
            round_ += 1
            body = {"examples": examples(1000 * k + round_, EXAMPLES)}
            httpx.post(f"{self._url}/models/{self._names[k]}/learn", json=body, timeout=3600)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._ending = True
        for name in self._names:  # their computations are abandoned
            httpx.delete(f"{self._url}/models/{name}", timeout=300).raise_for_status()
        for thread in self._threads:
            thread.join()


class Busy:
    """A process that computes all the time."""

    def __enter__(self):
        self._process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()


def requests(rng):
    """Return the client's requests by kind."""
    learn = [request_bytes("POST", "/models/small/learn", json.dumps(e).encode()) for e in examples(rng, 3000)]
    predict = [
        request_bytes("POST", "/models/small/predict", json.dumps({"x": e["x"]}).encode()) for e in examples(rng, 3000)
    ]
    return {"learn": learn, "predict": predict, "figures": [request_bytes("GET", "/models/small")] * 100}


def measure(port, seconds, seed):
    """Return p50 and p99 in milliseconds for each kind of request."""
    found = {}
    for what, prepared in requests(seed).items():
        loaded = load(port, prepared, seconds=seconds)
        found[what] = loaded.quantile_ms(0.5), loaded.quantile_ms(0.99)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slow", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--program", nargs="*", default=["-m", "hinged"], help="what runs the server")
    parser.add_argument("--configuration", type=json.loads, default=SLOW, help="of the slow models")
    options = parser.parse_args()
    idle, beside, busy = [], [], []
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data", options.program) as running:
        small = {**SMALL, "features": FEATURES, "when_full": "remove", "points_max": 500}
        slow = {**options.configuration, "features": FEATURES}
        for name, configuration in (("small", small), ("compiled", slow)):
            httpx.put(f"{running.url}/models/{name}", json=configuration, timeout=300).raise_for_status()
        httpx.post(f"{running.url}/models/small/learn", json={"examples": examples(0, 600)}).raise_for_status()
        measure(running.port, 0.5, 1)
        for number in range(options.runs):
            idle.append(measure(running.port, options.seconds, 2 * number))
            with Slow(running.url, options.slow, options.configuration):
                beside.append(measure(running.port, options.seconds, 2 * number + 1))
            with Busy():
                busy.append(measure(running.port, options.seconds, 2 * number + 1))
    heads = [f"{side}: {what}" for side in (f"beside {options.slow}", "beside a process")
             for what in ("p50, ms", "p99, ms", "ratio")]  # fmt: skip
    table = Table("request", "idle: p50, ms", "idle: p99, ms", *heads)
    for what in idle[0]:
        sides = [np.median([found[what] for found in side], axis=0) for side in (idle, beside, busy)]
        cells = []
        for k, (p50, p99) in enumerate(sides):
            cells += [f"{p50:.2f}", f"{p99:.2f}", *([f"{p99 / sides[0][1]:.1f}"] if k else [])]
        table.add(what, *cells)
    keep("neighbours", table)


if __name__ == "__main__":
    main()
