"""The base of the events. Everything particular to a kind of event is in its class.

A new kind is a class in one of the files of this folder, and a command that makes it. A class that does not define what
`ModelEvent` requires is refused at import.
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

if TYPE_CHECKING:  # these modules import the events
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of applying an event: for a learned batch the class numbers and scores from right before each example.

    drifted: whether the event brought a drift.
    """

    predictions: Array
    scores: Array
    finish: Finish | None = None
    drifted: bool = False


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


class Redacted(NamedTuple):
    """The replacement for an event in the log after examples were forgotten: `event`, or None for an `erased`.

    ids: ids of the forgotten examples under which the store finds the event.
    """

    event: ModelEvent | None
    ids: Sequence[str] = ()


class ModelEvent(ABC):
    """An event of a model's log.

    KIND: its name in the log. MARKED: whether the learning curves mark it.
    at_ms: its time in milliseconds since 1970, 0 for none; it never decreases along a log.
    """

    __slots__ = ()
    KIND: ClassVar[str]
    MARKED: ClassVar[bool] = False
    at_ms: int

    # -- in the log -----------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(self) -> bytes:
        """Return the event's payload."""

    @classmethod
    @abstractmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """Return the event of a payload's parts. Parts that later versions added have defaults here."""

    @classmethod
    def decoded(cls, payload: bytes) -> Self:
        """Return the event of a payload. BadFrame if this version cannot read it."""
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
        """Return the event as the store keeps it."""
        return Event(self.KIND, self.encode(), tuple(self.given_ids))

    @classmethod
    @abstractmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the replacement for a payload's event after examples were forgotten; None: the event stays."""

    @property
    def is_partial(self) -> bool:
        """Whether some of its contents were forgotten."""
        return False

    # -- what it does ---------------------------------------------------------------------------------------------

    @abstractmethod
    def admit(self, coming: Coming) -> None:
        """Raise ValueError, KeyError or TypeError if `apply` would fail on this model; otherwise count the event as
        applied.
        """

    @abstractmethod
    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Change the model. No I/O, no clock, and no random draws except by the model's own generator.

        epoch: the learned batches before it, for an event that learns them again.
        """

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of a log that begins with this event. BadFrame if no log can."""
        raise BadFrame(f"a log must begin with the event 'created' or 'imported', got {self.KIND!r}")

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """Return what followers and the page get besides the time: how many, never what."""


class Facts(ModelEvent):
    """An event without arrays: its fields are its payload."""

    __slots__ = ()

    def encode(self) -> bytes:
        """Return the event's payload."""
        return encode(self.KIND, asdict(self), {})  # type: ignore[call-overload]

    @classmethod
    def read(cls, facts: dict[str, Any], _: dict[str, Array]) -> Self:
        """Return the event of a payload's parts."""
        return cls(**facts)


class NamesNoExample(ModelEvent):
    """An event that names no example, and stays when examples are forgotten."""

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """The event stays."""
        return None


class ErasedWhole(ModelEvent):
    """An event about examples that is erased as a whole: once a whole state follows it, nobody reads it again."""

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """An `erased` replaces it."""
        return Redacted(None)


def sixteens(array: Array) -> list[bytes]:
    """Return an array's contents in pieces of 16 bytes."""
    data = array.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]
