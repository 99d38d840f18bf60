"""What a store that several servers share tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hinged.service.errors import StoreUnavailable


class OwnedElsewhere(StoreUnavailable):
    """Another server has this model."""


class Owner(NamedTuple):
    """Who writes a model ("" for nobody), since which epoch ("" for none), and where its log ends."""

    address: str
    epoch: str
    exists: bool
    end: int


class Sign(NamedTuple):
    """A server's last sign of life: whether it still holds, how old it is, and the figures that came with it."""

    lives: bool
    age_s: float
    figures: str


@dataclass(frozen=True, slots=True)
class Beat:
    """What a sign of life was answered."""

    nodes: dict[str, Sign] = field(default_factory=dict)
    """By address."""
    owners: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By model, the epoch and the owner that were said last."""
    models: frozenset[str] = frozenset()
    changed: frozenset[str] | None = None
    """The names that the last two tell of; all if None."""
    mark: int = 0
    """With which it is asked what has changed since."""
