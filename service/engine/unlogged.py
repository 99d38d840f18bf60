"""Predictions that wait for their labels and are not in the log yet.

These predictions are written with the next events of their model, or alone after a while. A crash may lose them,
because the server has not promised to keep them.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence

from hinged.service.model.pending import Made

FREED = 1_000
"""Number of dropped predictions that are freed on the event loop. More are freed on a thread: 2 us each."""


class Unlogged:
    """Keeps at most `most` predictions of one model and drops the oldest first. Used on the event loop."""

    def __init__(self, most: int, flush_s: float) -> None:
        """Take the limit. flush_s: maximum seconds that predictions wait for other events."""
        self._flush_s = flush_s
        self._waiting: deque[Made] = deque(maxlen=most)
        self._write_at = 0.0  # in the event loop's time

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, predictions: Sequence[Made]) -> None:
        """Add predictions."""
        if not self._waiting:
            self._wait()
        over = len(self._waiting) + len(predictions) - (self._waiting.maxlen or 0)
        dropped = [self._waiting.popleft() for _ in range(min(over, len(self._waiting)))]
        self._waiting.extend(predictions)
        if len(dropped) > FREED:
            asyncio.get_running_loop().run_in_executor(None, dropped.clear)

    def due_in_s(self) -> float:
        """Return the seconds until the predictions must be written."""
        return self._write_at - asyncio.get_running_loop().time() if self._waiting else math.inf

    def take(self) -> list[Made]:
        """Remove all predictions and return them, to be written now."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def put_back(self, predictions: Sequence[Made]) -> None:
        """Put unwritten predictions back before the predictions that were added meanwhile."""
        room = (self._waiting.maxlen or 0) - len(self._waiting)
        self._waiting.extendleft(reversed(predictions[max(0, len(predictions) - room) :]))
        if self._waiting:
            self._wait()

    def limit(self, most: int) -> None:
        """Keep at most `most` predictions from now on."""
        if most != self._waiting.maxlen:
            self._waiting = deque(self._waiting, maxlen=most)

    def clear(self) -> None:
        """Drop all predictions."""
        self._waiting.clear()

    def _wait(self) -> None:
        self._write_at = asyncio.get_running_loop().time() + self._flush_s
