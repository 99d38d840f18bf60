"""Receipts: the Merkle tree over the events of a model's log, as in RFC 9162, section 2.1, and its signed heads.

A leaf holds the position and the kind of an event, and a commitment: the hash of a random salt and the event's payload.
The salt is in the log, and is removed when the event is redacted. The commitment stays, and without the salt it does
not reveal the payload.

The state keeps only the peaks of the tree: the roots of the perfect subtrees into which its leaves divide, from the
left, at most one for each power of two. The peaks are enough to add leaves, and to compute the path of new leaves.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from hinged.answers import TreeHead

HASH_BYTES = 32
SALT_BYTES = 32
KEPT_FROM = 16
"""Smallest number of leaves below a hash that is kept in memory. Each kept hash takes about 200 bytes."""
GONE = bytes(SALT_BYTES)
"""Stands for the salt of a redacted event."""


def commitment_of(salt: bytes, payload: bytes) -> bytes:
    """Return the commitment to an event's payload."""
    found = hashlib.sha256(salt)
    found.update(payload)  # of a long payload without Python's lock, and without a copy
    return found.digest()


def leaf_of(position: int, kind: str, commitment: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + position.to_bytes(8, "big") + commitment + kind.encode()).digest()


def leaves_of(first: int, kinds: Sequence[str], commitments: Sequence[bytes]) -> list[bytes]:
    """Return the hashes of the leaves of consecutive events."""
    return [leaf_of(at, *own) for at, own in enumerate(zip(kinds, commitments, strict=True), first)]


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _split(size: int) -> int:
    """Return the number of leaves in the left subtree of a tree: the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


@dataclass(frozen=True, slots=True)
class Tree:
    """The peaks of a tree of `size` leaves."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.peaks) != self.size.bit_count() or any(len(peak) != HASH_BYTES for peak in self.peaks):
            raise ValueError(f"{len(self.peaks)} peaks do not fit a tree of {self.size} leaves")

    def extended(self, leaves: Sequence[bytes]) -> Tree:
        """Return the tree with further leaves."""
        size, peaks = self.size, list(self.peaks)
        for leaf in leaves:
            peaks.append(leaf)
            size += 1
            for _ in range((size & -size).bit_length() - 1):
                right = peaks.pop()
                peaks.append(_node(peaks.pop(), right))
        return Tree(size, tuple(peaks))

    @property
    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self.peaks:
            return hashlib.sha256().digest()
        root = self.peaks[-1]
        for peak in self.peaks[-2::-1]:
            root = _node(peak, root)
        return root

    def known(self) -> dict[tuple[int, int], bytes]:
        """Return the peaks by the range of leaves below them."""
        found, begin = {}, 0
        for peak in self.peaks:
            end = begin + (1 << (self.size - begin).bit_length() - 1)
            found[begin, end] = peak
            begin = end
        return found


class Leaves:
    """The hashes of a tree's subtrees, from the peaks of an earlier tree and all later leaves."""

    def __init__(self, before: Tree, leaves: Sequence[bytes]) -> None:
        self._begin, self._leaves, self._known = before.size, [*leaves], before.known()

    @property
    def size(self) -> int:
        """Return the number of leaves."""
        return self._begin + len(self._leaves)

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaves."""
        self._leaves += leaves

    def root(self, begin: int, end: int) -> bytes:
        """Return the root of the subtree of the leaves begin to end - 1 (MTH of RFC 9162). Raise LookupError if it
        needs earlier leaves.
        """
        found = self._known.get((begin, end))
        if found is None:
            if begin < self._begin and end - begin == 1:
                raise LookupError(f"leaf {begin} is not known")
            if end - begin == 1:
                return self._leaves[begin - self._begin]
            middle = begin + _split(end - begin)
            found = _node(self.root(begin, middle), self.root(middle, end))
            if end - begin >= KEPT_FROM and (end - begin).bit_count() == 1:  # the rest changes with each new leaf
                self._known[begin, end] = found
        return found

    def path(self, index: int, size: int) -> list[bytes]:
        """Return the inclusion path of a leaf in the tree of the first `size` leaves (RFC 9162, section 2.1.3)."""
        begin, end, path = 0, size, list[bytes]()
        while end - begin > 1:
            middle = begin + _split(end - begin)
            if index < middle:
                path.append(self.root(middle, end))
                end = middle
            else:
                path.append(self.root(begin, middle))
                begin = middle
        return path[::-1]

    def consistency(self, first: int, second: int) -> list[bytes]:
        """Return the proof that the tree of the first `first` leaves begins the tree of `second` leaves, 0 < first <=
        second (RFC 9162, section 2.1.4).
        """
        begin, end, whole, proof = 0, second, True, list[bytes]()
        while first < end:
            middle = begin + _split(end - begin)
            if first <= middle:
                proof.append(self.root(middle, end))
                end = middle
            else:
                proof.append(self.root(begin, middle))
                begin, whole = middle, False
        return [*([] if whole else [self.root(begin, end)]), *proof[::-1]]


class Head(NamedTuple):
    """The root of a tree of `size` leaves. origin: names the log. key: the public key, in hex, of the signature."""

    origin: str
    size: int
    root: str
    at_ms: int
    key: str | None = None
    signature: str | None = None

    def shown(self) -> TreeHead:
        """Return the head as JSON."""
        return cast("TreeHead", self._asdict())

    def text(self) -> bytes:
        """Return what is signed: the body of a checkpoint (C2SP tlog-checkpoint), with the time as its extension."""
        root = base64.b64encode(bytes.fromhex(self.root)).decode()
        return f"{self.origin}\n{self.size}\n{root}\n{self.at_ms}\n".encode()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The tree over a model's log, and its newest head. through: the position of the event that made this head."""

    through: int
    tree: Tree
    head: Head

    def state(self) -> dict[str, Any]:
        """Return the state as JSON."""
        peaks = [peak.hex() for peak in self.tree.peaks]
        return {"through": self.through, "peaks": peaks, "head": self.head.shown()}

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Ledger | None:
        """Return the ledger of a result of `state`. Raise ValueError if it is inconsistent."""
        if facts is None:
            return None
        head = Head(**facts["head"])
        ledger = cls(facts["through"], Tree(head.size, tuple(map(bytes.fromhex, facts["peaks"]))), head)
        if ledger.tree.root.hex() != head.root:
            raise ValueError("the peaks of the receipts do not fit their head")
        return ledger
