"""A simulation of a hundred servers and a hundred thousand models: placing, moves, and the load of Redis.

    PYTHONPATH=. python benchmarks/cluster.py

Placing and planning are the service's own functions (service/cluster/placement.py), and the messages to Redis are the
service's own. Models are drawn at random: memory and load are lognormal, so that a few models take as much as
thousands. The times of a claim, a load and a move, and the load of a sign of life on Redis, are measured constants;
everything else is counted. The simulation knows no networks, and does all claims and loads of a server one after the
other.
"""

import argparse
import math
import random
import time
from collections import Counter

from results import Table, keep

from hinged.service.cluster.controller import AT_ONCE, MODEL_BYTES, side_by_side
from hinged.service.cluster.known import WHOLE_S
from hinged.service.cluster.members import BEATS
from hinged.service.cluster.placement import Placed, Server, fullness, needed_moves
from hinged.service.peers.ring import first_of

CLAIM_S = 0.005
"""Seconds of a claim in Redis and of its announcement, with their fsyncs."""
LOAD_S = 0.01
"""CPU seconds of the load of a small model (benchmarks/thousand.py)."""
MOVE_S = 0.15
"""Seconds of a model's move on busy cores: drain, snapshot, release, claim, load (benchmarks/thousand.py)."""
BEAT_S, NODE_S, NAME_S = 50e-6, 3e-6, 8e-6
"""CPU seconds of Redis for a sign of life, and per server and per name in its answer (INFO commandstats)."""
NODE_BYTES, NAME_BYTES = 208, 81
"""Bytes in the answer: address and figures of a server; name, epoch and address of a model."""
TTL_S = 3.0
SERVER = {"memory_max_bytes": 32 * 2**30, "processors": 16.0}


def drawn(rng, name, owner):
    """A model of a few MiB and a thousandth of a processor, or of much more."""
    return Placed(
        name, owner, MODEL_BYTES + rng.lognormvariate(math.log(4 * 2**20), 1.5), rng.lognormvariate(-7.0, 1.5)
    )


def placed(models, servers):
    """The models, each at the server that comes first for it."""
    return [model._replace(owner=first_of(servers, model.model)) for model in models]


def after(models, moves):
    targets = {move.model: move.target for move in moves}
    return [model._replace(owner=targets.get(model.model, model.owner)) for model in models]


def seconds_of(moves):
    """How long moves take, as many at once as the controller makes."""
    return MOVE_S * len(side_by_side(moves))


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
    servers = {f"http://10.0.0.{k}:8000": Server(f"http://10.0.0.{k}:8000", **SERVER) for k in range(count)}
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
    """The load of all signs of life on Redis, which returns the other servers and the names that changed owners.

    Beside it the load if each sign returned all names. In a minute as many models change owners as a server has.
    """
    table = Table("servers", "models", "signs of life a second", "MB/s", "CPU", "all names: MB/s", "all names: CPU")
    for servers, models in ((3, 1_000), (10, 10_000), (count, models_count)):
        beats = servers * BEATS / TTL_S
        changes_s = servers * (models / servers / 60 + models / WHOLE_S)  # names a second
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
    print(f"\n{AT_ONCE} moves at once; {time.process_time() - started:.0f} CPU seconds in all")
    keep("cluster", *tables)


if __name__ == "__main__":
    main()
