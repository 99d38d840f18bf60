"""Answers about receipts: the heads of a model's tree, and proofs that an event is in it."""

from typing import NotRequired

from typing_extensions import TypedDict


class TreeHead(TypedDict):
    """The root of the Merkle tree of `size` events. origin: names the log. key, signature: Ed25519, in hex; null if the
    server has no key.
    """

    origin: str
    size: int
    root: str
    at_ms: int
    key: str | None
    signature: str | None


class Receipt(TypedDict):
    """A proof that an event is in the log. digest: the salted hash of the event. index: the number of its leaf, from 0.
    path: the inclusion path to the root of the head (RFC 9162).
    """

    position: int
    kind: str
    digest: str
    index: int
    path: list[str]
    head: TreeHead


class Headed(TypedDict):
    """The newest head of a model's tree."""

    model: str
    position: int
    head: TreeHead


class Consistency(TypedDict):
    """A proof that the tree of size `first` begins the tree of size `second` (RFC 9162)."""

    first: int
    second: int
    path: list[str]


class Proved(TypedDict):
    """Proofs for the newest head: of an event's inclusion, or of the consistency of two sizes."""

    model: str
    position: int
    receipts: NotRequired[list[Receipt]]
    consistency: NotRequired[Consistency]
    head: TreeHead
