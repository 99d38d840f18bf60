"""Waiting time of an append during a purge of the store, and duration of the purge.

    PYTHONPATH=.:benchmarks python benchmarks/server/purge.py [--store redis] [--mb 100 500] [--turns 3]

The store contains events of 20 kB with ten ids each, and a snapshot of a tenth of its size; half of the events were
redacted. Before each round a few events at the front of a log are trimmed, so that Redis has to copy the rest of the
log. One thread appends one event of 1 kB after another, each fsynced, during the purge. Then it does the same without a
purge, for the same time.
"""

import argparse
import shutil
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from results import Table, keep

from hinged.service.store.base import Event
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.redis_server import RedisServer

EVENT_BYTES = 20_000
TRIMMED = 10


@contextmanager
def opened(folder, kind):
    """Open an empty store."""
    if kind == "sqlite":
        with closing(SQLiteStore(folder)) as store:
            yield store
    else:
        with RedisServer(folder) as server, closing(RedisStore(server.url)) as store:
            yield store


def fill(store, megabytes):
    """Fill the store with `megabytes`, and redact half of the events."""
    rng = np.random.default_rng(0)
    count = megabytes * 10**6 // EVENT_BYTES
    store.create("m", Event("created", b"{}"))
    store.create("other", Event("created", b"{}"))
    for first in range(0, count, 500):
        events = [
            Event("learned", rng.bytes(EVENT_BYTES), tuple(f"{n}-{k}" for k in range(10)))
            for n in range(first, min(first + 500, count))
        ]
        store.append("m", first + 1, events)
    gone = range(2, count + 2, 2)
    store.redact(
        "m", count + 1, dict.fromkeys(gone, Event("less", b"")), [f"{n - 2}-{k}" for n in gone for k in range(10)]
    )
    store.put_snapshot("m", count + 1, rng.bytes(megabytes * 10**5))


def waits(store, over):
    """Return the milliseconds of each append until `over()` is true."""
    found, event = [], Event("learned", bytes(1_000))
    while not over():
        began = time.perf_counter()
        store.append("other", store.end("other"), [event])
        found.append(1000 * (time.perf_counter() - began))
    return np.array(found)


def beside_a_purge(store):
    """Return (seconds of the purge, waiting times during the purge)."""
    told = []
    purge = threading.Thread(target=lambda: told.append(store.purge()))
    began = time.perf_counter()
    purge.start()
    found = waits(store, lambda: not purge.is_alive())
    if told != [[]]:
        raise RuntimeError(told)
    return time.perf_counter() - began, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--mb", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    heads = [f"{side}: {what}, ms" for side in ("beside a purge", "without") for what in ("p50", "p99", "most")]
    table = Table("MB", *heads, "the purge, s")
    for megabytes in options.mb:
        folder = Path(tempfile.mkdtemp())
        seconds, beside, alone = [], [], []
        with opened(folder, options.store) as store:
            fill(store, megabytes)
            for turn in range(options.turns):
                store.trim("m", TRIMMED * (turn + 1))
                took, found = beside_a_purge(store)
                seconds.append(took)
                beside.append(found)
                end = time.perf_counter() + took
                alone.append(waits(store, lambda end=end: time.perf_counter() >= end))
        shutil.rmtree(folder)
        figures = [
            f"{f(np.concatenate(kind)):.1f}"
            for kind in (beside, alone)
            for f in (np.median, lambda a: np.quantile(a, 0.99), np.max)
        ]
        table.add(megabytes, *figures, f"{np.median(seconds):.1f}")
    keep(f"purge-{options.store}", table)


if __name__ == "__main__":
    main()
