"""What this server and its models take: memory, and processors.

The load of a model is CPU seconds a second: those of its calls, and PREDICTION_S for each prediction, which the event
loop makes where it is short and which no account is charged. It is the mean of the last minutes rather than of the last
second, for a model is moved by it.

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
PREDICTION_S = 100e-6
"""What a prediction with its request takes, about (docs/lab/cluster.md)."""
LOOK_S = 2.0
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory the processes of a container may take, in its second and its first form."""


class Figures:
    """The figures of the models of a server, sampled by `look`."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._memory_max = memory_max_bytes()
        self._processors = processors()
        self._loads: dict[str, float] = {}
        self._used: dict[str, float] = {}  # CPU seconds by model, when it was looked last
        self._looked_at = time.monotonic()
        self.of_node: dict[str, Any] = self._of_node()
        """What this server takes, of what it has, when it was looked last."""

    def look(self) -> None:
        """Take in what models have used since it was looked last, if that is LOOK_S ago."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        kept = math.exp((self._looked_at - now) / MEMORY_S)
        used = self._roster.used()
        for name, worker in self._roster.workers():
            used[name] = used.get(name, 0.0) + PREDICTION_S * worker.predictions_served
        self._loads = {
            name: kept * self._loads.get(name, 0.0)
            + max(0.0, seconds - self._used.get(name, 0.0)) / MEMORY_S  # less where it was loaded anew
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
        """Each model of this server: its state, the position that it answers at, and what it takes."""
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
    """Memory that this process may take: the container's limit where there is one, or the machine's."""
    found = [2**62]
    for path in LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(path).read_text(encoding="ascii")))
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found)
