"""The hooks of a model: URLs that the server calls after a mark, and the marks that receivers have not yet accepted.

`Hooks` never changes in place: each change returns another object. So other threads, drafts and rollbacks may keep an
earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hinged.service import limits
from hinged.service.model.curves import CurveMark


@dataclass(frozen=True, slots=True)
class Hook:
    """A URL that the server calls.

    events: the kinds of marks after which the server calls the URL. at_ms: the time at which the hook was added.
    reached: position of the newest mark that the log records as accepted, or of the event that added the hook.
    """

    id: str
    url: str
    events: tuple[str, ...]
    at_ms: int
    reached: int

    def awaits(self, mark: CurveMark) -> bool:
        """Return whether the receiver has to accept this mark."""
        return mark.position > self.reached and mark.kind in self.events


@dataclass(frozen=True, slots=True)
class Hooks:
    """All hooks of a model. marks: the newest marks that some receiver has to accept, oldest first."""

    every: tuple[Hook, ...] = ()
    marks: tuple[CurveMark, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.every)

    def find(self, hook: str) -> Hook | None:
        """Return the hook with this id."""
        return next((each for each in self.every if each.id == hook), None)

    def waiting(self, hook: Hook) -> list[CurveMark]:
        """Return the marks that the receiver of a hook has to accept, oldest first."""
        return [mark for mark in self.marks if hook.awaits(mark)]

    def newer(self, reached: Mapping[str, int]) -> dict[str, int]:
        """Return the positions that the log does not record yet, by the id of a hook."""
        return {each.id: reached[each.id] for each in self.every if reached.get(each.id, 0) > each.reached}

    # -- changes --------------------------------------------------------------------------------------------------

    def noted(self, mark: CurveMark) -> Hooks:
        """Return the hooks after a mark. At most MARKS_KEPT marks are kept, and the oldest are dropped."""
        if not any(hook.awaits(mark) for hook in self.every):
            return self
        return replace(self, marks=(*self.marks, mark)[-limits.MARKS_KEPT :])

    def added(self, hook: Hook) -> Hooks:
        """Return the hooks with one more hook."""
        return replace(self, every=(*self.every, hook))

    def removed(self, hook: str) -> Hooks:
        """Return the hooks without the hook of this id."""
        return self._of(tuple(each for each in self.every if each.id != hook))

    def accepted(self, reached: Mapping[str, int]) -> Hooks:
        """Return the hooks after receivers have accepted all marks up to these positions. Unknown ids are ignored."""
        newer = self.newer(reached)
        return self._of(tuple(replace(each, reached=newer.get(each.id, each.reached)) for each in self.every))

    def moved(self, position: int) -> Hooks:
        """Return the hooks for another log, which ends at this position. No mark of the former log waits any more."""
        return Hooks(tuple(replace(each, reached=position) for each in self.every))

    def _of(self, every: tuple[Hook, ...]) -> Hooks:
        return Hooks(every, tuple(mark for mark in self.marks if any(hook.awaits(mark) for hook in every)))

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """Return the hooks as facts, None if there are no hooks."""
        if not self.every:
            return None
        return {
            "every": [[hook.id, hook.url, list(hook.events), hook.at_ms, hook.reached] for hook in self.every],
            "marks": [list(mark) for mark in self.marks],
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Hooks:
        """Return the hooks of a result of `state`."""
        if facts is None:
            return cls()
        every = (
            Hook(given, url, tuple(events), at_ms, reached) for given, url, events, at_ms, reached in facts["every"]
        )
        return cls(tuple(every), tuple(CurveMark(*mark) for mark in facts["marks"]))

    def check(self, position: int) -> None:
        """Raise ValueError if a hook is listed twice, there are too many, or something is later than this position."""
        ids = [hook.id for hook in self.every]
        if len(ids) > limits.HOOKS_MAX or len(set(ids)) < len(ids) or len(self.marks) > limits.MARKS_KEPT:
            raise ValueError(
                f"a model may have at most {limits.HOOKS_MAX} hooks, each once, and {limits.MARKS_KEPT} waiting marks"
            )
        if any(where > position for where in (*(h.reached for h in self.every), *(m.position for m in self.marks))):
            raise ValueError(f"a hook is after position {position}")
