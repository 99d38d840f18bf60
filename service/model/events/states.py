"""Where a state begins, and where another takes its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hinged.frames import BadFrame, encode
from hinged.service.data.configuration import read_configuration
from hinged.service.model.curves import Curves
from hinged.service.model.events.base import (
    NOTHING,
    Array,
    ErasedWhole,
    Facts,
    ModelEvent,
    NamesNoExample,
    Outcome,
    Redacted,
)
from hinged.service.model.jobs import Jobs
from hinged.service.model.state import SNAPSHOT, answers_of
from hinged.service.model.tombstones import Tombstones

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


class _First(ModelEvent):
    """An event that comes behind no other."""

    __slots__ = ()

    def admit(self, coming: Coming) -> None:
        """Refused."""
        raise ValueError("no such event comes behind others")


class _AnotherModel(ModelEvent):
    """An event that makes another model of the one before it."""

    __slots__ = ()

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refused: whoever reads the log makes that other model."""
        raise ValueError(f"the event at {position}, {self.KIND!r}, makes another model of {model.name}")


@dataclass(frozen=True, slots=True)
class ModelCreated(_First, Facts, NamesNoExample):
    """A model begins: its configuration."""

    KIND: ClassVar[str] = "created"
    configuration: dict[str, Any]
    at_ms: int

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """The model of this configuration."""
        model = kind(name, read_configuration(self.configuration), **sizes)
        model.apply(1, self)
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Nothing: `begin` has made the model."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        """The configuration."""
        return {"configuration": self.configuration}


@dataclass(frozen=True, slots=True)
class _Whole(ModelEvent):
    """An event that holds a whole state: a snapshot."""

    state: bytes
    at_ms: int

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, self._facts(), {"state": np.frombuffer(self.state, np.uint8)})

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms}

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload's parts."""
        return cls(arrays["state"].tobytes(), facts["at_ms"])

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class ModelImported(_Whole, _First):
    """A model begins with the state of another that was exported. ids: those of its examples that it knows."""

    KIND: ClassVar[str] = "imported"
    ids: tuple[str, ...] = ()  # they stand in the state, too

    @property
    def given_ids(self) -> tuple[str, ...]:
        """Those of the examples that the state knows."""
        return self.ids

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Of the state is left what it knew of its examples, without those that are forgotten."""
        answers = answers_of(cls.decoded(payload).state)
        known = tombstones.known(answers.given_ids)
        for given in known:
            answers.forget(answers.number_of(given) or 0)
        facts, arrays = answers.state()
        state = encode(SNAPSHOT, {"answers": facts}, {f"answers.{key}": array for key, array in arrays.items()})
        return Redacted(cls(state, 0), known)

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """The model of this state, without the positions of another log."""
        model = kind.restore(name, self.state, **sizes)
        model.position, model.at_ms = 1, max(model.at_ms, self.at_ms)
        model.undone, model.reads_back_at, model.floor, model.jobs = [], 0, 0, Jobs()
        model.set_aside, model.curves = [], Curves()
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refused."""
        raise ValueError(f"model {model.name} is there: a state is imported by a log's first event alone")


@dataclass(frozen=True, slots=True)
class StateSwapped(_Whole, _AnotherModel, ErasedWhole):
    """The whole state anew, made of the log without what was forgotten, with what is corrected or intended.

    It replaces what all events before it made; those are not applied again. champion: whether the learner that answers
    is another, and not challengers alone.
    """

    KIND: ClassVar[str] = "swapped"
    champion: bool = True

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms, "champion": self.champion}

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload's parts."""
        return cls(arrays["state"].tobytes(), facts["at_ms"], facts.get("champion", True))

    def admit(self, coming: Coming) -> None:
        """Whatever the state: `begin` has read it before it is appended."""

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """The model of this state. BadFrame if that is not the one right before the event."""
        model = kind.restore(name, self.state, **sizes)
        if model.position != position - 1:
            raise BadFrame(f"the event at {position} holds the state at {model.position}")
        model.position, model.at_ms = position, max(model.at_ms, self.at_ms)
        if self.champion:
            model.mark(self.KIND)
        return model


@dataclass(frozen=True, slots=True)
class ModelRolledBack(_AnotherModel, Facts, NamesNoExample):
    """The state became what it was at position `to`; what the log holds between counts no longer."""

    KIND: ClassVar[str] = "rolled_back"
    to: int
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """There must be a state to go back to."""
        if not (1 <= self.to <= coming.model.position and coming.model.counts(self.to)):
            raise ValueError(f"there is no state to go back to at position {self.to}")

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class EventSetAside(Facts, NamesNoExample):
    """The event at `event` is passed over: it could not be applied because of `error`. was: its kind."""

    KIND: ClassVar[str] = "set_aside"
    MARKED: ClassVar[bool] = True
    event: int
    was: str
    error: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Always."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Nothing: what it is about was passed over when its turn came."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        """Which event, and its kind."""
        return {"event": self.event, "was": self.was}


@dataclass(frozen=True, slots=True)
class EventErased(_First, Facts, NamesNoExample):
    """What stood here was about examples that are forgotten, and stands in a later `swapped` without them."""

    KIND: ClassVar[str] = "erased"
    was: str
    at_ms: int = 0

    @property
    def is_partial(self) -> bool:
        """All of it was forgotten."""
        return True

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refused."""
        raise ValueError(f"the event at {position} is erased: what is before a {StateSwapped.KIND!r} is not folded")

    def told(self) -> dict[str, Any]:
        """Nothing."""
        return {}
