"""A power cut after each write of a server: every state of the disk that it may leave is opened.

    TMPDIR=/dev/shm python -m tests.faults.power_cuts --histories 200 --states 100 [--store redis]

A client creates models, learns, corrects, forgets, labels, and deletes models. The server stops, is killed, and starts
again. The keys of a key file are made and revoked, and backups are written. Each change of a file is recorded
(recording.c). Then the power is cut after some of the recorded calls, and each state of the disk that this may leave
(recorded_disk.py) is opened as a store. With `--store redis` it is the disk of a Redis server, which is stopped and
killed too. The results are:

states      Number of different states of the disk.
unopenable  Number of states that the store or the key file refuses, or in which it finds damage.
lost        Number of acknowledged events that are not there.
invented    Number of events that are neither as before nor as after the request in progress, and of models that were
            deleted and are there.
bytes       Number of states with the id of an example whose forgetting was acknowledged: on the disk as the power cut
            left it, or once the store was opened and closed. With Redis only the latter counts.
keys        Number of keys that were made and are not there, or were revoked and are there.
backups     Number of backups that were reported and are not there, or are there and not whole.
unserved    Number of states, of one in 200, from which a server does not start or does not serve each model.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from click import ClickException

from hinged.client import Client
from hinged.commands.backup import checked, opened, read_index
from hinged.service.edge.keys import read_keys
from hinged.service.errors import Invalid, StoreUnavailable
from hinged.service.store.base import Damaged, Lost
from hinged.service.store.division import division_of, name_of
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.faults.recorded_disk import Disk, Recording, on_disk, put
from tests.helpers import server, zygote
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

DENSE = {"kernel": {"type": "rbf", "gamma": 1.0}, "C": 10, "features": {"type": "dense", "dim": 2}}
CONFIGURATIONS = [DENSE | {"solver": "exact"}, DENSE, DENSE | {"window": {"examples": 30}}]
BACKUP = "backup-"
SHARES = (0, 1, 0.1, 0.5, 0.9)
"""Shares of the unsynced writes that reach the disk."""
SERVED_EVERY = 200
KEYS = """
import sys
from pathlib import Path
from hinged.service.edge.keys import create_key, revoke_key
for line in sys.stdin:
    what, name = line.split()
    create_key(Path(sys.argv[1]), name, "reader") if what == "create" else revoke_key(Path(sys.argv[1]), name)
    print("done", flush=True)
"""


class History:
    """One history of a server.

    told: after each mark, the events of each model by position, and the names of the keys. forgotten: marks of the
    acknowledgements by id. backups: the same of the backups by file.
    """

    def __init__(self, store, seed, steps):
        self.rng, self.store = random.Random(seed), store
        self.told, self.forgotten, self.known, self.named = [({}, [])], {}, {}, []
        self.backups = {}
        self.serial = 0
        self.server = store.server
        with ExitStack() as stack:
            stack.enter_context(store)
            self.key_maker = subprocess.Popen(
                [sys.executable, "-c", KEYS, str(store.recording.root / "keys.json")], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env=self.server.env | store.recording.env,
            )  # fmt: skip
            stack.callback(self.key_maker.communicate)
            self.client = stack.enter_context(Client(self.server.url))
            self.start()
            for _ in range(steps):
                doable = [self.create, self.change_keys, self.start_again]
                if self.known:
                    doable += 6 * [self.learn] + 3 * [self.forget, self.correct]
                    doable += [self.label, self.delete, self.back_up]
                self.rng.choice(doable)()
                self.acknowledge()
            self.server.kill_all()

    def acknowledge(self):
        """Note what the store now holds, and record that all of it is acknowledged."""
        self.told.append((self.store.events(), sorted(self.named)))
        self.store.recording.mark(len(self.told) - 1)

    def start(self):
        self.server.start()
        self.client.wait_until_ready(PATIENCE_S)

    def start_again(self):
        if self.rng.random() < 0.5:
            self.server.terminate()
        else:
            self.server.kill_all()
        self.store.start_again(self.rng)
        self.start()
        for name in self.known:
            eventually(lambda name=name: self.client.model(name)["state"] == "serving")

    def name(self, kind):
        self.serial += 1
        return f"{kind}-{self.serial}-{self.rng.random():.9f}"

    def create(self):
        name = f"model{len(self.told)}"
        self.client.create_model(name, **self.rng.choice(CONFIGURATIONS))
        eventually(lambda: self.client.model(name)["state"] == "serving")
        self.known[name] = []

    def delete(self):
        name = self.rng.choice(list(self.known))
        self.client.delete_model(name)
        del self.known[name]

    def model(self):
        return self.rng.choice(list(self.known.items()))

    def examples(self, count):
        return [
            {"id": self.name("example"), "x": [self.rng.gauss(0, 1), self.rng.gauss(0, 1)], "y": self.rng.choice("ab")}
            for _ in range(count)
        ]

    def learn(self):
        model, ids = self.model()
        examples = self.examples(self.rng.choice([1, 1, 5, 30]))
        self.client.learn(model, examples)
        ids += [example["id"] for example in examples]

    def change(self, change):
        """Change one example of a model, if it has any that it still knows. Return the id."""
        model, ids = self.model()
        given = ids.pop(self.rng.randrange(len(ids))) if ids else None
        if given and self.client.example(model, given):
            self.client.wait(change(model, given))
            return given
        return None

    def forget(self):
        if given := self.change(self.client.forget):
            self.forgotten[given] = len(self.told)

    def correct(self):
        self.change(lambda model, given: self.client.correct(model, given, self.rng.choice("ab")))

    def label(self):
        model, ids = self.model()
        offered = self.examples(3)
        self.client.offer(model, [{"id": each["id"], "x": each["x"]} for each in offered])
        self.client.learn(model, [{"id": offered[0]["id"], "y": "a"}])
        ids.append(offered[0]["id"])

    def back_up(self):
        """Write a backup of all models to a tar file or a folder."""
        name = f"{BACKUP}{len(self.told)}{self.rng.choice(['.tar', '.tar.gz', '', ''])}"
        command = [sys.executable, "-m", "hinged", "backup", "--url", self.server.url, self.store.recording.root / name]
        subprocess.run(command, env=self.server.env | self.store.recording.env, check=True, capture_output=True)
        self.backups[name] = len(self.told)

    def change_keys(self):
        """Make or revoke a key."""
        if self.named and self.rng.random() < 0.4:
            what, name = "revoke", self.named.pop()
        else:
            what, name = "create", f"key{len(self.told)}"
            self.named.append(name)
        self.key_maker.stdin.write(f"{what} {name}\n")
        self.key_maker.stdin.flush()
        assert self.key_maker.stdout.readline() == "done\n"


def events_of(data, *, reading=False):
    """Return the events of each model by position, of a whole or a divided store."""
    division = division_of(data)
    if division is None:
        return {}
    found = {}
    for folder in [data / name_of(number + 1, division) for number in range(division)] or [data]:
        if reading and not (folder / "hinged.db").exists():
            continue
        with closing(SQLiteStore(folder, reading=reading)) as store:
            found |= {name: dict(store.read(name, 0)) for name in store.models()}
    return found


def without_backups(files):
    """Return the contents of the files that are no backups. A backup keeps what is forgotten later."""
    return tuple(content for path, content in files.items() if not path.startswith(BACKUP))


class SQLiteDisk:
    """A recorded disk with the store of a server, SQLite."""

    def __init__(self, folder, rng):
        self.recording = Recording(folder, folder / "disk")
        self.data, self.processes = self.recording.root / "data", rng.choice([1, 1, 2])
        self.server = RunningServer(self.data, snapshot_examples=40, processes=self.processes)
        self.server.log = folder / "server.log"
        self.server.env |= self.recording.env

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start_again(self, rng):
        """Start what has to run before the server."""

    def events(self):
        return events_of(self.data, reading=True)

    def opened(self, files, root):
        """Open a state of the disk. Return its events, and all bytes that were on it before and after."""
        found = events_of(root / "data")
        return found, (*without_backups(files), *without_backups(on_disk(root)))

    def served(self, root, found):
        return served(found, RunningServer(root / "data", processes=self.processes))


class RedisDisk:
    """A recorded disk of the Redis server that is the store of a server."""

    def __init__(self, folder, rng):
        del rng
        self.recording = Recording(folder, folder / "disk")
        self.redis = RedisServer(self.recording.root, environment=self.recording.env)
        self.redis.log = folder / "redis.log"
        self.server = RunningServer(folder / "data", snapshot_examples=40, store=self.redis.url)

    def __enter__(self):
        self.redis.start()
        self.recording.sync(".")  # Redis leaves it to the file system to write the name of its new folder
        return self

    def __exit__(self, *_):
        self.redis.kill()

    def start_again(self, rng):
        """Stop, kill or keep the Redis server, or let it write its files again."""
        todo = rng.choice(["stop", "kill", "rewrite", "keep"])
        if todo == "rewrite":
            with self.redis.client() as client:
                client.bgrewriteaof()
        elif todo != "keep":
            getattr(self.redis, todo)()
            self.redis.start()

    def events(self):
        with closing(RedisStore(self.redis.url, reading=True)) as store:
            return {name: dict(store.read(name, 0)) for name in store.models()}

    def opened(self, files, root):
        """As of SQLiteDisk. Redis removes old files in the background, so only the files of a stopped Redis count."""
        del files
        redis = RedisServer(root)
        redis.log = root.with_suffix(".log")
        with suppress(RuntimeError):
            redis.start()
        if redis.process.poll() is not None:  # sectors of the last write are missing
            manifest = root / "appendonlydir" / "appendonly.aof.manifest"
            subprocess.run(
                ["redis-check-aof", "--fix", manifest], input="y", text=True, check=False, capture_output=True
            )
            try:
                redis.start()
            except RuntimeError as error:
                raise StoreUnavailable(f"Redis does not start: {error}") from error
        with closing(RedisStore(redis.url)) as store:
            found = {name: self._sound(store.read(name, 0)) for name in store.models()}
        redis.stop()
        return found, without_backups(on_disk(root))

    def _sound(self, events):
        """Return the events by position, up to an event of which sectors are missing. Redis does not notice these."""
        found = []
        with suppress(Damaged):
            found.extend(events)
        return dict(found)

    def served(self, root, found):
        with RedisServer(root) as redis:
            return served(found, RunningServer(root / "data", store=redis.url))


STORES = {"sqlite": SQLiteDisk, "redis": RedisDisk}


def compare(found, before, after):
    """Return how many events are lost, and how many are invented, where a request was in progress after `before`."""
    lost = invented = 0
    for name in found.keys() | before.keys() | after.keys():
        old, new = before.get(name, {}), after.get(name, {})
        if name not in found:
            lost += len(old) if name in after else 0
            continue
        if name not in before and name not in after:
            invented += 1
            continue
        lost += sum(position not in found[name] for position in (old.keys() & new.keys() if name in after else old))
        invented += sum(event not in (old.get(at), new.get(at)) for at, event in found[name].items())
    return lost, invented


def open_state(files, history, acknowledged, results):
    """Open one state of the disk and count what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        put(files, root)
        (before, keys), (after, keys_after) = (
            history.told[min(acknowledged + more, len(history.told) - 1)] for more in (0, 1)
        )
        try:
            found, content = history.store.opened(files, root)
            named = [key.name for key in read_keys(root / "keys.json")] if (root / "keys.json").exists() else []
        except (StoreUnavailable, Invalid, OSError) as error:
            results["unopenable"] += 1
            print(f"unopenable: {error}")
            return
        results["unopenable"] += any(isinstance(event, Lost) for log in found.values() for event in log.values())
        lost, invented = compare(found, before, after)
        results["lost"] += lost
        results["invented"] += invented
        results["keys"] += sorted(named) not in (keys, keys_after)
        results["backups"] += sum(
            not is_whole(root / name) if (root / name).exists() else mark <= acknowledged
            for name, mark in history.backups.items()
        )
        content = b"\0".join(content)
        gone = [given for given, mark in history.forgotten.items() if mark <= acknowledged]
        results["bytes"] += any(given.encode() in content for given in gone)
        if results["states"] % SERVED_EVERY == 0:
            results["served"] += 1
            results["unserved"] += not history.store.served(root, found)


def is_whole(backup):
    """Return whether `hinged restore` accepts all files of a backup."""
    try:
        with opened(backup) as place:
            for model in read_index(place, backup):
                checked(place, model, backup)
    except ClickException:
        return False
    return True


def served(models, running):
    """Return whether a server starts and serves these models."""
    with running, Client(running.url) as client:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            states = {client.model(name)["state"] for name in models}
            if states.isdisjoint({"compiling", "loading"}):
                return states <= {"serving"}
            time.sleep(0.1)
    return False


def cut_everywhere(disk_of, folder, seed, steps, states, results):
    """Run one history, and open some states of the disk that a power cut may leave."""
    rng = random.Random(seed)
    recorded = disk_of(folder, rng)
    history = History(recorded, seed, steps)
    calls = recorded.recording.calls()
    per_call = states / max(1, len(calls))
    disk, seen = Disk(), set()
    for call in calls:
        disk.do(*call)
        results["calls"] += 1
        for _ in range(int(per_call) + (rng.random() < per_call % 1)):
            files = disk.left(rng, rng.choice(SHARES))
            if (key := hash((disk.acknowledged, *files.items()))) not in seen:
                seen.add(key)
                results["states"] += 1
                open_state(files, history, disk.acknowledged, results)
    assert disk.written() == on_disk(recorded.recording.root), "the recording is not complete"


def main(histories, states, seed, steps=40, store="sqlite"):
    """Run histories with this many states each; return the results."""
    results = Counter(unopenable=0, lost=0, invented=0, bytes=0, keys=0, backups=0, unserved=0)
    for number in range(histories):
        with tempfile.TemporaryDirectory() as folder:
            cut_everywhere(STORES[store], Path(folder), seed + number, steps, states, results)
    return results


FAULTS = ("unopenable", "lost", "invented", "bytes", "keys", "backups", "unserved")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--states", type=int, default=100, help="states of each history")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--store", choices=STORES, default="sqlite")
    options = parser.parse_args()
    server.forked = zygote.start  # the servers start many times
    results = main(options.histories, options.states, options.seed, store=options.store)
    print(f"{options.histories} histories, seed {options.seed}:", ", ".join(f"{k}: {v}" for k, v in results.items()))
    sys.exit(any(results[fault] for fault in FAULTS))
