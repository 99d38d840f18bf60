"""The board: the keys in Redis that name the active controller and its planned moves.

KEYS  controller, moves

    controller  string  name of the controller; expires if the controller does not renew it
    moves       hash    maps a model to "number source target": the moves that are still to be made

Serving and learning need none of these keys: the owner of a model is stored with the model (claims.py).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hinged.service.errors import StoreUnavailable
from hinged.service.store.redis.nodes import Nodes
from hinged.service.store.redis.scripts import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOLD = """#!lua flags=allow-oom
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return {'held', held} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
"""

# ARGV: name of the caller, milliseconds for which the caller stays the controller.
HOLD = Script(_HOLD + "return {'ok'}")

# Further ARGV: model and "number source target" for each move.
WRITE = Script(
    _HOLD
    + """
redis.call('UNLINK', KEYS[2])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
return {'ok'}
"""
)

# Further ARGV: models whose moves are made or cancelled.
STRIKE = Script(
    _HOLD
    + """
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
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

Step = tuple[str, str, str]
"""A model, the server that owns it now, and the server that will own it."""


class Board:
    """A controller's access to the board."""

    def __init__(self, url: str, *, name: str, ttl_s: float, namespace: str = "hinged", timeout_s: float = 5.0) -> None:
        """Connect to the store at `url`.

        name: unique name of this controller. ttl_s: seconds for which it stays the controller after each call of
        `hold`.
        """
        self._keys = [f"{namespace}:{{-}}:{part}" for part in ("controller", "moves")]
        self._me = [name, int(1000 * ttl_s)]
        self._nodes = Nodes(url, durable=False, timeout_s=timeout_s)

    def hold(self) -> bool:
        """Become or stay the controller for `ttl_s`; return false if another controller is active.

        Raise StoreUnavailable, as every method does.
        """
        return self._change(HOLD)

    def read(self) -> list[Step]:
        """Return in order the moves that are still to be made."""
        flat = self._nodes.ask("HGETALL", self._keys[1])
        steps = []
        for model, said in zip(flat[::2], flat[1::2], strict=True):
            number, source, target = said.decode().split(" ")
            steps.append((int(number), (model.decode(), source, target)))
        return [step for _, step in sorted(steps)]

    def write(self, steps: Sequence[Step]) -> bool:
        """Replace the moves that are still to be made; return false if another controller is active."""
        flat = [part for number, (model, *ends) in enumerate(steps) for part in (model, " ".join((str(number), *ends)))]
        return self._change(WRITE, *flat)

    def strike(self, models: Sequence[str]) -> bool:
        """Remove the moves of some models; return false if another controller is active."""
        return self._change(STRIKE, *models)

    def close(self) -> None:
        """Stop being the controller."""
        with suppress(StoreUnavailable):  # the key expires
            self._nodes.call(LEAVE, self._keys, self._me[:1])
        self._nodes.close()

    def _change(self, script: Script, *arguments: Any) -> bool:
        word, *_ = self._nodes.call(script, self._keys, [*self._me, *arguments])
        return bool(word == b"ok")
