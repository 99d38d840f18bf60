"""Check an exported log against receipts. This file needs only Python's library, and `cryptography` for signatures.

    python verify.py EXPORT RECEIPTS [--key HEX]

EXPORT is the file of `hinged export --log`. RECEIPTS has answers with receipts or heads, one JSON object a line.

The Merkle tree is as in RFC 9162, section 2.1. The data of a leaf is the position of an event (8 bytes, big-endian),
its commitment, and its kind; the commitment is the SHA-256 of a salt of 32 bytes and the event's payload.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECORD = struct.Struct(">QQB")  # of EXPORT: position, length of the payload, length of the kind
PREFIX = struct.Struct("<4s16sI")  # of a frame: magic, checksum, length of the header
ITEM_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "int64": 8, "uint64": 8, "float32": 4, "float64": 8}
GONE = bytes(32)  # stands for the salt of a redacted event
SEALED, ERASED = "sealed", "erased"
SEAL, HEAD = {"first", "kinds", "before", "head"}, {"origin", "size", "root", "at_ms", "key", "signature"}
PARTLY = ("learned", "offered", "imported")  # a redaction may leave a part of events of these kinds


class Wrong(Exception):
    """The export or a receipt is not as it must be."""


def need(true: bool, what: str) -> None:
    """Raise Wrong unless a condition is true."""
    if not true:
        raise Wrong(what)


def leaf_of(position: int, kind: str, commitment: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + position.to_bytes(8, "big") + commitment + kind.encode()).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def climb(at: int, last: int, old: bytes, new: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """Return the roots above a node (RFC 9162, section 2.1.3.2): of the tree in which nothing is to the right of the
    node, and of the whole tree, whose last node on this level is `last`.
    """
    for other in path:
        need(last > 0, "a path is too long")
        if at & 1 or at == last:
            old, new = node(other, old), node(other, new)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            new = node(new, other)
        at, last = at >> 1, last >> 1
    need(last == 0, "a path is too short")
    return old, new


def check_consistency(first: int, second: int, roots: list[bytes], path: list[bytes]) -> None:
    """Check a proof of consistency (RFC 9162, section 2.1.4.2). roots: of the first and of the second tree."""
    need(0 < first <= second, f"sizes {first} and {second} cannot be consistent")
    if first == second:
        need(not path and roots[0] == roots[1], "two heads of one size differ")
        return
    way = [roots[0], *path] if first & (first - 1) == 0 else [*path]
    need(bool(way), "a path is too short")
    at, last = first - 1, second - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    need(climb(at, last, way[0], way[0], way[1:]) == (roots[0], roots[1]), "the trees of two heads are not consistent")


def root_of(peaks: list[bytes]) -> bytes:
    """Return the root above some peaks."""
    found = peaks[-1] if peaks else hashlib.sha256().digest()
    for peak in peaks[-2::-1]:
        found = node(peak, found)
    return found


def frame(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the facts and the arrays of a frame (docs/reference/files.md)."""
    magic, checksum, length = PREFIX.unpack_from(data)
    need(magic == b"hng1" and checksum == hashlib.blake2b(data[PREFIX.size :], digest_size=16).digest(), "bad frame")
    header = json.loads(data[PREFIX.size : PREFIX.size + length])
    need(header["kind"] == kind, f"a frame of kind {kind} is of kind {header['kind']}")
    at, arrays = -(-(PREFIX.size + length) // 8) * 8, {}
    for name, dtype, shape in header["arrays"]:
        size = ITEM_BYTES[dtype]
        for axis in shape:
            size *= axis
        arrays[name] = data[at : at + size]
        at += -(-size // 8) * 8
    need(at == len(data), "a frame has another length than its header says")
    return header["facts"], arrays


def records(file: Path) -> Iterator[tuple[int, str, bytes]]:
    """Yield the position, kind and payload of each record of an export."""
    with file.open("rb") as data:
        while head := data.read(RECORD.size):
            need(len(head) == RECORD.size, "the export ends within a record")
            position, length, kind_length = RECORD.unpack(head)
            kind, payload = data.read(kind_length), data.read(length)
            need((len(kind), len(payload)) == (kind_length, length), "the export ends within a record")
            yield position, kind.decode(), payload


@dataclass
class Log:
    """The contents of an export.

    first: position of its first event. origin, size, peaks: the name of the newest tree, its number of leaves, and its
    peaks. begin: by tree, the number of leaves before the export begins. leaves: by position, the index and the hash.
    heads: by tree and size. learned: by position, the number of the first example of a batch, and the ids. redacted,
    forgotten, swapped: positions of events. unsealed: the number of events in no tree.
    """

    first: int = 0
    origin: str = ""
    size: int = 0
    unsealed: int = 0
    begin: dict[str, int] = field(default_factory=dict)
    peaks: list[bytes] = field(default_factory=list)
    leaves: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    heads: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    learned: dict[int, tuple[int, list[str | None]]] = field(default_factory=dict)
    redacted: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    swapped: list[int] = field(default_factory=list)


def read_log(file: Path) -> Log:
    """Return the log of an export. Each event in it is as it was when it was sealed, or is redacted."""
    log, waiting, last, sealed_at, found = Log(), list[tuple[int, str, bytes]](), 0, 0, records(file)
    position, kind, payload = next(found, (0, "", b""))
    need((position, kind) == (0, "export"), "the export does not begin with a state: use hinged export --log")
    export, arrays = frame(payload, "export")
    state = frame(arrays["snapshot"], "model")[0]
    for position, kind, payload in found:
        need(last in (0, position - 1), f"event {position} follows event {last}")
        log.first, last = log.first or position, position
        if kind == SEALED:
            unseal(log, waiting, *frame(payload, SEALED))
            waiting, sealed_at = [], position
        else:
            waiting.append((position, kind, payload))
    need(bool(log.origin), "the log has no receipts")
    need(last == export["position"] == state["position"], f"the log ends at {last}, and not where the state is")
    # A server appends this event without a seal; the next seal includes it. Without receipts nothing is sealed.
    on = state["learner"]["configuration"].get("receipts")
    need(not on or all(kind == "set_aside" for _, kind, _ in waiting), f"an event after {sealed_at} is not sealed")
    log.unsealed, head = log.unsealed + len(waiting), log.heads[log.origin, log.size]
    ledger = {"through": sealed_at, "peaks": [peak.hex() for peak in log.peaks], "head": head}
    need(state.get("receipts") == ledger, "the state has another head than the log")
    if log.redacted:
        swap, forgot = max(log.swapped, default=0), min(log.forgotten, default=0)
        allowed = log.redacted[-1] < swap and (forgot < swap if forgot else log.first > 1)
        need(allowed, f"event {log.redacted[-1]} was redacted, but no example was forgotten after it")
    return log


def unseal(log: Log, events: list[tuple[int, str, bytes]], seal: dict[str, Any], arrays: dict[str, bytes]) -> None:
    """Add the events before a seal to the tree, and check that the seal says the same."""
    need(seal.keys() == SEAL and seal["head"].keys() == HEAD, "a seal has other parts")
    head, data, count = seal["head"], arrays["hashes"], len(seal["kinds"])
    hashes = [data[at : at + 32] for at in range(0, len(data), 32)]
    before, commitments, salts = hashes[: -2 * count], hashes[-2 * count : -count], hashes[-count:]
    if head["origin"] != log.origin:  # a tree begins, or the export does
        begins = seal["before"] == 0 or (not log.origin and log.first > 1)
        need(begins and head["origin"] not in log.begin, f"{head['origin']} has no beginning")
        log.unsealed += sum(event[0] < seal["first"] for event in events)
        events = [event for event in events if event[0] >= seal["first"]]
        log.origin, log.size, log.peaks = head["origin"], seal["before"], before
        log.begin[log.origin] = log.size
    need((log.size, log.peaks) == (seal["before"], before), f"the seal of {head['size']} leaves follows another seal")
    told = list(zip(seal["kinds"], commitments, salts, strict=True))
    need(len(told) == len(events) > 0, f"the seal of {head['size']} leaves is of {len(told)} events, not {len(events)}")
    need(events[0][0] == seal["first"], f"the seal of {head['size']} leaves begins with event {seal['first']}")
    for (position, kind, payload), (was, commitment, salt) in zip(events, told, strict=True):
        if salt == GONE:
            erased = kind == ERASED and frame(payload, ERASED)[0]["was"] == was
            need(erased or kind == was in PARTLY, f"event {position} was of kind {was}, and is of kind {kind}")
            log.redacted.append(position)
        else:
            same = kind == was and hashlib.sha256(salt + payload).digest() == commitment
            need(same, f"event {position} is not the event that was sealed")
            log.forgotten += [position] if kind == "forgotten" else []
            log.swapped += [position] if kind == "swapped" else []
        if kind == "learned":
            facts, _ = frame(payload, kind)
            log.learned[position] = facts["first"], facts["ids"]
        log.leaves[position] = log.size, leaf_of(position, was, commitment)
        log.peaks.append(log.leaves[position][1])
        log.size += 1
        while len(log.peaks) > log.size.bit_count():
            right = log.peaks.pop()
            log.peaks.append(node(log.peaks.pop(), right))
    made = log.size, root_of(log.peaks).hex()
    need(made == (head["size"], head["root"]), "a seal has another root than its events")
    check_signature(head)
    log.heads[log.origin, log.size] = head


def check_signature(head: dict[str, Any]) -> None:
    """Check the signature of a head, if it has a key."""
    if head["key"] is None:
        return
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    root = base64.b64encode(bytes.fromhex(head["root"])).decode()
    text = f"{head['origin']}\n{head['size']}\n{root}\n{head['at_ms']}\n".encode()
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(head["key"])).verify(bytes.fromhex(head["signature"]), text)
    except InvalidSignature:
        raise Wrong(f"the signature of the head of {head['size']} leaves is not valid") from None


def check_receipt(log: Log, receipt: dict[str, Any]) -> None:
    """Check that an acknowledged event is in the tree of the receipt's head, and in the log."""
    index, position, head = receipt["index"], receipt["position"], receipt["head"]
    leaf = leaf_of(position, receipt["kind"], bytes.fromhex(receipt["digest"]))
    need(0 <= index < head["size"], f"leaf {index} is not in a tree of {head['size']} leaves")
    root = climb(index, head["size"] - 1, leaf, leaf, [bytes.fromhex(part) for part in receipt["path"]])[1]
    need(root.hex() == head["root"], f"the path of the event at {position} does not lead to its head")
    known = index < log.begin[head["origin"]] or log.leaves.get(position) == (index, leaf)
    need(known, f"the log has another event at {position}")


def check_answer(log: Log, answer: dict[str, Any], keys: Iterable[str]) -> int:
    """Check an answer of the server. Return the number of its receipts. keys: as for `verify`."""
    receipts = answer.get("receipts", [])
    for head in [receipt["head"] for receipt in receipts] + ([answer["head"]] if "head" in answer else []):
        need(not keys or head["key"] in keys, f"a head is signed by {head['key']}")
        origin, size = head["origin"], head["size"]
        need(origin in log.begin, f"a head is of the tree {origin}, which the log does not have")
        need(size <= log.begin[origin] or head == log.heads.get((origin, size)), f"the log has no such head: {head}")
        check_signature(head)
    for receipt in receipts:
        check_receipt(log, receipt)
    positions = [receipt["position"] for receipt in receipts]
    batches = [log.learned.get(position, (0, [])) for position in positions]
    ids = {own or f"@{number}" for first, given in batches for number, own in enumerate(given, first)}
    if receipts and not set(positions) & set(log.redacted) and set(positions) <= log.leaves.keys():
        for result in answer.get("results", []):
            new = not result["duplicate"] and "collected" not in result
            need(not new or result["id"] in ids, f"example {result['id']} is not in the event of its receipt")
    if "consistency" in answer:
        told, origin = answer["consistency"], answer["head"]["origin"]
        if not 0 < told["first"] <= log.begin[origin]:
            heads = [log.heads.get((origin, told[which])) for which in ("first", "second")]
            need(None not in heads, f"no head has {told['first']} or {told['second']} leaves, so nobody relies on it")
            roots = [bytes.fromhex(head["root"]) for head in heads if head]
            check_consistency(told["first"], told["second"], roots, [bytes.fromhex(part) for part in told["path"]])
    return len(receipts)


def verify(export: Path, receipts: Path, keys: Iterable[str] = ()) -> str:
    """Check an export against receipts. Return what was found. keys: one of them must have signed, if there are any."""
    try:
        log, count = read_log(export), 0
        head = log.heads[log.origin, log.size]
        need(not keys or head["key"] in keys, f"the newest head is signed by {head['key']}")
        for line in receipts.read_text().splitlines():
            count += check_answer(log, json.loads(line), keys) if line.strip() else 0
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
        raise Wrong(f"the files cannot be read: {error!r}") from error
    told = f"{count} receipts hold; {len(log.leaves)} events are sealed, {len(log.redacted)} of them redacted"
    signed = f"signed by {head['key'] or 'nobody'}"
    return f"{told}; {log.unsealed} are not sealed; head of {log.size} leaves of {log.origin}: {head['root']}, {signed}"


def main(arguments: list[str]) -> None:
    """Run the checks on the arguments of the command line, without the fold."""
    parser = argparse.ArgumentParser(description="Check an exported log against receipts, without the fold.")
    for name in ("export", "receipts"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--key", action="append", default=[], help="public key that must have signed, in hex")
    given = parser.parse_args(arguments)
    try:
        print(verify(given.export, given.receipts, given.key))  # noqa: T201
    except Wrong as error:
        sys.exit(f"WRONG: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
