"""What workers bring: two models that learn, with one worker and with two, and predictions beside one that computes.

    PYTHONPATH=.:benchmarks:benchmarks/server python benchmarks/server/workers.py --seconds 2

Rows have 20 numbers and the models 100 points (BSCA). Two clients, each a process of its own, teach a model each, over
connections that are opened anew for each measurement: to the port, where who takes one may have to pass on, or to the
owner's own address. Processor seconds are those of workers and of clients. Then one client asks a small model for
predictions, one after the other, at the owner and while no model does anything else, or while a model of the other
worker learns by the exact solver all the time, or a process that knows nothing of the server counts. Told are medians.
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
from neighbours import SLOW, SMALL, Busy, Slow, examples
from readers import DIM, body_of
from server.load import Load, load, request_bytes

from tests.helpers.server import RunningServer

TAUGHT = {"solver": "bsca", "budget": 100, "C": 1, "kernel": {"type": "rbf", "gamma": 0.05}}


def cpu_s(server):
    """Processor seconds of all workers."""
    from tests.helpers.divided_server import workers_of  # noqa: PLC0415  not for each process of a client, which imports this, too

    spent = 0
    for pid in workers_of(server).values():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent += int(fields[11]) + int(fields[12])
    return spent / 100


def port_of_owner(server, name):
    """Where the worker is reached that has a model."""
    from tests.helpers.divided_server import own_port, owner_of, workers_of  # noqa: PLC0415

    workers = workers_of(server)
    return own_port(workers[owner_of(name, len(workers))], server.port)


def taught(server, names, requests, seconds, connections, *, directly):
    """Requests a second, and microseconds of a processor for each: workers and clients."""
    ports = [port_of_owner(server, name) if directly else server.port for name in names]
    before = cpu_s(server)
    loads = [Load(port, requests[name], connections, seconds) for name, port in zip(names, ports, strict=True)]
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
    servers = {n: stack.enter_context(RunningServer(folder / f"data{n}", workers=n)) for n in (1, 2)}
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
                for directly in (False, True) if count > 1 else (False,):
                    figures = taught(server, names, requests, options.seconds, options.connections, directly=directly)
                    found[rows, count, directly].append(figures)
    print("\n| examples a request | workers | asked at | requests/s | times | us of CPU: workers | clients |")
    print("|---|---|---|---|---|---|---|")
    for (rows, count, directly), figures in found.items():
        rate, server_us, client_us = map(statistics.median, zip(*figures, strict=True))
        one = statistics.median(figure[0] for figure in found[rows, 1, False])
        where = "the owner" if directly else "the port"
        print(f"| {rows} | {count} | {where} | {rate:,.0f} | {rate / one:.2f} | {server_us:.0f} | {client_us:.0f} |")


def beside(_, folder, options):
    from tests.helpers.divided_server import names_of, owner_of  # noqa: PLC0415

    print("\n| workers | beside | p50 ms | p99 ms |\n|---|---|---|---|")
    for count in (1, 2):
        with RunningServer(folder / f"beside{count}", workers=count) as server:
            small = names_of(3 - owner_of("slow0", 2), 2, 1)[0]  # elsewhere than the slow one, where there are two
            made = {**SMALL, "features": {"type": "dense", "dim": 8}}
            httpx.put(f"{server.url}/models/{small}", json=made, timeout=300).raise_for_status()
            path, body = f"/models/{small}", {"examples": examples(1, 50)}
            httpx.post(f"{server.url}{path}/learn", json=body, timeout=300).raise_for_status()
            rows = [json.dumps({"x": e["x"]}).encode() for e in examples(2, 500)]
            requests = [request_bytes("POST", f"{path}/predict", row) for row in rows]
            port = port_of_owner(server, small)
            found = defaultdict(list)
            for _ in range(options.turns):
                others = {
                    "nothing": nullcontext(), "a model": Slow(server.url, 1, SLOW), "a process that counts": Busy()
                }  # fmt: skip
                for what, other in others.items():
                    with other:
                        loaded = load(port, requests, seconds=options.seconds)
                        found[what].append((loaded.quantile_ms(0.5), loaded.quantile_ms(0.99)))
            for what, figures in found.items():
                p50, p99 = map(statistics.median, zip(*figures, strict=True))
                print(f"| {count} | {what} | {p50:.2f} | {p99:.2f} |")


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
