"""Servers that share a Redis, under faults at random moments: kills, stops, cuts, and moves of models.

    python -m tests.faults.cluster --faults 50 --models 30
    python -m tests.faults.cluster --faults 50 --models 30 --apart
    python -m tests.faults.cluster --faults 50 --models 30 --processes 2

Clients learn and predict on all models, and send each request to a server chosen at random. A request that is not
acknowledged is sent again with its ids. Meanwhile servers are killed (and restarted), or stopped with SIGSTOP until
other servers have their models, and models are moved. With --apart (Linux, as root) each server is in its own
network namespace (tests/helpers/networks.py). Then some faults cut a server off, from everything or only from Redis,
until other servers have its models. With --processes each server has several processes, and some faults kill a single
process. At the end each log is read without a server. The results are:

acknowledged   Number of examples that clients know were learned.
lost           Number of acknowledged examples that are not in the log.
invented       Number of examples in the log that were never sent.
twice          Number of examples that are in the log more than once.
fenced         Number of snapshots or ends of logs that contradict the living servers, because a server that is not the
               owner wrote them.
state          Number of models whose state at the owner differs in any bit from the state that the log alone gives.
noticed_s      Seconds after a fault until the owner's heartbeat had expired in Redis: median and maximum.
again_s        Seconds after a fault until a model of the owner answered again: median and maximum.
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
from contextlib import closing
from pathlib import Path
from statistics import median

import httpx

from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.store.redis import RedisStore
from tests.helpers.networks import NodesApart
from tests.helpers.nodes import CONFIGURATION, TTL_S, Nodes
from tests.helpers.server import PATIENCE_S, PLAIN, eventually, wait_for_children
from tests.helpers.states import digest_of, load_model

NONE = ("lost", "invented", "twice", "fenced", "state")
"""Results that must be 0."""
TRY_S = 5.0
BATCH = 3
SIZES = {"cache_bytes": 2**20, "answers_kept": 100_000}


class Writer(threading.Thread):
    """A client that learns and predicts on random models, through random servers, until `stop` is set."""

    def __init__(self, number, nodes, models, seed, stop):
        super().__init__()
        self.rng = random.Random(seed * 1000 + number)
        self.number, self.nodes, self.models, self.stop = number, nodes, models, stop
        self.acknowledged = {name: set() for name in models}
        self.sent = {name: set() for name in models}
        self.retries = 0
        self.wrong = []

    def run(self):
        with httpx.Client(timeout=TRY_S, verify=PLAIN) as http:
            serial = 0
            while not self.stop.is_set():
                name, serial = self.rng.choice(self.models), serial + 1
                ids = [f"{self.number}-{serial}-{k}" for k in range(BATCH)]
                xs = [[round(self.rng.gauss(0, 1), 3), round(self.rng.gauss(0, 1), 3)] for _ in ids]
                examples = [{"id": i, "x": x, "y": x[0] > 0} for i, x in zip(ids, xs, strict=True)]
                self.sent[name].update(ids)
                if self.until_answered(http, f"/models/{name}/learn", {"examples": examples}):
                    self.acknowledged[name].update(ids)
                self.until_answered(http, f"/models/{name}/predict", {"examples": [{"x": xs[0]}]})

    def until_answered(self, http, path, body):
        """Send a request until it is answered; return false if the run ends first."""
        while True:
            server = self.rng.choice(self.nodes.servers)
            try:
                answer = http.post(server.url + path, json=body)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return True
            if answer is not None and answer.status_code != 503:
                self.wrong.append(answer.text)
                return False
            if self.stop.is_set():
                return False
            self.retries += 1
            time.sleep(0.05)


def owners_of(nodes, among):
    """Return the address of each model's owner, as a living server reports it."""
    for server in among:
        try:
            answer = httpx.get(f"{server.url}/cluster", timeout=TRY_S, verify=PLAIN)
        except httpx.TransportError:
            continue
        if answer.status_code == 200:
            return {model["model"]: model["owner"] for model in answer.json()["models"]}
    raise RuntimeError(f"no server answers: {nodes.servers[0].log.read_text()[-2000:]}")


class Times:
    """Measures the seconds until a server's absence was noticed, and until each of its models answered again."""

    def __init__(self, nodes=None, victim=None):
        self.again, self.noticed = [], []
        self._nodes, self._victim = nodes, victim

    def look(self, since):
        """Return whether the victim's heartbeat has expired; record the time once. Until then the victim itself may
        answer.
        """
        if self._victim is None or self.noticed:
            return True
        with self._nodes.redis.client() as client:
            said = client.hget("hinged:{-}:nodes", self._nodes.names(self._victim)[-1])
            seconds, micros = client.time()
        if said is None or int(said.split(" ")[0]) < 1000 * seconds + micros // 1000:
            self.noticed.append(time.monotonic() - since)
        return bool(self.noticed)


def machine_of(name):
    """Return the address in the name of a process."""
    return name.partition("#")[0]


def until_again(server, names, since, times):
    """Record for each model the seconds until it answers again through a living server."""
    left = set(names)
    with httpx.Client(timeout=TRY_S, verify=PLAIN) as http:
        while left:
            if not times.look(since):
                continue
            assert time.monotonic() - since < PATIENCE_S, left
            for name in sorted(left):
                try:
                    answer = http.post(f"{server.url}/models/{name}/predict", json={"examples": [{"x": [0.0, 1.0]}]})
                except httpx.TransportError:
                    continue
                if answer.status_code == 200:
                    times.again.append(time.monotonic() - since)
                    left.discard(name)
            time.sleep(0.02)


def to_all(server, number):
    """Send a signal to all processes of a server."""
    for pid in (server.process.pid, *wait_for_children(server.process.pid, 0)):
        os.kill(pid, number)


AWAY = {
    "stop": (lambda server: to_all(server, signal.SIGSTOP), lambda server: to_all(server, signal.SIGCONT)),
    "cut": (lambda server: server.namespace.cut_off(), lambda server: server.namespace.reach_again()),
    "store": (lambda server: server.namespace.lose_store(), lambda server: server.namespace.find_store()),
}  # fmt: skip
"""Functions that make a server unavailable for a while and then available again."""


def moved(server, name, to):
    """Ask a server to move a model; return whether the server knows that `to` is alive."""
    answer = httpx.post(f"{server.url}/cluster/models/{name}/move", json={"to": to}, timeout=PATIENCE_S)
    assert answer.status_code in {200, 409, 503}, answer.text
    return answer.status_code != 409


def disturb(nodes, models, rng, kind, found):
    """Cause one fault, and wait until the victim's models answer again. Record the times by the kind of fault."""
    owners = owners_of(nodes, nodes.servers)
    machines = {name: machine_of(owner) for name, owner in owners.items()}
    victim = rng.choice([server for server in nodes.servers if kind == "move" or server.url in machines.values()])
    others = [server for server in nodes.servers if server is not victim]
    if kind == "move":
        name, to = rng.choice(models), rng.choice(nodes.names(victim))
        eventually(lambda: moved(others[0], name, to))
        return
    since = time.monotonic()
    taken = [name for name, machine in machines.items() if machine == victim.url]
    times = Times(nodes, victim)
    if kind == "process":
        times = Times()
        os.kill(rng.choice(wait_for_children(victim.process.pid, 1)), signal.SIGKILL)
        until_again(others[0], taken, since, times)
    elif kind == "kill":
        victim.kill_all()
        until_again(others[0], taken, since, times)
        victim.start()
    else:
        away, back = AWAY[kind]
        away(victim)
        try:
            until_again(others[0], taken, since, times)
        finally:
            back(victim)
    found.setdefault(kind, []).append(times)


def learned_in(store, name):
    """Return how often each id was learned."""
    found = Counter()
    for _, event in store.read(name, 0):
        if event.kind == ExamplesLearned.KIND:
            found.update(decode_event(event.kind, event.payload).ids)
    return found


def run(folder, faults, seed, models=10, clients=3, servers=3, make=Nodes, **settings):
    """Run the servers, the clients and the faults; return the results."""
    rng, stop, found = random.Random(seed), threading.Event(), {}
    names = [f"m{k}" for k in range(models)]
    with make(folder, servers, **settings) as nodes:
        for k, name in enumerate(names):
            made = httpx.put(f"{nodes.servers[k % servers].url}/models/{name}", json=CONFIGURATION, timeout=PATIENCE_S)
            assert made.status_code == 201, made.text
        writers = [Writer(number, nodes, names, seed, stop) for number in range(clients)]
        for writer in writers:
            writer.start()
        try:
            for kind in faults:
                disturb(nodes, names, rng, kind, found)
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        served = {}
        until_again(nodes.servers[0], names, time.monotonic(), Times())
        for name in names:
            served[name] = httpx.get(f"{nodes.servers[0].url}/models/{name}", timeout=PATIENCE_S).json()
        for server in nodes.servers:
            server.terminate()
        figures = judge(nodes, names, writers, served)
    return figures | {
        "retries": sum(writer.retries for writer in writers),
        "again_s": {kind: summary([s for times in found[kind] for s in times.again]) for kind in found},
        "noticed_s": {kind: summary([s for times in found[kind] for s in times.noticed]) for kind in found},
        "ttl_s": TTL_S,
    }


def summary(seconds):
    """Return the median and the maximum."""
    return {"median": round(median(seconds), 2), "worst": round(max(seconds), 2)} if seconds else None


def judge(nodes, names, writers, served):
    """Compare the logs with the answers that the clients got; return the results."""
    with closing(RedisStore(nodes.redis.url)) as store:
        return judge_by(dict.fromkeys(names, store), writers, served)


def judge_by(stores, writers, served):
    """Do the same as `judge`, for models in several stores."""
    figures = dict.fromkeys(("acknowledged", *NONE), 0) | {"wrong": [w for writer in writers for w in writer.wrong]}
    for name, store in stores.items():
        learned = learned_in(store, name)
        told = set().union(*(writer.acknowledged[name] for writer in writers))
        sent = set().union(*(writer.sent[name] for writer in writers))
        figures["acknowledged"] += len(told)
        figures["lost"] += len(told - learned.keys())
        figures["invented"] += len(learned.keys() - sent)
        figures["twice"] += sum(count > 1 for count in learned.values())
        figures["fenced"] += store.end(name) != served[name]["position"]
        figures["fenced"] += any(at > store.end(name) for at in store.snapshots(name))
        recovered = load_model(store, name, **SIZES)
        figures["fenced"] += recovered.learned != len(learned)
        figures["state"] += digest_of(recovered) != digest_of(load_model(WithoutSnapshots(store), name, **SIZES))
    return figures


class WithoutSnapshots:
    """A store whose logs are applied from their beginning."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def snapshots(self, _):
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="of each server")
    parser.add_argument("--apart", action="store_true", help="in network namespaces, of which some are cut off")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    kinds = ["kill", "stop", "cut", "store"] if options.apart else ["kill", "stop", "move", "move"]
    settings = {}
    if options.processes > 1:
        settings["processes"] = options.processes
        kinds += ["process", "process"]
    faults = [rng.choice(kinds) for _ in range(options.faults)]
    print(f"seed {options.seed}: {dict(Counter(faults))}")
    with tempfile.TemporaryDirectory() as folder:
        make = NodesApart if options.apart else Nodes
        figures = run(Path(folder), faults, options.seed, options.models, options.clients, make=make, **settings)
    print(json.dumps(figures, indent=2))
    sys.exit(bool(any(figures[name] for name in NONE) or figures["wrong"]))


if __name__ == "__main__":
    main()
