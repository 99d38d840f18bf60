"""Events of decisions: what was taken of a capacity, and the alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from hinged.frames import PIECE, encode, peek
from hinged.service.model.decisions.alerts import Alert
from hinged.service.model.events.base import NOTHING, Array, ErasedWhole, Facts, Outcome

if TYPE_CHECKING:
    from hinged.service.model.admission import Coming
    from hinged.service.model.learner import Epoch
    from hinged.service.model.model import Model


class Rationed(NamedTuple):
    """Contenders of a request for one limited decision.

    gains (m,) float64, taken (m,) bool: their gains, and which of them were taken. forced: number of decisions in
    addition, which another rule has taken.
    """

    decision: str
    gains: Array
    taken: Array
    forced: int


@dataclass(frozen=True, slots=True)
class DecisionsRationed(ErasedWhole):
    """Limited decisions were taken or refused, in this order."""

    KIND: ClassVar[str] = "rationed"
    parts: Sequence[Rationed]
    at_ms: int

    def encode(self) -> bytes:
        facts = [[part.decision, part.gains.size, part.forced] for part in self.parts]
        gains = np.concatenate([part.gains for part in self.parts])
        taken = np.concatenate([part.taken for part in self.parts]).astype(np.uint8)
        return encode(self.KIND, {"parts": facts, "at_ms": self.at_ms}, {"gains": gains, "taken": taken})

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        parts, begin = [], 0
        for decision, size, forced in facts["parts"]:
            rows = slice(begin, begin + size)
            parts.append(Rationed(decision, arrays["gains"][rows], arrays["taken"][rows] > 0, forced))
            begin += size
        return cls(parts, facts["at_ms"])

    def admit(self, coming: Coming) -> None:
        """Refuse gains that are not finite, and parts of different lengths."""
        for part in self.parts:
            if part.gains.shape != part.taken.shape or not np.isfinite(part.gains).all() or part.forced < 0:
                raise ValueError("each contender must have a finite gain, and be taken or not")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Count the contenders."""
        for part in self.parts:
            model.rations = model.rations.counted(*part, self.at_ms)
        return NOTHING

    def told(self) -> dict[str, Any]:
        taken = sum(int(part.taken.sum()) + part.forced for part in self.parts)
        return {"taken": taken, "refused": sum(int((~part.taken).sum()) for part in self.parts)}


@dataclass(frozen=True, slots=True)
class AlertsRaised(ErasedWhole):
    """A limited decision for a class was taken for these examples."""

    KIND: ClassVar[str] = "alerted"
    alerts: Sequence[Alert]
    at_ms: int

    def encode(self) -> bytes:
        facts = {"alerts": [list(alert) for alert in self.alerts], "at_ms": self.at_ms}
        return encode(self.KIND, facts, {}, long=len(self.alerts) > PIECE)

    @classmethod
    def read(cls, facts: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls([Alert(*alert) for alert in facts["alerts"]], facts["at_ms"])

    @classmethod
    def named(cls, payload: bytes) -> list[str | None]:
        return [given for given, *_ in peek(payload, cls.KIND)["alerts"]]

    def admit(self, coming: Coming) -> None:
        """Refuse an alert that is listed twice."""
        if len({alert.id for alert in self.alerts}) < len(self.alerts):
            raise ValueError("each alert must be listed once")

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Add the alerts."""
        model.alerts = model.alerts.added(self.alerts)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"alerts": len(self.alerts)}


@dataclass(frozen=True, slots=True)
class AlertsAcknowledged(Facts, ErasedWhole):
    """Somebody has worked off these alerts, or has reopened them. reopened: None in a log of 0.2.0, whose acknowledged
    alerts are not kept.
    """

    KIND: ClassVar[str] = "acknowledged"
    ids: list[str]
    at_ms: int
    reopened: bool | None = None

    def admit(self, coming: Coming) -> None:
        """Accept always: unknown alerts are ignored."""

    def apply(self, model: Model, position: int, epoch: Epoch | None) -> Outcome:
        """Close or reopen the alerts."""
        alerts = model.alerts
        change = {None: alerts.without, False: alerts.acknowledged, True: alerts.reopened}[self.reopened]
        model.alerts = change(self.ids)
        return NOTHING

    def told(self) -> dict[str, Any]:
        return {"alerts": len(self.ids), **({"reopened": True} if self.reopened else {})}
