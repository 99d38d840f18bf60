"""Waiting for a store that is away: the model asks again after a while, and each wait is twice as long."""

from __future__ import annotations

import logging

from hinged.service.errors import StoreUnavailable

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0
"""Seconds until a model asks a store that is away again: the first wait, and the longest, reached by doubling. Waiting
models go on at most the longest wait after the store is back; a shorter wait burdens a store that has just come up."""


class Patience:
    """The waiting time of a model that needs the store and must not be refused."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._wait_s = RETRY_FIRST_S

    def after(self, error: StoreUnavailable) -> float:
        """Seconds to wait before asking the store again, which has just raised this error."""
        log.warning("model %s waits for the store: %s", self._model, error.message)
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, RETRY_MAX_S)
        return wait_s

    def renew(self) -> None:
        """Begin again with the first wait, because the store has answered."""
        self._wait_s = RETRY_FIRST_S
