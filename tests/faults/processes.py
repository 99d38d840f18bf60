"""Run a server with several processes, and kill the processes and their supervisor at random moments.

    python -m tests.faults.processes --faults 30 --processes 3 --models 12 [--store redis]

Clients learn and predict on all models. A request that is not acknowledged is sent again with the same ids. One more
client asks for predictions over a new connection each time, but only of models whose owner runs. This client must
always get answers. At the end each log is read without a server. Some results have the same meaning as in cluster.py:
acknowledged, lost, invented, twice, fenced and state. The other results are

refused     Number of predictions that were not answered although the owner of the model was running.
waited_s    Seconds until these predictions were answered, with a second try if the connection's process was killed:
            median and maximum.
again_s     Seconds until a model whose owner was killed answered again: median and maximum.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import httpx

from hinged.service.peers.ring import owner_of
from hinged.service.settings import Settings
from hinged.service.store.choice import open_part
from tests.faults.cluster import NONE, TRY_S, Times, Writer, judge_by, summary, until_again
from tests.helpers.divided_server import processes_of
from tests.helpers.nodes import CONFIGURATION
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, PLAIN, RunningServer, ended, eventually

KINDS = ("kill", "end", "all")
"""A process is killed, or ends cleanly, or the supervisor is killed and restarted."""


class Beside(threading.Thread):
    """A client that asks for predictions of models whose owner runs."""

    def __init__(self, server, owners, seed, stop):
        super().__init__()
        self._rng = random.Random(seed)
        self._server, self._owners, self._stop_asking = server, owners, stop
        self.away = set()  # numbers of the processes that do not run
        self.refused, self.waited = [], []

    def run(self):
        while not self._stop_asking.is_set():
            time.sleep(0.02)  # leaves processor time to the other clients
            before = set(self.away)
            name = self._rng.choice(sorted(self._owners))
            since = time.monotonic()
            answer = self._ask(name) or self._ask(name)
            if self._owners[name] in before | self.away:
                continue
            if answer is None or answer.status_code != 200:
                self.refused.append(f"{name}: {answer and answer.text}")
            self.waited.append(time.monotonic() - since)

    def _ask(self, name):
        try:
            with httpx.Client(timeout=TRY_S, verify=PLAIN) as http:
                return http.post(f"{self._server.url}/models/{name}/predict", json={"examples": [{"x": [0.0, 1.0]}]})
        except httpx.TransportError:
            return None


def disturb(server, owners, rng, kind, beside):
    """Cause one fault, and wait until all models answer again; return the times until they did."""
    times = Times()
    if kind == "all":
        beside.away |= set(owners.values())
        processes = processes_of(server)
        server.kill()
        since, taken = time.monotonic(), list(owners)
        server.start(wait=False)
    else:
        number, pid = rng.choice(sorted(processes_of(server).items()))
        processes = {number: pid}
        beside.away.add(number)
        since, taken = time.monotonic(), [name for name, owner in owners.items() if owner == number]
        os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGTERM)
    eventually(lambda: all(map(ended, processes.values())))  # until they have ended they may still answer
    until_again(server, taken, since, times)
    server.wait_until_ready()  # until the server is ready, followers may have answered
    beside.away.clear()
    time.sleep(rng.random())
    return times


def run(folder, faults, seed, models=6, clients=3, processes=2, *, followers=0, on_redis=False):
    """Run the server and the faults; return the results."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(folder / "redis")) if on_redis else None
        return _run(folder, faults, seed, models, clients, processes, followers, redis.url if redis else "sqlite")


def _run(folder, faults, seed, models, clients, processes, followers, store):
    rng, stop, times = random.Random(seed), threading.Event(), []
    owners = {f"m{k}": owner_of(f"m{k}", processes) for k in range(models)}
    with RunningServer(folder / "data", processes=processes, followers=followers, store=store) as server:
        for name in owners:
            made = httpx.put(f"{server.url}/models/{name}", json=CONFIGURATION, timeout=PATIENCE_S)
            assert made.status_code == 201, made.text
        one = Servers([server])
        writers = [Writer(number, one, list(owners), seed, stop) for number in range(clients)]
        beside = Beside(server, owners, seed, stop)
        for thread in (*writers, beside):
            thread.start()
        try:
            times = [disturb(server, owners, rng, kind, beside) for kind in faults]
        finally:
            stop.set()
            for thread in (*writers, beside):
                thread.join()
        served = {name: httpx.get(f"{server.url}/models/{name}", timeout=PATIENCE_S).json() for name in owners}
        assert server.terminate() == 0
    settings = Settings(data_dir=folder / "data", processes=processes, store=store)
    with ExitStack() as stack:
        stores = {
            number: stack.enter_context(closing(open_part(settings, number, processes, print)))
            for number in range(1, processes + 1)
        }
        figures = judge_by({name: stores[owner] for name, owner in owners.items()}, writers, served)
    return figures | {
        "refused": beside.refused,
        "waited_s": summary(beside.waited),
        "again_s": summary([seconds for each in times for seconds in each.again]),
        "retries": sum(writer.retries for writer in writers),
    }


class Servers:
    """The servers that a writer asks."""

    def __init__(self, servers):
        self.servers = servers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--followers", type=int, default=0)
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    faults = [rng.choice(KINDS) for _ in range(options.faults)]
    print(f"seed {options.seed}: {dict(Counter(faults))}")
    with tempfile.TemporaryDirectory() as folder:
        sizes = options.models, options.clients, options.processes
        figures = run(
            Path(folder), faults, options.seed, *sizes, followers=options.followers, on_redis=options.store == "redis"
        )
    print(json.dumps(figures, indent=2))
    sys.exit(bool(any(figures[name] for name in NONE) or figures["wrong"] or figures["refused"]))


if __name__ == "__main__":
    main()
