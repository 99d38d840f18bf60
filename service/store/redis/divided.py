"""By how many processes a namespace of Redis is divided (docs/adr/0049): each owner has a namespace below it.

The number stands beside the keys of the namespace itself. It is settled in one step, with the first server that opens
it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from hinged.service.store.redis import scripts
from hinged.service.store.redis.nodes import Nodes


def settle(nodes: Nodes, namespace: str, wanted: int) -> int:
    """By how many processes a namespace is divided, 0: by none. A new one is from now on divided as wanted."""
    keys = [f"{namespace}:{{-}}:{part}" for part in ("epoch", "workers")]
    _, division = nodes.call(scripts.DIVISION, keys, [wanted], lasting=True)
    return int(division)


def divide(url: str, wanted: int, *, namespace: str, durable: bool, timeout_s: float, **_: Any) -> int:
    """The same, of a Redis that is not open. StoreUnavailable if it cannot be opened."""
    with closing(Nodes(url, durable=durable, timeout_s=timeout_s)) as nodes:
        return settle(nodes, namespace, wanted)
