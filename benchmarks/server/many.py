"""A thousand small models on one server: the time of a start, and of the lists of models.

    PYTHONPATH=.:benchmarks python benchmarks/server/many.py [--models N] [--runs N] [--solvers NAME ...]

Each model has learned 20 examples of two columns. The given solvers are assigned to the models in rotation. The server
is stopped once cleanly, which leaves a snapshot of each model, and once by kill -9, which leaves only the log. Seconds
and CPU seconds are measured from the start of a process with a warm compile cache until /readyz answers. The times of
lists are the median and the maximum of 20 requests.
"""

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from load import load, request_bytes
from run import Served, cpu_s
from targets import Line, middle, print_table, span

from tests.helpers.server import RunningServer

START_S, LIST_MS = 10, 100
THREADS = 4
LISTED = 20
KERNEL = {"kernel": {"type": "rbf", "gamma": 1.0}}
PARAMETERS = {
    "lasvm": {**KERNEL, "C": 1.0}, "auto": KERNEL, "bsca": {**KERNEL, "C": 1.0, "budget": 30},
    "exact": {**KERNEL, "C": 1.0}, "averaged-perceptron": KERNEL,
}  # fmt: skip
EXAMPLES = [{"id": f"e{k}", "x": [k % 7 / 7, k % 5 / 5], "y": k % 3 > 0} for k in range(20)]


def make(url, count, solvers):
    """Create `count` models that learn the examples."""

    def one(number):
        solver = solvers[number % len(solvers)]
        configuration = {"solver": solver, "features": {"type": "dense", "dim": 2}, **PARAMETERS[solver]}
        path = f"/models/m{number}"
        http.put(path, json=configuration).raise_for_status()
        http.post(f"{path}/learn", json={"examples": EXAMPLES}).raise_for_status()

    with httpx.Client(base_url=url, timeout=300) as http, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(count)))


def started(running, runs, end):
    """Return (seconds, CPU seconds, MiB) of each start. Each server except the last is stopped as `end` says."""
    found = []
    for run in range(runs):
        began = time.perf_counter()
        running.start()
        found.append((time.perf_counter() - began, cpu_s(running.process.pid), Served(running).rss_mib()))
        if run < runs - 1:
            end()
    return found


def starting(options):
    """Measure starts after a clean stop and after kill -9, and the lists of a server with all models."""
    with tempfile.TemporaryDirectory() as folder:
        running = RunningServer(Path(folder) / "data")
        with running:
            make(running.url, options.models, options.solvers)
            for how, end in (("kill -9", running.kill), ("an end in order", running.terminate)):
                end()
                seconds, cpu, memory = zip(*started(running, options.runs, end), strict=True)
                yield Line(
                    how, f"{options.models:,} models, until /readyz", f"{START_S} s",
                    f"{middle(seconds):.1f} s ({span(seconds, 1)}); CPU {middle(cpu):.1f} s; {middle(memory):.0f} MiB",
                    middle(seconds) <= START_S,
                )  # fmt: skip
            for path in ("/models", "/overview", "/metrics"):
                found = load(running.port, [request_bytes("GET", path)] * LISTED)
                half, longest = found.quantile_ms(0.5), found.quantile_ms(1)
                met = longest <= LIST_MS
                yield Line("lists", f"`GET {path}`", f"{LIST_MS} ms", f"{half:.0f} ms, at most {longest:.0f}", met)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--solvers", nargs="+", choices=PARAMETERS, default=list(PARAMETERS))
    print_table({"many": [starting]}, parser.parse_args())


if __name__ == "__main__":
    main()
