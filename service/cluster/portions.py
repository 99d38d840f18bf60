"""Limit the number of requests that are forwarded at the same time: in total, per key and per model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hinged.service.errors import Unavailable

REQUESTS_MAX = 2_000
"""Maximum number of forwarded requests in progress, each with its own connection. With more, a process may run out of
file descriptors."""


class Portions:
    """Limits the requests in progress of each key and of each model to the number of slots that are still free.

    So one key can use at most half of the slots, and a second key at most half of the rest. A key without requests gets
    a slot as long as any slot is free. Methods run on one event loop.
    """

    def __init__(self, most: int = REQUESTS_MAX) -> None:
        self._most = self._free = most
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, *owners: Hashable) -> Iterator[None]:
        """Use one slot during the block, and count the request for each of its owners (a model or a key). Raise
        Unavailable if an owner is at its limit.
        """
        held = max((self._taken[owner] for owner in owners), default=0)
        if held >= self._free:
            raise Unavailable(
                f"{held} requests of this key or for this model are passed on at this moment, and there is room for "
                f"{self._free} more of {self._most}; ask again",
                retry_after_s=1,
            )
        self._free -= 1
        self._taken.update(owners)
        try:
            yield
        finally:
            self._free += 1
            self._taken.subtract(owners)
            for owner in owners:
                if not self._taken[owner]:
                    del self._taken[owner]
