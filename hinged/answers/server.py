"""Answers about the server itself."""

from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

Role = Literal["reader", "annotator", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""The roles, the least first. Each role may do what the roles before it may."""


class Alive(TypedDict):
    """The process runs."""

    status: Literal["ok"]


class Progress(TypedDict):
    """Numbers of models by state."""

    total: int
    loading: int
    serving: int
    stopped: int


class Readiness(TypedDict):
    """Whether all models that can be loaded are loaded."""

    status: Literal["ready", "starting"]
    models: Progress


class KeyShown(TypedDict):
    """A key, without its text."""

    name: str
    role: Role
    models: list[str]


class Ticket(TypedDict):
    """A ticket that opens one stream."""

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
    """The server that owns a model, since which epoch, and the end of the model's log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class ModelShown(Standing):
    """The same, with what its owner reports: its state, memory, load, and how many events it has yet to apply."""

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
