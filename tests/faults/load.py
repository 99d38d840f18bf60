"""Run two hundred good clients, and bad clients that do what no client should. Meanwhile watch the server's memory.

    python -m tests.faults.load --clients 200 --seconds 120 --waves 2

Good clients learn, predict, offer candidates, ask for labels and answer, forget and correct examples. They use a few
models of bounded size. Meanwhile bad clients run, each kind in a thread (BAD). They send half a request or nothing,
send a body very slowly, do not read their answers, or send bodies beyond the limit. They open WebSockets and event
streams that they never read, and create more models than the server may have. Before and after, the server rests. The
results are

answered    Number of requests of the good clients, by status. Each status must be in GOOD.
refused     Number of outcomes of the bad clients, by outcome. Each outcome must be documented.
lost        Number of examples that were acknowledged to good clients, but are neither learned nor forgotten after the
            server was killed.
back        Number of forgotten examples (200, or a job that is done) that are in the log.
seconds     Seconds until the good clients got their answers: the median, the 99th percentile and the maximum.
memory      Resident MiB at rest, the maximum, and at rest after each wave; the memory that the models report; and the
            slope over the second half in MiB per minute.
files       Open descriptors at rest, the maximum, and at rest after each wave.
"""
# ruff: noqa: ARG002  all actions of clients have the same arguments

import argparse
import asyncio
import itertools
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path

import httpx
import numpy as np

from hinged.service.model.events import decode_event
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.server import PLAIN, RunningServer, until_compiled

MODELS = {
    "steady": {"solver": "bsgd", "budget": 200, "features": {"type": "dense", "dim": 8}},
    "exact": {"solver": "exact", "features": {"type": "dense", "dim": 8}, "window": {"examples": 200}},
    "asking": {"points_max": 500, "when_full": "remove", "features": {"type": "dense", "dim": 8}},
}
KERNEL = {"kernel": {"type": "rbf", "gamma": 0.3}, "labels": {"pool_max": 500, "pending_max": 1000}}
SETTINGS = {
    "body_bytes_max": 2**20,
    "models_max": 40,
    "request_s": 3,
    "streams_max": 100,
    "answers_kept": 2000,
    "cache_mb": 16,
    "snapshot_examples": 20_000,
}
LIMITS = {"stream_idle_s": 5}
WRONG_MAX = 20
GOOD = {200, 202, 404, 410, 429, 503}
"""404: a lease whose candidate another client has answered; 410: a forgotten example."""


class Load:
    """The clients of a run, and the outcomes of their requests."""

    def __init__(self, server, seed):
        self.server = server
        self.seed = seed
        self.end = asyncio.Event()
        self.serial = itertools.count()
        self.answered = Counter()
        self.refused = defaultdict(Counter)
        self.learned = {name: set() for name in MODELS}
        self.forgotten = {name: set() for name in MODELS}
        self.maybe_forgotten = {name: set() for name in MODELS}  # examples that a client asked to forget
        self.wrong = []
        self.took_s = defaultdict(list)  # by kind of request

    # -- good clients -------------------------------------------------------------------------------------------------

    async def client(self, number):
        rng = random.Random(self.seed * 1000 + number)
        mine = {name: [] for name in MODELS}
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self.server.url, timeout=120, limits=limits, verify=PLAIN) as http:
            while not self.end.is_set():
                name = rng.choice(list(MODELS))
                what = rng.choices([self.learn, self.predict, self.offer, self.label, self.change], [6, 6, 1, 1, 1])[0]
                await what(http, name, rng, mine[name], lambda: f"c{number}-{next(self.serial)}")
                await asyncio.sleep(rng.uniform(0, 0.05))

    async def ask(self, http, method, path, body=None):
        """Return the response, whatever its status. After 429 and 503, and without an answer, send the
        request again.
        """
        while True:
            start = time.monotonic()
            try:
                answer = await http.request(method, path, json=body)
            except httpx.TransportError as error:
                self.wrong.append(f"{method} {path}: {error!r} after {time.monotonic() - start:.1f} s")
                if len(self.wrong) > WRONG_MAX:
                    raise
                continue
            what = "change" if "/examples/" in path else "job" if "/jobs/" in path else path.rpartition("/")[2]
            self.took_s[what].append(time.monotonic() - start)
            self.answered[answer.status_code] += 1
            if answer.status_code not in GOOD:
                self.wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
            if answer.status_code not in (429, 503) or self.end.is_set():
                return answer
            await asyncio.sleep(float(answer.headers.get("retry-after", 0.2)))

    def x(self, rng):
        return [rng.gauss(0.0, 1.0) for _ in range(8)]

    async def learn(self, http, name, rng, mine, new_id):
        examples = [
            {"id": new_id(), "x": (x := self.x(rng)), "y": x[0] * x[1] > 0} for _ in range(rng.choice([1, 5, 20]))
        ]
        answer = await self.ask(http, "POST", f"/models/{name}/learn", {"examples": examples})
        if answer.status_code == 200:
            ids = [result["id"] for result in answer.json()["results"]]
            self.learned[name].update(ids)
            mine.extend(ids[:2])

    async def predict(self, http, name, rng, mine, new_id):
        examples = [{"x": self.x(rng)} for _ in range(rng.choice([1, 10, 100]))]
        if rng.random() < 0.3:
            examples[0]["id"] = new_id()
        await self.ask(http, "POST", f"/models/{name}/predict", {"examples": examples})

    async def offer(self, http, name, rng, mine, new_id):
        await self.ask(http, "POST", f"/models/{name}/pool", {"examples": [{"id": new_id(), "x": self.x(rng)}]})

    async def label(self, http, name, rng, mine, new_id):
        body = {"n": 2, "annotator": new_id(), "lease_s": 5, "strategy": "random"}
        answer = await self.ask(http, "POST", f"/models/{name}/queries", body)
        for question in answer.json().get("queries", ()):
            body = {"examples": [{"id": question["id"], "y": question["x"][0] > 0, "lease": question["lease"]}]}
            if (await self.ask(http, "POST", f"/models/{name}/learn", body)).status_code == 200:
                self.learned[name].add(question["id"])

    async def change(self, http, name, rng, mine, new_id):
        """Forget or correct an example. This is rare, because a purge rewrites the store, and very rare if it needs a
        job.
        """
        if not mine or rng.random() > (0.1 if name == "exact" else 0.005):
            return
        given = mine.pop(rng.randrange(len(mine)))
        path = f"/models/{name}/examples/{given}"
        if rng.random() < 0.3:
            await self.ask(http, "PUT", path, {"y": rng.random() < 0.5})
            return
        self.maybe_forgotten[name].add(given)
        answer = await self.ask(http, "DELETE", path)
        while answer.status_code == 202 and not self.end.is_set():
            job = await self.ask(http, "GET", answer.json()["job"])
            if job.json()["state"] != "running":
                if job.json()["state"] == "done":
                    self.forgotten[name].add(given)
                return
            await asyncio.sleep(0.3)
        if answer.status_code == 200:
            self.forgotten[name].add(given)

    # -- bad clients --------------------------------------------------------------------------------------------------

    async def raw(self, kind, text, *, drip=b"", reads=True, then=b""):
        """Open a connection that sends these bytes and then sends more bytes slowly.

        reads: whether the client reads until the server closes the connection.
        """
        loop = asyncio.get_running_loop()
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**12)
            line.setblocking(False)
            try:
                async with asyncio.timeout(60):
                    await loop.sock_connect(line, ("127.0.0.1", self.server.port))
                    await loop.sock_sendall(line, text + then)
                    if reads:
                        self.refused[kind][await self.answer_of(loop, line, drip)] += 1
                        return
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.end.wait(), 4 * SETTINGS["request_s"])
                        return
                    # The system closed the connection without notice; only a send shows that.
                    await loop.sock_sendall(line, b" ")
                    await asyncio.sleep(0.5)
                    established = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1
                    self.refused[kind]["held" if established else "cut off"] += 1
            except (OSError, TimeoutError) as error:
                if not self.end.is_set():
                    self.refused[kind][type(error).__name__] += 1

    async def answer_of(self, loop, line, drip):
        """Return the status of the server's answer while more data is sent slowly."""
        answer = asyncio.create_task(loop.sock_recv(line, 2**12))
        while not answer.done():
            await asyncio.wait([answer], timeout=0.3)
            if drip and not answer.done():
                await loop.sock_sendall(line, drip)
        return int(answer.result().split(b" ", 2)[1])

    async def nothing(self, rng):
        await self.raw("nothing sent", b"")

    async def half(self, rng):
        text = request("POST", "/models/steady/learn", 500)
        await self.raw("half a request", text[: rng.randrange(1, len(text))])

    async def drips(self, rng):
        await self.raw("a body in drops", request("POST", "/models/steady/learn", 10**5), drip=b" ")

    async def declared(self, rng):
        await self.raw("too long, declared", request("POST", "/models/steady/learn", 10**12), drip=b" " * 4096)

    async def chunked(self, rng):
        head = request("POST", "/models/steady/learn", None)
        await self.raw("too long, in chunks", head, drip=b"10000\r\n" + b" " * 2**16 + b"\r\n")

    async def endless_head(self, rng):
        await self.raw("a head without end", b"GET / HTTP/1.1\r\nX: ", drip=b"x" * 2**14)

    async def deaf(self, rng):
        """Ask for a long answer, and do not read it."""
        body = json.dumps({"examples": [{"x": [0.5] * 8}] * 5000}).encode()
        head = request("POST", "/models/steady/predict", len(body))
        await self.raw("answers unread", head + body, reads=False)

    async def deaf_follower(self, rng):
        text = b"GET /models/steady/events?from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await self.raw("events unread", text, reads=False)

    async def deaf_socket(self, rng):
        """Open a WebSocket that sends requests without end and reads nothing."""
        frame = json.dumps({"op": "predict", "ref": "r", "examples": [{"x": [0.5] * 8}] * 500}).encode()
        head = (
            b"GET /models/steady/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        masked = b"\x81\xfe" + len(frame).to_bytes(2) + bytes(4) + frame  # masked with zeros
        await self.raw("frames unanswered", head, then=masked * 200, reads=False)

    async def models(self, rng):
        """Create more models than allowed, train each of them, and delete some."""
        name = f"flood{rng.randrange(100)}"
        async with httpx.AsyncClient(base_url=self.server.url, timeout=60, verify=PLAIN) as http:
            with suppress(httpx.TransportError):
                answer = await http.put(f"/models/{name}", json=MODELS["asking"] | KERNEL)
                self.refused["a flood of models"][answer.status_code] += 1
                body = {"examples": [{"x": self.x(rng), "y": rng.random() < 0.5} for _ in range(50)]}
                await http.post(f"/models/{name}/learn", json=body)
                if rng.random() < 0.3:
                    await http.delete(f"/models/{name}")
            await asyncio.sleep(0.2)

    async def bad(self, number):
        rng = random.Random(self.seed * 7777 + number)
        kinds = [getattr(self, kind) for kind in BAD]
        while not self.end.is_set():
            await kinds[number % len(kinds)](rng)


BAD = {
    "nothing": ("nothing sent", {408}),
    "half": ("half a request", {408}),
    "drips": ("a body in drops", {408}),
    "declared": ("too long, declared", {413}),
    "chunked": ("too long, in chunks", {413}),
    "endless_head": ("a head without end", {400, 408}),
    "deaf": ("answers unread", {"cut off", "BrokenPipeError", "ConnectionResetError"}),
    "deaf_follower": ("events unread", {"held", "cut off", "BrokenPipeError", "ConnectionResetError"}),
    "deaf_socket": ("frames unanswered", {"cut off", "BrokenPipeError", "ConnectionResetError"}),
    "models": ("a flood of models", {200, 201, 409}),
}
"""The actions of bad clients, each with its name in the results and its allowed outcomes."""


def request(method, path, length):
    """Return the head of a request whose body has this length, or is sent in chunks."""
    told = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{told}\r\n\r\n".encode()


class Watch(threading.Thread):
    """Measures memory and open files of a process, twice a second."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.samples = []
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(0.5):
            self.samples.append((time.monotonic(), *self.now()))

    def now(self):
        """Return the MiB that are resident, and the number of open descriptors."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def slope(self):
        """Return the slope in MiB per minute over the second half."""
        half = self.samples[len(self.samples) // 2 :]
        return 60 * statistics.linear_regression([s[0] for s in half], [s[1] for s in half]).slope


async def go(load, clients, bad, seconds):
    """Run the load; raise an error of a good client here."""
    good = [asyncio.create_task(load.client(number)) for number in range(clients)]
    others = [asyncio.create_task(load.bad(number)) for number in range(bad)]
    await asyncio.wait([*good, *others], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    load.end.set()
    await asyncio.gather(*good, *others)


def rest(server, watch):
    """Return the resident MiB and the number of open files once the server has nothing to do."""
    for name in [m["model"] for m in httpx.get(f"{server.url}/models", timeout=60).json()["models"]]:
        if name not in MODELS:
            httpx.delete(f"{server.url}/models/{name}", timeout=60)
    time.sleep(LIMITS["stream_idle_s"] + 3)
    return watch.now()


def check(store, load):
    """Return how many examples of the good clients are lost, and how many are in the log although they were
    forgotten.
    """
    lost = back = logged = 0
    for name in MODELS:
        found = set()
        for _, record in store.read(name, 0):
            event = decode_event(record.kind, record.payload)
            if isinstance(event, ExamplesLearned):
                found.update(event.id_of(r) for r in range(len(event.ids)))
        forgotten = load.forgotten[name]
        back += len(found & forgotten)
        lost += len(load.learned[name] - found - load.maybe_forgotten[name])
        logged += len(found)
    return {"logged": logged, "lost": lost, "back": back}


def run(folder, clients, seconds, seed, bad=20, waves=1):
    """Run the load; return the results."""
    with RunningServer(Path(folder) / "data", limits=LIMITS, **SETTINGS) as server:
        for name, body in MODELS.items():
            answer = httpx.put(f"{server.url}/models/{name}", json=body | KERNEL, timeout=300)
            assert answer.status_code == 201, answer.text
        until_compiled(server.url, MODELS)
        load, watch = Load(server, seed), Watch(server.process.pid)
        before = rest(server, watch)
        watch.start()
        after = []
        for _ in range(waves):
            load.end = asyncio.Event()
            try:
                asyncio.run(go(load, clients, bad, seconds))
            except httpx.TransportError as error:
                told = f"{load.wrong}; the server's exit code is {server.process.poll()}: "
                raise RuntimeError(told + server.log.read_text()[-4000:]) from error
            after.append(rest(server, watch))
        watch.done.set()
        watch.join()
        assert httpx.get(f"{server.url}/readyz").status_code == 200
        models_mib = sum(httpx.get(f"{server.url}/models/{m}").json()["memory_bytes"] for m in MODELS) / 2**20
        log = server.log.read_text()
        server.kill()
    with closing(SQLiteStore(Path(folder) / "data")) as store:
        figures = check(store, load)
    known = dict(BAD.values())
    return figures | {
        "answered": dict(load.answered),
        "refused": {kind: dict(found) for kind, found in load.refused.items()},
        "not as documented": load.wrong
        + [f"{kind}: {got}" for kind, found in load.refused.items() for got in found if got not in known[kind]],
        "tracebacks": log.count("Traceback"),
        "learned": sum(map(len, load.learned.values())),
        "forgotten": sum(map(len, load.forgotten.values())),
        "seconds": {
            what: [round(float(q), 2) for q in np.quantile(took, (0.5, 0.99, 1))] for what, took in load.took_s.items()
        },
        "memory": [round(m) for m in (before[0], max(s[1] for s in watch.samples), *(a[0] for a in after))],
        "memory of the models": round(models_mib),
        "memory by minute": [round(s[1]) for s in watch.samples[::120]],
        "slope": round(watch.slope(), 1),
        "files": [before[1], max(s[2] for s in watch.samples), *(a[1] for a in after)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--bad", type=int, default=40, help="bad clients, of all kinds")
    parser.add_argument("--seconds", type=float, default=120, help="of each wave")
    parser.add_argument("--waves", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = run(folder, options.clients, options.seconds, options.seed, options.bad, options.waves)
    print(f"{options.clients} good and {options.bad} bad clients for {options.waves} x {options.seconds:g} s", end=", ")
    print(f"seed {options.seed}")
    for name, found in figures.items():
        print(f"    {name}: {found}")
    sys.exit(bool(figures["lost"] or figures["back"] or figures["not as documented"] or figures["tracebacks"]))


if __name__ == "__main__":
    main()
