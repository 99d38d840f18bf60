"""Events of hooks: URLs that the server calls when something happens to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hinged.service import limits
from hinged.service.model.events.base import NOTHING, Facts, NamesNoExample, Outcome, Untold
from hinged.service.model.hooks import Hook

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class HookAdded(Facts, NamesNoExample, Untold):
    """The server calls this URL after each later mark of one of these kinds. A URL may contain a secret."""

    KIND: ClassVar[str] = "hook_added"
    hook: str
    url: str
    events: list[str]
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse a hook that exists, and one hook too many."""
        hooks = coming.model.hooks
        if hooks.find(self.hook) or len(hooks.every) >= limits.HOOKS_MAX:
            raise ValueError(f"the hook {self.hook!r} exists, or there are {limits.HOOKS_MAX} hooks already")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Add the hook. Marks until now are not for this hook."""
        model.hooks = model.hooks.added(Hook(self.hook, self.url, tuple(self.events), self.at_ms, position))
        return NOTHING


@dataclass(frozen=True, slots=True)
class HookRemoved(Facts, NamesNoExample, Untold):
    """The server no longer calls the URL of this hook."""

    KIND: ClassVar[str] = "hook_removed"
    hook: str
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Accept always: an unknown hook is ignored."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Remove the hook."""
        model.hooks = model.hooks.removed(self.hook)
        return NOTHING


@dataclass(frozen=True, slots=True)
class MarksDelivered(Facts, NamesNoExample, Untold):
    """Receivers have accepted all marks up to a position. reached: the position of each hook, by id."""

    KIND: ClassVar[str] = "hook_delivered"
    reached: dict[str, int]
    at_ms: int

    def admit(self, coming: Coming) -> None:
        """Refuse a position that the log has not reached."""
        newest = coming.model.position
        if not all(0 <= position <= newest for position in self.reached.values()):
            raise ValueError(f"a receiver cannot accept marks after position {newest}, got {self.reached}")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Drop the marks that no receiver has to accept any more."""
        model.hooks = model.hooks.accepted(self.reached)
        return NOTHING
