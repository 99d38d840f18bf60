"""A thousand models on three servers that share a Redis: start, claims, rebalancing, memory.

    PYTHONPATH=.:benchmarks python benchmarks/thousand.py

Models have 20 examples of two columns and use LASVM. "start": the time until all three servers are ready after a clean
stop. "claimed": the time until every model of a killed server answers again. "balanced": the time of `hinged cluster
balance` after the killed server has started again. Seconds are wall-clock seconds. CPU seconds are the sum of all three
servers. Memory is the growth of the servers' memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from results import Table, keep
from sizing import MIB, scraped

from tests.helpers.nodes import CONFIGURATION, Nodes
from tests.helpers.server import PATIENCE_S, ROOT

THREADS = 6
TTL_S = 3.0
EXAMPLES = [{"id": f"e{k}", "x": [k % 7 / 7, k % 5 / 5], "y": k % 3 > 0} for k in range(20)]


def ask(server, method, path, **request):
    return httpx.request(method, server.url + path, timeout=PATIENCE_S, **request)


def resident(servers):
    return sum(scraped(server, "process_resident_memory_bytes") for server in servers) / MIB


def cpu(servers):
    return sum(scraped(server, "process_cpu_seconds_total") for server in servers)


def counts(server):
    shown = ask(server, "GET", "/cluster").json()
    return Counter(model["owner"] for model in shown["models"]), shown


def until_all_answer(server, names):
    """Return the seconds until each of some models has answered."""
    began, left = time.monotonic(), set(names)
    body = {"examples": [{"x": [0.0, 1.0]}]}
    with ThreadPoolExecutor(THREADS) as pool:
        while left:
            each = sorted(left)
            found = pool.map(lambda name: ask(server, "POST", f"/models/{name}/predict", json=body).status_code, each)
            left -= {name for name, status in zip(each, found, strict=True) if status == 200}
    return time.monotonic() - began


def make(servers, names):
    def one(numbered):
        number, name = numbered
        server = servers[number % len(servers)]
        ask(server, "PUT", f"/models/{name}", json=CONFIGURATION).raise_for_status()
        ask(server, "POST", f"/models/{name}/learn", json={"examples": EXAMPLES}).raise_for_status()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, enumerate(names)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1_000)
    options = parser.parse_args()
    names = [f"m{k}" for k in range(options.models)]
    table = Table("", "seconds", "CPU seconds", "found")

    def row(what, seconds, cpu_s, more):
        table.add(what, f"{seconds:.1f}", f"{cpu_s:.1f}", more)

    with tempfile.TemporaryDirectory() as folder, Nodes(Path(folder), 3, node_ttl_s=TTL_S) as nodes:
        servers = nodes.servers
        empty, began, used = resident(servers), time.monotonic(), cpu(servers)
        make(servers, names)
        each = (resident(servers) - empty) / len(names)
        row("created, 20 examples each", time.monotonic() - began, cpu(servers) - used, f"{each:.2f} MiB a model")

        for server in servers:
            server.process.terminate()
        for server in servers:
            server.process.wait()
        began = time.monotonic()
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait_until_ready()
        shares, _ = counts(servers[0])
        each = (resident(servers) - empty) / len(names)
        took = time.monotonic() - began
        row("start", took, cpu(servers), f"{sorted(shares.values())} models, {each:.2f} MiB a model")

        victim, others = servers[2], servers[:2]
        orphans = [model["model"] for model in counts(victim)[1]["models"] if model["owner"] == victim.url]
        used = cpu(others)
        victim.kill()
        seconds = until_all_answer(others[0], orphans)
        row("claimed", seconds, cpu(others) - used, f"{len(orphans)} models of one of three; ttl {TTL_S:g} s")

        victim.start()
        used, began = cpu(servers), time.monotonic()
        command = [sys.executable, "-m", "hinged", "cluster", "balance", "--store", nodes.redis.url]
        done = subprocess.run([*command, "--url", others[0].url], cwd=ROOT, capture_output=True, text=True, check=True)
        moves = done.stdout.count(" -> ")
        shares, shown = counts(others[0])
        what = f"{moves} moves, {sorted(shares.values())} models"
        row("balanced", time.monotonic() - began, cpu(servers) - used, what)
        began = time.monotonic()
        size = len(json.dumps(counts(others[0])[1]))
        row("`GET /cluster`", time.monotonic() - began, 0, f"{size / 1e6:.1f} MB, {len(shown['models'])} models")
    keep("thousand", table)


if __name__ == "__main__":
    main()
