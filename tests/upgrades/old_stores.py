"""Write the stores of a version of the server, which every later version must open.

    .venv/bin/python -m tests.upgrades.old_stores VERSION

writes the folder tests/upgrades/VERSION: the file of the embedded store, the contents of a Redis as commands, and the
models' answers. After the release of a version its folder does not change.
"""

import gzip
import json
import sys
import tempfile
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import redis

from hinged import Client
from hinged.service.engine.history import ModelHistory
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer
from tests.helpers.states import digest_of

HERE = Path(__file__).parent
SIZES = {"cache_bytes": 2**20, "answers_kept": 1000}
KERNEL = {"type": "rbf", "gamma": 1.0}
MODELS = {
    "plain": {"kernel": KERNEL, "C": 4.0, "features": {"type": "dense", "dim": 3}},
    "precise": {"solver": "exact", "kernel": KERNEL, "C": 2.0, "precision": "float64",
                "features": {"type": "dense", "dim": 3}},
    "small": {"solver": "bsca", "kernel": KERNEL, "C": 8.0, "budget": 20, "features": {"type": "sparse", "dim": 1000}},
    "named": {"kernel": {"type": "rbf", "gamma": "auto"}, "C": 4.0, "features": {"type": "named", "warmup": 20}},
}  # fmt: skip


def inputs(name, n, seed):
    """`n` x for a model, equal on every machine."""
    X = np.random.default_rng(seed).integers(-1000, 1001, (n, 3)) / 500.0
    if name == "small":
        return [{"indices": [1, 70, 900], "values": row} for row in X.tolist()]
    if name == "named":
        return [{"amount": row[0], "hour": row[1], "channel": "web" if row[2] > 0 else "shop"} for row in X.tolist()]
    return X.tolist()


def labels(n, seed):
    X = np.random.default_rng(seed).integers(-1000, 1001, (n, 3))
    return np.where(X[:, 0] * X[:, 1] > 0, "good", "bad").tolist()


def examples(name, n, seed, ids=None):
    pairs = zip(inputs(name, n, seed), labels(n, seed), strict=True)
    return [{"x": x, "y": y, **({"id": f"{ids}{k}"} if ids else {})} for k, (x, y) in enumerate(pairs)]


def fill(client):
    """Give the models a history with every kind of event."""
    for name, configuration in MODELS.items():
        client.create_model(name, **configuration)
        client.learn(name, examples(name, 40, 1, "a"))
        client.learn(name, examples(name, 20, 2))
        client.predict(name, [{"x": x, "id": f"p{k}"} for k, x in enumerate(inputs(name, 5, 3))])
        client.learn(name, [{"id": "p1", "y": "good"}])
        client.offer(name, [{"x": x, "id": f"c{k}"} for k, x in enumerate(inputs(name, 6, 4))])
        lease = client.query(name, annotator="ann", n=2)["queries"][0]
        client.skip(name, lease["lease"])
        client.learn(name, [{"id": "c5", "y": "bad"}])
        client.snapshot(name)
        position = client.model(name)["position"]
        client.learn(name, examples(name, 10, 5, "undone"))
        client.rollback(name, position)
        client.finish(name)
        client.learn(name, examples(name, 10, 6, "b"))
    client.wait(client.forget("precise", "a3"))
    client.wait(client.correct("precise", "a4", "good"))
    client.wait(client.forget("plain", "a3"))
    client.wait(client.change_model("small", C=4.0))
    client.challenge("plain", "other", C=1.0)
    client.learn("plain", examples("plain", 10, 7, "d"))


def answers(client):
    """The answers of the models that later versions must give, too."""
    found = {}
    for name in MODELS:
        predicted = client.predict(name, [{"x": x} for x in inputs(name, 8, 9)])["results"]
        figures = client.model(name)
        found[name] = {
            "predictions": [[each[part] for part in ("prediction", "probability", "scores")] for each in predicted],
            **{figure: figures[figure] for figure in ("support_vectors", "points")},
        }
    return found


def digests(store, without=None):
    """A hash of each model's state, as its log and snapshots give it."""
    return {name: digest_of(ModelHistory(store, name, **SIZES).newest(), without) for name in MODELS}


def dumped(url):
    """The contents of a Redis as commands, one on each line."""
    lines = []
    with redis.Redis.from_url(url) as client:
        for key in sorted(client.scan_iter()):
            kind = client.type(key).decode()
            if kind == "string":
                lines.append([b"SET", key, client.get(key)])
            elif kind == "set":
                lines.append([b"SADD", key, *sorted(client.smembers(key))])
            elif kind == "hash":
                lines += [[b"HSET", key, field, value] for field, value in sorted(client.hgetall(key).items())]
            else:
                assert kind == "stream"
                lines += [[b"XADD", key, at, *chain.from_iterable(kept.items())] for at, kept in client.xrange(key)]
    return "\n".join(json.dumps([part.decode("latin-1") for part in line]) for line in lines).encode()


def put_back(dump, url):
    with redis.Redis.from_url(url) as client:
        for line in dump.decode().splitlines():
            client.execute_command(*(part.encode("latin-1") for part in json.loads(line)))


@contextmanager
def server_on(kind, folder, given=None):
    """A server on a store of this kind, and a function that opens the store. given: the store's contents, or None."""
    if kind == "sqlite":
        data = folder / "data"
        data.mkdir(parents=True)
        if given:
            (data / "hinged.db").write_bytes(given)
        yield RunningServer(data), lambda: SQLiteStore(data)
    else:
        with RedisServer(folder / "redis") as other:
            if given:
                put_back(given, other.url)
            yield RunningServer(folder / "data", store=other.url), lambda: RedisStore(other.url)


def write(version):
    place = HERE / version
    place.mkdir()
    for kind in ("sqlite", "redis"):
        with tempfile.TemporaryDirectory() as temporary, server_on(kind, Path(temporary)) as (server, opened):
            with server, Client(server.url) as client:
                fill(client)
                told = answers(client)
                server.terminate()
            with closing(opened()) as store:
                told["digests"] = digests(store)
            if kind == "sqlite":
                content = (Path(temporary) / "data" / "hinged.db").read_bytes()
            else:
                content = dumped(server.env["HINGED_STORE"])
            (place / f"{kind}.gz").write_bytes(gzip.compress(content, mtime=0))
            (place / f"{kind}.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
