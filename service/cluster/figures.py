"""Measure the memory and the processor load of this server and its models.

A model's load is the CPU seconds that it uses per second: the measured time of its calls, plus PREDICTION_S for each
prediction. Short predictions run on the event loop, where their time is not measured. The load is a mean over about a
minute, so a short burst moves no model:

    load(t) = sum over the CPU seconds used before t of exp(-(t - time of use) / MEMORY_S) / MEMORY_S
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
"""Seconds after which CPU time counts 1/e as much in a model's load. With a smaller value, bursts would move models."""
PREDICTION_S = 100e-6
"""Approximate CPU seconds of a request that predicts (docs/lab/cluster.md)."""
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files that contain the memory limit of a Linux container: for cgroups version 2, then version 1."""


class Figures:
    """Memory and load of a server's models, measured by `look`."""

    def __init__(self, roster: Roster, processes: int = 1) -> None:
        """Take the roster of the models. processes: number of equal processes that share the machine."""
        self._roster = roster
        self._memory_max = memory_max_bytes() // processes
        self._processors = processors() / processes
        self._loads: dict[str, float] = {}
        self._used: dict[str, float] = {}  # CPU seconds of each model until the last sample
        self._looked_at = time.monotonic()
        self.of_node: dict[str, Any] = self._of_node()
        """This server's memory, load and limits at the last sample."""

    def look(self) -> None:
        """Measure the memory and load of the models."""
        now = time.monotonic()
        kept = math.exp((self._looked_at - now) / MEMORY_S)
        used = self._roster.used()
        for name, worker in self._roster.workers():
            used[name] = used.get(name, 0.0) + PREDICTION_S * worker.predictions_served
        self._loads = {
            name: kept * self._loads.get(name, 0.0)
            + max(0.0, seconds - self._used.get(name, 0.0)) / MEMORY_S  # the count restarts at 0 if a model is reloaded
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
        """Return the state, the published log position, the memory and the load of each model of this server."""
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
    """Return the bytes of memory that this process may use: the container's limit, or the machine's memory."""
    found = [2**62]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # "max" means no limit
            found.append(int(Path(path).read_text(encoding="ascii")))
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found)
