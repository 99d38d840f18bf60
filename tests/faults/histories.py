"""Random histories: everything that may happen to models at once, again and again, and whether they can be read after.

    PYTHONPATH=.:tests:tests/faults python tests/faults/histories.py --times 1000
    ROUND_S=600 PYTHONPATH=.:tests:tests/faults nice python tests/faults/histories.py --store redis --times 100 --seed 7

Each history is a server of its own, in a process of its own (a fork, so that nothing is loaded twice), on a store that
is away now and then, or whose answer is lost. Several clients send it whatever the interface has: examples with and
without ids, predictions and their late labels, candidates, leases, votes; other precisions, kernels, solvers, windows
and limits; challengers, promotions, rollbacks, imports, finishing steps with epochs, forgetting and correcting. In the
middle of it the process is killed, or ends in order, and another goes on. What is found at the end:

raised      answers that speak of something unforeseen, errors in the server's log, models that stand before an event
hung        servers that had to be ended
lost        acknowledged, but not in the log, though nobody forgot it
invented    in the log, but never sent
misread     examples in the log that are not what the configuration of their position makes of what was sent
unequal     states: recovered (newest snapshot and the log behind it), folded from the log alone, and the running one's
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
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
from redis_server import RedisServer
from states import digest_of

from hinged.service.app import create_app
from hinged.service.data.examples import digests, to_inputs
from hinged.service.data.inputs import Records
from hinged.service.data.records import canonical
from hinged.service.engine import patience
from hinged.service.engine.history import History
from hinged.service.engine.jobs import background as mending
from hinged.service.errors import Conflict, ServiceError, StoreUnavailable
from hinged.service.model.events import (
    Erased,
    Forgotten,
    Imported,
    Learned,
    RolledBack,
    SetAside,
    Swapped,
    decode_event,
)
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from hinged.solvers.warm import warm_up

SIZES = {"cache_bytes": 2**20, "answers_kept": 12}
SOLVERS = ("lasvm", "exact", "lasvm-g", "bsca", "perceptron", "smo", "lasvm-nc", "tracking-1")
FORGETTING = ("lasvm", "exact", "lasvm-g", "bsca", "smo", "perceptron")
ROUND_S = float(os.environ.get("ROUND_S", "40"))  # that a process may take: far more than any does with a processor
BUSY = {429, 503}
FAULTS = ("raised", "hung", "lost", "invented", "misread", "unequal")


# -- what happens to the store ----------------------------------------------------------------------------------------


def unsteady(store, rng, share):
    """The store, a share of whose calls meet a store that is away, or whose answer is lost."""
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
            left = rng.randrange(20) if met() else None  # events until the store goes away
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


# -- what clients do --------------------------------------------------------------------------------------------------


class Noted:
    """What was sent and answered, a line each, in a file that outlives a process that is killed."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, kind, **facts):
        os.write(self._file, json.dumps({"kind": kind, **facts}).encode() + b"\n")


class Complaints(logging.Handler):
    """Errors that the server's log tells."""

    def __init__(self, note):
        super().__init__(logging.ERROR)
        self._note = note

    def emit(self, record):
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._note("error", message=record.getMessage(), trace=trace[-3000:])


class Client:
    """One who does what comes to his mind."""

    def __init__(self, http, note, rng, name, features):
        self.http, self.note, self.rng, self.features = http, note, rng, features
        self.name, self.serial = name, 0
        self.known, self.offered, self.leases = [], [], []

    async def ask(self, method, path, body=None, **options):
        sent = {"json": body} if body is not None else {}
        answer = await self.http.request(method, path, **sent, **options)
        if answer.status_code == 500 or "unforeseen" in answer.text:
            self.note("error", message=f"{method} {path} {json.dumps(body)[:300]}: {answer.text[:300]}", trace="")
        return answer

    def x(self):
        numbers = [self.rng.choice([0, 0.1, 1, -0.3, 2.7, self.rng.gauss(0, 1)]) for _ in range(3)]
        match self.features:
            case "dense":
                return numbers
            case "sparse":
                return {"indices": sorted(self.rng.sample(range(20), 3)), "values": numbers}
            case _:
                words = {"w": self.rng.choice(["a", "b", "c", None]), "t": self.rng.random() < 0.5}
                return {**dict(zip("pqr", numbers, strict=True)), **words, "wild": self.rng.choice([0, 1, 1e30, -1e99])}

    def label(self):
        return self.rng.choice(["n", "n", "n", "p", "p", "p", 1, True, "third"])

    def given(self):
        self.serial += 1
        return f"{self.name}-{self.serial}"

    async def learn(self, model):
        examples = []
        for _ in range(self.rng.choice([1, 1, 1, 2, 5, 9])):
            example = {"x": self.x(), "y": self.label()}
            if self.rng.random() < 0.85:
                example["id"] = self.given()
            examples.append(example)
        if self.rng.random() < 0.1 and self.known:
            examples[0] = self.rng.choice(self.known)
        await self._learn(model, examples)

    async def _learn(self, model, examples):
        self.note("sent", model=model, examples=examples)
        answer = await self.ask("POST", f"/models/{model}/learn", {"examples": examples})
        if answer.status_code == 200:
            ids = [result["id"] for result in answer.json()["results"] if "collected" not in result]
            self.note("learned", model=model, ids=ids)
            self.known += [example for example in examples if example.get("id")]

    async def predict(self, model):
        body = {"examples": [{"id": self.given(), "x": self.x()} for _ in range(self.rng.choice([1, 3]))]}
        if self.rng.random() < 0.2:
            body["explain"] = 2
        answer = await self.ask("POST", f"/models/{model}/predict", body)
        if answer.status_code == 200 and self.rng.random() < 0.7:
            late = [{"id": e["id"], "y": self.label()} for e in body["examples"]]
            self.note("waits", model=model, examples=body["examples"])
            await self._learn(model, late)

    async def offer(self, model):
        examples = [{"id": self.given(), "x": self.x()} for _ in range(self.rng.choice([1, 4]))]
        self.note("waits", model=model, examples=examples)
        await self.ask("POST", f"/models/{model}/pool", {"examples": examples})
        self.offered += [e["id"] for e in examples]

    async def question(self, model):
        who = self.rng.choice(["ann", "bob", "eve"])
        strategy = self.rng.choice(["active", "random", "autoactive"])
        body = {"n": 2, "annotator": who, "strategy": strategy, "lease_s": self.rng.choice([0.01, 60])}
        answer = await self.ask("POST", f"/models/{model}/queries", body)
        if answer.status_code != 200:
            return
        for query in answer.json()["queries"]:
            lease = query["lease"]
            fate = self.rng.choice(["answer", "answer", "skip", "release", "heartbeat", "nothing"])
            if fate == "answer":
                await self._learn(model, [{"id": query["id"], "y": self.label(), "lease": lease}])
            elif fate != "nothing":
                await self.ask("POST", f"/models/{model}/queries/{lease}/{fate}")

    async def configure(self, model):
        if self.rng.random() < 0.4:  # there and back
            there, back = self.rng.sample(CHANGES[:6], 2)
            for changes in (there, back):
                answer = await self.ask("PATCH", f"/models/{model}", changes)
                if answer.status_code == 202 and self.rng.random() < 0.7:
                    await self.wait(answer.json()["job"])
            return
        await self.ask("PATCH", f"/models/{model}", self.rng.choice(CHANGES))

    async def wait(self, job):
        for _ in range(200):
            answer = await self.ask("GET", job)
            if answer.status_code != 200 or answer.json()["state"] != "running":
                return
            await asyncio.sleep(0.005)

    async def challenge(self, model):
        shadow = self.rng.choice(["s1", "s2"])
        fate = self.rng.choice(["PUT", "PUT", "promote", "DELETE"])
        if fate == "PUT":
            answer = await self.ask("PUT", f"/models/{model}/shadows/{shadow}", self.rng.choice(CHANGES))
            if answer.status_code == 202 and self.rng.random() < 0.5:
                await self.wait(answer.json()["job"])
                await self.ask("POST", f"/models/{model}/shadows/{shadow}/promote")
        elif fate == "promote":
            await self.ask("POST", f"/models/{model}/shadows/{shadow}/promote")
        else:
            await self.ask("DELETE", f"/models/{model}/shadows/{shadow}")

    async def roll_back(self, model):
        answer = await self.ask("GET", f"/models/{model}")
        if answer.status_code == 200:
            to = self.rng.randint(1, answer.json()["position"])
            await self.ask("POST", f"/models/{model}/rollback", {"position": to})

    async def finish(self, model):
        await self.ask("POST", f"/models/{model}/finish", {"epochs": self.rng.choice([0, 1, 2])})

    async def forget(self, model):
        if self.known or self.offered:
            given = self.rng.choice([example["id"] for example in self.known] + self.offered)
            self.note("forget", model=model, id=given)
            await self.ask("DELETE", f"/models/{model}/examples/{given}")

    async def correct(self, model):
        if self.known:
            given = self.rng.choice(self.known)["id"]
            await self.ask("PUT", f"/models/{model}/examples/{given}", {"y": self.label()})

    async def keep(self, model):
        await self.ask("POST", f"/models/{model}/snapshot")

    async def copy(self, model):
        options = {"params": {"as_of": self.rng.randint(1, 30)}} if self.rng.random() < 0.4 else {}
        answer = await self.ask("GET", f"/models/{model}/export", **options)
        if answer.status_code == 200:
            copy = self.rng.choice(["m2", "m3"])
            if self.rng.random() < 0.3:
                self.note("deleted", model=copy)
                await self.ask("DELETE", f"/models/{copy}")
            headers = {"content-type": "application/octet-stream"}
            answer = await self.http.post(f"/models/{copy}/import", content=answer.content, headers=headers)
            if answer.status_code not in (201, 409, 503):
                self.note("error", message=f"import of an export: {answer.text[:500]}", trace="")

    async def look(self, model):
        paths = ("", "/suspects", "/certificate", "/loo", "/queries", "/shadows")
        await self.ask("GET", f"/models/{model}{self.rng.choice(paths)}")

    async def live(self, steps):
        kinds, weights = zip(*WHAT, strict=True)
        for _ in range(steps):
            model = self.rng.choice(["m", "m", "m", "m2", "m3"])
            await getattr(self, self.rng.choices(kinds, weights)[0])(model)


WHAT = (
    ("learn", 40), ("predict", 12), ("offer", 6), ("question", 8), ("configure", 8), ("challenge", 4), ("roll_back", 3),
    ("finish", 3), ("forget", 4), ("correct", 3), ("keep", 2), ("copy", 2), ("look", 5),
)  # fmt: skip
CHANGES = (
    {"precision": "float64"}, {"precision": "float32"}, {"kernel": {"type": "rbf", "gamma": 0.7}},
    {"kernel": {"type": "polynomial", "gamma": 0.5, "degree": 3, "coef0": 1.0}}, {"kernel": {"type": "linear"}},
    {"kernel": {"type": "laplacian", "gamma": 0.2}}, {"kernel": {"gamma": 0.3}}, {"C": 10}, {"C": 0.5},
    {"class_weight": {"p": 3}}, {"class_weight": None}, {"seed": 7}, {"solver": "lasvm"}, {"solver": "exact"},
    {"solver": "bsca", "budget": 5}, {"solver": "lasvm-g"}, {"solver": "smo"}, {"solver": "perceptron"},
    {"window": {"examples": 20}}, {"window": {"seconds": 0.3}}, {"window": None}, {"points_max": 15},
    {"points_max": 25, "when_full": "remove"}, {"points_max": 200, "when_full": "refuse"},
    {"labels": {"pool_max": 3}}, {"labels": {"overlap": 2}}, {"labels": {"overlap": 1, "pool_max": 50}},
    {"labels": {"pending_durable": True}}, {"labels": {"pending_max": 4}}, {"labels": {"pending_s": 0.2}},
)  # fmt: skip


def configuration_of(rng):
    """A model to begin with."""
    form = rng.choice(["dense", "dense", "sparse", "named"])
    features = {
        "dense": {"type": "dense", "dim": 3},
        "sparse": {"type": "sparse", "dim": 20},
        "named": {"type": "named", "warmup": rng.choice([0, 10, 40]), "columns_max": rng.choice([4, 50])},
    }[form]
    kernel = rng.choice(
        [
            {"type": "rbf", "gamma": 0.5},
            {"type": "linear"},
            {"type": "polynomial", "gamma": 0.5, "degree": 2, "coef0": 1.0},
        ]
    )
    solver = rng.choice(SOLVERS)
    more = {"budget": 6} if solver == "bsca" else {}
    if rng.random() < 0.2 and solver in FORGETTING:
        more["window"] = rng.choice([{"examples": 40}, {"seconds": 0.5}])
    return form, {"solver": solver, "kernel": kernel, "features": features, **more}


# -- one history ------------------------------------------------------------------------------------------------------


async def serve(open_store, settings, form, configuration, note, seed, steps):
    """A server and its clients, to the end in order."""
    logging.getLogger().addHandler(Complaints(note))
    mending.RETRY_FIRST_S, mending.RETRY_MAX_S = 0.01, 0.1  # as much more often as the store is away here
    patience.RETRY_FIRST_S = 0.005
    asyncio.get_running_loop().call_later(ROUND_S - 10, _tell_tasks)
    rng = random.Random(seed)
    store = open_store()
    app = create_app(settings, lambda: unsteady(store, random.Random(seed + 1), rng.choice([0, 0.01, 0.05])))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=ROUND_S) as http:
            while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  as whoever starts a server does
                await asyncio.sleep(0.01)
            note("ready")
            for _ in range(50):
                answer = await http.put("/models/m", json=configuration)
                if answer.status_code not in BUSY:
                    break
            clients = [
                Client(http, note, random.Random(seed * 10 + n), f"{seed}c{n}", form)
                for n in range(rng.choice([2, 4, 6]))
            ]
            await asyncio.gather(*(client.live(steps) for client in clients))
            running = {}
            for name, found in app.state.registry.workers():
                if found.obstacle is not None:
                    note("error", message=f"{name} stands: {found.obstacle.message}", trace="")
                if not found.failed:
                    running[name] = await settled_digest(found)
            note("running", digests={name: digest for name, digest in running.items() if digest})


def _tell_tasks():
    for task in asyncio.all_tasks():
        task.print_stack(limit=4, file=sys.stderr)


async def settled_digest(worker):
    """Position and digest of a model whose jobs have ended; None where the store keeps it from that."""
    for _ in range(400):
        try:
            at, digest, busy = await worker.read(lambda m: (m.position, digest_of(m), bool(m.jobs.running())))
        except ServiceError:
            return None
        if not busy and not worker._unlogged and not worker._journal.unresolved:
            return at, digest
        await asyncio.sleep(0.01)
    return None


def judge(open_store, lines, form):
    """What is wrong at the end."""
    found = dict.fromkeys(FAULTS, 0)
    said = []
    sent, waits, learned, forgotten, deleted = {}, {}, {}, set(), set()
    for line in lines:
        match line["kind"]:
            case "sent":
                for example in line["examples"]:
                    sent.setdefault(line["model"], []).append(example)
            case "waits":
                waits.update((e["id"], e["x"]) for e in line["examples"])
            case "learned":
                learned.setdefault(line["model"], set()).update(i for i in line["ids"] if not i.startswith("@"))
            case "forget":
                forgotten.add(line["id"])
            case "deleted":
                deleted.add(line["model"])
            case "error":
                found["raised"] += 1
                said.append(line["message"] + "\n" + line["trace"])
    everything = [example for examples in sent.values() for example in examples]
    with closing(open_store()) as store:
        for name in store.models():
            try:
                _judge_model(store, name, form, everything, waits, found, said)
            except Exception:  # noqa: BLE001  whatever it is, it is a fault that was found
                found["raised"] += 1
                said.append(f"{name}: {traceback.format_exc()[-3000:]}")
                continue
            ids = _ids_of(store, name)
            if name not in deleted and ids is not None:
                lost = learned.get(name, set()) - ids - forgotten
                found["lost"] += len(lost)
                said += [f"{name}: lost {i}" for i in lost]
        running = next((line["digests"] for line in reversed(lines) if line["kind"] == "running"), {})
        if lines and lines[-1]["kind"] == "running":
            for name, (at, digest) in running.items():
                there, obstacle = History(store, name, **SIZES).reached()
                if there.position == at and digest_of(there) != digest and obstacle is None:
                    found["unequal"] += 1
                    said.append(f"{name}: the running one at {at} is another")
    return found, said


class WithoutSnapshots:
    """A store of which only the log is read."""

    def __init__(self, store):
        self._store = store

    def snapshots(self, _):
        return []

    def __getattr__(self, name):
        return getattr(self._store, name)


def _judge_model(store, name, form, everything, waits, found, said):
    recovered, obstacle = History(store, name, **SIZES).reached()
    if obstacle is not None:
        found["raised"] += 1
        said.append(f"{name} stands: {obstacle.message}")
    try:
        folded = History(WithoutSnapshots(store), name, **SIZES).newest()
    except Conflict:
        folded = None  # trimmed, or an example was forgotten and the state stands behind it
    if folded is not None and (folded.position, digest_of(folded)) != (recovered.position, digest_of(recovered)):
        found["unequal"] += 1
        said.append(f"{name}: folded from the log alone it is another")
    for at, event, configuration in _along(store, name):
        for r, given in enumerate(event.ids):
            label = _label(event, r, configuration[1])
            meant = [e for e in everything if e.get("id") == given and _same(e["y"], label)]
            if not meant:
                found["invented"] += 1
                said.append(f"{name}: event {at} has {given}, {label!r}")
            elif configuration[0] is not None and not _as_read(
                event, r, label, meant, waits, given, configuration[0], form
            ):
                found["misread"] += 1
                said.append(
                    f"{name}: event {at}: {given} is not as {configuration[0].kernel} {configuration[0].precision}"
                )


def _label(event, r, labels):
    number = int(event.classes[r])
    return labels[number] if number < len(labels) else None


def _same(y, label):
    return label is None or (type(y) is type(label) and y == label)


def _along(store, name):
    """The learned batches of a log whose state can be followed, with (configuration, labels) at each."""
    history, model = History(store, name, **SIZES), None
    records = [(at, decode_event(record.kind, record.payload)) for at, record in store.read(name, 0)]
    aside = {event.event for _, event in records if isinstance(event, SetAside)}
    begin = 0
    for index, (_, event) in enumerate(records):
        if isinstance(event, Swapped) and index not in aside:
            erased = any(isinstance(e, Erased | Forgotten) for _, e in records[:index])
            begin = index if erased else begin
    if not records or (records[0][0] != 1 and not isinstance(records[begin][1], Swapped)):
        return
    for at, event in records[begin:]:
        if model is None:
            model = Model.begin(name, at, event, **SIZES)
            continue
        if isinstance(event, Learned):
            yield at, event, (model.configuration, list(model.labels.labels))
        try:
            if at in aside:
                model.pass_over(at, "")
            elif isinstance(event, RolledBack | Swapped):
                model = history.successor(at, event)
            else:
                history.apply(model, at, event)
        except Conflict:
            if records[0][0] == 1:
                raise
            return  # epochs, or a state to go back to, that have been trimmed since


def _as_read(event, r, label, meant, waits, given, configuration, form):
    """Whether row r is what the configuration makes of one of the examples that were sent."""
    spelled = [e["x"] for e in meant if "x" in e] + ([waits[given]] if given in waits else [])
    kept = any("x" not in e for e in meant)  # then x was read, and perhaps rounded, when it began to wait
    for x in spelled:
        inputs = to_inputs([canonical(x) if form == "named" else x], configuration)
        if label is not None and digests(inputs, [label])[0] != event.contents[r] and not kept:
            continue
        if isinstance(inputs, Records) or _equal(inputs, event.inputs.take(np.array([r])), exactly=not kept):
            return True
    return False


def _equal(expected, got, *, exactly):
    pairs = [(expected.values, got.values), (expected.norms, got.norms), (expected.selves, got.selves)]
    if expected.values.dtype != got.values.dtype or not np.array_equal(expected.indices, got.indices):
        return False
    return all(np.array_equal(a, b) if exactly else np.allclose(a, b, 1e-3) for a, b in pairs)


def _ids_of(store, name):
    """Every id in a log; None where its beginning is gone."""
    ids = set()
    for at, record in store.read(name, 0):
        if not ids and at != 1 and record.kind != Imported.KIND:
            return None
        event = decode_event(record.kind, record.payload)
        if isinstance(event, Imported):
            return None
        if isinstance(event, Learned):
            ids.update(event.given_ids)
    return ids


def forked(work, seconds):
    """Do work in a process of its own; how it ended: 0, another code, or minus the signal. seconds: None to wait."""
    pid = os.fork()
    if pid == 0:
        code = 1
        if seconds == ROUND_S:
            faulthandler.dump_traceback_later(ROUND_S - 5, file=sys.stderr)
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001  the code says it to the parent
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


def history(folder, open_store, seed, steps):
    """One of them; what is found, and the words to it."""
    rng = random.Random(seed)
    form, configuration = configuration_of(rng)
    settings = Settings(
        data_dir=folder / "data",
        cache_mb=1,
        answers_kept=SIZES["answers_kept"],
        snapshot_examples=rng.choice([5, 20, 1000]),
        log_kept=rng.choice([None, None, None, 10]),
        pending_flush_s=rng.choice([0.01, 0.2]),
        shutdown_s=5,
    )
    path = folder / "noted"
    note = Noted(path)
    hung = 0
    for number in range(rng.choice([1, 2, 2])):
        killed_s = rng.uniform(0.05, 1.0) if rng.random() < 0.6 else None

        def work(number=number):
            asyncio.run(serve(open_store, settings, form, configuration, note, seed * 10 + number, steps))

        code = forked(work, ROUND_S if killed_s is None else killed_s)
        if killed_s is None and code:
            hung += 1
            note("error", message=f"the server ended with {code}", trace="")
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    verdict = folder / "verdict"
    code = forked(lambda: verdict.write_text(json.dumps(judge(open_store, lines, form))), ROUND_S)
    if code:
        return {fault: int(fault == "raised") for fault in FAULTS}, [f"the judge ended with {code}"], lines
    found, said = json.loads(verdict.read_text())
    found["hung"] = hung
    return found, said, lines


def warm():
    """Load everything once: each history is a fork of this process."""
    for solver in {*SOLVERS, *FORGETTING}:
        for dtype in (np.float32, np.float64):
            warm_up(solver, dtype)
    sys.modules.setdefault("sniffio", None)  # which httpx else looks for in every folder, at every request
    gc.collect()
    gc.freeze()  # so that no server collects again what it has from here


def run(times, seed, steps, store="sqlite", seconds=None, tell=None):
    """So many histories, or as many as the seconds allow: figures, and the words of those with a fault."""
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


class Stores:
    """Opens the store of each history."""

    def __init__(self, kind, place):
        self.kind, self.place, self.redis = kind, place, None

    def __enter__(self):
        if self.kind == "redis":
            self.redis = RedisServer(self.place / "redis").start()
        return self.opener

    def opener(self, folder):
        if self.redis is None:
            return lambda: SQLiteStore(folder / "data")
        namespace = folder.name
        return lambda: RedisStore(self.redis.url, namespace=namespace)

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
