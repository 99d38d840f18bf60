"""The alerts of a model: decisions for a class with a capacity, until somebody acknowledges them or the label comes.

`Alerts` never changes in place: each change returns another object. So other threads, drafts and rollbacks may keep an
earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
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
    """The newest alerts that wait, by id, oldest first. raised: number of all alerts so far."""

    waiting: Mapping[str, Alert] = field(default_factory=dict)
    raised: int = 0

    def __bool__(self) -> bool:
        return bool(self.raised)

    def __contains__(self, given: str) -> bool:
        return given in self.waiting

    def added(self, alerts: Sequence[Alert]) -> Alerts:
        """Return the alerts with further alerts. At most ALERTS_KEPT wait, and the oldest are dropped."""
        numbered = [alert._replace(number=self.raised + k) for k, alert in enumerate(alerts, 1)]
        ids = {alert.id for alert in numbered}
        every = [alert for alert in self.waiting.values() if alert.id not in ids] + numbered
        return Alerts({alert.id: alert for alert in every[-limits.ALERTS_KEPT :]}, self.raised + len(numbered))

    def without(self, ids: Collection[str | None]) -> Alerts:
        """Return the alerts without some ids."""
        if self.waiting.keys().isdisjoint(ids):
            return self
        gone = set(ids)
        return Alerts({given: alert for given, alert in self.waiting.items() if given not in gone}, self.raised)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the alerts as facts."""
        return {"waiting": [list(alert) for alert in self.waiting.values()], "raised": self.raised}

    @classmethod
    def of(cls, facts: Mapping[str, Any] | None) -> Alerts:
        """Return the alerts of a result of `state`. Raise ValueError if they do not fit."""
        if facts is None:
            return cls()
        every, raised = [Alert(*alert) for alert in facts["waiting"]], facts["raised"]
        numbers = [alert.number for alert in every]
        fits = len({alert.id for alert in every}) == len(every) <= limits.ALERTS_KEPT
        finite = all(math.isfinite(number) for each in every for number in each[2:5] if number is not None)
        if not fits or not finite or not all(a < b for a, b in zip([0, *numbers], [*numbers, raised + 1], strict=True)):
            raise ValueError(
                f"at most {limits.ALERTS_KEPT} alerts may wait, each once, in order, with finite numbers, of {raised}"
            )
        return cls({alert.id: alert for alert in every}, raised)
