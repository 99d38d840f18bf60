"""Faults at random moments under concurrent load: kill -9 of the server, and the other faults of disturbances.py.

    python -m tests.faults.under_load --fault kill-server --times 100 --clients 6
    python -m tests.faults.under_load --store redis --fault all --times 20

Clients learn examples of two models in requests of random size. Most examples have ids. A request with ids that was cut
off is sent again until it is answered. Meanwhile the fault happens repeatedly. At the end the server is killed, and its
log is compared with the requests and the answers of the clients:

lost        Number of acknowledged examples that are not in the log.
invented    Number of examples in the log that were never sent.
twice       Number of examples that are in the log more than once.
state       Whether three states are equal to the bit: the recovered state (newest snapshot and the log after it), the
            state from the log alone, and the state of an uninterrupted model that learned the examples one by one.
answers     Whether the clients' answers contain the same predictions and scores as the uninterrupted model gives.
"""

import functools
import json
import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field

import httpx

from hinged.service.commands.learn import make_plan
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.configuration import new_configuration
from hinged.service.data.examples import digests, to_inputs
from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.faults.disturbances import impatient
from tests.faults.program import run_program
from tests.helpers.server import PLAIN
from tests.helpers.states import digest_of, load_model

CONFIGURATIONS = {
    "two-moons": {"kernel": {"type": "rbf", "gamma": 1.0}, "C": 10, "features": {"type": "dense", "dim": 2}},
    "three-heaps": {"kernel": {"type": "laplacian", "gamma": 0.5}, "C": 5, "features": {"type": "sparse", "dim": 50}},
}
IMPATIENT_S = (0.02, 0.05, 0.1, 30)
"""Seconds that clients wait, when some of them are impatient."""
SIZES = {"cache_bytes": 2**24, "answers_kept": 100_000}


@dataclass
class Traffic:
    """The requests of the clients and their answers.

    sent: by model, the content of each example by id. nameless: by model, the contents without id.
    """

    sent: dict = field(default_factory=lambda: {name: {} for name in CONFIGURATIONS})
    nameless: dict = field(default_factory=lambda: {name: set() for name in CONFIGURATIONS})
    acknowledged: dict = field(default_factory=lambda: {name: {} for name in CONFIGURATIONS})
    requests: int = 0
    retries: int = 0
    differing: list = field(default_factory=list)


def example(model, rng):
    if model == "two-moons":
        y = rng.random() < 0.5
        x = [rng.gauss(1.0 if y else -1.0, 1.0), rng.gauss(0.0, 1.0)]
        return x, y
    y = rng.choice(["a", "b", "c"] if rng.random() < 0.9 else ["a"])
    indices = sorted(rng.sample(range(50), 4))
    return {"indices": indices, "values": [ord(y) - 97.0 + rng.random() for _ in indices]}, y


def client(number, url, seed, traffic, stop, patience_s):
    rng = random.Random(seed * 1000 + number)
    with httpx.Client(base_url=url, timeout=rng.choice(patience_s), verify=PLAIN) as connection:
        converse(connection, number, rng, traffic, stop)


def converse(connection, number, rng, traffic, stop):
    serial = 0
    while not stop.is_set():
        model = rng.choice(list(CONFIGURATIONS))
        with_ids = rng.random() < 0.8
        examples = []
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            x, y = example(model, rng)
            one = {"x": x, "y": y}
            if with_ids:
                serial += 1
                one["id"] = f"c{number}-{serial}"
                traffic.sent[model][one["id"]] = (repr(x), y)
            else:
                traffic.nameless[model].add((repr(x), y))
            examples.append(one)
        results = send(connection, model, examples, with_ids, traffic, stop)
        if results is None:
            continue
        known = traffic.acknowledged[model]
        for result in results:
            known[result["id"]] = (result["prediction"], result["score"])
        if with_ids and rng.random() < 0.05:  # a retry that is not necessary
            again = send(connection, model, examples, with_ids, traffic, stop)
            for result in again or ():
                if not result["duplicate"] or known[result["id"]] != (result["prediction"], result["score"]):
                    traffic.differing.append(result["id"])


def send(connection, model, examples, with_ids, traffic, stop):
    """Return the results of a request.

    Return None if the request was cut off and must not be sent again, or if the run is over.
    """
    while True:
        traffic.requests += 1
        try:
            answer = connection.post(f"/models/{model}/learn", json={"examples": examples})
        except httpx.TransportError:
            answer = None
        if answer is not None and answer.status_code == 200:
            return answer.json()["results"]
        if answer is not None and answer.status_code not in (429, 503):
            raise AssertionError(answer.text)
        if not with_ids or stop.is_set():
            return None
        traffic.retries += 1
        time.sleep(0.02)


def uninterrupted(name, log, traffic_examples):
    """Return a model that learned the examples one by one, in the order of the log, as the clients had sent them."""
    configuration = configuration_of(name)
    model = Model(name, configuration, **SIZES)
    model.apply(1, log[0])
    answers = {}
    for given, identity, x, y in traffic_examples:
        rows = to_inputs([x], configuration)
        plan = make_plan(model, [LearnRequest([given], [y], rows, digests(rows, [y]))], lambda ids: {}, 256, 0)
        outcomes = [model.apply(model.position + 1, event) for event in plan.events]
        number, score = outcomes[-1].predictions[0], outcomes[-1].scores[0]
        answers[identity] = (model.labels.labels[number], score) if number >= 0 else (None, None)
    return model, answers


def check_model(store, name, traffic):
    """Return the results of one model."""
    log = [decode_event(record.kind, record.payload) for _, record in store.read(name, 0)]
    logged = [(event, r) for event in log if isinstance(event, ExamplesLearned) for r in range(len(event.ids))]
    ids = [event.id_of(r) for event, r in logged]
    acknowledged = traffic.acknowledged[name]
    lost = acknowledged.keys() - set(ids)
    invented, stream = [], []
    labels = labels_of(log)
    contents = {content: spelled for spelled in traffic.nameless[name] for content in [content_of(name, spelled)]}
    for (event, r), identity in zip(logged, ids, strict=True):
        given = event.ids[r]
        if given is not None:
            spelled = traffic.sent[name].get(given)
            good = spelled is not None and content_of(name, spelled) == event.contents[r]
        else:
            spelled = contents.get(event.contents[r])
            good = spelled is not None
        if not good or labels[event.classes[r]] != spelled[1]:
            invented.append(identity)
        else:
            stream.append((given, identity, eval(spelled[0], {}), spelled[1]))  # noqa: S307  our own repr
    folded = Model(name, configuration_of(name), **SIZES)
    for position, event in enumerate(log, 1):
        folded.apply(position, event)
    recovered = load_model(store, name, **SIZES)
    never, answers = uninterrupted(name, log, stream)
    return {
        "logged": len(ids),
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "invented": len(invented),
        "twice": len(ids) - len(set(ids)),
        "wrong answers": sum(answers.get(i) != answer for i, answer in acknowledged.items()) + len(traffic.differing),
        "snapshots": store.snapshots(name),
        "recovered = folded": digest_of(recovered) == digest_of(folded) and recovered.position == folded.position,
        "recovered = uninterrupted": digest_of(recovered) == digest_of(never),
    }


CONFIGURATIONS_JSON = {name: json.dumps(c) for name, c in CONFIGURATIONS.items()}


@functools.cache
def configuration_of(name):
    return new_configuration(CONFIGURATIONS_JSON[name], Settings())


def content_of(name, spelled):
    return digests(to_inputs([eval(spelled[0], {})], configuration_of(name)), [spelled[1]])[0]  # noqa: S307


def labels_of(log):
    return [event.label for event in log if event.KIND == "class_added"]


def run(scene, faults, clients, seed, load_s=(0.05, 0.9), copy=None):
    """Cause `faults` one after the other; return the results by model, and the traffic.

    copy: folder to which the files of the killed server are copied.
    """
    patience_s = IMPATIENT_S if impatient in faults else (30,)
    rng = random.Random(seed)
    traffic, stop = Traffic(), threading.Event()
    for name, body in CONFIGURATIONS_JSON.items():
        answer = httpx.put(f"{scene.url}/models/{name}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 201, answer.text
    threads = [
        threading.Thread(target=client, args=(number, scene.url, seed, traffic, stop, patience_s))
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        for fault in faults:
            time.sleep(rng.uniform(*load_s))
            fault(scene, rng)
        time.sleep(0.3)
        answered = sum(map(len, traffic.acknowledged.values()))
        end = time.monotonic() + 30
        while sum(map(len, traffic.acknowledged.values())) == answered:
            assert time.monotonic() < end, "nothing is learned any more"
            time.sleep(0.05)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        scene.server.kill()  # without a last snapshot, because recovery is tested
    if copy is not None:
        scene.copy(copy)
    found = {}
    for name in CONFIGURATIONS:
        with closing(scene.open_store(name)) as store:
            found[name] = check_model(store, name, traffic)
    return found, traffic


def faultless(found):
    """Return whether the results of a model show no fault."""
    return (
        found["lost"] == found["invented"] == found["twice"] == found["wrong answers"] == 0
        and found["recovered = folded"]
        and found["recovered = uninterrupted"]
    )


def check(figures, at_least):
    """Check that more than `at_least` requests were acknowledged for each model, and that no result shows a fault."""
    for name in CONFIGURATIONS:
        assert figures[name]["acknowledged"] > at_least, figures[name]
        assert faultless(figures[name]), figures[name]


if __name__ == "__main__":
    run_program(__doc__, run, faultless)
