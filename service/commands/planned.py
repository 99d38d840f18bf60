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

    source: how that program chose the example (metrics.py).
    changed_ms: when that program last changed the label; None if unknown.
    """

    annotator: str | None
    source: int
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LearnRequest:
    """The checked examples of one request, in order.

    ids: None where the server gives the id.
    inputs: the x of the examples that have one, in order. None if no example has one.
    contents: 16 bytes that identify x and y. None where there is no x.
    leases: tokens. None where an example has no lease; empty if no example has one.
    elsewhere: the provenance of each example if another program asked for the labels; otherwise empty.
    weights: factors of C. Empty if each is 1.
    reread: reads the request again for a different configuration, or raises Invalid. `reread` is needed because the
    model may change its kernel or precision while the request waits.
    """

    ids: list[str | None]
    labels: list[Label]
    inputs: Inputs | None
    contents: Sequence[bytes | None]
    leases: Sequence[str | None] = ()
    weights: Sequence[float] = ()
    reread: Callable[[Configuration], LearnRequest] | None = None
    elsewhere: Sequence[Provenance] = ()

    def read_for(self, model: Model) -> LearnRequest:
        """Return the request as read with the model's current configuration. Raise Invalid for an x that does not
        fit.
        """
        if self.inputs is None or model.learner.takes(self.inputs):
            return self
        if self.reread is None:
            raise Invalid("the model's configuration has changed since the request was read; send it again")
        return self.reread(model.configuration)

    def lease(self, index: int) -> str | None:
        """Return the lease that an example answers."""
        return self.leases[index] if self.leases else None

    def weight(self, index: int) -> float:
        """Return the weight of an example."""
        return self.weights[index] if self.weights else 1.0


@dataclass(frozen=True, slots=True)
class CollectedLabels:
    """One of several labels of a candidate was accepted. The fields are the number of labels so far, and the number
    needed. `tally` is set when all labels have come.
    """

    collected: int
    needed: int
    tally: list[tuple[Label, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlannedExample:
    """The planned outcome for one example. new: the example is, or repeats, the new example with this number in the
    micro-batch. answer: the example repeats the example with this first answer. votes: the example is one of these
    labels.
    """

    given: str | None
    new: int | None
    answer: FirstAnswer | None
    duplicate: bool
    votes: CollectedLabels | None = None


class AllNew(NamedTuple):
    """The planned outcome for the examples of a request if all are new. The examples are consecutive new examples of
    the micro-batch, and `begin` is the number of the first.
    """

    begin: int
    ids: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class NewExample:
    """A new example, with its x in row `row` of `batch`. annotator: the annotator whose answer this example is. votes:
    the votes of all annotators who answered.
    """

    given: str | None
    batch: Inputs
    row: int
    label: Label
    content: bytes
    source: int
    annotator: str | None = None
    votes: Sequence[tuple[str, Label]] = ()
    weight: float = 1.0


@dataclass(slots=True)
class Plan:
    """The plan of a micro-batch. For each request, it contains the outcomes of the examples or the error that refuses
    the request. The plan also contains the resulting events.
    """

    planned: list[list[PlannedExample] | AllNew | ServiceError] = field(default_factory=list)
    events: list[ModelEvent] = field(default_factory=list)
    new: int = 0
