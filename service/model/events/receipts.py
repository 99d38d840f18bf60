"""The event that commits to the events before it (service/model/receipts.py)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hinged.frames import encode
from hinged.service.model.events.base import NOTHING, Array, NamesNoExample, Outcome
from hinged.service.model.receipts import GONE, HASH_BYTES, Head, Ledger, Tree, leaves_of

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class EventsSealed(NamesNoExample):
    """The events from position `first` up to the position before this event were added to the tree of the receipts.

    before: the tree without them. kinds, commitments, salts: one entry for each event; the salt of a redacted event is
    GONE. head: the head of the tree with them.
    """

    KIND: ClassVar[str] = "sealed"
    first: int
    before: Tree
    kinds: tuple[str, ...]
    commitments: tuple[bytes, ...]
    salts: tuple[bytes, ...]
    head: Head

    @property
    def at_ms(self) -> int:  # type: ignore[override]
        """Return the time of the head."""
        return self.head.at_ms

    @property
    def leaves(self) -> list[bytes]:
        """Return the hash of each leaf."""
        return leaves_of(self.first, self.kinds, self.commitments)

    def without_salts(self, positions: Container[int]) -> EventsSealed:
        """Return the event without the salts of the events at these positions."""
        salts = enumerate(self.salts, self.first)
        return replace(self, salts=tuple(GONE if position in positions else salt for position, salt in salts))

    def encode(self) -> bytes:
        facts = {"first": self.first, "kinds": self.kinds, "before": self.before.size, "head": self.head._asdict()}
        hashes = b"".join((*self.before.peaks, *self.commitments, *self.salts))
        return encode(self.KIND, facts, {"hashes": np.frombuffer(hashes, np.uint8)})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        data = arrays["hashes"].tobytes()
        hashes = tuple(data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES))
        peaks, kinds = facts["before"].bit_count(), tuple(facts["kinds"])
        middle = peaks + len(kinds)
        before = Tree(facts["before"], hashes[:peaks])
        return cls(facts["first"], before, kinds, hashes[peaks:middle], hashes[middle:], Head(**facts["head"]))

    def admit(self, coming: Coming) -> None:
        """Accept always."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Keep the tree and its head. A rollback does not undo them: the event says what was before it."""
        model.receipts = Ledger(position, self.before.extended(self.leaves), self.head)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"size": self.head.size, "root": self.head.root}
