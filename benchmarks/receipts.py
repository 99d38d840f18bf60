"""The cost of receipts: the time of requests to learn with receipts, divided by the time without receipts.

PYTHONPATH=. python benchmarks/receipts.py

A server has two models that differ only in receipts; heads are signed. Turns of requests go to one model, then to the
other, with the same examples. The ratio is the median over the turns, so a slow moment of the machine hits both.
"""

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hinged.client import Client
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

WITH, WITHOUT = "with", "without"
DIM = 20


def examples(rng, count):
    X = rng.normal(size=(count, DIM))
    labels = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    return [{"x": x, "y": y} for x, y in zip(np.round(X, 3).tolist(), labels.tolist(), strict=True)]


def turn(clients, threads, model, batches):
    """Send the batches over all connections; return the seconds that it took."""

    def send(client, own):
        for batch in own:
            client.learn(model, batch)

    begin = time.perf_counter()
    count = len(clients)
    for sent in [threads.submit(send, client, batches[k::count]) for k, client in enumerate(clients)]:
        sent.result()
    return time.perf_counter() - begin


def measure(server, rng, size, connections, turns, requests):
    name = f"{size}-{connections}"
    clients = [Client(server.url) for _ in range(connections)]
    for kind in (WITH, WITHOUT):
        configuration = {"features": {"type": "dense", "dim": DIM}, "kernel": {"type": "rbf", "gamma": 0.05}}
        clients[0].create_model(f"{kind}-{name}", **configuration, receipts=kind == WITH, points_max=1000)
        eventually(lambda kind=kind: clients[0].model(f"{kind}-{name}")["state"] == "serving")
    ratios, rates = [], []
    with ThreadPoolExecutor(connections) as threads:
        for n in range(turns + 2):
            batches = [examples(rng, size) for _ in range(requests)]
            order = (WITH, WITHOUT) if n % 2 else (WITHOUT, WITH)
            took = {kind: turn(clients, threads, f"{kind}-{name}", batches) for kind in order}
            if n >= 2:
                ratios.append(took[WITH] / took[WITHOUT])
                rates.append(size * requests / took[WITHOUT])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    print(
        f"{size:>4} examples a request, {connections} connections: {statistics.median(rates):>7,.0f} a second without;"
        f" time with receipts {middle:.3f} times as long (quartiles {low:.3f} to {high:.3f})",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (Path(folder) / "key.pem").write_bytes(key)
        with RunningServer(Path(folder) / "data", receipt_key=Path(folder) / "key.pem") as server:
            Client(server.url).wait_until_ready(PATIENCE_S)
            for size, connections, requests in [(1, 1, 100), (1, 8, 400), (10, 1, 60), (100, 1, 20), (1000, 1, 4)]:
                measure(server, rng, size, connections, given.turns, requests)


if __name__ == "__main__":
    main()
