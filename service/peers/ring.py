"""Compute the owner and the followers of a model only from its name and the number of processes.

So no look-up is needed, and the owner is known even while it does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b

from hinged.service.store.division import name_of

NAMES_KEPT = 4_096
"""Maximum number of names whose owners are cached. Each takes about 200 bytes. Computing the owner of any other name
takes a few microseconds."""


def first_of(addresses: Iterable[str], name: str) -> str:
    """Return the server that should own a model, out of several servers.

    The result differs between models. If another server leaves, the result stays the same. If a server joins, the
    result stays the same or is the new server.
    """
    number = _number(name)
    return max(addresses, key=lambda address: _mixed(_number_of_server(address) ^ number))


def owner_of(name: str, division: int) -> int:
    """Return the number of the process that owns a model, in a store that is divided into `division` parts.

    The result is stored nowhere and must never change.
    """
    names = {name_of(number, division): number for number in range(1, division + 1)}
    return names[first_of(names, name)]


class Ring:
    """One process among several. Processes 1 to `division` own models.

    The `followers` processes after each owner follow its models.
    """

    def __init__(self, number: int, processes: int, division: int, followers: int) -> None:
        self.number = number
        self.processes = processes
        self.division = division
        self.owns = number <= division  # whether this process owns models
        self.others = [other for other in range(1, processes + 1) if other != number]
        self.followed = [k for k in self.others if k <= division and (number - k) % processes <= followers]
        """The owners whose models this process follows."""
        self.owner: Callable[[str], int] = lru_cache(NAMES_KEPT)(lambda name: owner_of(name, division))

    def here(self, name: str) -> bool:
        """Return whether this process owns a model."""
        return self.owner(name) == self.number


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


_number_of_server = lru_cache(maxsize=4096)(_number)


def _mixed(number: int) -> int:
    """Return a 64-bit number. Each of its bits depends on all bits of the argument (SplitMix64)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 2**64 - 1
    return number ^ number >> 31
