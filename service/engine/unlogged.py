"""Predictions that are to wait for their labels and are not in the log yet.

They are written with the next events of their model, or on their own once they have waited for long enough. What a
crash takes away of them was promised to nobody.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable, Sequence

from hinged.service.model.pending import Made


class Unlogged:
    """At most `most` predictions of one model, of which the oldest go first. Used on the event loop."""

    def __init__(self, most: int, flush_s: float) -> None:
        """flush_s: how long they wait for other events to be written with."""
        self._flush_s = flush_s
        self._waiting: deque[Made] = deque(maxlen=most)
        self._write_at = 0.0  # on the event loop's clock

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, predictions: Iterable[Made]) -> None:
        """More of them."""
        if not self._waiting:
            self._wait()
        self._waiting.extend(predictions)

    def due_in_s(self) -> float:
        """Seconds until they are to be written."""
        return self._write_at - asyncio.get_running_loop().time() if self._waiting else math.inf

    def take(self) -> list[Made]:
        """All of them, to be written now."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def put_back(self, predictions: Sequence[Made]) -> None:
        """Let these, which were taken and not written, wait again before those that came meanwhile."""
        room = (self._waiting.maxlen or 0) - len(self._waiting)
        self._waiting.extendleft(reversed(predictions[max(0, len(predictions) - room) :]))
        if self._waiting:
            self._wait()

    def limit(self, most: int) -> None:
        """Hold at most so many from now on."""
        if most != self._waiting.maxlen:
            self._waiting = deque(self._waiting, maxlen=most)

    def clear(self) -> None:
        """Forget them all."""
        self._waiting.clear()

    def _wait(self) -> None:
        self._write_at = asyncio.get_running_loop().time() + self._flush_s
