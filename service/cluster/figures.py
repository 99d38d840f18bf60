"""Figures of this server and its models: memory, and load on the processors.

The load of a model is CPU seconds per second: of its calls, plus PREDICTION_S for each prediction, because short
predictions run on the event loop and are charged to no account. It is a mean over minutes rather than the last second,
because models are moved by it:

    load(t) = sum over the seconds it took before t of exp(-(t - when) / MEMORY_S) / MEMORY_S
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hinged.service.engine.roster import LOADING, SERVING, Roster
from hinged.service.engine.scheduling.turns import processors

MEMORY_S = 60.0
"""Seconds after which use counts 1/e in a model's load. If shorter, bursts would move models."""
PREDICTION_S = 100e-6
"""Approximate seconds of a prediction with its request (docs/lab/cluster.md)."""
LOOK_S = 2.0  # least seconds between two samples
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a Linux container, in versions 2 and 1 of cgroups."""


class Figures:
    """The figures of the models of a server, sampled by `look`."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._memory_max = memory_max_bytes()
        self._processors = processors()
        self._loads: dict[str, float] = {}
        self._used: dict[str, float] = {}  # CPU seconds by model at the last sample
        self._looked_at = time.monotonic()
        self.of_node: dict[str, Any] = self._of_node()
        """This server's use and limits, at the last sample."""

    def look(self) -> None:
        """Sample the use of models, if the last sample is at least LOOK_S old."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        kept = math.exp((self._looked_at - now) / MEMORY_S)
        used = self._roster.used()
        for name, worker in self._roster.workers():
            used[name] = used.get(name, 0.0) + PREDICTION_S * worker.predictions_served
        self._loads = {
            name: kept * self._loads.get(name, 0.0)
            + max(0.0, seconds - self._used.get(name, 0.0)) / MEMORY_S  # the sum restarts when a model is loaded again
            for name, seconds in used.items()
        }
        self._used, self._looked_at = used, now
        self.of_node = self._of_node()

    def _of_node(self) -> dict[str, Any]:
        workers = self._roster.workers()
        return {
            "models": len(workers),
            "loading": self._roster.progress()[LOADING],
            "memory_bytes": sum(worker.model.memory_bytes() for _, worker in workers if not worker.failed),
            "memory_max_bytes": self._memory_max,
            "load": round(sum(self._loads.values()), 4),
            "processors": self._processors,
        }

    def of_models(self) -> list[dict[str, Any]]:
        """Each model of this server: state, position of its answers, memory and load."""
        found: list[dict[str, Any]] = []
        workers = dict(self._roster.workers())
        for name in self._roster.names():
            state, _ = self._roster.state(name)
            worker = workers.get(name)
            figures: dict[str, Any] = {"model": name, "state": state}
            if worker is not None:
                if state == SERVING:
                    figures["memory_bytes"] = worker.model.memory_bytes()
                figures |= {"position": worker.published.position, "load": round(self._loads.get(name, 0.0), 6)}
            found.append(figures)
        return found


def memory_max_bytes() -> int:
    """Bytes of memory that this process may use: the container's limit, or the machine's memory."""
    found = [2**62]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # "max" means no limit
            found.append(int(Path(path).read_text(encoding="ascii")))
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found)
