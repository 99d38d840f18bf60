"""The roster lists a server's models by name with their states: compiling, loading, serving or stopped.

The registry (registry.py) writes each change of a model into the roster. All other code looks models up here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from hinged.service.data.configuration import shown_configuration
from hinged.service.data.names import MODEL_NAME
from hinged.service.data.parts import Configuration
from hinged.service.engine.loading import Loads
from hinged.service.engine.scheduling.threads import Lane
from hinged.service.engine.worker import Worker
from hinged.service.errors import Conflict, Invalid, NoFeatures, NotFound, Unavailable

LOADING, SERVING, STOPPED = "loading", "serving", "stopped"
"""States of a model, as routes and metrics report them."""
COMPILING = "compiling"
"""State of a new model that is in the log but cannot answer requests before its solver is compiled."""
WAITING = "waiting"
"""State of a model that is in the log without features. Its first examples determine them."""


class Running(NamedTuple):
    """A loaded model: its worker, and the executors (lanes) of its calls and of its jobs."""

    worker: Worker
    lane: Lane
    jobs: Lane

    def give_up(self, why: str) -> None:
        """Give up the computations of the model and its jobs."""
        self.lane.give_up(why)
        self.jobs.give_up(why)


class Roster:
    """All models of a server. Used on the server's event loop.

    loads: models that are being loaded. running: loaded models. broken: models that could not be loaded, with the
    reason. coming: configurations of models that are in the log and whose solver is being compiled. waiting: models
    without features, each with the other parts of its configuration as JSON.
    """

    def __init__(self, loads: Loads, models_max: int) -> None:
        self.loads = loads
        self.running: dict[str, Running] = {}
        self.broken: dict[str, str] = {}
        self.coming: dict[str, Configuration] = {}
        self.waiting: dict[str, str] = {}
        self._elsewhere: set[str] = set()  # models that this server owned and another server now owns
        self._wanted: Counter[str] = Counter()  # models whose solver is compiled or loaded before they are in the log
        self._beginning = 0  # number of models that are being created
        self._models_max = models_max

    # -- look-ups -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> Worker:
        """Return the worker of a model.

        Raise NotFound if there is no such model, NoFeatures if the model has none yet, Unavailable if the model is not
        yet loaded or could not be loaded. A model that is still loading is moved ahead of the other loads.
        """
        running = self.running.get(name)
        if running is not None:
            return running.worker
        check_name(name)
        self.check_compiled(name)
        if name in self.loads:
            self.loads.hurry(name)
            raise Unavailable(f"model {name} is being loaded; try again soon", retry_after_s=1, state=LOADING)
        if name in self.broken:
            raise Unavailable(f"model {name} could not be loaded: {self.broken[name]}", state=STOPPED)
        if name in self.waiting:
            raise NoFeatures(name, self.waiting[name])
        if name in self._elsewhere:
            raise Unavailable(f"model {name} is at another server by now; ask again", retry_after_s=1)
        raise NotFound(f"there is no model {name!r}")

    def names(self) -> list[str]:
        """Return the sorted names of all models, in any state."""
        return sorted({*self.running, *self.loads, *self.broken, *self.waiting})

    def workers(self) -> list[tuple[str, Worker]]:
        """Return every loaded model's name and worker, sorted by name."""
        return [(name, running.worker) for name, running in sorted(self.running.items())]

    def state(self, name: str) -> tuple[str, str | None]:
        """Return the state of an existing model, and the reason if it has stopped."""
        running = self.running.get(name)
        if running is not None:
            failure = running.worker.failed
            return (SERVING, None) if failure is None else (STOPPED, failure)
        if name in self.loads:
            return COMPILING if name in self.coming else LOADING, None
        if name in self.waiting:
            return WAITING, None
        return STOPPED, self.broken.get(name)

    def progress(self) -> dict[str, int]:
        """Return how many models there are, and how many are loading, serving, stopped and without features."""
        stopped = sum(running.worker.failed is not None for running in self.running.values())
        serving, loading = len(self.running) - stopped, sum(name not in self.running for name in self.loads)
        stopped += sum(name not in self.running and name not in self.loads for name in self.broken)
        found = {LOADING: loading, SERVING: serving, STOPPED: stopped, WAITING: len(self.waiting)}
        return {"total": sum(found.values()), **found}

    def summaries(self, *, configured: bool = True, full: bool = False) -> list[dict[str, Any]]:
        """Return a summary of every model as last published, sorted by name. A stopped model has an `error`.

        configured: include the configuration. full: include every default of the configuration.
        """
        return [self._summary(name, configured=configured, full=full) for name in self.names()]

    def _summary(self, name: str, *, configured: bool, full: bool) -> dict[str, Any]:
        state, error = self.state(name)
        found: dict[str, Any] = {"model": name, "state": state}
        if configured and name in self.waiting:
            found["configuration"] = json.loads(self.waiting[name])
        running = self.running.get(name)
        if running is not None:
            published = running.worker.published
            if configured:
                found["configuration"] = shown_configuration(running.worker.model.configuration, full=full)
            found |= {
                "position": published.position,
                "examples": published.examples,
                "classes": list(published.labels),
            }
        return found if error is None else {**found, "error": error}

    def compiling(self) -> list[dict[str, Any]]:
        """Return the models that are not in the log yet because their solver is being compiled, sorted by name."""
        coming = self._wanted.keys() - set(self.names())
        return [{"model": name, "state": COMPILING} for name in sorted(coming)]

    def waited(self) -> list[tuple[str, float]]:
        """Return the seconds that each loaded model has waited for a free slot on a processor, sorted by name."""
        return [(name, running.lane.account.waited_s) for name, running in sorted(self.running.items())]

    def used(self) -> dict[str, float]:
        """Return the CPU seconds that each loaded model's calls and jobs have used, by name."""
        return {
            name: running.lane.account.seconds + running.jobs.account.seconds for name, running in self.running.items()
        }

    # -- changes --------------------------------------------------------------------------------------------------

    def lacks(self, name: str) -> bool:
        """Return whether there is no model of this name, or only a model without features."""
        return name not in self.running and name not in self.loads and name not in self.broken

    def check_compiled(self, name: str) -> None:
        """Raise Unavailable while the solver of a new model is being compiled."""
        if name in self.coming:
            raise Unavailable(
                f"the solver of model {name} is being compiled; try again soon", retry_after_s=1, state=COMPILING
            )

    def check_room(self, name: str, template: str | None = None) -> None:
        """Raise Conflict if there is no room for a new model of this name.

        template: of the model without features that the new model replaces. Without a template, raise Conflict if there
        is such a model; with a template, raise NotFound if there is no such model. A replacement needs no further room.
        """
        there = self.waiting.get(name)
        if there is None and template is not None:
            raise NotFound(f"there is no model {name!r}")
        if there is not None and there != template:
            raise another_configuration(name, json.loads(there))
        if there is not None:
            return
        count = len(self.running) + len(self.loads) + len(self.waiting) + self._beginning
        if count >= self._models_max:
            raise Conflict(f"the server has {count} models of at most {self._models_max}")

    @contextmanager
    def room(self, name: str, template: str | None = None) -> Iterator[None]:
        """Reserve room for a new model during the block. Raise the errors of `check_room`."""
        self.check_room(name, template)
        taken = name not in self.waiting
        self._beginning += taken
        try:
            yield
        finally:
            self._beginning -= taken

    @contextmanager
    def wanted(self, name: str) -> Iterator[None]:
        """During the block, mark the name as waiting until its solver is compiled or loaded."""
        self._wanted[name] += 1
        try:
            yield
        finally:
            self._wanted -= Counter((name,))

    def serve(self, name: str, running: Running) -> None:
        """Record that a model is loaded."""
        self.running[name] = running
        self.waiting.pop(name, None)
        self._elsewhere.discard(name)

    def left(self, name: str) -> None:
        """Record that another server now owns this model, or soon will."""
        self._elsewhere.add(name)

    def came(self, name: str) -> None:
        """Record that this server owns the model."""
        self._elsewhere.discard(name)


def another_configuration(name: str, there: dict[str, Any]) -> Conflict:
    """Return the error for a model that exists with another configuration than the wanted one."""
    return Conflict(f"model {name!r} exists with another configuration", configuration=there)


def check_name(name: str) -> None:
    """Raise Invalid for a name that could not be a file name or part of a key."""
    if not MODEL_NAME.fullmatch(name):
        raise Invalid(
            f"a model's name has 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-' and begins with a letter or a digit, "
            f"got {name[:80]!r}"
        )
