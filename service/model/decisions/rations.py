"""The allowances of a model: how often each limited decision may still be taken.

`Rations` never changes in place: each change returns another object. So other threads, drafts and rollbacks may keep an
earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hinged.service.data.capacity import milliseconds_of
from hinged.service.data.times import shown_time
from hinged.service.model.decisions.capacity import BINS, SLOTS, Allowance
from hinged.service.model.window import MS_MAX
from hinged.solvers.core.states import COUNT_MAX, State, StateReader

Array = np.ndarray[Any, Any]

_COUNTS = ("period", "taken", "refused", "periods", "first")


@dataclass(frozen=True, slots=True)
class Rations:
    """The allowance of each limited decision, by its name."""

    of: Mapping[str, Allowance] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.of)

    @classmethod
    def new(cls, capacity: Mapping[str, Any] | None) -> Rations:
        """Return the rations of a configuration. Nothing was taken yet."""
        given = (capacity or {}).items()
        return cls({name: Allowance.new(limit["most"], milliseconds_of(limit["per"])) for name, limit in given})

    def changed(self, capacity: Mapping[str, Any] | None) -> Rations:
        """Return the rations for another configuration. A limit with the same period keeps what was counted."""
        found = {}
        for name, new in Rations.new(capacity).of.items():
            before = self.of.get(name)
            kept = before is not None and before.per_ms == new.per_ms
            found[name] = replace(before, most=new.most) if kept and before is not None else new
        return Rations(found)

    def counted(self, name: str, gains: Array, taken: Array, forced: int, now_ms: int) -> Rations:
        """Return the rations after the contenders of a request. A decision without a limit is not counted.

        forced: number of decisions in addition, which another rule has taken.
        """
        before = self.of.get(name)
        return self if before is None else Rations({**self.of, name: before.counted(gains, taken, forced, now_ms)})

    def figures(self, now_ms: int) -> dict[str, dict[str, Any]]:
        """Return what was taken in the period of a time, by decision."""
        found = {}
        for name, before in self.of.items():
            now = before.at(max(now_ms, 0))
            found[name] = {
                "most": now.most,
                "taken": now.taken,
                "refused": now.refused,
                "until": shown_time((now.period + 1) * now.per_ms),
            }
        return found

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], State]:
        """Return the rations as facts and arrays."""
        facts = {
            name: {**{part: getattr(each, part) for part in _COUNTS}, "begun": each.begun}
            for name, each in self.of.items()
        }
        arrays: State = {}
        for number, each in enumerate(self.of.values()):
            arrays |= {f"{number}.usual": each.usual, f"{number}.counts": each.counts, f"{number}.bins": each.bins}
        return facts, arrays

    def loaded(self, facts: Mapping[str, Any], arrays: State) -> Rations:
        """Return the rations of a result of `state`. These rations are new, for the same configuration. Raise
        ValueError if the state does not fit.
        """
        if list(facts) != list(self.of):
            raise ValueError(f"the rations are of {list(facts)}, and the capacity is of {list(self.of)}")
        read, found = StateReader(arrays), {}
        for number, (name, new) in enumerate(self.of.items()):
            usual, counts = (
                read.take(f"{number}.{part}", np.float64, (SLOTS,), 0.0, COUNT_MAX) for part in ("usual", "counts")
            )
            if (facts[name]["period"] + 1) * new.per_ms > MS_MAX:
                raise ValueError(f"period {facts[name]['period']} of {name!r} is after the end of all times")
            bins = read.take(f"{number}.bins", np.float64, (BINS,), 0.0, COUNT_MAX)
            found[name] = replace(new, usual=usual, counts=counts, bins=bins, **facts[name])
        return Rations(found)
