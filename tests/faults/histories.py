"""Run random histories, in which everything that can happen to models happens at the same time. Afterwards the program
checks that the stores are readable.

    python -m tests.faults.histories --times 1000
    ROUND_S=600 nice python -m tests.faults.histories --store redis --times 100 --seed 7

Each history has its own server in its own process. The process is a fork, so that nothing is loaded twice. Sometimes
its store is unavailable, or an answer of the store is lost. Several clients use the whole interface: examples with and
without ids, predictions and their late labels, candidates, leases, votes. They change precisions, kernels, solvers,
windows and limits. They use challengers, promotions, rollbacks and imports. They finish with epochs, forget and
correct. In the middle the process is killed, or ends cleanly, and another process continues. The results at the end:

raised      Number of answers with unforeseen errors, errors in the server's log, and models that stopped before an
            event.
hung        Number of servers that had to be killed because they did not end.
lost        Number of acknowledged examples that are not in the log, although nobody forgot them.
invented    Number of examples in the log that were never sent.
misread     Number of examples in the log that differ from the sent example as the configuration at that position reads
            it.
reverted    Number of annotations of Label Studio that were set back by an older version, which was sent late or again.
unequal     Number of states that differ: the recovered state (newest snapshot and the log after it), the state from the
            log alone, and the running state.
"""

import argparse
import asyncio
import faulthandler
import gc
import json
import logging
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

from hinged.service.app import create_app
from hinged.service.engine import patience
from hinged.service.engine.jobs import background as mending
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.settings import Settings
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from hinged.solvers.warm import warm_up
from tests.faults.history_clients import FORGETTING, HOOKS_HOST, SOLVERS, Client, Complaints, Noted, configuration_of
from tests.faults.history_judge import FAULTS, SIZES, judge
from tests.helpers.limits import limited
from tests.helpers.redis_server import RedisServer
from tests.helpers.states import digest_of

ROUND_S = float(os.environ.get("ROUND_S", "40"))  # maximum seconds of a process, far more than any process needs
BUSY = {429, 503}
LOG_AND_DATABASE = ["hinged.db-wal", "hinged.db"]


# -- faults of the store ----------------------------------------------------------------------------------------------


def unsteady(store, rng, share):
    """Wrap the store. For a share of the calls the store is unavailable, or its answer is lost."""
    lock, away = threading.Lock(), [0]

    def met():
        with lock:
            if away[0]:
                away[0] -= 1
                return "away"
            if rng.random() < share:
                away[0] = rng.choice([0, 0, 1, 3, 8])
                return rng.choice(["away", "lost answer"])
        return None

    def wrapped(name, call):
        def method(*args):
            fate = met()
            if fate == "away" or (fate and name != "append"):
                raise StoreUnavailable("the store is away")
            found = call(*args)
            if fate:
                raise OutcomeUnknown("the answer of the store was lost")
            return found

        return method

    def reader(read):
        def reading(model, after):
            left = rng.randrange(20) if met() else None  # number of events until the store becomes unavailable
            for event in read(model, after):
                if left == 0:
                    raise StoreUnavailable("the store went away")
                left = None if left is None else left - 1
                yield event

        return reading

    for name in ("append", "end", "find", "put_snapshot", "snapshots", "get_snapshot", "trim", "redact"):
        setattr(store, name, wrapped(name, getattr(store, name)))
    store.read, store.read_around = reader(store.read), reader(store.read_around)
    return store


# -- one history ------------------------------------------------------------------------------------------------------


async def serve(place, settings, form, configuration, note, seed, steps):
    """Run a server and its clients until the server ends cleanly."""
    version = 1 + 1_000 * (seed % 10)  # of annotations; each process continues with higher versions
    logging.getLogger().addHandler(Complaints(note))
    mending.RETRY_FIRST_S, mending.RETRY_MAX_S = 0.01, 0.1  # shorter, because the store is unavailable more often here
    patience.RETRY_FIRST_S, patience.RETRY_MAX_S = 0.005, 0.1
    asyncio.get_running_loop().call_later(ROUND_S - 10, _tell_tasks)
    rng = random.Random(seed)
    store = place.open()
    app = create_app(settings, lambda: unsteady(store, random.Random(seed + 1), rng.choice([0, 0.01, 0.05])))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=ROUND_S) as http:
            while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  as anyone does who starts a server
                await asyncio.sleep(0.01)
            note("ready")
            for name in ("m", "annotated"):
                for _ in range(50):
                    answer = await http.put(f"/models/{name}", json=configuration)
                    if answer.status_code not in BUSY:
                        break
            clients = [
                Client(http, note, random.Random(seed * 10 + n), f"{seed}c{n}", form, range(3 * n, 3 * n + 3), version)
                for n in range(rng.choice([2, 4, 6]))
            ]
            robbed = _rob(place, http, note, configuration, random.Random(seed + 2))
            await asyncio.gather(robbed, *(client.live(steps) for client in clients))
            running = {}
            for name, found in app.state.registry.roster.workers():
                if found.obstacle is not None:
                    note("error", message=f"{name} stands: {found.obstacle.message}", trace="")
                if not found.failed:
                    running[name] = await settled_digest(found)
            note("running", digests={name: digest for name, digest in running.items() if digest})


async def _rob(place, http, note, configuration, rng):
    """Sometimes remove data from the store and restore it. No change may be acknowledged in between."""
    while rng.random() < 0.4:
        await asyncio.sleep(rng.uniform(0.02, 0.3))
        await asyncio.to_thread(place.take, rng)
        for _ in range(2):
            for method, path, body in (("PUT", "/models/m", configuration), ("POST", "/models/annotated/finish", {})):
                answer = await http.request(method, path, json=body)
                if answer.status_code < 300:
                    note("error", message=f"{method} {path} of what the store has lost: {answer.text}", trace="")
            await asyncio.sleep(rng.uniform(0.0, 0.1))
        await asyncio.to_thread(place.put_back)


def _tell_tasks():
    for task in asyncio.all_tasks():
        task.print_stack(limit=4, file=sys.stderr)


async def settled_digest(worker):
    """Return the position and digest of a model whose jobs have ended; None if the store prevents that."""
    for _ in range(400):
        try:
            at, digest, busy = await worker.read(lambda m: (m.position, digest_of(m), bool(m.jobs.running())))
        except ServiceError:
            return None
        if not busy and not worker.unlogged and not worker.journal.unresolved:
            return at, digest
        await asyncio.sleep(0.01)
    return None


def forked(work, seconds):
    """Do work in a separate process; return how the process ended: 0, another code, or minus the signal.

    seconds: maximum seconds to wait; None for no limit.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        if seconds == ROUND_S:
            faulthandler.dump_traceback_later(ROUND_S - 5, file=sys.stderr)
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  the exit code reports it to the parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL


def history(folder, place, seed, steps):
    """Run one history; return the faults, and a description of each."""
    rng = random.Random(seed)
    form, configuration = configuration_of(rng)
    settings = Settings(
        data_dir=folder / "data",
        cache_mb=1,
        answers_kept=SIZES["answers_kept"],
        snapshot_examples=rng.choice([5, 20, 1000]),
        log_kept=rng.choice([None, None, None, 10]),
        shutdown_s=5,
        hooks_hosts=HOOKS_HOST,
        hooks_secret="a secret of the operator, which is long",  # noqa: S106
    )
    flush_s = rng.choice([0.01, 0.2])
    path = folder / "noted"
    note = Noted(path)
    hung = 0
    for number in range(rng.choice([1, 2, 2])):
        killed_s = rng.uniform(0.05, 1.0) if rng.random() < 0.6 else None

        def work(number=number):
            with limited(pending_flush_s=flush_s):
                asyncio.run(serve(place, settings, form, configuration, note, seed * 10 + number, steps))

        code = forked(work, ROUND_S if killed_s is None else killed_s)
        place.put_back()  # the process may have been killed before it put the data back
        if killed_s is None and code:
            hung += 1
            note("error", message=f"the server ended with {code}", trace="")
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    verdict = folder / "verdict"
    code = forked(lambda: verdict.write_text(json.dumps(judge(place.open, lines, form))), ROUND_S)
    if code:
        return {fault: int(fault == "raised") for fault in FAULTS}, [f"the judge ended with {code}"], lines
    found, said = json.loads(verdict.read_text())
    found["hung"] = hung
    return found, said, lines


def warm():
    """Load everything once, because each history is a fork of this process."""
    for solver in {*SOLVERS, *FORGETTING}:
        for dtype in (np.float32, np.float64):
            warm_up(solver, dtype)
    sys.modules.setdefault("sniffio", None)  # otherwise httpx searches every folder for it at every request
    gc.collect()
    gc.freeze()  # so that no server collects the objects that it shares with this process


def run(times, seed, steps, store="sqlite", seconds=None, tell=None):
    """Run `times` histories, or as many as `seconds` allow; return the results, and descriptions of the faults."""
    total, words = Counter(), []
    end = time.monotonic() + seconds if seconds else None
    with tempfile.TemporaryDirectory() as place, Stores(store, Path(place)) as opener:
        for number in range(times):
            if end and time.monotonic() > end:
                break
            folder = Path(place) / f"h{number}"
            folder.mkdir()
            found, said, lines = history(folder, opener(folder), seed + number, steps)
            total.update(found)
            total["histories"] += 1
            total["requests"] += sum(line["kind"] in ("sent", "waits") for line in lines)
            total["learned"] += sum(len(line["ids"]) for line in lines if line["kind"] == "learned")
            if any(found[fault] for fault in FAULTS):
                words.append((seed + number, said))
                if tell:
                    tell(seed + number, said)
            else:
                for path in sorted(folder.rglob("*"), reverse=True):
                    path.unlink() if path.is_file() else path.rmdir()
            if tell and total["histories"] % 500 == 0:
                print(f"{dict(total)}", flush=True)
    return total, words


class OnSQLite:
    """A store in a folder. The ends of its files can be removed and restored."""

    def __init__(self, folder):
        self.data, self.kept = folder / "data", folder / "kept"

    def open(self):
        self.store = SQLiteStore(self.data)
        return self.store

    def take(self, rng):
        copy, share = self.kept.with_name("copy"), rng.choice([0, 0.5, 0.9])
        files = rng.choice([["hinged.db"], ["hinged.db-wal"], LOG_AND_DATABASE])
        with self.store._writer._alone():  # so that no commit is interrupted
            copy.mkdir()
            lengths = self.store._place._least()
            if lengths is None or not lengths.log:
                files = ["hinged.db"]  # the log has no valid frame that could be taken
            for name in files:  # another process copies the files: closing a file here would drop this process's locks
                subprocess.run(["cp", self.data / name, copy], check=True)
            copy.rename(self.kept)
            for name in files:
                used = lengths.log if name.endswith("-wal") else (self.data / name).stat().st_size
                os.truncate(self.data / name, int(share * used))

    def put_back(self):
        if self.kept.exists():
            for file in self.kept.iterdir():
                subprocess.run(["cp", file, self.data], check=True)
            shutil.rmtree(self.kept)
        shutil.rmtree(self.kept.with_name("copy"), ignore_errors=True)


class OnRedis:
    """A store on Redis, which can be emptied and filled again."""

    def __init__(self, redis, namespace):
        self.redis, self.namespace = redis, namespace

    def open(self):
        return RedisStore(self.redis.url, namespace=self.namespace)

    def take(self, _):
        self.redis.empty()

    def put_back(self):
        self.redis.fill()


class Stores:
    """Opens the store of each history."""

    def __init__(self, kind, place):
        self.kind, self.place, self.redis = kind, place, None

    def __enter__(self):
        if self.kind == "redis":
            self.redis = RedisServer(self.place / "redis").start()
        return self.opener

    def opener(self, folder):
        return OnSQLite(folder) if self.redis is None else OnRedis(self.redis, folder.name)

    def __exit__(self, *_):
        if self.redis is not None:
            self.redis.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--steps", type=int, default=12, help="of each client in each process")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    warm()

    def tell(seed, said):
        print(f"seed {seed}:", *said[:3], sep="\n    ", flush=True)

    began = time.monotonic()
    total, words = run(options.times, options.seed, options.steps, options.store, options.seconds, tell)
    spent = time.monotonic() - began
    print(f"{dict(total)}, {spent:.0f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    sys.exit(bool(words))


if __name__ == "__main__":
    main()
