"""The effect of followers: predictions and learning with and without a follower, measured alternately.

    PYTHONPATH=.:benchmarks python benchmarks/server/followers.py

Rows have 20 numbers, and the model has about 2,000 support vectors. Each measurement opens new connections, because a
process keeps the connections that it accepted. Results are medians over the rounds.
"""

import argparse
import json
import re
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
from results import Table, keep
from server.load import load, request_bytes

from tests.helpers.server import RunningServer, eventually

DIM = 20


def body_of(rng, rows, *, labelled=False):
    X = rng.standard_normal((rows, DIM)).round(3)
    examples = [{"x": x.tolist()} for x in X]
    if labelled:
        for example, x in zip(examples, X, strict=True):
            example["y"] = bool(x[0] * x[1] + x[2] > rng.standard_normal())
    return json.dumps({"examples": examples}).encode()


def made(server, rng, examples):
    """Create a model on a server that learns; wait until the followers have caught up."""
    configuration = {"C": 1, "kernel": {"type": "rbf", "gamma": 0.05}, "features": {"type": "dense", "dim": DIM}}
    for name in ("asked", "taught"):
        httpx.put(f"{server.url}/models/{name}", json=configuration).raise_for_status()
    headers = {"content-type": "application/json"}
    for _ in range(examples // 1000):
        body = body_of(rng, 1000, labelled=True)
        httpx.post(f"{server.url}/models/asked/learn", content=body, headers=headers, timeout=300).raise_for_status()
    wanted = int(server.env["HINGED_FOLLOWERS"])
    caught_up = re.compile(r"hinged_followed_lag_events{.*} 0.0")
    eventually(lambda: len(caught_up.findall(httpx.get(f"{server.url}/metrics").text)) >= wanted)
    return httpx.get(f"{server.url}/models/asked").json()["support_vectors"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--followers", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    kinds = {
        "one row a request": [request_bytes("POST", "/models/asked/predict", body_of(rng, 1)) for _ in range(50)],
        "100 rows a request": [request_bytes("POST", "/models/asked/predict", body_of(rng, 100)) for _ in range(50)],
        "learn, one a request": [
            request_bytes("POST", "/models/taught/learn", body_of(rng, 1, labelled=True)) for _ in range(5000)
        ],
    }
    found = {(kind, followers): [] for kind in kinds for followers in (0, options.followers)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {
            followers: stack.enter_context(
                RunningServer(folder / f"data{followers}", processes=followers + 1, followers=followers)
            )
            for followers in (0, options.followers)
        }
        vectors = [made(server, np.random.default_rng(1), options.examples) for server in servers.values()]
        print(f"{vectors[0]} support vectors, {options.connections} connections")
        for _ in range(options.turns):
            for kind, requests in kinds.items():
                for followers, server in servers.items():
                    loaded = load(server.port, requests, options.connections, options.seconds)
                    found[kind, followers].append(loaded.rate)
    table = Table("requests a second", "no follower", f"{options.followers} followers", "times")
    for kind in kinds:
        none, some = (statistics.median(found[kind, followers]) for followers in (0, options.followers))
        table.add(kind, f"{none:,.0f}", f"{some:,.0f}", f"{some / none:.2f}")
    keep("followers", table)


if __name__ == "__main__":
    main()
