"""Send kill -9 to `hinged consume` at random moments.

    python -m tests.faults.kill_consuming --broker redis --kills 50 --events 100000

The events of a topic are published while a consumer learns them. The consumer is killed and started again. Meanwhile
the server goes on, or with --server it is killed too. At the end the server's log is read without a server:

lost           Events that the log does not contain.
twice          Events that the log contains more than once.
invented       Examples of the log that are no events.
out of order   Events that the log contains after a later event, from a broker that keeps the order.
"""

import argparse
import itertools
import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.brokers import AT_ONCE, BROKERS
from tests.helpers.command import argv
from tests.helpers.server import PATIENCE_S, PLAIN, ROOT, RunningServer, eventually

MODEL, TOPIC = "events", "events"
CONFIGURATION = {
    "solver": "budget-perceptron",
    "budget": 10,
    "kernel": {"type": "linear"},
    "features": {"type": "dense", "dim": 2},
}
PLACED = frozenset({"redis", "nats", "kafka"})
"""Brokers whose places are the ids. The events of other brokers have an id of their own."""


def events(count, rng, own_ids):
    """Return events. `number` is the place of an event in their order; it is also in x."""
    found = []
    for number in range(count):
        y = rng.random() < 0.5
        x = [number / count, rng.gauss(1.0 if y else -1.0, 1.0)]
        found.append({"x": x, "y": y, **({"id": f"event-{number}"} if own_ids else {})})
    return found


class Consuming:
    """Runs `hinged consume`."""

    def __init__(self, url, server, log, batch, model=MODEL):
        self.arguments = argv("consume", model, "--from", url, "--url", server, "--batch", batch)
        self.log, self.starts = log, 0

    def start(self):
        """Start a consumer; return when it reads the topic."""
        self.starts += 1
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self.arguments, cwd=ROOT, stdout=log, stderr=log)
        eventually(lambda: self.log.read_text().count("Ctrl-C stops") == self.starts or self.process.poll() is not None)

    def kill(self):
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Stop as an operator does; return the last line of its output."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()[-2000:]
        return self.log.read_text().splitlines()[-1]


def examples_of(url):
    """Return the number of examples that the server has learned."""
    return httpx.get(f"{url}/models/{MODEL}", timeout=PATIENCE_S, verify=PLAIN).json()["examples"]


def await_examples(url, least):
    end = time.monotonic() + PATIENCE_S
    while (found := examples_of(url)) < least:
        assert time.monotonic() < end, f"{found} of {least} examples are learned"
        time.sleep(0.1)
    return found


def run(folder, kind, kills, count, seed, batch=100, server_too=False, pause_s=(0.1, 1.0)):
    """Kill the consumer `kills` times while it learns `count` events; return the figures."""
    rng = random.Random(seed)
    own_ids = kind not in PLACED
    sent = events(count, rng, own_ids)
    begun = time.monotonic()
    with BROKERS[kind](folder / "broker") as broker:
        broker.prepare(TOPIC)
        server = RunningServer(folder / "data").start()
        answer = httpx.put(f"{server.url}/models/{MODEL}", json=CONFIGURATION, timeout=PATIENCE_S, verify=PLAIN)
        assert answer.status_code == 201, answer.text
        consumer = Consuming(broker.url(TOPIC), server.url, folder / "consume.log", batch)
        consumer.start()
        publisher = threading.Thread(target=broker.publish, args=(TOPIC, sent, AT_ONCE if own_ids else 1))
        publisher.start()
        try:
            for kill in range(1, kills + 1):
                # Kills are spread over the stream, so that none comes after its end.
                await_examples(server.url, count * (kill - 1) // (kills + 1) + 1)
                time.sleep(rng.uniform(*pause_s))
                consumer.kill()
                if server_too:
                    server.kill()
                    server.start()
                consumer.start()
            publisher.join()
            await_examples(server.url, count)
            time.sleep(1.0)  # a message that comes again would be learned now
            told = consumer.stop()
        finally:
            if consumer.process.poll() is None:
                consumer.kill()
            publisher.join()
            server.kill()
    return {
        "broker": kind,
        "kills": kills,
        "server killed": kills if server_too else 0,
        "events": count,
        "seed": seed,
        "batch": batch,
        **judged(folder / "data", sent),
        "seconds": round(time.monotonic() - begun),
        "the last consumer": told,
    }


def first_column(rows):
    """Return x[0] of each row."""
    spans = zip(rows.indptr, rows.indptr[1:], strict=False)
    return [float(sum(rows.values[a:b][rows.indices[a:b] == 0])) for a, b in spans]


def judged(data, sent):
    """Compare the log with the events."""
    store = SQLiteStore(data)
    try:
        log = [decode_event(record.kind, record.payload) for _, record in store.read(MODEL, 0)]
    finally:
        store.close()
    learned = [event for event in log if isinstance(event, ExamplesLearned)]
    ids = [given for event in learned for given in event.ids]
    # x[0] says which event an example is, whatever its id.
    places = [place for event in learned for place in zip(event.ids, first_column(event.inputs), strict=True)]
    numbers = [round(x * len(sent)) for given, x in places]
    found = Counter(numbers)
    return {
        "learned": len(numbers),
        "lost": len(sent) - len(found.keys() & set(range(len(sent)))),
        "twice": sum(n - 1 for n in found.values()) + len(ids) - len(set(ids)),
        "invented": len(found.keys() - set(range(len(sent)))),
        "out of order": sum(a > b for a, b in itertools.pairwise(numbers)),
    }


FAULTS = ("lost", "twice", "invented")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=BROKERS, default="redis")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--server", action="store_true", help="kill the server, too")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(
            Path(folder), options.broker, options.kills, options.events, options.seed, options.batch, options.server
        )
    print(*(f"{name}: {value}" for name, value in figures.items()), sep="\n")
    if any(figures[fault] for fault in FAULTS):
        raise SystemExit("something was lost, learned twice or invented")


if __name__ == "__main__":
    main()
