"""Who owns and who follows which model, by the names of models and the numbers of processes alone.

Nothing has to be looked up, and a process that is away leaves no doubt about what is its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from hinged.service.store.division import name_of

NAMES_KEPT = 4_096
"""Names whose owner is remembered, some 200 bytes each. Of other names it takes some microseconds to find."""


def first_of(addresses: Iterable[str], name: str) -> str:
    """The server that comes first for a model: another one for each, and the same whoever else comes or goes."""
    number = _number(name)
    return max(addresses, key=lambda address: _mixed(_number_of_server(address) ^ number))


def owner_of(name: str, division: int) -> int:
    """The number of the process that owns a model, in a store divided by so many.

    It stands in no file, and must never change.
    """
    names = {name_of(number, division): number for number in range(1, division + 1)}
    return names[first_of(names, name)]


class Ring:
    """A process among all: those from 1 to `division` own models, and so many after each owner follow its models."""

    def __init__(self, number: int, processes: int, division: int, followers: int) -> None:
        self.number = number
        self.processes = processes
        self.division = division
        self.others = [other for other in range(1, processes + 1) if other != number]
        self.followed = [k for k in self.others if k <= division and (number - k) % processes <= followers]
        """The owners whose models this process follows."""
        self.owner = lru_cache(NAMES_KEPT)(lambda name: owner_of(name, division))

    @property
    def owns(self) -> bool:
        """Whether any models are this process's."""
        return self.number <= self.division

    def here(self, name: str) -> bool:
        """Whether a model is this process's."""
        return bool(self.owner(name) == self.number)


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


_number_of_server = lru_cache(maxsize=4096)(_number)


def _mixed(number: int) -> int:
    """Another number of 64 bits, each of which depends on all of the first (SplitMix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return number ^ number >> 31
