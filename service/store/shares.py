"""Reports of a store that several servers share: owners of models, and signs of life of servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hinged.service.errors import StoreUnavailable


class OwnedElsewhere(StoreUnavailable):
    """Another server has this model."""


class Owner(NamedTuple):
    """The writer of a model ("" if none), the epoch of its claim ("" if none), and the end of the model's log."""

    address: str
    epoch: str
    exists: bool
    end: int


class Sign(NamedTuple):
    """A server's last sign of life: whether it is still valid, its age, and the figures sent with it."""

    lives: bool
    age_s: float
    figures: str


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a server's sign of life."""

    nodes: dict[str, Sign] = field(default_factory=dict)
    """Signs of life by address."""
    owners: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The epoch and owner last reported for each model."""
    models: frozenset[str] = frozenset()
    changed: frozenset[str] | None = None
    """Names of the models in `owners` and `models`; None if these have all models."""
    mark: int = 0
    """Mark to send with the next sign of life, so that only later changes are answered."""
