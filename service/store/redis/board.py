"""What a controller of several servers has decided, and that it alone decides: both stand in Redis.

KEYS  controller, moves

    controller  string  who it is; gone where it has not said so for a while
    moves       hash    model to "number source target", the moves that are still to be made

Nothing that is written here is needed to serve or to learn: who has which model stands beside the model (claims.py).
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

# ARGV: who asks, milliseconds for which it holds.
HOLD = Script(_HOLD + "return {'ok'}")

# ARGV behind them: model, "number source target", of each move.
WRITE = Script(
    _HOLD
    + """
redis.call('UNLINK', KEYS[2])
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
return {'ok'}
"""
)

# ARGV behind them: models whose moves are made, or dropped.
STRIKE = Script(
    _HOLD
    + """
for i = 3, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
return {'ok'}
"""
)

# ARGV: who asks.
LEAVE = Script(
    """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'ok'}
"""
)

Step = tuple[str, str, str]
"""A model, the server that has it and the one that is to have it."""


class Board:
    """The decisions of the controllers of the servers on a store, as one of them reads and writes them."""

    def __init__(self, url: str, *, name: str, ttl_s: float, namespace: str = "hinged", timeout_s: float = 5.0) -> None:
        """name: of this controller, unlike that of any other. ttl_s: for how long it is the one after it said so."""
        self._keys = [f"{namespace}:{{-}}:{part}" for part in ("controller", "moves")]
        self._me = [name, int(1000 * ttl_s)]
        self._nodes = Nodes(url, durable=False, timeout_s=timeout_s)

    def hold(self) -> bool:
        """Be the controller for a while; false where another one is. StoreUnavailable, as all of these."""
        return self._change(HOLD)

    def read(self) -> list[Step]:
        """The moves that are still to be made, in order."""
        flat = self._nodes.ask("HGETALL", self._keys[1])
        steps = []
        for model, said in zip(flat[::2], flat[1::2], strict=True):
            number, source, target = said.decode().split(" ")
            steps.append((int(number), (model.decode(), source, target)))
        return [step for _, step in sorted(steps)]

    def write(self, steps: Sequence[Step]) -> bool:
        """Make these the moves that are to be made; false where another one is the controller."""
        flat = [part for number, (model, *ends) in enumerate(steps) for part in (model, " ".join((str(number), *ends)))]
        return self._change(WRITE, *flat)

    def strike(self, models: Sequence[str]) -> bool:
        """Take the moves of some models off; false where another one is the controller."""
        return self._change(STRIKE, *models)

    def close(self) -> None:
        """Be the controller no more."""
        with suppress(StoreUnavailable):  # it will be noticed
            self._nodes.call(LEAVE, self._keys, self._me[:1])
        self._nodes.close()

    def _change(self, script: Script, *arguments: Any) -> bool:
        word, *_ = self._nodes.call(script, self._keys, [*self._me, *arguments])
        return bool(word == b"ok")
