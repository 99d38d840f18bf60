"""The base classes of the events. Everything particular to a kind of event is in its class.

To add a new kind, write a class in a file of this folder, and a command that makes the event. If a class does not
define everything that `ModelEvent` requires, its import fails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from hinged.frames import BadFrame, decode, encode, peek
from hinged.service.model.tombstones import Tombstones
from hinged.service.store.base import Event
from hinged.solvers.core.reports import WholeFinish

if TYPE_CHECKING:  # these modules import the events
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of applying an event. For a learned batch, the result contains the class numbers and scores that were
    predicted just before each example was learned.

    noticed: kinds of what was noticed in the metrics while the event was applied, such as "drift".
    """

    predictions: Array
    scores: Array
    finish: WholeFinish | None = None
    noticed: tuple[str, ...] = ()


NOTHING = Outcome(np.zeros(0, np.int32), np.zeros(0))


class Redacted(NamedTuple):
    """The replacement for a logged event that contains forgotten examples. `event` is the new event, or None for an
    `erased` event.

    ids: the ids of the forgotten examples under which the store finds the event.
    """

    event: ModelEvent | None
    ids: Sequence[str] = ()


class ModelEvent(ABC):
    """An event of a model's log.

    KIND: the name of this kind in the log. MARKED: whether the learning curves mark the event.
    at_ms: the time of the event in milliseconds since 1970, 0 for no time. The time never decreases along a log.
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
        """Return the event that the parts of a payload describe. Parts added by later versions get defaults here."""

    @classmethod
    def decoded(cls, payload: bytes) -> Self:
        """Return the event of a payload. Raise BadFrame if this version cannot read the payload."""
        facts, arrays = decode(payload, cls.KIND)
        try:
            return cls.read(facts, arrays)
        except (KeyError, TypeError) as error:
            raise BadFrame(f"an event of kind {cls.KIND!r} of another version: {error!r}") from None

    @property
    def given_ids(self) -> Sequence[str]:
        """Return the ids that clients gave. The store finds the event under these ids."""
        return ()

    @classmethod
    def named(cls, payload: bytes) -> Sequence[str | None]:
        """Return the ids of all examples that a payload names. Nothing else of the payload is read."""
        ids: list[str | None] = peek(payload, cls.KIND).get("ids", [])
        return ids

    def record(self) -> Event:
        """Return the event in the form in which the store keeps it."""
        return Event(self.KIND, self.encode(), tuple(self.given_ids))

    @classmethod
    @abstractmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the replacement for the event of a payload after examples were forgotten. None means that the event
        stays.
        """

    @property
    def is_partial(self) -> bool:
        """Return whether some of the event's contents were forgotten."""
        return False

    # -- what it does ---------------------------------------------------------------------------------------------

    @abstractmethod
    def admit(self, coming: Coming) -> None:
        """Raise ValueError, KeyError or TypeError if `apply` would fail on this model. Otherwise record the effects of
        the event in `coming`.
        """

    @abstractmethod
    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Change the model. This method does no I/O, reads no clock, and draws random numbers only from the model's own
        generator.

        epoch: the learned batches before the event, for an event that learns them again.
        """

    def begin(self, kind: type[Model], name: str, position: int, **sizes: int) -> Model:
        """Return the model of a log that begins with this event. Raise BadFrame if no log can begin with this event."""
        raise BadFrame(f"a log must begin with the event 'created' or 'imported', got {self.KIND!r}")

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """Return what followers and the page get in addition to the time. The result contains numbers of examples,
        never their contents.
        """


class Facts(ModelEvent):
    """An event without arrays. The fields of the event are its payload."""

    __slots__ = ()

    def encode(self) -> bytes:
        return encode(self.KIND, asdict(self), {})  # type: ignore[call-overload]

    @classmethod
    def read(cls, facts: dict[str, Any], _: dict[str, Array]) -> Self:
        return cls(**facts)


class NamesNoExample(ModelEvent):
    """An event that names no example. Such an event stays when examples are forgotten."""

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return None, because the event stays."""
        return None


class ErasedWhole(ModelEvent):
    """An event that may contain facts about forgotten examples. When any example of the model is forgotten, such an
    event is replaced by an `erased` event. A later event contains the whole state, so nobody needs the replaced event.
    """

    __slots__ = ()

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return an `erased` event as the replacement."""
        return Redacted(None)


class Untold(ModelEvent):
    """An event that tells followers and the page only its kind and its time."""

    __slots__ = ()

    def told(self) -> dict[str, Any]:
        return {}


def sixteens(array: Array) -> list[bytes]:
    """Return the contents of an array in pieces of 16 bytes."""
    data = array.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]
