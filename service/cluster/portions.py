"""Limits on the requests that are passed on at a time, in all and for each key and model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hinged.service.errors import Unavailable

REQUESTS_MAX = 2_000
"""Most requests in progress to other servers, each with a connection. With more, a process may run out of files."""


class Portions:
    """Lets each owner have at most as many requests in progress as there is still room for.

    So a key that takes all it may have leaves half of the room, and the next key leaves half of that. An owner without
    requests finds room as long as there is any. Methods run on one event loop.
    """

    def __init__(self, most: int = REQUESTS_MAX) -> None:
        self._most = self._free = most
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, *owners: Hashable) -> Iterator[None]:
        """Count a request for each of its owners during the block. Unavailable if an owner has its portion."""
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
