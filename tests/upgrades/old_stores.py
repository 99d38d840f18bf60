"""Write the stores of a version of the server, which every later version must open.

    .venv/bin/python -m tests.upgrades.old_stores VERSION

The program writes the folder tests/upgrades/VERSION: the file of the embedded store, the contents of a Redis as
commands, and the models' answers, which are the same from both. After the release of a version its folder does not
change. The stores hold every kind of event that the server knows; otherwise the program names the missing kinds and
writes nothing.
"""

import json
import lzma
import sys
import tempfile
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path

import httpx
import numpy as np
import redis

from hinged import Client
from hinged.frames import encode
from hinged.service.engine.history import ModelHistory
from hinged.service.model.events import KINDS
from hinged.service.store.base import Event
from hinged.service.store.redis import RedisStore
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.receiver import Receiver
from tests.helpers.redis_server import RedisServer
from tests.helpers.server import RunningServer
from tests.helpers.states import digest_of

HERE = Path(__file__).parent
SIZES = {"cache_bytes": 2**20, "answers_kept": 1000}
KERNEL = {"type": "rbf", "gamma": 1.0}
DENSE = {"type": "dense", "dim": 3}
MODELS = {
    "plain": {"kernel": KERNEL, "C": 4.0, "features": DENSE},
    "precise": {"solver": "exact", "kernel": KERNEL, "C": 2.0, "precision": "float64", "features": DENSE},
    "small": {"solver": "bsca", "kernel": KERNEL, "C": 8.0, "budget": 20, "features": {"type": "sparse", "dim": 1000},
              "receipts": True},
    "named": {"kernel": {"type": "rbf", "gamma": "auto"}, "C": 4.0, "features": {"type": "named", "warmup": 20},
              "costs": {"good": {"bad": 1}, "bad": {"good": 9}, "ask": 0.5},
              "capacity": {"good": {"most": 1000, "per": "1h"}, "ask": {"most": 1000, "per": "1h"}}},
    "race": {"features": DENSE, "novelty": True, "promise": {"error": 0.1}, "alarm": {"level": 0.01}},
}  # fmt: skip
BARE = "bare"
"""Name of a model without features: its log only announces it."""


def inputs(name, n, seed):
    """Return `n` values of x for a model, equal on every machine."""
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


def fill(client, receiver):
    """Give the models a history. receiver: the URL of a hook."""
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
    challenge(client)
    label(client)
    decide(client)
    client.remove_hook("plain", client.add_hook("plain", receiver, events=["promoted"])["id"])
    client.add_hook("precise", receiver, events=["rolled_back"])
    client.rollback("precise", client.model("precise")["position"])
    client.import_model("copy", client.export_model("precise"))
    client.create_model(BARE)


def challenge(client):
    """Change a model that has challengers, retire one challenger and promote another challenger."""
    client.wait(client.challenge("plain", "worse", C=0.5))
    client.wait(client.change_model("plain", labels={"overlap": 2}))
    client.retire("plain", "worse")
    client.wait(client.challenge("precise", "better", C=3.0))
    client.promote("precise", "better")


def label(client):
    """Do everything that annotators do, through the server's interface and through Label Studio."""
    client.offer("plain", [{"x": x, "id": f"s{k}", "show": k} for k, x in enumerate(inputs("plain", 4, 8))])
    client.offer("plain", [{"x": x, "id": f"s{k}", "show": "s"} for k, x in enumerate(inputs("plain", 4, 8))])
    first, second, third = client.query("plain", annotator="bob", n=3)["queries"]
    client.heartbeat("plain", first["lease"])
    client.learn("plain", [{"id": first["id"], "y": "good", "lease": first["lease"]}])
    client.skip("plain", second["lease"])
    client.unskip("plain", second["lease"])
    client.release("plain", third["lease"])
    choices = '<Choices name="y" toName="t"><Choice value="good"/></Choices>'
    config = f'<View><Text name="t" value="$channel"/>{choices}</View>'
    value = {"from_name": "y", "to_name": "t", "type": "choices", "value": {"choices": ["good"]}}
    annotation = {"id": 5, "completed_by": 1, "result": [value], "updated_at": "2026-05-01T12:00:00.000000Z"}
    told = httpx.post(
        f"{client.url}/labelstudio/models/named/webhook",
        json={
            "action": "ANNOTATION_CREATED",
            "annotation": annotation,
            "task": {"id": 70, "data": inputs("named", 1, 10)[0]},
            "project": {"id": 3, "label_config": config},
        },
    )
    assert told.status_code == 200, told.text


def decide(client):
    """Decide with a capacity, and acknowledge an alert."""
    client.decide("named", [{"x": x, "id": f"d{k}"} for k, x in enumerate(inputs("named", 20, 12))])
    alert = client.alerts("named")["alerts"][0]
    client.acknowledge("named", [alert["id"]])


def break_model(store):
    """Append an event of a kind that no version knows. `fill` cannot, because a server appends no such event."""
    store.append("copy", store.end("copy"), [Event("teleported", encode("teleported", {}, {}))])


def missing_kinds(store):
    """Return the kinds of events that the server knows and the store does not hold."""
    return sorted(set(KINDS) - {record.kind for name in store.models() for _, record in store.read(name, 0)})


def filled(server, opened):
    """Fill the store of a server. Return the models' answers. The server has ended then."""
    with Receiver() as receiver:
        server.env |= {"HINGED_HOOKS_HOSTS": receiver.host, "HINGED_HOOKS_SECRET": "a secret of at least 32 characters"}
        with server, Client(server.url) as client:
            fill(client, receiver.host)
            receiver.wait_for(1)
            server.terminate()
        with closing(opened()) as store:
            break_model(store)
        with server, Client(server.url) as client:
            client.skip_event("copy")
            told = answers(client, [*MODELS, "copy"])
            server.terminate()
    with closing(opened()) as store:
        if missing := missing_kinds(store):
            raise SystemExit(f"the store must hold every kind of event; let `fill` write {', '.join(missing)}")
        return told | {"digests": digests(store, told)}


def answers(client, names):
    """Return the answers of models. Later versions must give the same answers."""
    found = {}
    for name in names:
        predicted = client.predict(name, [{"x": x} for x in inputs(name, 8, 9)])["results"]
        figures = client.model(name)
        found[name] = {
            "predictions": [[each[part] for part in ("prediction", "probability", "scores")] for each in predicted],
            **{figure: figures[figure] for figure in ("support_vectors", "points")},
        }
    return found


def digests(store, names, without=None):
    """Return a hash of each model's state, as its log and snapshots give it."""
    return {name: digest_of(ModelHistory(store, name, **SIZES).newest(), without) for name in names}


def dumped(url):
    """Return the contents of a Redis as commands, one on each line."""
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
    """Start a server on a store of this kind; yield the server and a function that opens the store.

    given: the store's contents, or None.
    """
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
    place, told = HERE / version, {}
    for kind in ("sqlite", "redis"):
        with tempfile.TemporaryDirectory() as temporary, server_on(kind, Path(temporary)) as (server, opened):
            told[kind] = filled(server, opened)
            if kind == "sqlite":
                content = (Path(temporary) / "data" / "hinged.db").read_bytes()
            else:
                content = dumped(server.env["HINGED_STORE"])
            place.mkdir(exist_ok=True)
            (place / f"{kind}.xz").write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    hashes = {kind: found.pop("digests") for kind, found in told.items()}
    assert told["sqlite"] == told["redis"]
    (place / "answers.json").write_text(json.dumps(told["sqlite"] | {"digests": hashes}, indent=1) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
