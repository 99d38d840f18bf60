"""Waiting for a store that is away: it is asked again after a while, each time after twice as long."""

from __future__ import annotations

import logging

from hinged.service.errors import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0
"""Seconds until a store that is away is asked again, doubled each time up to the second. All that waits for it goes on
so long after it is back; less has every model ask a store that has just come up."""


class Patience:
    """How long one waits who needs the store for a model and may not be refused."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._wait_s = RETRY_FIRST_S

    def after(self, error: StoreUnavailable) -> float:
        """Seconds until the store is asked again that has just raised this."""
        log.warning("model %s waits for the store: %s", self._model, error.message)
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, RETRY_MAX_S)
        return wait_s

    def renew(self) -> None:
        """The store was there: the next wait is the first again."""
        self._wait_s = RETRY_FIRST_S
