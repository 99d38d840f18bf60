"""A simulation of a hundred servers with a hundred thousand models: placement, moves, and the load on Redis.

    PYTHONPATH=. python benchmarks/cluster.py

The simulation calls the service's own functions for placement (service/cluster/placement.py), and assumes the messages
that the service sends to Redis. Models are drawn at random: memory and load are lognormal, so that a few models need as
much as thousands of other models. The durations of a claim, a load and a move, and the load that a heartbeat puts on
Redis, are measured constants. Everything else is counted. The simulation has no network delays, and does all claims and
loads of a server one after another.
"""

import argparse
import math
import random
import time
from collections import Counter

from results import Table, keep

from hinged.service.cluster.controller import MODEL_BYTES
from hinged.service.cluster.known import WHOLE_S
from hinged.service.cluster.members import BEATS
from hinged.service.cluster.placement import Host, Placed, fullness, needed_moves
from hinged.service.peers.ring import first_of

CLAIM_S = 0.005
"""Seconds of a claim in Redis and of its announcement, including their fsyncs."""
LOAD_S = 0.01
"""CPU seconds to load a small model (benchmarks/thousand.py)."""
MOVE_S = 0.15
"""Seconds of a model's move on busy cores: drain, snapshot, release, claim, load (benchmarks/thousand.py)."""
BEAT_S, NODE_S, NAME_S = 50e-6, 3e-6, 8e-6
"""CPU seconds of Redis for a heartbeat, and per server and per name in its answer (INFO commandstats)."""
NODE_BYTES, NAME_BYTES = 208, 81
"""Number of bytes in the answer: for a server, its address and load; for a model, its name, epoch and address."""
TTL_S = 3.0
SERVER = {"memory_max_bytes": 32 * 2**30, "processors": 16.0}


def drawn(rng, name, owner):
    """Return a model with a few MiB and a thousandth of a processor, or with much more."""
    return Placed(
        name, owner, MODEL_BYTES + rng.lognormvariate(math.log(4 * 2**20), 1.5), rng.lognormvariate(-7.0, 1.5)
    )


def placed(models, servers):
    """Return the models, each at the server that ranks first for it."""
    return [model._replace(owner=first_of(servers, model.model)) for model in models]


def after(models, moves):
    targets = {move.model: move.target for move in moves}
    return [model._replace(owner=targets.get(model.model, model.owner)) for model in models]


def seconds_of(moves):
    """Return how long the moves take, one after the other."""
    return MOVE_S * len(moves)


def shown(table, title, servers, models, moved, seconds, planned_s):
    full = fullness(servers.values(), models)
    counts = Counter(model.owner for model in models)
    row = (title, len(servers), max(counts.values()), f"{max(full.values()):.2f}", f"{min(full.values()):.2f}")
    table.add(*row, moved, f"{seconds:.0f}", f"{planned_s:.1f}")


def timed(function, *args):
    started = time.process_time()
    return function(*args), time.process_time() - started


def simulate(count, models_count, seed):
    rng = random.Random(seed)  # noqa: S311  of no secrets
    servers = {f"http://10.0.0.{k}:8000": Host(f"http://10.0.0.{k}:8000", **SERVER) for k in range(count)}
    models = [drawn(rng, f"m{k}", "") for k in range(models_count)]
    heads = "models of the fullest", "fullest", "emptiest", "moved", "seconds", "planning, CPU s"
    table = Table("", "servers", *heads)

    models, took = timed(placed, models, list(servers))
    most = max(Counter(model.owner for model in models).values())
    shown(table, "all start at once", servers, models, 0, most * (CLAIM_S + LOAD_S), took)
    models = balanced(table, servers, models)

    gone = min(servers)
    server = servers.pop(gone)
    orphans = [model for model in models if model.owner == gone]
    claimed, took = timed(placed, orphans, list(servers))
    models = [model for model in models if model.owner != gone] + claimed
    most = max(Counter(model.owner for model in claimed).values())
    shown(table, "one dies: claims", servers, models, len(claimed), TTL_S + most * (CLAIM_S + LOAD_S), took)
    models = balanced(table, servers, models)

    servers[gone] = server
    shown(table, "one joins", servers, models, 0, 0, 0.0)
    models = balanced(table, servers, models)
    print(f"\nAnd then {len(needed_moves(servers.values(), models))} moves more.\n")
    return table


def balanced(table, servers, models):
    moves, took = timed(needed_moves, servers.values(), models)
    models = after(models, moves)
    shown(table, "balanced", servers, models, len(moves), seconds_of(moves), took)
    return models


def load_on_redis(count, models_count):
    """Return the load that all heartbeats put on Redis. A heartbeat returns the other servers and the changed owners.

    The function also returns the load if each heartbeat returned all names. In each minute, the number of models that
    change owners is the number of models of one server.
    """
    table = Table("servers", "models", "signs of life a second", "MB/s", "CPU", "all names: MB/s", "all names: CPU")
    for servers, models in ((3, 1_000), (10, 10_000), (count, models_count)):
        beats = servers * BEATS / TTL_S
        changes_s = servers * (models / servers / 60 + models / WHOLE_S)  # names per second
        nodes_s = beats * servers
        names = [changes_s, beats * models]
        shown = []
        for each in names:
            bytes_s = each * NAME_BYTES + nodes_s * NODE_BYTES
            share = beats * BEAT_S + nodes_s * NODE_S + each * NAME_S
            shown += [f"{bytes_s / 1e6:,.1f}", f"{100 * share:.1f} %"]
        table.add(servers, f"{models:,}", f"{beats:.0f}", *shown)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.process_time()
    tables = simulate(options.servers, options.models, options.seed), load_on_redis(options.servers, options.models)
    print(f"\n{time.process_time() - started:.0f} CPU seconds in all")
    keep("cluster", *tables)


if __name__ == "__main__":
    main()
