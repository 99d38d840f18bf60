"""Measure the speed of the server. Each target and the program that it is compared with run alternately.

    PYTHONPATH=.:benchmarks python benchmarks/server/run.py --data FOLDER [--parts NAME ...] [--runs N]

The program takes about six minutes. A separate process sends prepared bytes (load.py). wrk sends the predictions and
the echo if it is installed, because it uses less of the shared processors. Results are medians. Other programs on the
machine influence the seconds; therefore the tables also show the CPU microseconds of the server's process.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from datasets import arguments, rows_of
from datasets import load as load_data
from load import Load, load, request_bytes
from targets import Line, middle, print_table, span

from hinged.client.batch import pack
from hinged.operations.base import ROWS_TYPE
from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from tests.helpers.server import RunningServer, free_port

BATCH, CONNECTIONS = 100, 4
SECONDS = 3.0
CHEAP = {"solver": "bsca", "C": 0.25, "budget": 100}
TICKS = os.sysconf("SC_CLK_TCK")
WRK = shutil.which("wrk")


class Adult:
    """The training examples of Adult, and requests that contain these examples."""

    def __init__(self, folder):
        self.X, y, _, _ = load_data(folder, "adult")
        self.y = y.astype(int)
        self.dense = self.X.toarray().astype(np.float32)
        rows = zip(self.X.indptr[:-1], self.X.indptr[1:], strict=True)
        self.sparse = [{"indices": self.X.indices[a:b].tolist(), "values": self.X.data[a:b].tolist()} for a, b in rows]

    def __len__(self):
        return self.y.size

    def batches(self, model, form, ids=None):
        """Return requests that make a model learn all examples, BATCH at a time.

        form: bytes, sparse JSON or dense JSON.
        """
        return [
            request_bytes("POST", f"/models/{model}/learn", *self.body(form, slice(b, b + BATCH), ids))
            for b in range(0, len(self), BATCH)
        ]

    def body(self, form, part, ids=None):
        """Return (body, media type) for some of the examples."""
        if form in ("bytes", "dense bytes"):
            X = (self.X if form == "bytes" else self.dense)[part]
            given = [f"{ids}{row}" for row in range(part.start, part.start + X.shape[0])] if ids else None
            return pack(X, self.y[part], given), ROWS_TYPE
        xs = self.sparse[part] if form == "sparse JSON" else self.dense[part].tolist()
        examples = [{"x": x, "y": y} for x, y in zip(xs, self.y[part].tolist(), strict=True)]
        return json.dumps({"examples": examples}).encode(), "application/json"

    def single(self, model, what, n, *, labelled):
        """Return requests with one example each."""
        return [
            request_bytes(
                "POST", f"/models/{model}/{what}",
                json.dumps({"x": self.sparse[r], **({"y": int(self.y[r])} if labelled else {})}).encode(),
            )
            for r in range(n)
        ]  # fmt: skip


class Served:
    """A server that starts with an empty folder."""

    def __init__(self, running):
        self.running = running
        self.port = running.port
        self.pid = running.process.pid
        self._models = 0

    def model(self, **configuration):
        """Create a model of Adult's width and return its name."""
        self._models += 1
        base = {"kernel": {"type": "rbf", "gamma": 0.005}, "C": 100, "features": {"type": "dense", "dim": 123}}
        name = f"m{self._models}"
        answer = httpx.put(f"{self.running.url}/models/{name}", json={**base, **configuration}, timeout=300)
        answer.raise_for_status()
        return name

    def delete(self, model):
        """Delete a measured model, so that the next model can reuse its memory pages."""
        httpx.delete(f"{self.running.url}/models/{model}", timeout=300).raise_for_status()

    def rss_mib(self):
        """Return the resident memory in MiB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def serving(**settings):
    with tempfile.TemporaryDirectory() as folder, RunningServer(Path(folder) / "data", **settings) as running:
        yield Served(running)


@contextmanager
def echoing():
    """Start an application that returns the body; yield (port, process id)."""
    port = free_port()
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("echo.py"), str(port)])
    try:
        for _ in range(200):
            time.sleep(0.05)
            try:
                httpx.get(f"http://127.0.0.1:{port}/")
            except httpx.TransportError:
                continue
            break
        yield port, process.pid
    finally:
        process.kill()


def cpu_s(pid):
    """Return the CPU seconds of a process so far, and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def in_process(adult, rows, name, **parameters):
    """Return (wall, CPU) seconds of the solver alone, trained in batches of BATCH."""
    solver = make_solver(name, make_kernel("rbf", 0.005), 123, **parameters)
    for _ in range(2):
        solver.add_class()
    classes, keys = (adult.y > 0).astype(np.int64), np.arange(len(adult))
    start = time.perf_counter(), time.process_time()
    for b in range(0, len(adult), BATCH):
        part = slice(b, min(b + BATCH, len(adult)))
        solver.learn(rows.part(part.start, part.stop), classes[part], keys[part])
    return time.perf_counter() - start[0], time.process_time() - start[1]


def learning(options):
    """Measure target 1: learning over HTTP."""
    adult = Adult(options.data)
    n, rows = len(adult), rows_of(adult.X, make_kernel("rbf", 0.005))
    alone, served = [], {}
    kinds = {
        ("LASVM", "bytes"): ({}, None), ("LASVM", "dense bytes"): ({}, None), ("LASVM", "bytes, with ids"): ({}, "id-"),
        ("BSCA", "sparse JSON"): (CHEAP, None), ("BSCA", "dense JSON"): (CHEAP, None), ("BSCA", "bytes"): (CHEAP, None),
    }  # fmt: skip
    in_process(adult, rows, "lasvm", C=100.0)
    with serving() as server:
        for _ in range(options.runs):
            alone.append(in_process(adult, rows, "lasvm", C=100.0))
            for (solver, form), (configuration, ids) in kinds.items():
                model = server.model(**configuration)
                requests = adult.batches(model, form.partition(",")[0], ids)
                before = cpu_s(server.pid)
                found = load(server.port, requests, CONNECTIONS)
                served.setdefault((solver, form), []).append((found.seconds, cpu_s(server.pid) - before))
                server.delete(model)
    seconds = middle([wall for wall, _ in alone])
    cpu = 1e6 * middle([c for _, c in alone]) / n
    for (solver, form), runs in served.items():
        walls, own = [wall for wall, _ in runs], 1e6 * middle([c for _, c in runs]) / n
        if solver == "LASVM":
            ratios = [a[0] / wall for a, wall in zip(alone, walls, strict=True)]
            yield Line(
                "1", f"LASVM on Adult over HTTP, {form}, beside the solver in process", "70 %",
                f"{100 * middle(ratios):.0f} % ({span([100 * r for r in ratios], 0)}): {n / middle(walls):,.0f} beside "
                f"{n / seconds:,.0f} examples/s; CPU {own:.0f} beside {cpu:.0f} us an example",
                middle(ratios) >= 0.7,
            )  # fmt: skip
        else:
            rate = n / middle(walls)
            yield Line(
                "1", f"BSCA, B = 100, {form}", "25,000 examples/s",
                f"{rate:,.0f} ({span([n / w for w in walls], 0)}); CPU {own:.0f} us an example", rate >= 25_000,
            )  # fmt: skip


def rate_of(port, path, body):
    """Return the number of requests answered on 16 connections in SECONDS."""
    if WRK is None:
        return load(port, [request_bytes("POST", path, body)], 16, SECONDS).requests
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(
            f"wrk.method = 'POST'\nwrk.body = [[{body.decode()}]]\nwrk.headers['content-type'] = 'application/json'\n"
        )
        script.flush()
        url = f"http://127.0.0.1:{port}{path}"
        told = subprocess.run(
            [WRK, "-t1", "-c16", f"-d{SECONDS:.0f}s", "-s", script.name, url],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    if "Non-2xx" in told:
        raise RuntimeError(told)
    return int(told.partition(" requests in")[0].split()[-1])


def predicting(options):
    """Measure target 2: requests per second."""
    adult = Adult(options.data)
    bodies = {"sparse x": adult.sparse[0], "dense x": adult.dense[0].tolist()}
    with serving() as server, echoing() as (echo, echo_pid):
        model = server.model()
        load(server.port, adult.batches(model, "bytes")[:50], CONNECTIONS)
        for name, x in bodies.items():
            body, ratios, ours, theirs = json.dumps({"x": x}).encode(), [], [], []
            for _ in range(options.runs):
                before = cpu_s(server.pid), cpu_s(echo_pid)
                found = rate_of(server.port, f"/models/{model}/predict", body), rate_of(echo, "/echo", body)
                ratios.append(found[0] / found[1])
                ours.append(1e6 * (cpu_s(server.pid) - before[0]) / found[0])
                theirs.append(1e6 * (cpu_s(echo_pid) - before[1]) / found[1])
            yield Line(
                "2", f"predictions of one example ({name}) beside a bare echo, requests/s", "60 %",
                f"{100 * middle(ratios):.0f} % ({span([100 * r for r in ratios], 0)}); CPU {middle(ours):.0f} beside "
                f"{middle(theirs):.0f} us a request",
                middle(ratios) >= 0.6,
            )  # fmt: skip


def waiting(options):
    """Measure target 2: p99 of one client while another client learns."""
    adult = Adult(options.data)
    with serving() as server:
        model, taught = server.model(), server.model()
        load(server.port, adult.batches(model, "bytes")[:50], CONNECTIONS)
        singles = adult.single(model, "predict", 300, labelled=False)
        idle, busy, rates = [], [], []
        for _ in range(options.runs):
            idle.append(load(server.port, singles, 1, SECONDS))
            beside = Load(server.port, adult.batches(taught, "bytes"), 1, 600.0)
            busy.append(load(server.port, singles, 1, SECONDS))
            rates.append(BATCH * beside.stop().rate)
    p99 = [[found.quantile_ms(0.99) for found in kind] for kind in (idle, busy)]
    ratio = middle(p99[1]) / middle(p99[0])
    half = [middle([found.quantile_ms(0.5) for found in kind]) for kind in (idle, busy)]
    yield Line(
        "2", f"p99 of a prediction while another client learns ({middle(rates):,.0f} examples/s)", "3 times idle's",
        f"{ratio:.1f} times: {middle(p99[1]):.2f} ms ({span(p99[1])}) beside {middle(p99[0]):.2f} ({span(p99[0])}); "
        f"medians {half[1]:.2f} beside {half[0]:.2f}",
        ratio <= 3,
    )  # fmt: skip


def coalescing(options):
    """Measure target 3: small learn requests of one client and of 64."""
    adult = Adult(options.data)
    with serving() as server:
        model = server.model(**CHEAP)
        requests = adult.single(model, "learn", 5_000, labelled=True)
        found = {1: [], 64: []}
        load(server.port, requests, 64, 1.0)
        for _ in range(options.runs):
            for clients, runs in found.items():
                before = cpu_s(server.pid)
                result = load(server.port, requests, clients, SECONDS)
                runs.append((result.rate, 1e6 * (cpu_s(server.pid) - before) / result.requests))
    ratios = [b[0] / a[0] for a, b in zip(found[1], found[64], strict=True)]
    rates, cpus = ({c: middle([f[i] for f in runs]) for c, runs in found.items()} for i in (0, 1))
    yield Line(
        "3", "learning one example a request, 64 clients beside one", "8 times",
        f"{middle(ratios):.1f} times ({span(ratios, 1)}): {rates[64]:,.0f} beside {rates[1]:,.0f} requests/s, all "
        f"durable; CPU {cpus[64]:.0f} beside {cpus[1]:.0f} us a request",
        middle(ratios) >= 8,
    )  # fmt: skip


def starting(options):
    """Measure target 4: a start with an empty and with a warm compile cache."""
    starts = {("an empty compile cache", 30): [], ("a warm compile cache", 3): []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            running = RunningServer(Path(folder) / "data")
            running.env["NUMBA_CACHE_DIR"] = str(Path(folder) / "compiled")
            for found in starts.values():
                start = time.perf_counter()
                with running:
                    seconds, server = time.perf_counter() - start, Served(running)
                    found.append((seconds, cpu_s(server.pid), server.rss_mib()))
    for (cache, asked), found in starts.items():
        seconds, cpu, memory = zip(*found, strict=True)
        yield Line(
            "4", f"/readyz with {cache}", f"{asked} s",
            f"{middle(seconds):.1f} s ({span(seconds, 1)}); CPU {middle(cpu):.1f} s; {middle(memory):.0f} MiB",
            middle(seconds) <= asked,
        )  # fmt: skip


def recovering(options):
    """Measure target 4: recovery with about 10,000 support vectors in the snapshot and 100,000 examples after it.

    The server is killed and started again. The examples are Adult three times: BSCA stays at 10,000 points, and LASVM
    stores five times as many.
    """
    adult = Adult(options.data)
    for solver, configuration, first in (
        ("BSCA, B = 10,000", {**CHEAP, "budget": 10_000}, 325),
        ("LASVM, which grows meanwhile", {}, 250),
    ):
        with tempfile.TemporaryDirectory() as folder:
            running = RunningServer(Path(folder) / "data", snapshot_examples=10**9)
            with running:
                server = Served(running)
                model = server.model(**configuration)
                requests = adult.batches(model, "bytes")
                load(server.port, requests[:first], CONNECTIONS)
                httpx.post(f"{running.url}/models/{model}/snapshot", timeout=300).raise_for_status()
                before = support_vectors(running, model)
                load(server.port, (requests * 4)[:1000], CONNECTIONS)
                running.kill()
                start = time.perf_counter()
                running.start()
                seconds, cpu = time.perf_counter() - start, cpu_s(running.process.pid)
                after = support_vectors(running, model)
        yield Line(
            "4", f"{solver}: kill -9 with {before:,} support vectors in the snapshot, {after:,} at the end, 100,000 "
            "examples behind it, until /readyz", "10 s", f"{seconds:.1f} s; CPU {cpu:.1f} s", seconds <= 10,
        )  # fmt: skip


def support_vectors(running, model):
    return httpx.get(f"{running.url}/models/{model}", timeout=300).json()["support_vectors"]


def idling(options):
    """Measure target 5: the memory of a model that has learned twenty examples."""
    adult, models = Adult(options.data), 200
    with serving() as server:

        def add():
            name = server.model()
            load_one(server, adult, name)

        for _ in range(20):
            add()
        before = server.rss_mib()
        for _ in range(models):
            add()
        each = (server.rss_mib() - before) / models
    yield Line("5", "memory of a model with 20 examples", "1 MiB", f"{each:.2f} MiB, the mean of {models}", each < 1)


def load_one(server, adult, name):
    body, media_type = adult.body("bytes", slice(0, 20))
    url = f"{server.running.url}/models/{name}/learn"
    httpx.post(url, content=body, headers={"content-type": media_type}, timeout=60).raise_for_status()


PARTS = {part.__name__: part for part in (learning, predicting, waiting, coalescing, starting, recovering, idling)}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    options = parser.parse_args()
    print(f"{options.runs} rounds, {'wrk' if WRK else 'no wrk'}\n")
    parts = {f"server-{name}": [PARTS[name]] for name in options.parts or PARTS}
    print_table(parts, options, packages=("fastapi", "uvicorn", "uvloop"))


if __name__ == "__main__":
    main()
