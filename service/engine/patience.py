"""Wait for a store that cannot be reached, or for memory. The model asks again after each wait. Each wait is
twice as long as the wait before it.
"""

from __future__ import annotations

import logging

from hinged.service.errors import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0
"""Seconds until a model asks a missing store again: at first RETRY_FIRST_S, then doubled up to RETRY_MAX_S. After the
store is back, a waiting model continues within RETRY_MAX_S. A shorter wait burdens a store that has just started."""


NO_MEMORY = (MemoryError, SystemError)
"""Errors of a failed allocation. Some compiled code ends with the second one."""
PASSING = (StoreUnavailable, *NO_MEMORY)
"""Errors whose cause may pass."""


class Patience:
    """Counts the waiting time of a model that needs the store and must not be refused."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._wait_s = RETRY_FIRST_S

    def after(self, error: Exception) -> float:
        """Return the seconds to wait before the model asks the store again. error: what prevented an answer."""
        log.warning("model %s waits for the store, or for memory: %s", self._model, str(error) or type(error).__name__)
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, RETRY_MAX_S)
        return wait_s

    def renew(self) -> None:
        """Reset to the first wait, because the store has answered."""
        self._wait_s = RETRY_FIRST_S
