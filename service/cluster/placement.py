"""Which models are to move from one server to another.

A server is as full as its fullest measure: its models, their memory and their load, each by what it has of that (models
by nothing) and beside the mean of all servers, which counts as 1. A mean that is next to nothing counts as a little
more (LEAST), so that what hardly matters is never evened out.

Nothing moves without need: only where the fullest server is NEED fuller than the emptiest does anything. Then models
move until they are within GOAL, one at a time from the fullest to the emptiest: the one that leaves the
fuller of the two least full. What no move makes better stays, however full: a model is not divided.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

NEED = 0.5
GOAL = 0.1
LEAST = (4.0, 0.02, 0.05)
"""Of the means: models of a server, part of its memory, part of its processors."""
ROOM = 0.9
"""Of a server's memory its models may come to by a move."""
TRIED = 8
"""Models of a server by each of its measures that are tried for a move."""


class Server(NamedTuple):
    """A server: what it has."""

    address: str
    memory_max_bytes: float
    processors: float


class Placed(NamedTuple):
    """A model: where it is, and what it takes."""

    model: str
    owner: str
    memory_bytes: float
    load: float


class Move(NamedTuple):
    """A model that is to go from one server to another."""

    model: str
    source: str
    target: str


Amounts = tuple[float, float, float]
"""Models, memory, load: each as a part of what makes a server full."""


def needed_moves(servers: Iterable[Server], models: Iterable[Placed]) -> list[Move]:
    """The moves that are needed, in order; none where none is. Models whose owner is none of the servers stay out."""
    shares = _Shares(servers, models)
    return shares.moves() if shares.gap() > NEED else []


def fullness(servers: Iterable[Server], models: Iterable[Placed]) -> dict[str, float]:
    """How full each server is, beside the mean."""
    return _Shares(servers, models).fullness()


class _Shares:
    """Who has which models, and how full that makes him."""

    def __init__(self, servers: Iterable[Server], models: Iterable[Placed]) -> None:
        self._servers = {server.address: server for server in servers}
        self._of: dict[str, Placed] = {model.model: model for model in models if model.owner in self._servers}
        self._means = self._mean_shares()
        # Of each server: what its models come to, and its models by each measure, in ascending order.
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
        """Moves until the servers are as full as each other, or none is better than none."""
        found: list[Move] = []
        stuck: list[str] = []
        enough = GOAL
        fullest = [(-full, address) for address, full in self.fullness().items()]
        emptiest = [(full, address) for address, full in self.fullness().items()]
        heapq.heapify(fullest)
        heapq.heapify(emptiest)
        while fullest:
            full, source = heapq.heappop(fullest)
            if -full != max(self._used[source]):  # it has changed, and stands there once more
                continue
            while emptiest[0][0] != max(self._used[emptiest[0][1]]):
                heapq.heappop(emptiest)
            empty, target = emptiest[0]
            if -full - empty <= enough:
                break
            model = self._best(source, target)
            if model is None:
                stuck.append(source)
                enough = NEED  # nothing of it fits, and what it has is no need of the next
                continue
            found.append(Move(model, source, target))
            self._move(model, source, target)
            for address in (source, target):
                heapq.heappush(fullest, (-max(self._used[address]), address))
                heapq.heappush(emptiest, (max(self._used[address]), address))
            for address in stuck:  # another server may be the emptiest now
                heapq.heappush(fullest, (-max(self._used[address]), address))
            stuck.clear()
            enough = GOAL
        return found

    def _best(self, source: str, target: str) -> str | None:
        """The model whose move leaves the fuller of two servers least full; None where none makes it less full."""
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
        """By how much a model makes a server fuller."""
        return (
            1.0 / self._part(0, address),
            model.memory_bytes / self._part(1, address),
            model.load / self._part(2, address),
        )

    def _part(self, measure: int, address: str) -> float:
        """What of a measure makes a server as full as the mean."""
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
    """Those of some moves that still lead somewhere: the model is where it was, and both servers live."""
    there = set(living)
    return [move for move in moves if owners.get(move.model) == move.source and {move.source, move.target} <= there]
