"""Events with which a state begins, or that replace it."""

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
    """An event that no other event may precede."""

    __slots__ = ()

    def admit(self, coming: Coming) -> None:
        """Always refused."""
        raise ValueError("this kind of event may not follow another event")


class _AnotherModel(ModelEvent):
    """An event that replaces the model before it."""

    __slots__ = ()

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Always refused: the reader of the log makes the new model."""
        raise ValueError(
            f"the event at {position}, {self.KIND!r}, replaces the model {model.name}, and cannot be applied to it"
        )


@dataclass(frozen=True, slots=True)
class ModelCreated(_First, Facts, NamesNoExample):
    """A model was created, with this configuration."""

    KIND: ClassVar[str] = "created"
    configuration: dict[str, Any]
    at_ms: int

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of this configuration."""
        model = kind(name, read_configuration(self.configuration), **sizes)
        model.apply(1, self)
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Do nothing: `begin` has made the model."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"configuration": self.configuration}


@dataclass(frozen=True, slots=True)
class _Whole(ModelEvent):
    """An event that holds a whole state: a snapshot."""

    state: bytes
    at_ms: int

    def encode(self) -> bytes:
        """Return the event's payload."""
        return encode(self.KIND, self._facts(), {"state": np.frombuffer(self.state, np.uint8)})

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms}

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Return the event of a payload's parts."""
        return cls(arrays["state"].tobytes(), facts["at_ms"])

    def told(self) -> dict[str, Any]:
        """Return no details."""
        return {}


@dataclass(frozen=True, slots=True)
class ModelImported(_Whole, _First):
    """A model begins with another model's exported state. ids: of the examples that it knows."""

    KIND: ClassVar[str] = "imported"
    ids: tuple[str, ...] = ()  # the state has them, too

    @property
    def given_ids(self) -> tuple[str, ...]:
        """The ids of the examples that the state knows."""
        return self.ids

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the event with no more of the state than its first answers, without those for forgotten examples."""
        answers = answers_of(cls.decoded(payload).state)
        known = tombstones.known(answers.given_ids)
        for given in known:
            answers.forget(answers.number_of(given) or 0)
        facts, arrays = answers.state()
        state = encode(SNAPSHOT, {"answers": facts}, {f"answers.{key}": array for key, array in arrays.items()})
        return Redacted(cls(state, 0), known)

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of this state, without the positions of its former log."""
        model = kind.restore(name, self.state, **sizes)
        model.position, model.at_ms = 1, max(model.at_ms, self.at_ms)
        model.undone, model.reads_back_at, model.floor, model.jobs = [], 0, 0, Jobs()
        model.set_aside, model.curves = [], Curves()
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Always refused."""
        raise ValueError(f"model {model.name} exists: only a log's first event may import a state")


@dataclass(frozen=True, slots=True)
class StateSwapped(_Whole, _AnotherModel, ErasedWhole):
    """A whole new state, made from the log: without what was forgotten, and with what was corrected or intended.

    It replaces the results of all events before it; they are not applied again. champion: whether the learner that
    answers was replaced, and not only challengers.
    """

    KIND: ClassVar[str] = "swapped"
    champion: bool = True

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms, "champion": self.champion}

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Return the event of a payload's parts."""
        return cls(arrays["state"].tobytes(), facts["at_ms"], facts.get("champion", True))

    def admit(self, coming: Coming) -> None:
        """Always possible: `begin` has read the state before the event is appended."""

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of this state. BadFrame if it is not the state right before the event."""
        model = kind.restore(name, self.state, **sizes)
        if model.position != position - 1:
            raise BadFrame(
                f"the event at {position} must hold the state at {position - 1}, got the state at {model.position}"
            )
        model.position, model.at_ms = position, max(model.at_ms, self.at_ms)
        if self.champion:
            model.mark(self.KIND)
        return model


@dataclass(frozen=True, slots=True)
class ModelRolledBack(_AnotherModel, Facts, NamesNoExample):
    """The state became again what it was at position `to`; the events in between no longer count."""

    KIND: ClassVar[str] = "rolled_back"
    to: int
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """The state to return to must exist."""
        if not (1 <= self.to <= coming.model.position and coming.model.counts(self.to)):
            raise ValueError(f"there is no state to return to at position {self.to}")

    def told(self) -> dict[str, Any]:
        """Return no details."""
        return {}


@dataclass(frozen=True, slots=True)
class EventSetAside(Facts, NamesNoExample):
    """The event at position `event` was passed over: it could not be applied because of `error`. was: its kind."""

    KIND: ClassVar[str] = "set_aside"
    MARKED: ClassVar[bool] = True
    event: int
    was: str
    error: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Always possible."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Do nothing: the event that it names is passed over when its turn comes."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        """Return the event's position and its kind."""
        return {"event": self.event, "was": self.was}


@dataclass(frozen=True, slots=True)
class EventErased(_First, Facts, NamesNoExample):
    """The replacement of an event about forgotten examples; a later `swapped` has its effects without them."""

    KIND: ClassVar[str] = "erased"
    was: str
    at_ms: int = 0

    @property
    def is_partial(self) -> bool:
        """Always true: all of it was forgotten."""
        return True

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Always refused."""
        raise ValueError(f"the event at {position} is erased: events before a {StateSwapped.KIND!r} cannot be folded")

    def told(self) -> dict[str, Any]:
        """Return no details."""
        return {}
