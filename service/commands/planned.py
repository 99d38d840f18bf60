"""What a micro-batch of learn requests is, and what it comes to: requests, examples, votes, the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hinged.service.data.classes import Label
from hinged.service.data.inputs import Inputs
from hinged.service.data.parts import Configuration
from hinged.service.errors import Invalid, ServiceError
from hinged.service.model.answers import FirstAnswer
from hinged.service.model.events import ModelEvent
from hinged.service.model.model import Model


class Provenance(NamedTuple):
    """Who labelled an example, where another program asked; source: how it was chosen there (metrics.py).

    changed_ms: when it was last changed there, None where that is not known.
    """

    annotator: str | None
    source: int
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """Checked examples of one request, in order.

    ids: None where the server is to give one. inputs: the x of those that bring one, in order (None where none does).
    contents: 16 bytes of x and y, None where there is no x. leases: tokens, None where there is none; empty: none.
    elsewhere: of each example, where they were asked of another server; empty where they were not.
    reread: the same request as another configuration reads it (Invalid if it does not): by the time that its turn
    comes the model may have another kernel or precision than when it was read.
    """

    ids: list[str | None]
    labels: list[Label]
    inputs: Inputs | None
    contents: Sequence[bytes | None]
    leases: Sequence[str | None] = ()
    reread: Callable[[Configuration], LearnRequest] | None = None
    elsewhere: Sequence[Provenance] = ()

    def read_for(self, model: Model) -> LearnRequest:
        """The request as the model's present configuration reads it. Invalid for an x that it does not take."""
        if self.inputs is None or model.learner.takes(self.inputs):
            return self
        if self.reread is None:
            raise Invalid("the model's configuration has changed since the request was read; send it again")
        return self.reread(model.configuration)

    def lease(self, index: int) -> str | None:
        """The lease that an example answers."""
        return self.leases[index] if self.leases else None


@dataclass(frozen=True, slots=True)
class CollectedLabels:
    """One of several labels was taken: so many there are now, so many it needs; `tally` once it has them."""

    collected: int
    needed: int
    tally: list[tuple[Label, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedExample:
    """What becomes of one example.

    It is number `new` of the micro-batch's new ones (or repeats that), or repeats `answer`, or is one of `votes`.
    """

    given: str | None
    new: int | None
    answer: FirstAnswer | None
    duplicate: bool
    votes: CollectedLabels | None = None


class AllNew(NamedTuple):
    """What becomes of the examples of a request that are all new: they are numbers `begin`... of the micro-batch's."""

    begin: int
    ids: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class NewExample:
    """A new example; its x is row `row` of `batch`. annotator: who answered a question with it; votes: all who did."""

    given: str | None
    batch: Inputs
    row: int
    label: Label
    content: bytes
    source: int
    annotator: str | None = None
    votes: Sequence[tuple[str, Label]] = ()


@dataclass(slots=True)
class Plan:
    """Fates by request (or the error that refuses it), and the events that they make."""

    planned: list[list[PlannedExample] | AllNew | ServiceError] = field(default_factory=list)
    events: list[ModelEvent] = field(default_factory=list)
    new: int = 0
