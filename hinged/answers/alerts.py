"""Answers about alerts: decisions for a class with a capacity, which people work off."""

from typing import Literal

from typing_extensions import TypedDict

AlertReason = Literal["cost", "unknown", "capacity"]


class ListedAlert(TypedDict):
    """An alert. gain: the expected cost of the best decision without a capacity, minus the cost of this decision.

    probability: of the decided class; null before there are probabilities.
    """

    id: str
    decision: str
    probability: float | None
    cost: float | None
    gain: float
    reason: AlertReason
    at: str


class ListedAlerts(TypedDict):
    """A page of alerts. waiting: number of all alerts. next: cursor of the next page, null at the end."""

    model: str
    position: int
    waiting: int
    alerts: list[ListedAlert]
    next: str | None


class Acknowledged(TypedDict):
    """Alerts were acknowledged, or reopened. acknowledged: number of these alerts. waiting: number of the alerts that
    wait now.
    """

    model: str
    position: int
    acknowledged: int
    waiting: int
