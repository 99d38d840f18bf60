"""Types for a store that several servers share: owners of models, and heartbeats of servers."""

from __future__ import annotations

from typing import NamedTuple

from hinged.service.errors import StoreUnavailable


class OwnedElsewhere(StoreUnavailable):
    """Raised when another server owns this model."""


class Owner(NamedTuple):
    """The writer of a model.

    address: the server that claimed the model, "" if none. epoch: the epoch of its claim, "" if none. exists: whether
    the model exists. end: position of the last event in the model's log.
    """

    address: str
    epoch: str
    exists: bool
    end: int


class Sign(NamedTuple):
    """A server's last heartbeat: whether it is still valid, its age, and the server's report of memory and load."""

    lives: bool
    age_s: float
    figures: str


class Beat(NamedTuple):
    """The answer to a server's heartbeat."""

    nodes: dict[str, Sign]
    """The last heartbeat of each server, by address."""
    owners: dict[str, tuple[int, str]]
    """The last reported epoch and owner of each model."""
    models: frozenset[str]
    changed: frozenset[str] | None
    """Names of the models in `owners` and `models`; None if `owners` and `models` include every model."""
    mark: int
    """Number to send with the next heartbeat. The next answer then contains only later changes."""
