"""Answers about the server itself."""

from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

Role = Literal["reader", "annotator", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""


class Alive(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Progress(TypedDict):
    """How many models there are, and how many of them do what."""

    total: int
    loading: int
    serving: int
    stopped: int


class Readiness(TypedDict):
    """Whether all models are loaded that can be."""

    status: Literal["ready", "starting"]
    models: Progress


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Role
    models: list[str]


class Ticket(TypedDict):
    """What opens one stream."""

    ticket: str
    expires_at: str


class NodeShown(TypedDict):
    """A server."""

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


class ModelShown(Standing):
    """The same with what its owner says: its state, the events that it has not taken in yet, what it takes."""

    lag: NotRequired[int | None]
    state: NotRequired[str]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class ClusterShown(TypedDict):
    """The servers and the models."""

    node: str
    nodes: list[NodeShown]
    models: list[ModelShown]


class OwnShown(TypedDict):
    """A model as its owner knows it."""

    model: str
    state: str
    position: NotRequired[int]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class OwnModels(TypedDict):
    """A server and its models."""

    node: str
    models: list[OwnShown]
