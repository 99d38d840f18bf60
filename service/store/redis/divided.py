"""The store of one of several workers (docs/adr/0031), which divide a namespace of Redis: each has one below it.

Beside the keys of the namespace itself stands how many workers there are. Whether a namespace is divided is settled in
one step, with the first server that opens it.
"""

from __future__ import annotations

from typing import Any

from hinged.service.store.folders import name_of
from hinged.service.store.redis.store import RedisStore


class DividedRedisStore(RedisStore):
    """The store of the worker of this number, from 1 on, of so many. Invalid where `namespace` is not divided so."""

    def __init__(self, url: str, *, number: int, count: int, namespace: str = "hinged", **options: Any) -> None:
        self._divided, self._count = namespace, count
        super().__init__(url, namespace=f"{namespace}:{name_of(number, count)}", **options)

    def _settle_division(self) -> None:
        self._divide(self._divided, self._count)
