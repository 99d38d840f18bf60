"""Events of the pool: candidates, and the actions of annotators on them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hinged.frames import PIECE, encode, peek
from hinged.service.data.classes import Label
from hinged.service.data.inputs import Inputs, inputs_state, read_inputs
from hinged.service.model.events.base import (
    NOTHING,
    Array,
    ErasedWhole,
    Facts,
    ModelEvent,
    Outcome,
    Redacted,
    Untold,
    sixteens,
)
from hinged.service.model.pool import AnsweredQuery, Candidate, Lease
from hinged.service.model.tombstones import Tombstones

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


class _OfLease(Facts, ErasedWhole, Untold):
    """An annotator's action on a lease."""

    __slots__ = ()
    token: str

    def admit(self, coming: Coming) -> None:
        """Refuse an unknown lease."""
        if coming.model.pool.find_lease(self.token) is None:
            raise ValueError("there is no such lease")


@dataclass(frozen=True, slots=True)
class CandidatesOffered(ModelEvent):
    """m candidates for the pool. labels: known labels, which are used for selection alone.

    rest: whether some candidates of the original event were forgotten, so that this event contains only the rest.
    shows: what people see instead of each x. None means x itself; empty if that is so for all candidates.
    """

    KIND: ClassVar[str] = "offered"
    ids: list[str]
    inputs: Inputs
    digests: list[bytes]
    labels: list[Label | None]
    at_ms: int
    rest: bool = False
    shows: Sequence[Any] = ()

    def without(self, forgotten: Container[str]) -> Self:
        """Return the event without the candidates of these ids."""
        kept = [r for r, given in enumerate(self.ids) if given not in forgotten]
        return type(self)(
            [self.ids[r] for r in kept],
            self.inputs.take(np.array(kept, np.int64)),
            [self.digests[r] for r in kept],
            [self.labels[r] for r in kept],
            self.at_ms,
            rest=True,
            shows=[self.shows[r] for r in kept] if self.shows else (),
        )

    def encode(self) -> bytes:
        facts, arrays = inputs_state(self.inputs)
        facts |= {"ids": self.ids, "labels": self.labels, "at_ms": self.at_ms} | ({"rest": True} if self.rest else {})
        facts |= {"shows": list(self.shows)} if self.shows else {}
        arrays |= {"digests": np.frombuffer(b"".join(self.digests), np.uint8)}
        return encode(self.KIND, facts, arrays, long=len(self.ids) > PIECE)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        inputs = read_inputs(facts, arrays)
        digests = sixteens(arrays["digests"])
        rest, shows = facts.get("rest", False), facts.get("shows", ())
        return cls(facts["ids"], inputs, digests, facts["labels"], facts["at_ms"], rest, shows)

    @classmethod
    def redacted(cls, payload: bytes, tombstones: Tombstones) -> Redacted | None:
        """Return the event without the forgotten candidates."""
        facts = peek(payload, cls.KIND)
        if facts.get("rest", False) and not tombstones.known(facts["ids"]):
            return None
        event = cls.decoded(payload)
        left = event.without(tombstones.known(event.ids))
        return Redacted(left if left.ids else None)

    @property
    def is_partial(self) -> bool:
        return self.rest

    def admit(self, coming: Coming) -> None:
        """Refuse candidates that do not have this model's form, and parts of different lengths."""
        coming.check_x(self.inputs)
        if not len(self.ids) == len(self.digests) == len(self.labels) == len(self.inputs):
            raise ValueError("ids, digests and labels must have an entry for each candidate")
        if len(self.shows) not in (0, len(self.ids)):
            raise ValueError("shows must have an entry for each candidate, or be empty")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Put the candidates into the pool."""
        unseen = model.unseen(self.ids)
        for learner in model.learners:
            learner.offer(self.inputs, self.ids)
        model.see(unseen, self.ids, self.inputs.row)
        parts = zip(self.ids, self.digests, self.labels, self.shows or [None] * len(self.ids), strict=True)
        candidates = [
            Candidate(given, self.inputs.row(r), digest, label, show)
            for r, (given, digest, label, show) in enumerate(parts)
        ]
        model.pool.offer(candidates, self.at_ms)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"candidates": len(self.ids)}


@dataclass(frozen=True, slots=True)
class CandidatesShown(Facts, ErasedWhole):
    """m candidates of the pool have a new `show`: people see it instead of each x from now on."""

    KIND: ClassVar[str] = "shown"
    ids: list[str]
    shows: list[Any]
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse candidates that are not in the pool."""
        if len(self.shows) != len(self.ids) or None in map(coming.model.pool.find, self.ids):
            raise ValueError("shows must have an entry for each candidate, and all candidates must be in the pool")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Set what people see of the candidates."""
        for given, show in zip(self.ids, self.shows, strict=True):
            model.pool.show(given, show)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"candidates": len(self.ids)}


@dataclass(frozen=True, slots=True)
class CandidatesLeased(Facts, ErasedWhole):
    """Candidates were leased. leases: the id, token, expires_ms, reason and score of each lease. again: tokens of
    leases that the annotator already had.

    fingerprint: a digest of the request, if the request has an id.
    """

    KIND: ClassVar[str] = "leased"
    annotator: str
    request_id: str | None
    fingerprint: str
    leases: list[dict[str, Any]]
    again: list[str]
    at_ms: int

    @classmethod
    def named(cls, payload: bytes) -> list[str | None]:
        return [lease["id"] for lease in peek(payload, cls.KIND)["leases"]]

    def admit(self, coming: Coming) -> None:
        """Refuse candidates that are not in the pool."""
        for lease in self.leases:
            if coming.model.pool.find(lease["id"]) is None:
                raise ValueError("there is no such candidate")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Lease the candidates, and remember the request."""
        for lease in self.leases:
            rest = {key: value for key, value in lease.items() if key != "id"}
            model.pool.lend(lease["id"], Lease(annotator=self.annotator, **rest), self.at_ms)
        if self.request_id is not None:
            tokens = self.again + [lease["token"] for lease in self.leases]
            model.pool.remember(self.annotator, self.request_id, AnsweredQuery(self.fingerprint, tokens))
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"annotator": self.annotator, "leases": len(self.leases)}


@dataclass(frozen=True, slots=True)
class LeaseRenewed(_OfLease):
    """A lease was extended."""

    KIND: ClassVar[str] = "renewed"
    token: str
    expires_ms: int
    at_ms: int

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Extend the lease."""
        model.pool.renew(self.token, self.expires_ms)
        return NOTHING


@dataclass(frozen=True, slots=True)
class LeaseReleased(_OfLease):
    """A lease was released."""

    KIND: ClassVar[str] = "released"
    token: str
    at_ms: int

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Release the lease."""
        model.pool.release(self.token)
        return NOTHING


@dataclass(frozen=True, slots=True)
class LeaseSkipped(_OfLease):
    """A lease was skipped. The server does not ask its annotator about the candidate again; with `for_all`, it asks no
    annotator.
    """

    KIND: ClassVar[str] = "skipped"
    token: str
    for_all: bool
    at_ms: int

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Skip the candidate."""
        model.annotators.skip(model.pool.lease(self.token)[1].annotator)
        model.pool.skip(self.token, for_all=self.for_all)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"for": "all" if self.for_all else "me"}


@dataclass(frozen=True, slots=True)
class SkipUndone(_OfLease):
    """A skip was undone. Its lease is open again, until expires_ms."""

    KIND: ClassVar[str] = "unskipped"
    token: str
    expires_ms: int
    at_ms: int

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Undo the skip."""
        model.annotators.unskip(model.pool.lease(self.token)[1].annotator)
        model.pool.unskip(self.token, self.expires_ms)
        return NOTHING


@dataclass(frozen=True, slots=True)
class VoteCast(_OfLease):
    """An annotator's label for a candidate that needs several labels."""

    KIND: ClassVar[str] = "voted"
    token: str
    label: Label
    at_ms: int

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Add the label to the labels of the candidate."""
        candidate, leased = model.pool.lease(self.token)
        model.pool.vote(self.token, self.label)
        model.annotators.vote(candidate.id, leased.annotator, self.label, self.at_ms)
        return NOTHING
