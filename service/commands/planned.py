"""The parts of a plan: requests, examples, votes, and the plan of a micro-batch."""

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
    """The origin of a label that another program asked for.

    source: how the example was chosen there (metrics.py).
    changed_ms: when it was last changed there; None if unknown.
    """

    annotator: str | None
    source: int
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """Checked examples of one request, in order.

    ids: None where the server is to give an id.
    inputs: the x of the examples that bring one, in order; None if no example does.
    contents: 16 bytes of x and y; None where there is no x.
    leases: tokens, None where an example has none; empty if no example has one.
    elsewhere: the provenance of each example that another program asked for; else empty.
    reread: reads the request again for another configuration, or raises Invalid. Before the request's turn comes, the
    model may change its kernel or precision.
    """

    ids: list[str | None]
    labels: list[Label]
    inputs: Inputs | None
    contents: Sequence[bytes | None]
    leases: Sequence[str | None] = ()
    reread: Callable[[Configuration], LearnRequest] | None = None
    elsewhere: Sequence[Provenance] = ()

    def read_for(self, model: Model) -> LearnRequest:
        """Return the request as the model's present configuration reads it. Invalid for an x that it does not take."""
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
    """One of several labels was taken: the number so far, and the number needed; `tally` once it has them all."""

    collected: int
    needed: int
    tally: list[tuple[Label, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedExample:
    """The fate of one example: it is number `new` among the micro-batch's new examples (or repeats that), or
    repeats `answer`, or is one of `votes`.
    """

    given: str | None
    new: int | None
    answer: FirstAnswer | None
    duplicate: bool
    votes: CollectedLabels | None = None


class AllNew(NamedTuple):
    """The fate of a request's examples if all are new: they are the micro-batch's new examples from `begin` on."""

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
    """For each request what becomes of its examples (or the error that refuses it), and the events that they make."""

    planned: list[list[PlannedExample] | AllNew | ServiceError] = field(default_factory=list)
    events: list[ModelEvent] = field(default_factory=list)
    new: int = 0
