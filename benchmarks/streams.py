"""Examples per second with one example per message: requests, frames with waiting, and frames without waiting.

hinged serve
PYTHONPATH=.:benchmarks python benchmarks/streams.py [--url http://127.0.0.1:8000] [--examples 3000]
"""

import argparse
import time

import numpy as np
from results import Table, keep

from hinged import Client

NAMES = ("bench-requests", "bench-frames", "bench-pipelined")


def timed(count, work):
    """Return examples per second."""
    began = time.perf_counter()
    work()
    return f"{count / (time.perf_counter() - began):,.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--examples", type=int, default=3000)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(given.examples, 20))
    examples = [{"x": x.tolist(), "y": "ab"[int(x[0] + x[1] > 0)]} for x in xs]
    with Client(given.url) as client:
        there = {model["model"] for model in client.models()}
        for name in NAMES:
            if name in there:
                client.delete_model(name)
            client.create_model(name, kernel={"type": "rbf", "gamma": 0.05}, features={"type": "dense", "dim": 20})
        count, rates = len(examples), []
        rates.append(timed(count, lambda: [client.learn("bench-requests", [e]) for e in examples]))
        with client.stream("bench-frames") as stream:
            rates.append(timed(count, lambda: [stream.learn([e]).result() for e in examples]))
        with client.stream("bench-pipelined") as stream:
            rates.append(timed(count, lambda: [found.result() for found in [stream.learn([e]) for e in examples]]))
        table = Table("one example a message", "examples a second", "events in the log")
        for what, name, rate in zip(("requests", "frames", "frames without waiting"), NAMES, rates, strict=True):
            table.add(what, rate, f"{client.model(name)['position']:,}")
        keep("streams", table)


if __name__ == "__main__":
    main()
