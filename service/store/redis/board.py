"""The board: the key in Redis that names the active controller. It expires if the controller does not renew it.

Serving and learning do not need this key: the owner of a model is stored with the model (claims.py).
"""

from __future__ import annotations

from contextlib import suppress

from hinged.service.errors import StoreUnavailable
from hinged.service.store.redis.nodes import Nodes
from hinged.service.store.redis.scripts import Script

# ARGV: name of the caller, milliseconds for which the caller stays the controller.
HOLD = Script(
    """#!lua flags=allow-oom
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return {'held', held} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'ok'}
"""
)

# ARGV: name of the caller.
LEAVE = Script(
    """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'ok'}
"""
)


class Board:
    """A controller's access to the board."""

    def __init__(self, url: str, *, name: str, ttl_s: float, namespace: str = "hinged") -> None:
        """Connect to the store at `url`.

        name: unique name of this controller. ttl_s: seconds for which it stays the controller after each call of
        `hold`.
        """
        self._keys = [f"{namespace}:{{-}}:controller"]
        self._name = name
        self._ttl_ms = int(1000 * ttl_s)
        self._nodes = Nodes(url, durable=False, timeout_s=5.0)

    def hold(self) -> bool:
        """Become or stay the controller for `ttl_s`; return false if another controller is active.

        Raise StoreUnavailable if Redis cannot be reached.
        """
        word, *_ = self._nodes.call(HOLD, self._keys, [self._name, self._ttl_ms])
        return bool(word == b"ok")

    def close(self) -> None:
        """Stop being the controller."""
        with suppress(StoreUnavailable):  # the key expires
            self._nodes.call(LEAVE, self._keys, [self._name])
        self._nodes.close()
