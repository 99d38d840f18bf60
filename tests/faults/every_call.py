"""Each call that can fail fails once at its n-th use, for n = 1, 2, 3 and so on.

    TMPDIR=/dev/shm python -m tests.faults.every_call --most 40 [--store redis] [--processes 2] [--nodes 2]

A short history runs on a server: it starts, creates models, learns, is killed and starts again, corrects, forgets,
labels, takes snapshots, and stops. A library (counted.c) counts the calls of each kind. Then the history is repeated,
and call n of a kind fails: once, or together with all later calls until the client has seen an error. A call for the
time of day gets a wrong time instead: an hour back, the same as before, or ten years ahead. The results are:

runs        Number of histories with a fault.
faults      Number of histories in which a call did fail; a later history may make fewer calls than the first.
lost        Number of acknowledged examples that are not there, and of acknowledged changes that were not made.
twice       Number of examples that were learned twice, or that no client sent.
hung        Number of requests without an answer for 20 s, and of servers that did not end, or did not go on.
unclear     Number of answers that are no documented error, and of tracebacks in the log.
kept        Number of servers that kept files or threads open after the fault.
unequal     Number of stores whose state differs, depending on whether it is read from a snapshot or from the log alone.
early       Number of logs with an event whose time is before the time of the event before it.
"""

import argparse
import ctypes
import itertools
import mmap
import random
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import httpx

from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.peers.ring import owner_of
from hinged.service.settings import Settings
from hinged.service.store.choice import open_part
from tests.faults.scene import compiled
from tests.faults.under_load import SIZES
from tests.helpers import server as servers
from tests.helpers import zygote
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PLAIN, RunningServer, ended, eventually, wait_for_children
from tests.helpers.states import digest_of, load_model

DISK = ("open", "read", "write", "sync", "name", "truncate")
CLOCK = ("back", "still", "ahead")
KINDS = (*DISK, "allocate", "accept", "receive", "send", "thread", "connect", "small", *CLOCK)
ERRORS = {"unavailable", "store_unavailable", "queue_full"}
UNFORESEEN = {
    "allocate": "MemoryError",
    "small": "",
    "read": r"sqlite3\.DatabaseError|hinged\.service\.store\.base\.Damaged",
}
"""Errors that may be answered as internal, with a traceback in the log, by kind of call. A disk that cannot be read
counts as damaged."""
ENDED = {"thread": "RuntimeError: can't start new thread"}
"""Tracebacks of one of several processes that must end and gets no thread: asyncio needs one to end. The supervisor
starts the process again. A node that gets no thread tries its round of claims again."""
HUNG_S = 20
BATCHES_BEFORE_KILL = 5
FILES_MAX = THREADS_MAX = 40
CONFIGURATION = {"kernel": {"type": "rbf", "gamma": 1.0}, "C": 10, "features": {"type": "dense", "dim": 2}}
SOLVERS = {"one": "lasvm", "two": "exact"}


class Counted(ctypes.Structure):
    """The counts of calls, and which call fails. The server has the same memory."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("armed", "kind", "nth", "once", "failed")),
        ("counts", ctypes.c_int64 * len(KINDS)),
        ("told_ns", ctypes.c_int64),
    )


class Broken(Exception):
    """The history cannot go on: what is to be counted stands in the message."""


class History:
    """A history with at most one fault. `results` counts what is wrong."""

    def __init__(self, folder, library, fault, results, more, nodes=1):
        """fault: kind, number of the call, and whether only this call fails; or None. more: settings of the servers."""
        self.results, self.fault = results, fault
        self.more = {**more, "redis_namespace": folder.name}
        self.root = folder / "disk"
        self.root.mkdir()
        control = folder / "counted"
        control.write_bytes(bytes(ctypes.sizeof(Counted)))
        with control.open("r+b") as file:
            self.counted = Counted.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Counted)))
        self.counted.kind = -1
        self.servers = [
            RunningServer(self.root / f"data{number or ''}", snapshot_examples=15, cache_mb=1, **self.more)
            for number in range(nodes)
        ]
        for number, server in enumerate(self.servers):
            server.log = folder / f"server{number}.log"
            server.env |= {"LD_PRELOAD": str(library), "COUNTED": str(control), "COUNTED_FILES": str(self.root)}
            if nodes > 1:
                server.env |= {"HINGED_NODE": server.url, "HINGED_NODE_TTL_S": "1"}
        self.turn = itertools.cycle(self.servers)
        self.http = httpx.Client(timeout=HUNG_S, verify=PLAIN)
        self.learned = {name: {} for name in SOLVERS}  # acknowledged label by id
        self.sent = set()  # ids of all examples

    def run(self):
        """Run the history and check what is left. Return the counts of the calls."""
        if self.fault is not None:
            kind, self.counted.nth, self.counted.once = self.fault
            self.counted.kind = KINDS.index(kind)
        try:
            self.arm(True)
            self.start()
            self.work()
            self.end()
        except Broken as error:
            self.results[str(error)] += 1
            logs = [server.log.read_text()[-3000:] for server in self.servers]
            print(f"{self.fault}: {error}: {'; '.join(logs)}", flush=True)
            for server in self.servers:
                server.kill_all()
        finally:
            self.http.close()
        self.results["faults"] += self.counted.failed > 0
        self.check()
        return list(self.counted.counts)

    def arm(self, armed):
        self.counted.armed = bool(armed)

    def start(self):
        """Start each server that does not run. It may refuse to start while calls fail, and must say why."""
        for server in self.servers:
            if server.process is None or server.process.poll() is not None:
                server.start(wait=False)
        for server in self.servers:
            self.wait_for(server)

    def wait_for(self, server):
        end = time.monotonic() + HUNG_S
        while time.monotonic() < end:
            if server.process.poll() is not None:
                if not self.counted.failed:
                    raise Broken("hung")
                self.arm(False)
                server.start(wait=False)
            try:
                if self.http.get(f"{server.url}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if self.counted.failed and time.monotonic() > end - HUNG_S / 2:
                self.arm(False)  # a fault that lasts may keep the server from becoming ready
            time.sleep(0.02)
        raise Broken("hung")

    def work(self):
        numbers = random.Random(1)
        for name, solver in SOLVERS.items():
            self.ask("PUT", f"/models/{name}", CONFIGURATION | {"solver": solver})
        for batch in range(8):
            if batch == BATCHES_BEFORE_KILL:
                self.servers[0].kill_all()
                self.start()
            for name in SOLVERS:
                examples = [
                    {"id": f"{name}-{batch}-{k}", "x": [numbers.gauss(0, 1), numbers.gauss(0, 1)], "y": "ab"[k % 2]}
                    for k in range(5)
                ]
                self.sent |= {example["id"] for example in examples}
                self.ask("POST", f"/models/{name}/learn", {"examples": examples})
                self.learned[name] |= {example["id"]: example["y"] for example in examples}
                self.ask("POST", f"/models/{name}/predict", {"examples": [{"x": [0.5, 0.5]}]})
        for name in SOLVERS:
            self.ask("PUT", f"/models/{name}/examples/{name}-1-1", {"y": "a"})
            self.learned[name][f"{name}-1-1"] = "a"
            self.ask("DELETE", f"/models/{name}/examples/{name}-2-2", allowed=(200, 202, 404, 410))
            del self.learned[name][f"{name}-2-2"]
            self.sent.add(f"{name}-q")
            self.ask("POST", f"/models/{name}/pool", {"examples": [{"id": f"{name}-q", "x": [0.1, 0.2]}]})
            self.ask("POST", f"/models/{name}/learn", {"examples": [{"id": f"{name}-q", "y": "b"}]})
            self.learned[name][f"{name}-q"] = "b"
            self.ask("POST", f"/models/{name}/snapshot")
        for path in ("/models", "/metrics", "/models/one", "/models/one/examples?n=100", "/models/two/export"):
            self.ask("GET", path)

    def ask(self, method, path, body=None, allowed=(200, 201, 202)):
        """Send a request until it is answered. A fault that lasts ends once the client has seen an error."""
        end, answer = time.monotonic() + 2 * HUNG_S, None
        while time.monotonic() < end:
            try:
                answer = self.http.request(method, next(self.turn).url + path, json=body)
            except httpx.TimeoutException:
                if not (self.counted.armed and self.fault and self.fault[0] == "accept"):
                    raise Broken("hung") from None  # as long as no connection can be accepted, no client gets an answer
            except httpx.TransportError:
                if not self.counted.failed:
                    raise Broken("unclear") from None
            else:
                if answer.status_code in allowed:
                    return
                self.judge(answer)
            self.arm(self.counted.once)  # a fault that lasts ends here
            if any(server.process.poll() is not None for server in self.servers):
                self.start()
            time.sleep(0.05)
        print(f"{self.fault}: {method} {path}: {answer.status_code} {answer.text}", flush=True)
        raise Broken("hung")

    def judge(self, answer):
        """Check that an answer is a documented error, and that a call has failed or another node takes over."""
        try:
            error = answer.json()["error"]
        except (ValueError, KeyError, TypeError):
            error = {"code": None}
        forgiven = {"internal_error"} if self.fault and self.fault[0] in UNFORESEEN else set()
        again = error["code"] in ERRORS | forgiven or "retry_after_s" in error.get("details", {})
        if not ((self.counted.failed or len(self.servers) > 1) and again):
            print(f"{self.fault}: {answer.request.method} {answer.url}: {answer.status_code} {answer.text}", flush=True)
            raise Broken("unclear")

    def end(self):
        """Check that the servers keep few files and threads open, and stop them."""
        self.arm(False)
        self.compare()
        self.http.close()
        for server in self.servers:
            self.stop(server)

    def stop(self, server):
        pids = [server.process.pid, *(children := wait_for_children(server.process.pid, 0))]
        try:
            eventually(lambda: is_at_rest(pids))
        except AssertionError:
            self.results["kept"] += 1
            print(f"{self.fault}: kept {opened(pids)}", flush=True)
        server.process.terminate()
        end = time.monotonic() + 2 * HUNG_S
        while server.process.poll() is None or not all(map(ended, children)):
            if time.monotonic() > end:
                raise Broken("hung")
            time.sleep(0.02)
        log = server.log.read_text()
        forgiven = UNFORESEEN | (ENDED if self.more["processes"] > 1 or len(self.servers) > 1 else {})
        for error in re.findall(r"^Traceback .*\n(?: .*\n)+(\w.*)", log, re.MULTILINE):
            if not (self.fault and re.match(forgiven.get(self.fault[0], "(?!)"), error)):
                self.results["unclear"] += 1
                print(f"{self.fault}: {error} in {log}", flush=True)

    def check(self):
        """Compare the store with what was acknowledged, and the state from a snapshot with the state from the log."""
        settings = Settings(data_dir=self.root / "data", **self.more)
        division = settings.processes if settings.processes > 1 else 0
        for name, learned in self.learned.items():
            number = owner_of(name, division) if division else 1
            with closing(open_part(settings, number, division)) as store:
                if name not in store.models():
                    self.results["lost"] += len(learned)
                    continue
                state, found = load_model(store, name, **SIZES), Counter(ids_of(store, name))
                times = [event.at_ms for event in events_of(store, name) if event.at_ms]
                store.snapshots = lambda _: []
                folded = load_model(store, name, **SIZES)
            self.results["lost"] += len(learned.keys() - found.keys())
            self.results["twice"] += len(found.keys() - self.sent) + sum(found.values()) - len(found)
            self.results["unequal"] += digest_of(state) != digest_of(folded)
            self.results["early"] += times != sorted(times)

    def compare(self):
        """Compare what the server says about the examples with what was acknowledged."""
        for name, learned in self.learned.items():
            answer = self.http.get(f"{next(self.turn).url}/models/{name}/examples?n=1000")
            told = {each["id"]: each["label"] for each in answer.json()["examples"]}
            if told != learned:
                self.results["lost"] += 1
                print(f"{self.fault}: {name} has {sorted(told.items() ^ learned.items())}", flush=True)


def opened(pids):
    """Return the number of open files and of threads of the process that has most."""
    return tuple(max(len([*Path(f"/proc/{pid}/{what}").iterdir()]) for pid in pids) for what in ("fd", "task"))


def is_at_rest(pids):
    files, threads = opened(pids)
    return files <= FILES_MAX and threads <= THREADS_MAX


def events_of(store, name):
    return (decode_event(record.kind, record.payload) for _, record in store.read(name, 0))


def ids_of(store, name):
    """Return the ids of all examples in a log that were not forgotten."""
    for event in events_of(store, name):
        if isinstance(event, ExamplesLearned):
            yield from (given for given in event.ids if given is not None)


def run(folder, library, fault, results, more, nodes=1):
    """Run one history in a folder of its own; return the counts of its calls."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        results["runs"] += fault is not None
        return History(Path(own), library, fault, results, more, nodes).run()


def numbers_of(kind, count, most):
    """Return at most `most` numbers of calls: the first calls, and calls spread over the rest. Small allocations are so
    many that all are spread.
    """
    first = 0 if kind == "small" else min(count, most // 2)
    rest = range(first + 1, count + 1)
    step = max(1, -(-len(rest) // max(1, most - first)))
    return [*range(1, first + 1), *rest[::step]]


def main(most, kinds=KINDS, seed=1, store="sqlite", processes=1, nodes=1):
    """Let up to `most` calls of each kind fail, each once and lastingly; return the results."""
    results = Counter(lost=0, twice=0, hung=0, unclear=0, kept=0, unequal=0, early=0)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        more = {"processes": processes}
        if store == "redis":
            more["store"] = stack.enter_context(RedisServer(Path(folder) / "redis")).url
        library = compiled("counted.c", folder)
        for _ in range(2):  # the first history may compile
            counts = dict(zip(KINDS, run(folder, library, None, results, more, nodes), strict=True))
        print("calls:", counts, flush=True)
        faults = [
            (kind, number, once)
            for kind in kinds
            for number in numbers_of(kind, counts[kind], most)
            for once in (True, False)
        ]
        random.Random(seed).shuffle(faults)
        for fault in faults:
            run(folder, library, fault, results, more, nodes)
    return results


FAULTS = ("lost", "twice", "hung", "unclear", "kept", "unequal", "early")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=20, help="calls of each kind that fail")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--store", choices=("sqlite", "redis"), default="sqlite")
    parser.add_argument("--processes", type=int, default=1, help="of each server")
    parser.add_argument("--nodes", type=int, default=1, help="servers, which share a Redis")
    options = parser.parse_args()
    servers.forked = zygote.start  # the servers start many times
    kinds, more = options.kinds.split(","), {"processes": options.processes, "nodes": options.nodes}
    results = main(options.most, kinds, store=options.store, **more)
    print(", ".join(f"{what}: {count}" for what, count in results.items()))
    sys.exit(any(results[fault] for fault in FAULTS))
