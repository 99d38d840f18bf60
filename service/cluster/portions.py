"""How many requests are passed on at a time, and how many of them each key and each model may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hinged.service.errors import Unavailable

REQUESTS_MAX = 2_000
"""Requests under way to other servers, each with a connection. With more the files run out that a process may open."""


class Portions:
    """Whoever asks has at most as many requests under way as there is still room for.

    So one key that takes all it may have leaves half of the room, the next one half of that, and who has none under way
    finds room as long as there is any. Methods run on one event loop.
    """

    def __init__(self, most: int = REQUESTS_MAX) -> None:
        self._most = self._free = most
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, *owners: Hashable) -> Iterator[None]:
        """While a request is under way, which counts for each of its owners. Unavailable where one has its portion."""
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
