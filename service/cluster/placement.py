"""Compute which models should move from one server to another.

A server has three measures: the number of its models, the share of its memory that they use, and the share of its
processors that they use. Each measure is divided by the mean over all servers. The highest of the three quotients is
the server's fullness. If a mean is below its value in LEAST, the value in LEAST replaces the mean. So small differences
move no model.

Models move only if the fullness of the fullest server exceeds the fullness of the emptiest server by more than NEED.
Then models move one at a time from the fullest to the emptiest server, until the difference is at most GOAL. For each
move, the program chooses the model after whose move the fuller of the two servers is least full. If no move improves a
server, the server stays as full as it is, because a model cannot be divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

NEED = 0.5  # models move if the fullest server exceeds the emptiest by more than this, in means
GOAL = 0.1  # no more models move if the difference is at most this, in means
LEAST = (4.0, 0.02, 0.05)
"""Minimum values of the three means: models per server, share of its memory, share of its processors."""
ROOM = 0.9
"""Maximum share of a server's memory that its models may use after a move."""
TIE = 0.01
"""Weight of the sum of the three measures, if models are as good by the highest measure. Without it, small models move
where fewer large models would do."""


class Host(NamedTuple):
    """A server and its resources."""

    address: str
    memory_max_bytes: float
    processors: float


class Placed(NamedTuple):
    """A model, its owner, and the resources that it uses."""

    model: str
    owner: str
    memory_bytes: float
    load: float


class Move(NamedTuple):
    """A model that should move from one server to another."""

    model: str
    source: str
    target: str


def needed_moves(servers: Iterable[Host], models: Iterable[Placed]) -> list[Move]:
    """Return the needed moves, in the order in which to make them. Ignore models without an owner in `servers`."""
    shares = _Shares(servers, models)
    full = shares.fullness()
    return shares.moves() if full.size and np.ptp(full) > NEED else []


def fullness(servers: Iterable[Host], models: Iterable[Placed]) -> dict[str, float]:
    """Return the fullness of each server, relative to the mean."""
    shares = _Shares(servers, models)
    return dict(zip(shares.addresses, shares.fullness().tolist(), strict=True))


class _Shares:
    """The three measures of each server and each model: number of models, memory, load."""

    def __init__(self, servers: Iterable[Host], models: Iterable[Placed]) -> None:
        hosts = sorted(servers)
        self.addresses = [host.address for host in hosts]
        places = {address: place for place, address in enumerate(self.addresses)}
        # If several moves help as much, the model with the least load moves.
        self._models = sorted((model for model in models if model.owner in places), key=lambda model: model.load)
        self._owner = np.array([places[model.owner] for model in self._models], np.int64)
        amounts = [(1.0, model.memory_bytes, model.load) for model in self._models]
        sizes = [(1.0, host.memory_max_bytes, host.processors) for host in hosts]
        self._amounts, self._sizes = np.array(amounts).reshape(-1, 3), np.array(sizes).reshape(-1, 3)
        self._held = np.zeros_like(self._sizes)
        np.add.at(self._held, self._owner, self._amounts)
        means = self._amounts.sum(axis=0) / np.maximum(self._sizes.sum(axis=0), 1.0)
        self._part = np.maximum(means, LEAST) * self._sizes  # amounts with which each server is as full as the mean

    def fullness(self) -> Array:
        found: Array = (self._held / self._part).max(axis=1)
        return found

    def moves(self) -> list[Move]:
        """Make moves until the servers are about equally full, or until no move improves them; return the moves."""
        found: list[Move] = []
        stuck = np.zeros(len(self.addresses), bool)  # servers of which no model fits
        while not stuck.all():
            full = self.fullness()
            source, target = int(np.where(stuck, -np.inf, full).argmax()), int(full.argmin())
            # If no model of the fullest server fits, the next server moves models only above NEED.
            if full[source] - full[target] <= (NEED if stuck.any() else GOAL):
                break
            model = self._best(source, target)
            if model is None:
                stuck[source] = True
                continue
            found.append(Move(self._models[model].model, self.addresses[source], self.addresses[target]))
            self._owner[model] = target
            self._held[source] -= self._amounts[model]
            self._held[target] += self._amounts[model]
            stuck[:] = False  # another server may be the emptiest now
        return found

    def _best(self, source: int, target: int) -> int | None:
        """Return the model after whose move the fuller of the two servers is least full; None if no move helps."""
        mine = np.flatnonzero(self._owner == source)
        left = (self._held[source] - self._amounts[mine]) / self._part[source]
        more = (self._held[target] + self._amounts[mine]) / self._part[target]
        fuller = np.maximum(left, more)  # in each measure
        helps = fuller.max(axis=1) < (self._held[source] / self._part[source]).max() - 1e-9
        helps &= self._held[target, 1] + self._amounts[mine, 1] <= ROOM * self._sizes[target, 1]
        if not helps.any():
            return None
        rank = fuller.max(axis=1) + TIE * fuller.sum(axis=1)
        return int(mine[np.where(helps, rank, np.inf).argmin()])
