"""Response time of predictions while the same model finishes, is retrained, forgets an example or writes a snapshot.

    PYTHONPATH=.:benchmarks python benchmarks/server/beside.py [--examples N] [--runs N] [--work NAME ...]

One client sends one prediction after another to a model of LASVM that has learned 10,000 examples of 20 numbers. The
model is first idle, and then does one kind of work after another. The kinds of work are the finishing step of a fresh
copy; a change of gamma, which retrains the model from its log; forgetting an example, which also retrains the model;
and a snapshot. The table shows p50 and p99 in ms over all runs, idle and during the work, and the ratio of the two p99.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from load import Load, load, request_bytes
from targets import Line, print_table

from hinged.client.batch import pack
from hinged.operations.base import ROWS_TYPE
from tests.helpers.server import RunningServer

DIM, BATCH = 20, 500
TIMES = 3
CONFIGURATION = {"solver": "lasvm", "kernel": {"type": "rbf", "gamma": 0.05}, "C": 10}


class Model:
    """A trained model and its copies."""

    def __init__(self, url, examples):
        self.http = httpx.Client(base_url=url, timeout=600)
        random = np.random.default_rng(0)
        X = random.standard_normal((examples, DIM)).astype(np.float32)
        y = (np.abs(X[:, :5]).sum(axis=1) + 0.5 * random.standard_normal(examples) > 4).astype(int)
        self.xs = X.round(3).tolist()
        self.ask("PUT", "/models/taught", json={**CONFIGURATION, "features": {"type": "dense", "dim": DIM}})
        for b in range(0, examples, BATCH):
            ids = [f"e{k}" for k in range(b, min(b + BATCH, examples))]
            body = pack(X[b : b + BATCH], y[b : b + BATCH], ids)
            self.ask("POST", "/models/taught/learn", content=body, headers={"content-type": ROWS_TYPE})
        self.file = self.ask("GET", "/models/taught/export").content
        self.copies = self.gamma = self.gone = 0

    def ask(self, method, path, **request):
        """Return the answer. Raise an error unless the answer is a success."""
        answer = self.http.request(method, path, **request)
        answer.raise_for_status()
        return answer

    def copy(self):
        """Import a new copy and return its name."""
        self.copies += 1
        name = f"copy{self.copies}"
        files = {"content": self.file, "headers": {"content-type": "application/octet-stream"}}
        self.ask("POST", f"/models/{name}/import", **files)
        return name

    def wait(self, answer):
        """Wait until the job of an answer has ended."""
        if answer.status_code == 202:
            while self.ask("GET", answer.json()["job"]).json()["state"] == "running":
                time.sleep(0.5)  # long, because each request takes processor time

    def finish(self, name):
        """Run the finishing step."""
        self.ask("POST", f"/models/{name}/finish")

    def configure(self, name):
        """Change gamma, so that the whole log is learned again."""
        self.gamma += 1
        kernel = {"type": "rbf", "gamma": 0.05 + 0.001 * self.gamma}
        self.wait(self.ask("PATCH", f"/models/{name}", json={"kernel": kernel}))

    def forget(self, name):
        """Forget an example."""
        self.gone += 1
        self.wait(self.ask("DELETE", f"/models/{name}/examples/e{self.gone}"))

    def snapshot(self, name):
        """Change the model and take a snapshot."""
        self.gone += 1
        x = {"x": self.xs[self.gone], "y": 1}
        self.ask("POST", f"/models/{name}/learn", json=x)
        self.ask("POST", f"/models/{name}/snapshot")


WORK = ("finish", "configure", "forget", "snapshot")


def beside(options):
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data") as running:
        model = Model(running.url, options.examples)
        for what in options.work:
            idle, busy, seconds = [], [], 0.0
            for _ in range(options.runs):
                name = model.copy() if what == "finish" else "taught"
                predictions = [
                    request_bytes("POST", f"/models/{name}/predict", json.dumps({"x": x}).encode())
                    for x in model.xs[:500]
                ]
                load(running.port, predictions, 1, 0.2)
                idle.append(load(running.port, predictions, 1, options.seconds).latencies)
                loaded, began = Load(running.port, predictions, 1, 600.0), time.perf_counter()
                getattr(model, what)(name)
                seconds += time.perf_counter() - began
                busy.append(loaded.stop().latencies)
            (half, p99), (half_beside, p99_beside) = (
                1000 * np.quantile(np.concatenate(found), [0.5, 0.99]) for found in (idle, busy)
            )
            yield Line(
                what, f"{seconds / options.runs:.2f} s each, {sum(map(len, busy)):,} predictions",
                f"{TIMES} times",
                f"{p99_beside / p99:.1f} times: {p99_beside:.2f} beside {p99:.2f} ms; medians {half_beside:.2f} beside "
                f"{half:.2f}",
                p99_beside <= TIMES * p99,
            )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round without work")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    print_table({"beside": [beside]}, parser.parse_args())


if __name__ == "__main__":
    main()
