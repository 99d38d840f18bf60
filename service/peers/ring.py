"""Compute the owner and the followers of a model from its name and the number of processes alone.

Nothing needs to be looked up, and the owner is known even while it is away.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from hinged.service.store.division import name_of

NAMES_KEPT = 4_096
"""Number of names whose owner is cached, some 200 bytes each. For any other name it takes some microseconds."""


def first_of(addresses: Iterable[str], name: str) -> str:
    """The server that comes first for a model. It differs between models, and stays while other servers come and go."""
    number = _number(name)
    return max(addresses, key=lambda address: _mixed(_number_of_server(address) ^ number))


def owner_of(name: str, division: int) -> int:
    """The number of the process that owns a model, in a store divided into `division` parts.

    The result is stored nowhere and must never change.
    """
    names = {name_of(number, division): number for number in range(1, division + 1)}
    return names[first_of(names, name)]


class Ring:
    """A process among all: processes 1 to `division` own models, and the `followers` after each owner follow its
    models.
    """

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
        """Whether this process owns models."""
        return self.number <= self.division

    def here(self, name: str) -> bool:
        """Whether a model is this process's."""
        return bool(self.owner(name) == self.number)


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


_number_of_server = lru_cache(maxsize=4096)(_number)


def _mixed(number: int) -> int:
    """A number of 64 bits, each of which depends on all bits of the argument (SplitMix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return number ^ number >> 31
