"""Models as they come to be in memory: with a new log, out of a file, or as their log in the store has them.

These run on threads, as whatever asks the store does.
"""

from __future__ import annotations

import time
from typing import IO

from hinged.service.data.parts import Configuration
from hinged.service.engine.history import ModelHistory, Obstacle
from hinged.service.engine.transfer.imports import read_import
from hinged.service.errors import Conflict
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.solvers import warm


def begin_log(store: Store, name: str, configuration: Configuration) -> ModelCreated | None:
    """The first event of a new log; None if it is there: an earlier creation of unknown outcome did happen."""
    created = ModelCreated(configuration.model_dump(mode="json"), time.time_ns() // 1_000_000)
    try:
        store.create(name, created.record())
    except KeyError:
        return None
    return created


def create(store: Store, name: str, configuration: Configuration, settings: Settings) -> tuple[Model, Obstacle | None]:
    """A new model with its log."""
    warm.warm_up_first(configuration.solver, configuration.dtype)
    created = begin_log(store, name, configuration)
    if created is None:  # what is in the log holds
        return load(store, name, settings)
    model = Model(name, configuration, **settings.model_sizes)
    model.apply(1, created)
    return model, None


def load(store: Store, name: str, settings: Settings) -> tuple[Model, Obstacle | None]:
    """A model of the store, and the event before which it stands. The errors of ModelHistory.reached."""
    return ModelHistory(store, name, **settings.model_sizes).reached()


def import_file(store: Store, name: str, file: IO[bytes], settings: Settings) -> Model:
    """A new model from a file, which is in the log. Invalid if it is none that this server takes."""
    model, imported = read_import(name, file, settings, settings.model_sizes)
    try:
        store.create(name, imported.record())
    except KeyError:  # an earlier creation of unknown outcome did happen
        there, _ = load(store, name, settings)
        if there.snapshot() != model.snapshot():
            raise Conflict(f"there is a model {name!r} already; start the server again to see it") from None
        return there
    return model
