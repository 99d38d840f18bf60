"""Operations on alerts: decisions for a class with a capacity, which people work off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hinged.answers import Acknowledged, ListedAlerts
from hinged.operations.base import Call, Operation

AlertOrder = Literal["newest", "best"]


class AlertOperations:
    """The clients' methods for alerts."""

    @Operation("GET", "/models/{model}/alerts", role="annotator").asked
    def alerts(
        self, model: str, *, n: int = 100, order: AlertOrder = "newest", cursor: str | None = None
    ) -> Call[ListedAlerts]:
        """Return a page of the alerts that nobody has acknowledged. `next` is the cursor of the following page.

        order: "newest" first, or "best" first: those that gain most.
        """
        return Call(query={"n": n, "order": order, "cursor": cursor})

    @Operation("POST", "/models/{model}/alerts/acknowledge", role="annotator").asked
    def acknowledge(self, model: str, ids: Sequence[str], *, reopen: bool = False) -> Call[Acknowledged]:
        """Acknowledge alerts: they are worked off, and no longer listed. Unknown ids are ignored.

        reopen: list acknowledged alerts again instead.
        """
        return Call({"ids": [ids] if isinstance(ids, str) else list(ids), **({"reopen": True} if reopen else {})})
