"""Bring models into memory: new with a new log, from a file, or from a log in the store.

These functions wait for the store, so they run on threads.
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
    """Begin a new log; return its first event, or None if an earlier creation of unknown outcome has begun the log."""
    created = ModelCreated(configuration.model_dump(mode="json"), time.time_ns() // 1_000_000)
    try:
        store.create(name, created.record())
    except KeyError:
        return None
    return created


def create(store: Store, name: str, configuration: Configuration, settings: Settings) -> tuple[Model, Obstacle | None]:
    """Create a new model with its log."""
    warm.warm_up_first(configuration.solver, configuration.dtype)
    created = begin_log(store, name, configuration)
    if created is None:  # the log decides
        return load(store, name, settings)
    model = Model(name, configuration, **settings.model_sizes)
    model.apply(1, created)
    return model, None


def load(store: Store, name: str, settings: Settings) -> tuple[Model, Obstacle | None]:
    """Load a model of the store, with the event that it could not apply. The errors of ModelHistory.reached."""
    return ModelHistory(store, name, **settings.model_sizes).reached()


def import_file(store: Store, name: str, file: IO[bytes], settings: Settings) -> Model:
    """Create a model from a file and begin its log with it. Invalid if this server does not accept the file."""
    model, imported = read_import(name, file, settings, settings.model_sizes)
    try:
        store.create(name, imported.record())
    except KeyError:  # an earlier creation of unknown outcome has succeeded
        there, _ = load(store, name, settings)
        if there.snapshot() != model.snapshot():
            raise Conflict(f"there is a model {name!r} already; start the server again to see it") from None
        return there
    return model
