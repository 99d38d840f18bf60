"""The cost of asking a server that does not own the model, compared with asking the owner: predictions of one row.

    PYTHONPATH=.:benchmarks python benchmarks/server/passed_on.py

Two servers share a separate Redis. All processes run on this machine, and the two servers are measured alternately; the
results are medians. All processes share the processors. If the processors are busy, compare the CPU times of the
processes.
"""

import argparse
import os
import statistics
import tempfile
from pathlib import Path

import httpx
import numpy as np
from results import Table, keep
from server.followers import DIM, body_of
from server.load import load, request_bytes

from tests.helpers.nodes import Nodes

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(asked, servers, requests, connections, seconds):
    """Return the rate, p50 in milliseconds, and CPU microseconds per request for owner, other server and client."""
    before = [cpu_s(server.process.pid) for server in servers]
    found = load(asked.port, requests, connections, seconds)
    spent = [cpu_s(server.process.pid) - then for server, then in zip(servers, before, strict=True)]
    return [found.rate, found.quantile_ms(0.5), *(1e6 * s / found.requests for s in (*spent, found.cpu_s))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 8, 64])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    requests = [request_bytes("POST", "/models/asked/predict", body_of(rng, 1)) for _ in range(50)]
    found = {(c, way): [] for c in options.connections for way in ("owner", "passed on")}
    with tempfile.TemporaryDirectory() as folder, Nodes(Path(folder), 2, node_ttl_s=200) as nodes:
        owner, other = nodes.servers
        configuration = {"C": 1, "kernel": {"type": "rbf", "gamma": 0.05}, "features": {"type": "dense", "dim": DIM}}
        httpx.put(f"{owner.url}/models/asked", json=configuration).raise_for_status()
        body = body_of(rng, options.examples, labelled=True)
        headers = {"content-type": "application/json"}
        httpx.post(f"{owner.url}/models/asked/learn", content=body, headers=headers, timeout=300).raise_for_status()
        for server in nodes.servers:
            load(server.port, requests, 4, 0.5)
        for _ in range(options.turns):
            for connections in options.connections:
                for way, server in (("owner", owner), ("passed on", other)):
                    turn = measured(server, nodes.servers, requests, connections, options.seconds)
                    found[connections, way].append(turn)
    cpu = [f"{who}, us of CPU" for who in ("owner", "other", "client")]
    table = Table("connections", "asked", "requests/s", "of the owner's", "p50, ms", *cpu)
    for connections in options.connections:
        own = statistics.median(turn[0] for turn in found[connections, "owner"])
        for way in ("owner", "passed on"):
            rate, p50, *spent = (statistics.median(column) for column in zip(*found[connections, way], strict=True))
            cells = f"{rate:,.0f}", f"{rate / own:.2f}", f"{p50:.2f}", *(f"{us:.0f}" for us in spent)
            table.add(connections, way, *cells)
    keep("passed_on", table)


if __name__ == "__main__":
    main()
