"""Events that start or replace a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hinged.frames import BadFrame, encode
from hinged.service.data.configuration import read_configuration
from hinged.service.errors import NoFeatures
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
    Untold,
)
from hinged.service.model.jobs import Jobs
from hinged.service.model.state import SNAPSHOT, answers_of, ids_of
from hinged.service.model.tombstones import Tombstones

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


class _First(ModelEvent):
    """An event that can only be the first event of a log."""

    __slots__ = ()

    def admit(self, coming: Coming) -> None:
        """Refuse always."""
        raise ValueError("this kind of event may not follow another event")


class _AnotherModel(ModelEvent):
    """An event that replaces the model before it with a new model."""

    __slots__ = ()

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refuse always, because the reader of the log makes the new model."""
        raise ValueError(
            f"the event at {position}, {self.KIND!r}, replaces the model {model.name}, and cannot be applied to it"
        )


@dataclass(frozen=True, slots=True)
class ModelCreated(_First, Facts, NamesNoExample):
    """A model was created with this configuration."""

    KIND: ClassVar[str] = "created"
    configuration: dict[str, Any]
    at_ms: int

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return a new model with this configuration."""
        model = kind(name, read_configuration(self.configuration), **sizes)
        model.apply(1, self)
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Do nothing: `begin` has made the model."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"configuration": self.configuration}


@dataclass(frozen=True, slots=True)
class ModelAnnounced(_First, Facts, NamesNoExample, Untold):
    """A model was asked for without features. The first examples determine its features: `created` then takes the place
    of this event. template: the other parts of the configuration, as JSON.
    """

    KIND: ClassVar[str] = "announced"
    template: str
    at_ms: int

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Raise NoFeatures, because there is no model yet."""
        raise NoFeatures(name, self.template)

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refuse always, because no model exists before `created`."""
        raise ValueError(f"the event at {position}, {self.KIND!r}, cannot be applied to a model")


@dataclass(frozen=True, slots=True)
class _Whole(Untold):
    """An event that contains a whole state as a snapshot."""

    state: bytes
    at_ms: int

    def encode(self) -> bytes:
        return encode(self.KIND, self._facts(), {"state": np.frombuffer(self.state, np.uint8)})

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms}

    @classmethod
    def named(cls, payload: bytes) -> list[str | None]:
        return ids_of(cls.decoded(payload).state)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls(arrays["state"].tobytes(), facts["at_ms"])


@dataclass(frozen=True, slots=True)
class ModelImported(_Whole, _First):
    """A model begins with the exported state of another model. ids: the ids of the examples that occur in the state."""

    KIND: ClassVar[str] = "imported"
    ids: tuple[str, ...] = ()  # the state contains these ids, too

    @property
    def given_ids(self) -> tuple[str, ...]:
        return self.ids

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the event with a state that contains only first answers. The first answers of forgotten examples are
        left out.
        """
        answers = answers_of(cls.decoded(payload).state)
        known = tombstones.known(answers.given_ids)
        for given in known:
            answers.forget(answers.number_of(given) or 0)
        facts, arrays = answers.state()
        state = encode(SNAPSHOT, {"answers": facts}, {f"answers.{key}": array for key, array in arrays.items()})
        return Redacted(cls(state, 0), known)

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of this state, without the positions of the log from which it was exported."""
        model = kind.restore(name, self.state, **sizes)
        model.position, model.at_ms = 1, max(model.at_ms, self.at_ms)
        model.undone, model.reads_back_at, model.floor, model.jobs = [], 0, 0, Jobs()
        model.set_aside, model.curves, model.hooks = [], Curves(), model.hooks.moved(1)
        model.receipts = None
        return model

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refuse always."""
        raise ValueError(f"model {model.name} exists: only a log's first event may import a state")


@dataclass(frozen=True, slots=True)
class StateSwapped(_Whole, _AnotherModel, ErasedWhole):
    """A whole new state was made from the log. The new state lacks what was forgotten, and includes what was corrected
    or intended.

    The state replaces the results of all earlier events, which are not applied again. champion: whether the learner
    that answers was replaced, and not only challengers.
    """

    KIND: ClassVar[str] = "swapped"
    champion: bool = True

    def _facts(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms, "champion": self.champion}

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls(arrays["state"].tobytes(), facts["at_ms"], facts.get("champion", True))

    def admit(self, coming: Coming) -> None:
        """Accept always, because `begin` has read the state before the event is appended."""

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of this state. Raise BadFrame if the state is not from just before the event."""
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
class ModelRolledBack(_AnotherModel, Facts, NamesNoExample, Untold):
    """The model returned to its state at position `to`. The events in between no longer count.

    hooks: the hooks just before the rollback. A rollback keeps them, so it brings back no hook that was removed.
    """

    KIND: ClassVar[str] = "rolled_back"
    to: int
    at_ms: int
    hooks: dict[str, Any] | None = None

    def encode(self) -> bytes:
        """Return the event's payload. If the model has no hooks, the payload is as in earlier versions."""
        facts = {"to": self.to, "at_ms": self.at_ms}
        return encode(self.KIND, facts if self.hooks is None else {**facts, "hooks": self.hooks}, {})

    def admit(self, coming: Coming) -> None:
        """Refuse a state that does not exist."""
        if not (1 <= self.to <= coming.model.position and coming.model.counts(self.to)):
            raise ValueError(f"there is no state to return to at position {self.to}")


@dataclass(frozen=True, slots=True)
class EventSetAside(Facts, NamesNoExample):
    """The event at position `event` was skipped, because `error` made it impossible to apply. was: the kind of that
    event.
    """

    KIND: ClassVar[str] = "set_aside"
    MARKED: ClassVar[bool] = True
    event: int
    was: str
    error: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Accept always."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Do nothing: the model skips the named event when it reaches that event."""
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"event": self.event, "was": self.was}


@dataclass(frozen=True, slots=True)
class EventErased(_First, Facts, NamesNoExample, Untold):
    """The replacement of an event about forgotten examples. A later `swapped` event contains the effects of the
    original event, without the forgotten examples.
    """

    KIND: ClassVar[str] = "erased"
    was: str
    at_ms: int = 0

    @property
    def is_partial(self) -> bool:
        """Return True, because all of the event was forgotten."""
        return True

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Refuse always."""
        raise ValueError(f"the event at {position} is erased: events before a {StateSwapped.KIND!r} cannot be folded")
