"""The alerts of a model: decisions for a class with a capacity, until somebody acknowledges them or the label comes.

`Alerts` never changes in place: each change returns another object. So other threads, drafts and rollbacks may keep an
earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hinged.service import limits


class Alert(NamedTuple):
    """An alert. cost, probability: None while they are unknown. reason: why this decision was taken (decide.py).

    number: number of the alert among all that the model has raised.
    """

    id: str
    decision: str
    gain: float
    cost: float | None
    probability: float | None
    reason: str
    at_ms: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Alerts:
    """The newest alerts that wait, by id, oldest first. raised: number of all alerts so far. closed: the alerts that
    somebody acknowledged last, by id; they may be reopened.
    """

    waiting: Mapping[str, Alert] = field(default_factory=dict)
    raised: int = 0
    closed: Mapping[str, Alert] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.raised)

    @property
    def ids(self) -> list[str]:
        """The ids of all alerts that wait or may be reopened."""
        return [*self.waiting, *self.closed]

    def added(self, alerts: Sequence[Alert]) -> Alerts:
        """Return the alerts with further alerts. At most ALERTS_KEPT wait, and the oldest are dropped."""
        numbered = [alert._replace(number=self.raised + k) for k, alert in enumerate(alerts, 1)]
        ids = {alert.id for alert in numbered}
        left = self.without(ids)
        every = [*left.waiting.values(), *numbered]
        return replace(left, waiting=_by_id(every[-limits.ALERTS_KEPT :]), raised=self.raised + len(numbered))

    def without(self, ids: Collection[str | None]) -> Alerts:
        """Return the alerts without some ids."""
        gone = set(ids)
        if gone.isdisjoint(self.ids):
            return self
        left = [_by_id(each for each in of.values() if each.id not in gone) for of in (self.waiting, self.closed)]
        return Alerts(left[0], self.raised, left[1])

    def acknowledged(self, ids: Collection[str]) -> Alerts:
        """Return the alerts with these closed. The newest ALERTS_REOPENED may be reopened."""
        closed = [*self.closed.values(), *(self.waiting[given] for given in ids if given in self.waiting)]
        return replace(self.without(ids), closed=_by_id(closed[-limits.ALERTS_REOPENED :]))

    def reopened(self, ids: Collection[str]) -> Alerts:
        """Return the alerts with these waiting again. At most ALERTS_KEPT wait, and the oldest are dropped."""
        again = [self.closed[given] for given in ids if given in self.closed]
        every = sorted([*self.waiting.values(), *again], key=lambda alert: alert.number)
        return replace(self.without(ids), waiting=_by_id(every[-limits.ALERTS_KEPT :]))

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the alerts as facts."""
        closed = {"closed": [list(alert) for alert in self.closed.values()]} if self.closed else {}
        return {"waiting": [list(alert) for alert in self.waiting.values()], "raised": self.raised, **closed}

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Alerts:
        """Return the alerts of a result of `state`. Raise ValueError if they do not fit."""
        if facts is None:
            return cls()
        waiting, raised = [Alert(*alert) for alert in facts["waiting"]], facts["raised"]
        closed = [Alert(*alert) for alert in facts.get("closed", ())]
        numbers, every = [alert.number for alert in waiting], waiting + closed
        fits = len(waiting) <= limits.ALERTS_KEPT and len(closed) <= limits.ALERTS_REOPENED
        fits = fits and len({alert.id for alert in every}) == len(every) == len({alert.number for alert in every})
        fits = fits and all(0 < alert.number <= raised for alert in closed)
        finite = all(math.isfinite(number) for each in every for number in each[2:5] if number is not None)
        if not fits or not finite or not all(a < b for a, b in zip([0, *numbers], [*numbers, raised + 1], strict=True)):
            raise ValueError(
                f"at most {limits.ALERTS_KEPT} alerts may wait, and {limits.ALERTS_REOPENED} be reopened, each once, "
                f"in order, with finite numbers, of {raised}"
            )
        return cls(_by_id(waiting), raised, _by_id(closed))


def _by_id(alerts: Iterable[Alert]) -> dict[str, Alert]:
    return {alert.id: alert for alert in alerts}
