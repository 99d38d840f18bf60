"""What a store that several servers share tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hinged.service.errors import StoreUnavailable


class Elsewhere(StoreUnavailable):
    """Another server has this model."""


class Owner(NamedTuple):
    """Who writes a model ("" for nobody), since which epoch ("" for none), and where its log ends."""

    address: str
    epoch: str
    exists: bool
    end: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What a sign of life was answered."""

    nodes: dict[str, tuple[bool, str]] = field(default_factory=dict)
    """By address, whether it lives, and its figures."""
    owners: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By model, the epoch and the owner that were said last."""
    models: frozenset[str] = frozenset()
