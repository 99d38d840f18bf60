"""Commands on hooks: add and remove a hook, and record what receivers have accepted."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hinged.service import limits
from hinged.service.commands.ask import Planned
from hinged.service.errors import Conflict, NotFound
from hinged.service.model.events.hooks import HookAdded, HookRemoved, MarksDelivered
from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class AddHook:
    """Call a URL after each mark of these kinds. The URL was checked before."""

    url: str
    events: Sequence[str]

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise Conflict if the model has the maximum number of hooks."""
        if len(model.hooks.every) >= limits.HOOKS_MAX:
            raise Conflict(f"a model may have at most {limits.HOOKS_MAX} hooks")
        events = list(dict.fromkeys(self.events))
        event = HookAdded(secrets.token_hex(16), self.url, events, now_ms)
        return Planned([event], lambda _: {"id": event.hook, "url": event.url, "events": events})


@dataclass(frozen=True, slots=True)
class RemoveHook:
    """Remove a hook."""

    hook: str

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan. Raise NotFound if there is no such hook."""
        if model.hooks.find(self.hook) is None:
            raise NotFound(f"model {model.name} has no hook {self.hook[:40]!r}")
        return Planned([HookRemoved(self.hook, now_ms)], lambda _: {"id": self.hook, "deleted": True})


@dataclass(frozen=True, slots=True)
class RecordDelivered:
    """Record the position up to which each receiver has accepted the marks."""

    reached: Mapping[str, int]

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan, which has no event if the log records these positions already."""
        new = model.hooks.newer(self.reached)
        return Planned([MarksDelivered(new, now_ms)] if new else [], lambda _: {})
