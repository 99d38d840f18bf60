"""One example a message, learned durably: a request after another, frames one after another, frames without waiting.

hinged serve
python benchmarks/streams.py [--url http://127.0.0.1:8000] [--examples 3000]
"""

import argparse
import time

import numpy as np

from hinged import Client

NAMES = ("bench-requests", "bench-frames", "bench-pipelined")


def timed(name, count, work):
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    print(f"{name:28} {count / seconds:8.0f} examples a second")


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
        timed("requests, one by one", len(examples), lambda: [client.learn("bench-requests", [e]) for e in examples])
        with client.stream("bench-frames") as stream:
            timed("frames, one by one", len(examples), lambda: [stream.learn([e]).result() for e in examples])
        with client.stream("bench-pipelined") as stream:
            timed(
                "frames, not waiting",
                len(examples),
                lambda: [answer.result() for answer in [stream.learn([e]) for e in examples]],
            )
        for name in NAMES:
            print(f"{name}: {client.model(name)['position']} events in the log")


if __name__ == "__main__":
    main()
