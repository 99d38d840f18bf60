"""Answers about snapshots, and about changes to learned examples and configurations."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from hinged.answers.models import JobKind, Label, PassedOver
from hinged.answers.receipts import Receipt

JobStage = Literal["running", "done", "failed"]


class KeptSnapshot(TypedDict):
    """A snapshot of the state at this position has been saved and is durable."""

    model: str
    position: int


class Imported(TypedDict):
    """The model that was made from a file."""

    model: str
    configuration: dict[str, Any]
    position: int
    examples: int
    classes: list[Label]


class RolledBack(TypedDict):
    """The model has returned to its state at the position `rolled_back_to`."""

    model: str
    position: int
    rolled_back_to: int
    examples: int


class SetAside(TypedDict):
    """An event was skipped. error: why the model has stopped again, or null."""

    model: str
    position: int
    set_aside: PassedOver
    error: str | None


class Changed(TypedDict):
    """The answer to a change. Either the change is done (certificate), or a job will make the change (job). receipts:
    only with receipts, of the events of a correction or of forgetting.
    """

    model: str
    position: int
    certificate: NotRequired[dict[str, Any]]
    unwritten: NotRequired[list[str]]
    job: NotRequired[str]
    receipts: NotRequired[list[Receipt]]


class JobState(TypedDict):
    """The state of a job. progress: from 0 to 1. unwritten: the parts that could not be written to the store again."""

    job: str
    model: str
    kind: JobKind
    state: JobStage
    progress: float
    certificate: dict[str, Any] | None
    unwritten: NotRequired[list[str]]
    error: NotRequired[str]


class Certified(TypedDict):
    """How good the solution is."""

    model: str
    position: int
    certificate: dict[str, Any]


class LeftOut(TypedDict):
    """The leave-one-out error of a model."""

    model: str
    position: int
    examples: int
    errors: int
    error: float | None


class Challengers(TypedDict):
    """The model and its challengers, each with its figures."""

    model: str
    position: int
    champion: dict[str, Any]
    shadows: dict[str, dict[str, Any]]


class Retired(TypedDict):
    """A challenger was retired and removed."""

    model: str
    position: int
    shadow: str
    deleted: Literal[True]
