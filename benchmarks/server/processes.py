"""The effect of several processes: two models that learn with one process and with two, and predictions meanwhile.

    PYTHONPATH=.:benchmarks:benchmarks/server python benchmarks/server/processes.py --seconds 2

Rows have 20 numbers, and the models are BSCA with 100 points. Two clients, each in its own process, make one model each
learn over new connections ("kept"), or both models over each connection ("mixed"). A mixed connection is handed over
whenever the next model belongs to another process. CPU seconds are measured for the server's processes and for the
clients. Then one client asks a small model for predictions, one after another, in three situations: no other model is
busy; a model of the other process learns with the exact solver; an unrelated process keeps a processor busy. Results
are medians.
"""

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from contextlib import ExitStack, nullcontext
from pathlib import Path

import httpx
import numpy as np
from followers import DIM, body_of
from neighbours import SLOW, SMALL, Busy, Slow, examples
from results import Table, keep
from server.load import Load, load, request_bytes

from tests.helpers.server import RunningServer

TAUGHT = {"solver": "bsca", "budget": 100, "C": 1, "kernel": {"type": "rbf", "gamma": 0.05}}


def cpu_s(server):
    """Return the CPU seconds of all processes."""
    from tests.helpers.divided_server import processes_of  # noqa: PLC0415  not for each process of a client, which imports this, too

    spent = 0
    pids = processes_of(server).values() if server.env["HINGED_PROCESSES"] != "1" else [server.process.pid]
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent += int(fields[11]) + int(fields[12])
    return spent / 100


def taught(server, names, requests, seconds, connections, *, mixed):
    """Return requests per second, and CPU microseconds per request for the server and for the clients."""
    both = [request for pair in zip(*requests.values(), strict=True) for request in pair]
    before = cpu_s(server)
    loads = [Load(server.port, both if mixed else requests[name], connections, seconds) for name in names]
    found = [each.result() for each in loads]
    count = sum(each.requests for each in found)
    return (
        sum(each.rate for each in found),
        1e6 * (cpu_s(server) - before) / count,
        1e6 * sum(each.cpu_s for each in found) / count,
    )


def learning(stack, folder, options):
    from tests.helpers.divided_server import names_of  # noqa: PLC0415

    rng = np.random.default_rng(0)
    names = [names_of(number, 2, 1)[0] for number in (1, 2)]
    servers = {n: stack.enter_context(RunningServer(folder / f"data{n}", processes=n)) for n in (1, 2)}
    for server in servers.values():
        for name in names:
            made = {**TAUGHT, "features": {"type": "dense", "dim": DIM, "scale": None}}
            httpx.put(f"{server.url}/models/{name}", json=made, timeout=300).raise_for_status()
    found = defaultdict(list)
    for _ in range(options.turns):
        for rows in (1, 100):
            bodies = [body_of(rng, rows, labelled=True) for _ in range(100)]
            requests = {name: [request_bytes("POST", f"/models/{name}/learn", b) for b in bodies] for name in names}
            for count, server in servers.items():
                for mixed in (False, True):
                    figures = taught(server, names, requests, options.seconds, options.connections, mixed=mixed)
                    found[rows, count, mixed].append(figures)
    heads = "requests/s", "times", "server, us of CPU", "clients, us of CPU"
    table = Table("examples a request", "processes", "connections", *heads)
    for (rows, count, mixed), figures in found.items():
        rate, server_us, client_us = map(statistics.median, zip(*figures, strict=True))
        one = statistics.median(figure[0] for figure in found[rows, 1, False])
        how = "mixed" if mixed else "kept"
        cells = f"{rate:,.0f}", f"{rate / one:.2f}", f"{server_us:.0f}", f"{client_us:.0f}"
        table.add(rows, count, how, *cells)
    keep("processes", table)


def beside(_, folder, options):
    from tests.helpers.divided_server import names_of, owner_of  # noqa: PLC0415

    table = Table("processes", "beside", "p50, ms", "p99, ms")
    for count in (1, 2):
        with RunningServer(folder / f"beside{count}", processes=count) as server:
            small = names_of(3 - owner_of("slow0", 2), 2, 1)[0]  # not at the slow model's owner, if there are two
            made = {**SMALL, "features": {"type": "dense", "dim": 8}}
            httpx.put(f"{server.url}/models/{small}", json=made, timeout=300).raise_for_status()
            path, body = f"/models/{small}", {"examples": examples(1, 50)}
            httpx.post(f"{server.url}{path}/learn", json=body, timeout=300).raise_for_status()
            rows = [json.dumps({"x": e["x"]}).encode() for e in examples(2, 500)]
            requests = [request_bytes("POST", f"{path}/predict", row) for row in rows]
            found = defaultdict(list)
            for _ in range(options.turns):
                others = {
                    "nothing": nullcontext(), "a model": Slow(server.url, 1, SLOW), "a process that counts": Busy()
                }  # fmt: skip
                for what, other in others.items():
                    with other:
                        loaded = load(server.port, requests, seconds=options.seconds)
                        found[what].append((loaded.quantile_ms(0.5), loaded.quantile_ms(0.99)))
            for what, figures in found.items():
                p50, p99 = map(statistics.median, zip(*figures, strict=True))
                table.add(count, what, f"{p50:.2f}", f"{p99:.2f}")
    keep("processes-beside", table)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=8, help="of each client")
    parser.add_argument("--only", choices=["learning", "beside"])
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for part in (learning, beside):
            if options.only in {None, part.__name__}:
                part(stack, folder, options)


if __name__ == "__main__":
    main()
