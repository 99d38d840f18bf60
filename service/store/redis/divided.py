"""The store of one of several workers (docs/adr/0031), which divide a namespace of Redis: each has one below it.

Beside the keys of the namespace itself stands how many workers there are. Whether a namespace is divided is settled in
one step, with the first server that opens it.
"""

from __future__ import annotations

from typing import Any

from hinged.service.errors import Invalid
from hinged.service.store.folders import ANOTHER_WAY, name_of
from hinged.service.store.redis.scripts import DIVIDE
from hinged.service.store.redis.store import RedisStore


class DividedRedisStore(RedisStore):
    """The store of the worker of this number, from 1 on, of so many. Invalid where `namespace` is not divided so."""

    def __init__(self, url: str, *, number: int, count: int, namespace: str = "hinged", **options: Any) -> None:
        self._count = count
        self._divided = namespace
        self._division = [f"{namespace}:{{-}}:{part}" for part in ("epoch", "workers")]
        super().__init__(url, namespace=f"{namespace}:{name_of(number, count)}", **options)

    def _settle_division(self, namespace: str) -> None:  # noqa: ARG002
        word, *found = self._nodes.call(DIVIDE, self._division, [self._count], lasting=True)
        if word == b"ok":
            return
        must = f"0, for the namespace {self._divided} is not divided"
        if word == b"divided":
            must = f"{int(found[0])}, by which the namespace {self._divided} is divided"
        raise Invalid(f"HINGED_WORKERS must be {must}, got {self._count}; {ANOTHER_WAY}")
