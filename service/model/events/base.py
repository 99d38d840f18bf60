"""What an event of a model's log is. All that there is to say of a kind of event stands in its class.

A new kind is a class in one of the files of this folder, and a command that makes it. A class that leaves a question
open which `ModelEvent` asks is refused at import.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from hinged.frames import BadFrame, decode, encode
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Event
from hinged.solvers.core.reports import Finish

if TYPE_CHECKING:  # they import the events
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What applying an event found: for a learned batch the class numbers and scores from right before each example.

    drifted: whether the errors rose with it.
    """

    predictions: Array
    scores: Array
    finish: Finish | None = None
    drifted: bool = False


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


class Redacted(NamedTuple):
    """What stands in the log for an event once some examples are forgotten: `event`, None for an `erased`.

    ids: those of the forgotten examples under which the store finds the event.
    """

    event: ModelEvent | None
    ids: Sequence[str] = ()


class ModelEvent(ABC):
    """An event of a model's log.

    KIND: its name in the log. MARKED: whether the learning curves mark it. at_ms: its time, milliseconds since 1970,
    0 for none; in a log it never falls.
    """

    __slots__ = ()
    KIND: ClassVar[str]
    MARKED: ClassVar[bool] = False
    at_ms: int

    # -- in the log -----------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(self) -> bytes:
        """The event's payload."""

    @classmethod
    @abstractmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload's parts. What later versions added has a default here."""

    @classmethod
    def decoded(cls, payload: bytes) -> Self:
        """The event of a payload. BadFrame if this version cannot read it."""
        facts, arrays = decode(payload, cls.KIND)
        try:
            return cls.read(facts, arrays)
        except (KeyError, TypeError) as error:
            raise BadFrame(f"an event of kind {cls.KIND!r} of another version: {error!r}") from None

    @property
    def given_ids(self) -> Sequence[str]:
        """The ids that clients gave, under which the store finds the event."""
        return ()

    def record(self) -> Event:
        """The event as the store keeps it."""
        return Event(self.KIND, self.encode(), tuple(self.given_ids))

    @classmethod
    @abstractmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """What stands in the log for the event of a payload once some examples are forgotten; None: it stays."""

    @property
    def is_partial(self) -> bool:
        """Whether some of what it held was forgotten."""
        return False

    # -- what it does ---------------------------------------------------------------------------------------------

    @abstractmethod
    def admit(self, coming: Coming) -> None:
        """Raise ValueError, KeyError or TypeError where `apply` would fail on this model; then count it as come."""

    @abstractmethod
    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Change the model. No I/O, no clock, and nothing drawn at random but by the model's own generator.

        epoch: the learned batches before it, for whatever goes over them again.
        """

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """The model of a log that begins with this event. BadFrame where none does."""
        raise BadFrame(f"a log begins with the event 'created' or 'imported', got {self.KIND!r}")

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """What followers and the page are told of it besides its time: how many, never what."""


class Facts(ModelEvent):
    """An event without arrays: its fields are its payload."""

    __slots__ = ()

    def encode(self) -> bytes:
        """The event's payload."""
        return encode(self.KIND, asdict(self), {})  # type: ignore[call-overload]

    @classmethod
    def read(cls, facts: dict[str, Any], _: dict[str, Array]) -> Self:
        """The event of a payload's parts."""
        return cls(**facts)


class NamesNoExample(ModelEvent):
    """An event that tells nothing of any example, and stays when some are forgotten."""

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """The event stays."""
        return None


class ErasedWhole(ModelEvent):
    """An event that tells of examples, and that nobody reads again once the whole state stands behind it."""

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """An `erased` stands for it."""
        return Redacted(None)


def sixteens(array: Array) -> list[bytes]:
    """What an array holds, 16 bytes each."""
    data = array.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]
