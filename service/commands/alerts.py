"""Commands on alerts: list them in pages, and acknowledge them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hinged.service.commands.ask import Planned
from hinged.service.data.times import shown_time
from hinged.service.errors import Invalid
from hinged.service.model.decisions.alerts import Alert
from hinged.service.model.events.decisions import AlertsAcknowledged
from hinged.service.model.model import Model


@dataclass(frozen=True, slots=True)
class ListAlerts:
    """Show a page of the alerts that wait. Nothing changes.

    best: whether the alerts with the highest gains come first, instead of the newest. cursor: gain and number of the
    last alert of the page before.
    """

    n: int
    best: bool
    cursor: str | None

    def plan(self, model: Model, _: int) -> Planned:
        """Return the answer, without events. Raise Invalid for a cursor of another form."""
        alerts = sorted(model.alerts.waiting.values(), key=self._key, reverse=True)
        if self.cursor is not None:
            after = self._after(self.cursor)
            alerts = [alert for alert in alerts if self._key(alert) < after]
        page = alerts[: self.n]
        answer = {
            "waiting": len(model.alerts.waiting),
            "alerts": [_shown(alert) for alert in page],
            "next": f"{page[-1].gain!r}/{page[-1].number}" if len(alerts) > self.n else None,
        }
        return Planned([], lambda _: answer)

    def _key(self, alert: Alert) -> tuple[float, int]:
        return (alert.gain if self.best else 0.0, alert.number)

    def _after(self, cursor: str) -> tuple[float, int]:
        gain, _, number = cursor.partition("/")
        try:
            after = float(gain), int(number)
        except ValueError:
            after = math.nan, 0
        if not math.isfinite(after[0]):
            raise Invalid(f"cursor must be `next` of an earlier page, got {cursor[:40]!r}")
        return (after[0] if self.best else 0.0, after[1])


def _shown(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "decision": alert.decision,
        "probability": alert.probability,
        "cost": alert.cost,
        "gain": alert.gain,
        "reason": alert.reason,
        "at": shown_time(alert.at_ms),
    }


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Somebody has worked off alerts, or reopens them."""

    ids: Sequence[str]
    reopen: bool = False

    def plan(self, model: Model, now_ms: int) -> Planned:
        """Return the plan, which has no event if none of the alerts waits, or may be reopened."""
        there = model.alerts.closed if self.reopen else model.alerts.waiting
        known = [given for given in dict.fromkeys(self.ids) if given in there]
        return Planned(
            [AlertsAcknowledged(known, now_ms, self.reopen)] if known else [],
            lambda model: {"acknowledged": len(known), "waiting": len(model.alerts.waiting)},
        )
