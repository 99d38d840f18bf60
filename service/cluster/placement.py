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

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

NEED = 0.5  # models move if the fullest server exceeds the emptiest by more than this, in means
GOAL = 0.1  # no more models move if the difference is at most this, in means
LEAST = (4.0, 0.02, 0.05)
"""Minimum values of the three means: models per server, share of its memory, share of its processors."""
ROOM = 0.9
"""Maximum share of a server's memory that its models may use after a move."""
TRIED = 8
"""Maximum number of models above the ideal size, and below it, that are tried for a move: by memory and by load."""


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


Amounts = tuple[float, float, float]
"""A server's three measures (number of models, memory, load), each divided by the mean over all servers."""


def needed_moves(servers: Iterable[Host], models: Iterable[Placed]) -> list[Move]:
    """Return the needed moves, in the order in which to make them. Ignore models without an owner in `servers`."""
    shares = _Shares(servers, models)
    return shares.moves() if shares.gap() > NEED else []


def fullness(servers: Iterable[Host], models: Iterable[Placed]) -> dict[str, float]:
    """Return the fullness of each server, relative to the mean."""
    return _Shares(servers, models).fullness()


class _Shares:
    """The models of each server, and the resulting measures of the server."""

    def __init__(self, servers: Iterable[Host], models: Iterable[Placed]) -> None:
        self._servers = {server.address: server for server in servers}
        self._of: dict[str, Placed] = {model.model: model for model in models if model.owner in self._servers}
        self._means = self._mean_shares()
        # For each server: the sums over its models, and lists of its models in ascending order of memory and of load.
        self._used: dict[str, Amounts] = dict.fromkeys(self._servers, (0.0, 0.0, 0.0))
        self._sorted: dict[str, list[list[tuple[float, str]]]] = {address: [[], []] for address in self._servers}
        for model in self._of.values():
            self._used[model.owner] = _sum(self._used[model.owner], self._weight(model, model.owner))
            for measure, ordered in enumerate(self._sorted[model.owner]):
                ordered.append((_amount(model, measure), model.model))
        for both in self._sorted.values():
            for ordered in both:
                ordered.sort()

    def fullness(self) -> dict[str, float]:
        return {address: max(used) for address, used in self._used.items()}

    def gap(self) -> float:
        full = self.fullness().values()
        return max(full) - min(full) if full else 0.0

    def moves(self) -> list[Move]:
        """Make moves until the servers are about equally full, or until no move improves them; return the moves."""
        found: list[Move] = []
        stuck: set[str] = set()  # servers of which no model fits
        while True:
            full = self.fullness()
            source = max(sorted(full.keys() - stuck), key=full.__getitem__, default=None)
            target = min(sorted(full), key=full.__getitem__)
            # If no model of the fullest server fits, the next server moves models only above NEED.
            if source is None or full[source] - full[target] <= (NEED if stuck else GOAL):
                return found
            model = self._best(source, target)
            if model is None:
                stuck.add(source)
            else:
                found.append(Move(model, source, target))
                self._move(model, source, target)
                stuck.clear()  # another server may be the emptiest now

    def _best(self, source: str, target: str) -> str | None:
        """Return the model after whose move the fuller of the two servers is least full; None if no move helps."""
        of_source, of_target = self._used[source], self._used[target]
        room = ROOM * self._servers[target].memory_max_bytes - of_target[1] * self._part(1, target)
        best, least = None, max(of_source) - 1e-9
        for measure, ordered in enumerate(self._sorted[source], 1):
            wanted = (of_source[measure] - of_target[measure]) / 2 * self._part(measure, source)
            at = bisect_left(ordered, (wanted, ""))
            for _, name in ordered[max(0, at - TRIED) : at + TRIED]:
                model = self._of[name]
                if model.memory_bytes > room:
                    continue
                left = _sum(of_source, self._weight(model, source), -1.0)
                more = _sum(of_target, self._weight(model, target))
                fuller = max(*left, *more)
                if fuller < least:
                    best, least = name, fuller
        return best

    def _move(self, name: str, source: str, target: str) -> None:
        model = self._of[name]
        for measure in (0, 1):
            entry = (_amount(model, measure), name)
            ordered = self._sorted[source][measure]
            del ordered[bisect_left(ordered, entry)]
            insort(self._sorted[target][measure], entry)
        self._used[source] = _sum(self._used[source], self._weight(model, source), -1.0)
        self._used[target] = _sum(self._used[target], self._weight(model, target))
        self._of[name] = model._replace(owner=target)

    def _weight(self, model: Placed, address: str) -> Amounts:
        """Return how much a model adds to each measure of a server."""
        return (
            1.0 / self._part(0, address),
            model.memory_bytes / self._part(1, address),
            model.load / self._part(2, address),
        )

    def _part(self, measure: int, address: str) -> float:
        """Return the amount of a measure at which a server is as full as the mean."""
        server = self._servers[address]
        return self._means[measure] * (1.0, server.memory_max_bytes, server.processors)[measure]

    def _mean_shares(self) -> Amounts:
        count = max(1, len(self._servers))
        memory = sum(server.memory_max_bytes for server in self._servers.values()) or 1.0
        processors = sum(server.processors for server in self._servers.values()) or 1.0
        used = (
            len(self._of) / count,
            sum(model.memory_bytes for model in self._of.values()) / memory,
            sum(model.load for model in self._of.values()) / processors,
        )
        return (max(used[0], LEAST[0]), max(used[1], LEAST[1]), max(used[2], LEAST[2]))


def _amount(model: Placed, measure: int) -> float:
    return model.load if measure else model.memory_bytes


def _sum(first: Amounts, second: Amounts, sign: float = 1.0) -> Amounts:
    return (first[0] + sign * second[0], first[1] + sign * second[1], first[2] + sign * second[2])


def within(moves: Iterable[Move], owners: Mapping[str, str], living: Iterable[str]) -> list[Move]:
    """Return the moves that are still valid: the source owns the model, and both servers are alive."""
    there = set(living)
    return [move for move in moves if owners.get(move.model) == move.source and {move.source, move.target} <= there]
