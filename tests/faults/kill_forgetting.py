"""Faults at random moments while examples are forgotten.

    python -m tests.faults.kill_forgetting --fault kill-server --times 50
    python -m tests.faults.kill_forgetting --store redis --fault kill-both --times 50

Clients learn examples, forget some of their examples and correct some. One model forgets and corrects in place; the
other model is retrained. Each request is sent again until it is answered. Meanwhile the fault happens repeatedly. At
the end the server is killed and restarted, and the jobs in progress end. The results are:

forgotten   Number of forgotten examples. Each request was answered with 200, or its job is done.
undone      Number of forgotten examples for which the server does not answer that they are gone (410).
unfinished  Number of requests that were answered with 202, but their job is not done.
bytes       Number of forgotten examples whose id or numbers are in a file of the store. Files `temp-*` of a Redis that
            was killed while it rewrote its files are counted separately.
untold      Number of forgotten examples in `temp-*` for which neither the answer nor the job said that they may be
            there.
lost        Number of acknowledged examples that the server no longer knows although no client asked to forget them.
state       Whether the recovered state (newest snapshot and the log after it) and the state from the log alone are
            equal to the bit.
"""

import itertools
import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field

import httpx
import numpy as np

from tests.faults.disturbances import impatient
from tests.faults.program import run_program
from tests.helpers.server import PLAIN, until_compiled
from tests.helpers.states import digest_of, load_model

KERNEL = {"kernel": {"type": "rbf", "gamma": 1.0}, "C": 10, "features": {"type": "dense", "dim": 2}}
MODELS = {"in-place": KERNEL | {"solver": "exact"}, "anew": KERNEL}
SIZES = {"cache_bytes": 2**24, "answers_kept": 100_000}


@dataclass
class Told:
    """The answers about one model.

    learned: x and y by id. asked: ids that a client asked to forget. forgotten: ids that were forgotten. jobs: path of
    each job by id. unwritten: by id, the parts that were reported as unwritten.
    """

    learned: dict = field(default_factory=dict)
    asked: set = field(default_factory=set)
    forgotten: set = field(default_factory=set)
    jobs: dict = field(default_factory=dict)
    unwritten: dict = field(default_factory=dict)


class Traffic:
    """The clients' requests and their answers."""

    def __init__(self, url, seed):
        self.url, self.seed = url, seed
        self.told = {name: Told() for name in MODELS}
        self.stop = threading.Event()
        self.requests = self.retries = 0
        self.errors = []

    def client(self, number):
        rng = random.Random(self.seed * 1000 + number)
        serial = itertools.count()
        mine = {name: [] for name in MODELS}
        try:
            with httpx.Client(base_url=self.url, timeout=30, verify=PLAIN) as http:
                while not self.stop.is_set():
                    name = rng.choice(list(MODELS))
                    if mine[name] and rng.random() < 0.3:
                        self.change(http, name, mine[name], rng)
                    else:
                        self.learn(http, name, mine[name], rng, f"example-{number}-{next(serial)}-{rng.random():.9f}")
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            self.errors.append(error)

    def send(self, http, method, path, body=None):
        """Send a request until it is answered; return None once the run is over."""
        while True:
            self.requests += 1
            try:
                answer = http.request(method, path, json=body)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in (429, 503):
                assert answer.status_code in (200, 202), f"{method} {path}: {answer.text}"
                return answer
            if self.stop.is_set():
                return None
            self.retries += 1
            time.sleep(0.02)

    def learn(self, http, name, mine, rng, given):
        count = rng.choice([1, 1, 3])
        examples = []
        for k in range(count):
            y = rng.random() < 0.5
            examples.append({"id": f"{given}-{k}", "x": [rng.gauss(1 if y else -1, 1), rng.gauss(0, 1)], "y": y})
        if self.send(http, "POST", f"/models/{name}/learn", {"examples": examples}):
            self.told[name].learned |= {e["id"]: (e["x"], e["y"]) for e in examples}
            mine += [e["id"] for e in examples]

    def change(self, http, name, mine, rng):
        told, given = self.told[name], mine.pop(rng.randrange(len(mine)))
        path = f"/models/{name}/examples/{given}"
        if rng.random() < 0.3:
            told.learned.pop(given)  # the new label is not checked
            self.send(http, "PUT", path, {"y": rng.random() < 0.5})
            return
        told.asked.add(given)
        answer = self.send(http, "DELETE", path)
        if answer is not None and answer.status_code == 200:
            told.forgotten.add(given)
            told.unwritten[given] = answer.json().get("unwritten", [])
        elif answer is not None:
            told.jobs[given] = answer.json()["job"]


class WithoutSnapshots:
    """A store without snapshots."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def snapshots(self, model):  # noqa: ARG002
        return []


def ended(url, told, seconds=120):
    """Wait until the jobs have ended; return how many are not done."""
    left, end = set(told.jobs.values()), time.monotonic() + seconds
    while left and time.monotonic() < end:
        for job in list(left):
            answer = httpx.get(f"{url}{job}", timeout=60, verify=PLAIN)
            # The server remembers the newest hundred jobs. `undone` also checks the older jobs.
            old = answer.status_code == 404 and len(told.jobs) > 100
            if old or answer.json()["state"] == "done":
                left.remove(job)
                said = answer.json().get("unwritten", [])
                told.unwritten |= {given: said for given, of in told.jobs.items() if of == job and not old}
        time.sleep(0.1)
    told.forgotten |= {given for given, job in told.jobs.items() if job not in left}
    return len(left)


def asked_again(url, name, told):
    """Send each example again; return how many forgotten examples still exist, and how many examples are lost."""
    undone = lost = 0
    with httpx.Client(base_url=url, timeout=60, verify=PLAIN) as http:
        for given, (x, y) in told.learned.items():
            if given in told.asked - told.forgotten:
                continue  # the example may be forgotten or not
            answer = http.post(f"/models/{name}/learn", json={"examples": [{"id": given, "x": x, "y": y}]})
            if given in told.forgotten:
                undone += answer.status_code != 410
            else:
                lost += answer.status_code != 200 or not answer.json()["results"][0]["duplicate"]
    return {"undone": undone, "lost": lost}


def in_files(folder, told):
    """Count the examples that left bytes in a file: the forgotten examples, and all other examples."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    left = b"\0".join(path.read_bytes() for path in files if path.name.startswith("temp-"))
    content = b"\0".join(path.read_bytes() for path in files if not path.name.startswith("temp-"))

    def stays(given, content):
        x = told.learned[given][0]
        return given.encode() in content or any(np.array(x, t).tobytes() in content for t in (np.float32, np.float64))

    return {
        "bytes": sum(stays(given, content) for given in told.forgotten),
        "bytes in temp-*": sum(stays(given, left) for given in told.forgotten),
        "untold": sum(stays(given, left) and "temp-*" not in str(said) for given, said in told.unwritten.items()),
        "other bytes": sum(stays(given, content) for given in told.learned.keys() - told.asked),
    }


def check_state(store, name):
    """Return whether a snapshot and the log after it give the same state as the log alone."""
    recovered, folded = load_model(store, name, **SIZES), load_model(WithoutSnapshots(store), name, **SIZES)
    return {
        "snapshots": len(store.snapshots(name)),
        "recovered = folded": digest_of(recovered) == digest_of(folded) and recovered.position == folded.position,
    }


def run(scene, faults, clients, seed, load_s=(0.2, 1.2)):
    """Cause `faults` one after the other; return the results by model, and the traffic."""
    rng, traffic = random.Random(seed), Traffic(scene.url, seed)
    for name, body in MODELS.items():
        answer = httpx.put(f"{scene.url}/models/{name}", json=body, timeout=300)
        assert answer.status_code == 201, answer.text
    until_compiled(scene.url, MODELS)
    threads = [threading.Thread(target=traffic.client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        for fault in faults:
            time.sleep(rng.uniform(*load_s))
            fault(scene, rng)
    finally:
        traffic.stop.set()
        for thread in threads:
            thread.join()
    if traffic.errors:
        raise traffic.errors[0]
    scene.server.kill_all()
    scene.server.start()
    figures = {}
    for name, told in traffic.told.items():
        figures[name] = {"learned": len(told.learned), "jobs": len(told.jobs), "unfinished": ended(scene.url, told)}
        figures[name] |= {"forgotten": len(told.forgotten)} | asked_again(scene.url, name, told)
    scene.server.kill_all()
    for name, told in traffic.told.items():
        figures[name] |= in_files(scene.data, told)
    for name in MODELS:
        with closing(scene.open_store(name)) as store:
            figures[name] |= check_state(store, name)
    return figures, traffic


def faultless(found):
    """Return whether the forgotten examples are gone, and no other examples."""
    counts = found["undone"], found["unfinished"], found["lost"], found["bytes"], found["untold"]
    return not any(counts) and found["recovered = folded"]


if __name__ == "__main__":
    run_program(__doc__, run, faultless, left_out=(impatient,))
