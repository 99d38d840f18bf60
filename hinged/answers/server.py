"""Answers about the server itself."""

from collections.abc import Mapping
from typing import Literal, NotRequired, get_args

from typing_extensions import TypedDict

Role = Literal["reader", "annotator", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""The roles, in ascending order. Each role may do everything that the earlier roles may do."""
MAY: Mapping[Role, str] = {
    "reader": "see models and their figures, follow their events, predict, rank",
    "annotator": (
        "ask for questions, answer, skip and return them, take skips back, change answers; list and acknowledge "
        "alerts; see and label examples that the model knows (by id, without an x); see answers and the predictions "
        "for the pool; forget examples that only this key's name has answered"
    ),
    "writer": "send examples to learn, forget and correct examples, fill the pool, finish, take a snapshot",
    "admin": (
        "create and delete models, including the default model by its first `POST /learn`; export and import; roll "
        "back, set events aside, change configurations, run challengers; make and revoke keys, with a key for all "
        "models"
    ),
}
"""The rights of each role beyond the rights of the earlier roles."""


class Alive(TypedDict):
    """The process is running."""

    status: Literal["ok"]


class Progress(TypedDict):
    """The number of models in each state."""

    total: int
    loading: int
    serving: int
    stopped: int
    waiting: int


class Readiness(TypedDict):
    """Whether all loadable models are loaded."""

    status: Literal["ready", "starting"]
    models: Progress


class KeyShown(TypedDict):
    """A key, without its secret text."""

    name: str
    role: Role
    models: list[str]


class KeyListed(KeyShown):
    """A key of the key file."""

    created_at: str


class KeyMade(KeyShown):
    """A new key. key: its text, which no other answer contains."""

    key: str


class KeysListed(TypedDict):
    """The keys of the key file. changeable: whether this server may write the file. roles: what each role may do."""

    keys: list[KeyListed]
    changeable: bool
    roles: dict[Role, str]


class KeyRevoked(TypedDict):
    """A revoked key."""

    name: str
    revoked: Literal[True]


class Ticket(TypedDict):
    """A ticket that opens one stream."""

    ticket: str
    expires_at: str


class NodeShown(TypedDict):
    """A server of a cluster."""

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
    """The owner of a model, the epoch since which it owns the model, and the end of the model's log."""

    model: str
    owner: str | None
    epoch: int
    position: int


class ModelShown(Standing):
    """A model's owner, epoch and position, with the owner's report: state, memory, load, and the events not yet
    applied.
    """

    lag: NotRequired[int | None]
    state: NotRequired[str]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class ClusterShown(TypedDict):
    """The servers of a cluster, and the models."""

    node: str
    nodes: list[NodeShown]
    models: list[ModelShown]


class OwnShown(TypedDict):
    """A model, with the figures that its owner reports."""

    model: str
    state: str
    position: NotRequired[int]
    memory_bytes: NotRequired[int]
    load: NotRequired[float]


class OwnModels(TypedDict):
    """A server, and the models that it owns."""

    node: str
    models: list[OwnShown]
