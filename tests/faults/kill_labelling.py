"""Send kill -9 to the server at random moments while annotators label.

    python -m tests.faults.kill_labelling --kills 100 --annotators 6

Annotators offer candidates and ask for questions with request ids. They answer with the lease, renew it, give it back,
skip the candidate, or let the lease run out and answer late. They label predictions by id alone. One model needs two
labels for a candidate and keeps predictions durably. The other model has named features whose warm-up ends meanwhile.
Each request is sent again until it is answered. Meanwhile the server is killed at random moments and restarted. At the
end the log is read without a server, and compared with a plain pool and with the annotators' answers:

lost answers      Acknowledged answers that are neither learned nor among the collected labels.
learned twice     Examples that are in the log more than once, or without the majority of as many different annotators
                  as needed (one more if no label led).
collisions        Candidates on which more annotators than needed labels had a lease at the same time.
lost candidates   Acknowledged candidates that are neither learned, nor in the pool, nor dropped by a full pool.
lost leases       Acknowledged leases that are missing or different in the log or the recovered state, or that were
                  refused too early.
lost predictions  Predictions that were acknowledged as durable, but whose label was refused.
state             Whether the recovered state (newest snapshot and the log after it) and the state from the log alone
                  are equal to the bit.
"""

import argparse
import itertools
import json
import random
import tempfile
import threading
import time
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import httpx

from hinged.service.data.configuration import new_configuration
from hinged.service.model.events import decode_event
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.sqlite import SQLiteStore
from tests.faults.plain_pool import POOL_MAX, PlainPool, most_at_once
from tests.helpers.server import PLAIN, RunningServer, eventually
from tests.helpers.states import digest_of, load_model

WARMUP = 100
CONFIGURATIONS = {
    "pairs": {
        "kernel": {"type": "rbf", "gamma": 1.0},
        "C": 10,
        "features": {"type": "dense", "dim": 2},
        "labels": {"overlap": 2, "pool_max": POOL_MAX, "pending_durable": True},
    },
    "people": {
        "kernel": {"type": "rbf", "gamma": "auto"},
        "features": {"type": "named", "warmup": WARMUP},
        "labels": {"pool_max": POOL_MAX},
    },
}
SIZES = {"cache_bytes": 2**24, "answers_kept": 100_000}
ANSWERS = 6  # minimum number of answers of each model that a server accepts before it is killed


@dataclass
class Told:
    """The answers that annotators got about one model.

    offered: acknowledged candidates. held: by candidate, the annotator with begin and end in milliseconds since 1970;
    an interval may be too short, never too long. leases: by token, the annotator, the candidate and the last known end.
    left: tokens that were given back, skipped or answered, acknowledged or not. answers: annotator, candidate, label,
    duplicate. refused: candidate, token and time of each lease that was refused before the end that its question named.
    labelled: predictions whose label was accepted. lost_predictions: predictions whose label was refused.
    """

    offered: set = field(default_factory=set)
    held: dict = field(default_factory=lambda: defaultdict(list))
    leases: dict = field(default_factory=dict)
    left: set = field(default_factory=set)
    answers: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    labelled: list = field(default_factory=list)
    lost_predictions: list = field(default_factory=list)


@dataclass
class Traffic:
    """The answers about all models, and counts of requests."""

    told: dict = field(default_factory=lambda: {name: Told() for name in CONFIGURATIONS})
    requests: Counter = field(default_factory=Counter)
    retries: int = 0


def now_ms():
    return time.time_ns() / 1e6


def time_of(shown):
    return datetime.fromisoformat(shown).timestamp() * 1000


def example(model, rng):
    """Return an x and its true label."""
    y = rng.random() < 0.5
    if model == "pairs":
        return [rng.gauss(1.0 if y else -1.0, 1.0), rng.gauss(0.0, 1.0)], y
    job = rng.choice(["cook", "smith"] if y else ["clerk", "cook"])
    return {"age": round(rng.gauss(50 if y else 35, 10)), "job": job, f"note-{rng.randrange(9)}": True}, y


class Annotator:
    """Does the work of one annotator, who knows the true labels of all models."""

    def __init__(self, number, url, seed, traffic, truth, stop):
        self.name = f"annotator-{number}"
        self.rng = random.Random(seed * 1000 + number)
        self.http = httpx.Client(base_url=url, timeout=30, verify=PLAIN)
        self.traffic, self.truth, self.stop = traffic, truth, stop
        self.serial = itertools.count()
        self.late = {name: [] for name in CONFIGURATIONS}  # questions whose leases may run out
        self.waiting = {name: [] for name in CONFIGURATIONS}  # ids of predictions

    def work(self):
        with self.http:
            while not self.stop.is_set():
                model = self.rng.choice(list(CONFIGURATIONS))
                rest = [self.predict, self.label_prediction, self.answer_late]
                self.rng.choices([self.offer, self.ask, *rest], [4, 8, 2, 2, 1])[0](model)

    def send(self, what, route, body):
        """Send a request until it is answered; return None once the run is over."""
        while True:
            self.traffic.requests[what] += 1
            try:
                answer = self.http.post(f"/models/{route}", json=body)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code in (200, 404):
                return answer
            if answer is not None and answer.status_code not in (429, 503):
                raise AssertionError(f"{what}: {answer.text}")
            if self.stop.is_set():
                return None
            self.traffic.retries += 1
            time.sleep(0.05)

    def examples(self, model):
        found = []
        for _ in range(self.rng.choice([1, 3, 12])):
            given = f"{self.name}-{next(self.serial)}"
            x, self.truth[given] = example(model, self.rng)
            found.append({"id": given, "x": x})
        return found

    def offer(self, model):
        examples = self.examples(model)
        if self.send("offer", f"{model}/pool", {"examples": examples}):
            self.traffic.told[model].offered |= {e["id"] for e in examples}

    def ask(self, model):
        told, lease_s = self.traffic.told[model], self.rng.choice([0.2, 1.0, 5.0])
        body = {
            "n": self.rng.randint(1, 4),
            "annotator": self.name,
            "lease_s": lease_s,
            "request_id": uuid.UUID(int=self.rng.getrandbits(128)).hex,
            "strategy": self.rng.choice(["active", "active", "autoactive", "random"]),
        }
        answer = self.send("ask", f"{model}/queries", body)
        for question in answer.json()["queries"] if answer else ():
            end = time_of(question["expires_at"])
            told.leases[question["lease"]] = (self.name, question["id"], end)
            told.held[question["id"]].append([now_ms(), end, self.name])
            self.answer(model, question, end)

    def answer(self, model, question, end):
        """Answer a question, or do one of the other things that annotators do."""
        told, lease, held = self.traffic.told[model], question["lease"], self.traffic.told[model].held[question["id"]]
        chosen = self.rng.choices(["label", "heartbeat", "release", "skip", "let go"], [8, 2, 1, 1, 1])[0]
        time.sleep(self.rng.choice([0, 0, 0.002, 0.02]))
        if chosen == "let go":
            self.late[model].append(question)
            return
        self.close(held)
        if chosen == "heartbeat":
            renewed = self.send("heartbeat", f"{model}/queries/{lease}/heartbeat", {"lease_s": 3})
            if renewed is None:
                told.left.add(lease)
                return
            if renewed.status_code == 404:
                self.note_refusal(told, question, end)
                return
            end = time_of(renewed.json()["expires_at"])
            told.leases[lease] = (self.name, question["id"], end)
            held.append([now_ms(), end, self.name])
            time.sleep(self.rng.choice([0, 0.01]))
            self.close(held)
        told.left.add(lease)
        if chosen in ("release", "skip"):
            before = self.traffic.retries
            body = {"for": self.rng.choice(["me", "me", "all"])} if chosen == "skip" else {}
            done = self.send(chosen, f"{model}/queries/{lease}/{chosen}", body)
            if done and done.status_code == 404 and self.traffic.retries == before:
                self.note_refusal(told, question, end)
        else:
            self.label(model, question, end)

    def label(self, model, question, end):
        told, given = self.traffic.told[model], question["id"]
        y = self.truth[given] ^ (self.rng.random() < 0.1)
        answer = self.send("label", f"{model}/learn", {"examples": [{"id": given, "y": y, "lease": question["lease"]}]})
        if answer and answer.status_code == 404:
            self.note_refusal(told, question, end)
        elif answer:
            told.answers.append((self.name, given, y, answer.json()["results"][0]["duplicate"]))

    def answer_late(self, model):
        if self.late[model]:
            question = self.late[model].pop(0)
            self.traffic.told[model].left.add(question["lease"])
            self.close(self.traffic.told[model].held[question["id"]])
            self.label(model, question, time_of(question["expires_at"]))

    def predict(self, model):
        examples = self.examples(model)
        if self.send("predict", f"{model}/predict", {"examples": examples}):
            self.waiting[model] += [e["id"] for e in examples]

    def label_prediction(self, model):
        if not self.waiting[model]:
            return
        told, given = self.traffic.told[model], self.waiting[model].pop(0)
        body = {"examples": [{"id": given, "y": self.truth[given]}]}
        answer = self.send("label by id", f"{model}/learn", body)
        if answer:
            (told.labelled if answer.status_code == 200 else told.lost_predictions).append(given)

    def close(self, held):
        """Record that the annotator no longer relies on the lease from now on."""
        now = now_ms()
        for interval in held:
            if interval[2] == self.name:
                interval[1] = min(interval[1], now)

    @staticmethod
    def note_refusal(told, question, end):
        # If a label from an earlier holder has arrived, the lease no longer exists. The log shows what was learned.
        if now_ms() < end:
            told.refused.append((question["id"], question["lease"], now_ms()))


def check_model(store, name, told):
    """Return the results of one model."""
    log = [decode_event(record.kind, record.payload) for _, record in store.read(name, 0)]
    configuration = new_configuration(json.dumps(CONFIGURATIONS[name]), Settings())
    folded, overlap = Model(name, configuration, **SIZES), configuration.labels.overlap
    plain = PlainPool(overlap)
    for position, event in enumerate(log, 1):
        folded.apply(position, event)
        plain.take(event)
    recovered = load_model(store, name, **SIZES)
    votes = {(a, g): y for g, found in plain.candidates.items() for a, y in found.items()}
    votes |= {(a, g): y for g, (_, found) in plain.learned.items() for a, y in found.items()}

    def arrived(annotator, given, y, duplicate):
        if duplicate:
            return given in plain.learned or (annotator, given) in votes
        return votes.get((annotator, given)) == y if overlap > 1 else plain.learned.get(given, [None])[0] == y

    pool = [c.id for c in recovered.pool]
    leases = {lease.token: lease for c in recovered.pool for lease in c.leases}
    open_ones = {
        token: told.leases[token]
        for token in set(told.leases) - told.left
        if told.leases[token][1] in plain.candidates and told.leases[token][2] > recovered.at_ms
    }
    return {
        "learned": len(plain.learned),
        "in the pool": len(pool),
        "dropped": len(plain.dropped),
        "answers": len(told.answers),
        "late or twice": sum(duplicate for *_, duplicate in told.answers),
        "labels by id alone": len(told.labelled),
        "leases": len(told.leases),
        "open at the end": len(open_ones),
        "lost answers": sum(not arrived(*answer) for answer in told.answers)
        + sum(given not in plain.learned for given in told.labelled),
        "learned twice": plain.twice,
        "collisions": plain.collisions + sum(most_at_once(held) > overlap for held in told.held.values()),
        "lost candidates": len(told.offered - set(pool) - set(plain.learned) - plain.dropped)
        + (pool != list(plain.candidates)),
        "lost leases": sum(
            [a, given] != plain.leases.get(token, [None, None])[:2] for token, (a, given, _) in told.leases.items()
        )
        + sum(
            token not in leases or leases[token].closed or leases[token].expires_ms < int(end)
            for token, (_, _, end) in open_ones.items()
        )
        # A question that was sent twice may have been given back once, or renewed for less time than its lease. A full
        # pool drops candidates on which, according to the log, nobody works any more.
        + sum(
            given not in plain.learned and (given not in plain.dropped or plain.held_at(token, at))
            for given, token, at in told.refused
        ),
        "lost predictions": len(told.lost_predictions) if configuration.labels.pending_durable else 0,
        "predictions not durable": 0 if configuration.labels.pending_durable else len(told.lost_predictions),
        "warm": recovered.configuration.features.IN_ROWS or not recovered.learner.warmup.active,
        "snapshots": store.snapshots(name),
        "recovered = folded": digest_of(recovered) == digest_of(folded) and recovered.position == folded.position,
    }


FAULTS = ("lost answers", "learned twice", "collisions", "lost candidates", "lost leases", "lost predictions")


def has_taken(traffic, before):
    """Return whether each model has accepted enough further answers."""
    return all(len(told.answers) >= n + ANSWERS for told, n in zip(traffic.told.values(), before, strict=True))


def run(folder, kills, annotators, seed, load_s=(0.2, 1.2)):
    """Kill the server `kills` times; return the results by model, and the traffic."""
    rng = random.Random(seed)
    server = RunningServer(folder / "data", limits={"pending_flush_s": 0.2}, snapshot_examples=10, shutdown_s=20)
    traffic, truth, stop = Traffic(), {}, threading.Event()
    server.start()
    for name, configuration in CONFIGURATIONS.items():
        answer = httpx.put(f"{server.url}/models/{name}", json=configuration)
        assert answer.status_code == 201, answer.text
    errors = []

    def work(number):
        try:
            Annotator(number, server.url, seed, traffic, truth, stop).work()
        except BaseException as error:  # noqa: BLE001  raised again in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(annotators)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            taken = [len(told.answers) for told in traffic.told.values()]
            time.sleep(rng.uniform(*load_s))
            eventually(lambda taken=taken: errors or has_taken(traffic, taken))
            server.kill()
            server.start()
        time.sleep(0.3)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        server.kill()  # without a last snapshot, because recovery is tested
    if errors:
        raise errors[0]
    store = SQLiteStore(folder / "data")
    try:
        return {name: check_model(store, name, traffic.told[name]) for name in CONFIGURATIONS}, traffic
    finally:
        store.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--annotators", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        figures, traffic = run(Path(folder), options.kills, options.annotators, options.seed)
    requests = ", ".join(f"{what}: {count}" for what, count in traffic.requests.items())
    print(f"{options.kills} kills, {traffic.requests.total()} requests ({requests}), {traffic.retries} of them retries")
    for name, found in figures.items():
        print(name, *(f"{key}: {value}" for key, value in found.items()), sep="\n    ")
    if any(found[fault] for found in figures.values() for fault in FAULTS):
        raise SystemExit("something was lost, learned twice or lent twice")
    if not all(found["recovered = folded"] for found in figures.values()):
        raise SystemExit("a recovered state differs from its log")


if __name__ == "__main__":
    main()
