"""Division of a Redis namespace among processes (docs/adr/0052): each owner has a namespace below it.

The number of parts is stored beside the keys of the namespace itself. The first server that opens the namespace settles
it in one step.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from hinged.service.store.redis import scripts
from hinged.service.store.redis.nodes import Nodes


def settle(nodes: Nodes, namespace: str, wanted: int) -> int:
    """The number of processes that divide a namespace; 0 if not divided. A new namespace is divided into `wanted`
    parts.
    """
    keys = [f"{namespace}:{{-}}:{part}" for part in ("epoch", "workers")]
    _, division = nodes.call(scripts.DIVISION, keys, [wanted], lasting=True)
    return int(division)


def divide(url: str, wanted: int, *, namespace: str, durable: bool, timeout_s: float, **_: Any) -> int:
    """`settle` for a Redis that is not open. StoreUnavailable if it cannot be opened."""
    with closing(Nodes(url, durable=durable, timeout_s=timeout_s)) as nodes:
        return settle(nodes, namespace, wanted)
