"""Answers about the server itself."""

from typing import Literal, NotRequired, TypedDict


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Literal["reader", "annotator", "writer", "admin"]
    models: list[str]


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str


class Node(TypedDict):
    """A server among those that share a store."""

    node: str
    alive: bool
    beat_age_s: float
    models: NotRequired[int]
    loading: NotRequired[int]
    memory_bytes: NotRequired[int]
    memory_max_bytes: NotRequired[int]
    load: NotRequired[float]
    processors: NotRequired[int]


class Standing(TypedDict):
    """Where a model is, since which epoch, and the end of its log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class Placed(Standing):
    """The same with what its owner says: its state, the events that it has not taken in yet, what it takes."""

    lag: NotRequired[int | None]
    state: NotRequired[str]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class Cluster(TypedDict):
    """The servers that share a store, and their models."""

    node: str
    nodes: list[Node]
    models: list[Placed]
