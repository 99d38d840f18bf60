"""Change an exported log, its state or its receipts in thousands of ways. Each change must be found by `hinged verify`.

python -m tests.faults.tampering --tries 10000

A real server makes two logs, of which one has forgotten an example. The attacker may write the whole export, with valid
checksums and new trees, but has neither the key nor the receipts of the clients.
"""

import argparse
import copy
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hinged.client import Client
from hinged.commands.verify import Wrong, records, verify
from hinged.frames import BadFrame, decode, encode
from hinged.service.engine.receipts.sealing import signing_key
from hinged.service.engine.transfer.exports import EXPORT, RECORD
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.receipts import GONE, Head, Ledger, commitment_of, leaves_of
from hinged.service.model.state import SNAPSHOT
from tests.helpers.server import RunningServer, eventually

KEPT, FORGETTING = "kept", "forgetting"


def write_key(file):
    """Write a new key that signs; return the public key in hex."""
    key = Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key.public_key().public_bytes_raw().hex()


class Evidence:
    """The files of an auditor. events: position, kind and payload of each record of the export; the state comes first.

    answers: of the server, to clients. key: the public key.
    """

    def __init__(self, export, answers, key):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "export").write_bytes(export)
            self.events = list(records(Path(folder) / "export"))
        self.answers, self.key = answers, key

    def copied(self):
        other = copy.copy(self)
        other.events, other.answers = list(self.events), copy.deepcopy(self.answers)
        return other

    def write(self, folder):
        """Write the two files of `hinged verify`."""
        export, receipts = Path(folder) / "export", Path(folder) / "receipts"
        with export.open("wb") as file:
            for position, kind, payload in self.events:
                file.write(RECORD.pack(position, len(payload), len(kind.encode())) + kind.encode() + payload)
        receipts.write_text("\n".join(map(json.dumps, self.answers)))
        return export, receipts

    def verify(self, folder):
        return verify(*self.write(folder), [self.key] if self.key else [])


def teach(client, name, rng, *, forgets, steps=25):
    """Let a model with receipts learn, correct, and perhaps forget. Return the answers that have receipts or heads."""
    kernel, features = {"type": "rbf", "gamma": 1.0}, {"type": "dense", "dim": 2}
    client.create_model(name, solver="exact", kernel=kernel, features=features, receipts=True)
    eventually(lambda: client.model(name)["state"] == "serving")
    answers = []
    for step in range(steps):
        ids = [None if k == 2 else f"{name}-{step}-{k}" for k in range(rng.choice([1, 2, 4]))]
        xs = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in ids]
        examples = [{"x": x, "y": rng.choice("abc")} | ({"id": i} if i else {}) for i, x in zip(ids, xs, strict=True)]
        answers.append(client.learn(name, examples))
        if step % 5 == 1:
            answers.append(client.correct(name, f"{name}-{step}-0", "a" if step % 2 else "b"))
        if step == 15:
            client.rollback(name, answers[-2]["position"])
        if forgets and step == 8:
            answers.append(client.forget(name, f"{name}-{step - 2}-0"))
            client.wait(answers[-1])
    first = answers[4]["receipts"][0]["head"]["size"]
    answers += [client.head(name), client.proofs(name, position=3), client.proofs(name, first=first)]
    answers.append(client.proofs(name, example=f"{name}-3-0"))
    return [answer for answer in answers if answer.keys() & {"receipts", "head"}]


def prepared(folder, seed=0):
    """Return the evidence of two models of a real server."""
    key = write_key(folder / "key.pem")
    with RunningServer(folder / "data", receipt_key=folder / "key.pem") as server, Client(server.url) as client:
        found = {}
        for name in (KEPT, FORGETTING):
            answers = teach(client, name, random.Random(seed), forgets=name == FORGETTING)
            found[name] = Evidence(client.export_model(name, log=True), answers, key)
    return found


# -- ways to change the export ----------------------------------------------------------------------------------------


def events_of(case):
    """Return the indices of the events that are neither seals nor redacted."""
    seals = [EventsSealed.decoded(data) for _, kind, data in case.events if kind == EventsSealed.KIND]
    gone = {at for seal in seals for at, salt in enumerate(seal.salts, seal.first) if salt == GONE}
    return [k for k, (at, kind, _) in enumerate(case.events) if k and kind != EventsSealed.KIND and at not in gone]


def renumbered(case):
    case.events = [case.events[0], *((at, kind, data) for at, (_, kind, data) in enumerate(case.events[1:], 1))]


def another(payload, kind, rng):
    """Return another payload of the same kind, with a valid checksum if possible."""
    if rng.random() < 0.5:
        at = rng.randrange(len(payload))
        return payload[:at] + bytes([payload[at] ^ rng.randrange(1, 256)]) + payload[at + 1 :]
    facts, arrays = decode(payload, kind)
    arrays = {name: array for name, array in arrays.items() if array.size}
    if arrays and rng.random() < 0.7:
        array = rng.choice(list(arrays.values())).reshape(-1).view(np.uint8)
        array[rng.randrange(array.size)] ^= rng.randrange(1, 256)
        return encode(kind, facts, decode(payload, kind)[1] | arrays)
    return encode(kind, facts | {"at_ms": facts.get("at_ms", 0) + rng.randrange(1, 10**6)}, decode(payload, kind)[1])


def change(case, rng):
    k = rng.choice(events_of(case))
    at, kind, payload = case.events[k]
    case.events[k] = at, kind, another(payload, kind, rng)


def rename(case, rng):
    k = rng.choice(events_of(case))
    at, kind, payload = case.events[k]
    case.events[k] = at, rng.choice([other for other in ("learned", "voted", "erased") if other != kind]), payload


def drop(case, rng):
    del case.events[rng.randrange(1, len(case.events))]
    if rng.random() < 0.7:
        renumbered(case)


def drop_append(case, rng):
    """Drop a seal with its events."""
    seals = [k for k, (_, kind, _) in enumerate(case.events) if kind == EventsSealed.KIND]
    n = rng.randrange(1, len(seals))
    del case.events[seals[n - 1] + 1 : seals[n] + 1]
    renumbered(case)


def reorder(case, rng):
    a, b = rng.sample(range(1, len(case.events)), 2)
    while case.events[a][1:] == case.events[b][1:]:
        a, b = rng.sample(range(1, len(case.events)), 2)
    one, two = case.events[a], case.events[b]
    case.events[a], case.events[b] = (one[0], *two[1:]), (two[0], *one[1:])


def insert(case, rng):
    case.events.insert(rng.randrange(1, len(case.events) + 1), case.events[rng.randrange(1, len(case.events))])
    if rng.random() < 0.7:
        renumbered(case)


def change_seal(case, rng):
    k = rng.choice([k for k, (_, kind, _) in enumerate(case.events) if kind == EventsSealed.KIND])
    at, kind, payload = case.events[k]
    case.events[k] = at, kind, another(payload, kind, rng)


def pass_for_redacted(case, rng):
    """Change an event and remove its salt, where nothing was forgotten afterwards."""
    swapped = max((k for k, (_, kind, _) in enumerate(case.events) if kind == "swapped"), default=0)
    k = rng.choice([k for k in events_of(case) if k > swapped and case.events[k][1] == "learned"])
    at, kind, payload = case.events[k]
    case.events[k] = at, kind, another(payload, kind, rng)
    for later in range(k, len(case.events)):
        if case.events[later][1] == EventsSealed.KIND:
            seal = EventsSealed.decoded(case.events[later][2]).without_salts({at})
            case.events[later] = (*case.events[later][:2], seal.encode())
            return


def rewrite(case, rng):
    """Change events, then make the whole tree, its heads and the state again, with another key, or without any."""
    key = signing_key(REWRITER[0]) if rng.random() < 0.5 else None
    k = rng.choice(events_of(case))
    changes = rng.choice([change, drop_append, None])
    if changes is None:
        at, kind, payload = case.events[k]
        case.events[k] = at, kind, another(payload, kind, rng)
    else:
        changes(case, rng)
    ledger, waiting = None, []
    for n, (at, kind, payload) in enumerate(case.events[1:], 1):
        if kind != EventsSealed.KIND:
            waiting.append((at, kind, payload))
            continue
        seal = EventsSealed.decoded(payload)
        salts = [seal.salts[m] for m in range(len(seal.kinds))]
        given = zip(waiting, seal.commitments, salts, strict=True)
        commitments = tuple(c if salt == GONE else commitment_of(salt, data) for (_, _, data), c, salt in given)
        before = seal.before if ledger is None else ledger.tree
        tree = before.extended(leaves_of(waiting[0][0], seal.kinds, commitments))
        head = Head(seal.head.origin, tree.size, tree.root.hex(), seal.head.at_ms)
        if key is not None:
            public = key.public_key().public_bytes_raw().hex()
            head = head._replace(key=public, signature=key.sign(head.text()).hex())
        written = EventsSealed(waiting[0][0], before, seal.kinds, commitments, seal.salts, head)
        case.events[n], ledger, waiting = (at, kind, written.encode()), Ledger(at, tree, head), []
    facts, arrays = decode(case.events[0][2], EXPORT)
    state, parts = decode(arrays["snapshot"].tobytes(), SNAPSHOT)
    last = case.events[-1][0]
    state |= {"receipts": ledger.state(), "position": last}
    snapshot = np.frombuffer(encode(SNAPSHOT, state, parts), np.uint8)
    case.events[0] = (0, EXPORT, encode(EXPORT, facts | {"position": last}, {"snapshot": snapshot}))
    case.key = head.key if rng.random() < 0.5 else case.key  # in half of the cases the auditor does not know the key


REWRITER = [None]
"""File of the attacker's own key."""


def change_head_of_state(case, rng):
    facts, arrays = decode(case.events[0][2], EXPORT)
    state, parts = decode(arrays["snapshot"].tobytes(), SNAPSHOT)
    mutate(state["receipts"], rng)
    snapshot = np.frombuffer(encode(SNAPSHOT, state, parts), np.uint8)
    case.events[0] = (0, EXPORT, encode(EXPORT, facts, {"snapshot": snapshot}))


# -- ways to change what the clients have ----------------------------------------------------------------------------


def leaves_in(value, way=()):
    """Return the way to each value of a JSON that is no container."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, part in pairs for found in leaves_in(part, (*way, key))]
    return [way]


def mutate(told, rng):
    """Change one value of a JSON."""
    *way, last = rng.choice(leaves_in(told))
    for key in way:
        told = told[key]
    value = told[last]
    if isinstance(value, int):
        told[last] = value + rng.choice([-1, 1, rng.randrange(2, 100)])
    elif isinstance(value, str) and value:
        at = rng.randrange(len(value))
        told[last] = value[:at] + rng.choice(sorted(set("0123456789abcdef") - {value[at]})) + value[at + 1 :]
    else:
        told[last] = "00"
    if isinstance(last, int) and rng.random() < 0.3:  # an element of a path
        del told[last]


def change_receipt(case, rng):
    answer = rng.choice([answer for answer in case.answers if "receipts" in answer])
    mutate(rng.choice(answer["receipts"]), rng)


def change_head(case, rng):
    mutate(rng.choice([answer for answer in case.answers if "head" in answer])["head"], rng)


def change_consistency(case, rng):
    mutate(rng.choice([answer for answer in case.answers if "consistency" in answer])["consistency"], rng)


def change_id(case, rng):
    """Claim that another example was acknowledged. Only the answers about whole events are proofs of ids."""
    gone = {at for at, kind, data in case.events if kind == "learned" and "numbers" in decode(data, kind)[1]}
    whole = [
        answer
        for answer in case.answers
        if "results" in answer and not gone & {receipt["position"] for receipt in answer["receipts"]}
    ]
    rng.choice(rng.choice(whole)["results"])["id"] = rng.choice(["another", "@999", ""])


def exchange(case, rng):
    """Exchange the paths of two receipts."""
    one, two = rng.sample([answer["receipts"][0] for answer in case.answers if answer.get("receipts")], 2)
    name = rng.choice(["path", "digest", "index", "position"])
    if one[name] == two[name]:
        return False
    one[name], two[name] = two[name], one[name]
    return True


WAYS = [
    change, rename, drop, drop_append, reorder, insert, change_seal, pass_for_redacted, rewrite, change_head_of_state,
    change_receipt, change_head, change_consistency, change_id, exchange,
]  # fmt: skip


def attack(evidence, folder, rng):
    """Change the evidence in one way. Return the way, and whether the change was found; None if nothing changed."""
    way = rng.choice(WAYS)
    case = evidence[rng.choice([KEPT, FORGETTING])].copied()
    try:
        if way(case, rng) is False:
            return way.__name__, None
    except (BadFrame, ValueError, LookupError) as error:
        raise AssertionError(f"{way.__name__} does not work") from error
    try:
        case.verify(folder)
    except Wrong:
        return way.__name__, True
    return way.__name__, False


def attacks(evidence, folder, tries, seed):
    """Return how many changes of each way were found and were not found, and the seeds of those that were not."""
    REWRITER[0] = Path(folder) / "another.pem"
    write_key(REWRITER[0])
    found, missed = Counter(), []
    for n in range(tries):
        way, seen = attack(evidence, folder, random.Random(f"{seed} {n}"))
        found[way] += seen is True
        missed += [(way, f"{seed} {n}")] if seen is False else []
    return found, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        evidence = prepared(Path(folder))
        for each in evidence.values():
            print(each.verify(folder))
        found, missed = attacks(evidence, folder, options.tries, options.seed)
    for way, count in sorted(found.items()):
        print(f"{way:>22}: {count} found")
    print(f"{sum(found.values())} changes found, {len(missed)} not found, seed {options.seed}", *missed[:20])
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
