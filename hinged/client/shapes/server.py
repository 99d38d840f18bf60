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
    models: NotRequired[int]
    memory_bytes: NotRequired[int]


class Standing(TypedDict):
    """Where a model is, since which epoch, and the end of its log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class Cluster(TypedDict):
    """The servers that share a store, and their models."""

    node: str
    nodes: list[Node]
    models: list[Standing]
