"""Memory, time and disk of a full server, by points, columns, classes and models.

    PYTHONPATH=.:benchmarks python benchmarks/sizing.py

Each table row is a separate server. It learned random rows until `points_max` was reached, and then a few more. Half of
the labels depend on the rows, and half are random. So nearly all points are support vectors, and the cache of rows
fills up. That is the worst case for a model of this size. A stream that can be learned needs less. Time is the server's
CPU time, on which other programs have less influence than on seconds. It is measured for requests of 200 rows as bytes,
and for a start until the server is ready.
"""

import argparse
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from results import Table, keep

from hinged import Client
from tests.helpers.server import RunningServer

BATCH = 200
RBF = {"type": "rbf"}
CASES = [
    # solver, points, columns, classes
    ("lasvm", 1_000, 20, 2),
    ("lasvm", 3_000, 20, 2),
    ("lasvm", 10_000, 20, 2),
    ("lasvm", 3_000, 200, 2),
    ("lasvm", 3_000, 20, 5),
    ("auto", 3_000, 20, 2),
    ("auto", 10_000, 20, 2),
    ("bsca", 500, 20, 2),
]
MANY = (0, 100, 300)
MIB = 2**20


def scraped(server, name):
    """Return the sum of a metric's samples."""
    families = text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def batches(rng, rows, columns, classes):
    """Yield random rows. Every second label is the side of a few planes on which the row lies."""
    planes = rng.normal(size=(columns, classes))
    for _ in range(0, rows, BATCH):
        X = rng.normal(size=(BATCH, columns)).astype(np.float32)
        y = (X @ planes).argmax(axis=1)
        y[::2] = rng.integers(0, classes, len(y[::2]))
        yield X, y.tolist()


def configuration_of(solver, points, columns, classes):
    found = {"kernel": RBF, "features": {"type": "dense", "dim": columns}, "classes": list(range(classes))}
    if solver == "bsca":
        return found | {"solver": solver, "budget": points}
    return found | {"solver": solver, "points_max": points} | ({"C": 1.0} if solver == "lasvm" else {})


def cpu(server):
    """Return the CPU seconds of a server since it started."""
    return scraped(server, "process_cpu_seconds_total")


def timed(server, calls):
    """Return the server's CPU time per row, in microseconds, for calls of BATCH rows each."""
    started = cpu(server)
    for call in calls:
        call()
    return 1e6 * (cpu(server) - started) / (BATCH * len(calls))


def restarted(server):
    """Return the CPU seconds of a start until the server is ready, after a clean stop, which leaves a snapshot."""
    server.terminate()
    server.start()
    return cpu(server)


def full(case, folder):
    """Return the cells for a server whose only model is full."""
    solver, points, columns, classes = case
    rng = np.random.default_rng(0)
    with RunningServer(folder / "data") as server, Client(server.url, timeout_s=300) as client:
        empty = scraped(server, "process_resident_memory_bytes")
        client.create_model("m", **configuration_of(*case))
        for X, y in batches(rng, points + (points if solver == "bsca" else 400), columns, classes):
            client.learn_rows("m", X, y)
        more = list(batches(rng, 5 * BATCH, columns, classes))
        learn = timed(server, [lambda X=X, y=y: client.learn_rows("m", X, y) for X, y in more])
        predict = timed(server, [lambda X=X: client.predict_rows("m", X) for X, _ in 10 * more])
        model, resident = scraped(server, "hinged_memory_bytes"), scraped(server, "process_resident_memory_bytes")
        learned, vectors = scraped(server, "hinged_examples_learned_total"), scraped(server, "hinged_support_vectors")
        seconds = restarted(server)
        kept = scraped(server, "hinged_store_bytes") / learned
        server.terminate()
    counts = f"`{solver}`", f"{points:,}", columns, classes, f"{vectors:,.0f}"
    sizes = f"{model / MIB:.0f}", f"{(resident - empty) / MIB:.0f}"
    return *counts, *sizes, f"{learn:,.0f}", f"{predict:,.0f}", f"{kept:,.0f}", f"{seconds:.1f}"


def many(count, folder):
    """Return the cells for a server with `count` models, each with 100 examples of 20 columns."""
    rng = np.random.default_rng(0)
    with RunningServer(folder / "data") as server, Client(server.url, timeout_s=300) as client:
        for number in range(count):
            client.create_model(f"m{number}", **configuration_of("lasvm", 10_000, 20, 2))
            X, y = next(batches(rng, BATCH, 20, 2))
            client.learn_rows(f"m{number}", X[:100], y[:100])
        grown = scraped(server, "process_resident_memory_bytes")
        seconds = restarted(server)
        fresh = scraped(server, "process_resident_memory_bytes")
        disk = scraped(server, "hinged_store_bytes")
        server.terminate()
    return count, *(f"{size / MIB:.0f}" for size in (grown, fresh, disk)), f"{seconds:.1f}"


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    started = time.perf_counter()
    counts, memory = ("points", "columns", "classes", "support vectors"), ("model, MiB", "process, MiB more")
    times = "learn, us a row", "predict, us a row", "disk, bytes an example", "start, s"
    tables = [Table("solver", *counts, *memory, *times)]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            tables[0].add(*full(case, Path(folder)))
    heads = "process, MiB", "after a start, MiB", "disk, MiB", "start, s"
    tables.append(Table("models", *heads, title="By models"))
    for count in MANY:
        with tempfile.TemporaryDirectory() as folder:
            tables[1].add(*many(count, Path(folder)))
    print(f"\n{time.perf_counter() - started:.0f} s in all")
    keep("sizing", *tables)


if __name__ == "__main__":
    main()
