"""Candidates, and what annotators do with them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from hinged.frames import PIECE, encode
from hinged.service.data.classes import Label
from hinged.service.data.inputs import Inputs, inputs_state, read_inputs
from hinged.service.model.events.facts import Array, Facts, sixteens


@dataclass(frozen=True, slots=True)
class Offered:
    """Candidates for the pool, m of them; labels: those that are known, for selection alone.

    rest: whether some of them were forgotten, and these are what is left. shows: what each is shown as in the place of
    its x, None where it is x; empty where that is all of them.
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
        """What is left without these ids."""
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
        """The event's payload."""
        facts, arrays = inputs_state(self.inputs)
        facts |= {"ids": self.ids, "labels": self.labels, "at_ms": self.at_ms} | ({"rest": True} if self.rest else {})
        facts |= {"shows": list(self.shows)} if self.shows else {}
        arrays |= {"digests": np.frombuffer(b"".join(self.digests), np.uint8)}
        return encode(self.KIND, facts, arrays, long=len(self.ids) > PIECE)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The event of a payload."""
        inputs = read_inputs(facts, arrays)
        digests = sixteens(arrays["digests"])
        rest, shows = facts.get("rest", False), facts.get("shows", ())
        return cls(facts["ids"], inputs, digests, facts["labels"], facts["at_ms"], rest, shows)


@dataclass(frozen=True, slots=True)
class Shown(Facts):
    """Candidates of the pool, m of them, and what each is shown as from now on."""

    KIND: ClassVar[str] = "shown"
    ids: list[str]
    shows: list[Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Leased(Facts):
    """Candidates were lent. leases: id, token, expires_ms, reason, score of each. again: tokens held already.

    fingerprint: what the request said, where it has an id.
    """

    KIND: ClassVar[str] = "leased"
    annotator: str
    request_id: str | None
    fingerprint: str
    leases: list[dict[str, Any]]
    again: list[str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Renewed(Facts):
    """A lease lasts longer."""

    KIND: ClassVar[str] = "renewed"
    token: str
    expires_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Released(Facts):
    """A lease was given back."""

    KIND: ClassVar[str] = "released"
    token: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Skipped(Facts):
    """A lease was given back: its annotator, or nobody, is to be asked again."""

    KIND: ClassVar[str] = "skipped"
    token: str
    for_all: bool
    at_ms: int


@dataclass(frozen=True, slots=True)
class Unskipped(Facts):
    """A skip was taken back: its lease is open again, until expires_ms."""

    KIND: ClassVar[str] = "unskipped"
    token: str
    expires_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Voted(Facts):
    """An annotator's label for a candidate that needs several."""

    KIND: ClassVar[str] = "voted"
    token: str
    label: Label
    at_ms: int
