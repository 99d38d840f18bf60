"""Bring models into memory: create them with a new log, from a file, or from a log in the store.

These functions wait for the store, so they run on threads.
"""

from __future__ import annotations

from typing import IO

from hinged.service.data.parts import Configuration
from hinged.service.data.times import now_ms
from hinged.service.engine.history import ModelHistory, Obstacle
from hinged.service.engine.transfer.imports import read_import
from hinged.service.errors import Conflict
from hinged.service.model.events.states import ModelAnnounced, ModelCreated
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.solvers import warm


def begin_log(store: Store, name: str, configuration: Configuration) -> ModelCreated | None:
    """Begin a new log; return its first event. The event takes the place of an announcement.

    Return None if an earlier creation, whose outcome was unknown, has already begun the log.
    """
    created = ModelCreated(configuration.model_dump(mode="json"), now_ms())
    try:
        store.create(name, created.record())
    except KeyError:
        if announced(store, name) is None:
            return None
        store.redact(name, 1, {1: created.record()}, ())
    return created


def announce(store: Store, name: str, template: str) -> str | None:
    """Begin the log of a model without features; return the template that the log has.

    Return None if an earlier call, whose outcome was unknown, has made a model of the log.
    """
    try:
        store.create(name, ModelAnnounced(template, now_ms()).record())
    except KeyError:
        return announced(store, name)
    return template


def announced(store: Store, name: str) -> str | None:
    """Return the template of a model without features. Return None if the log has a model."""
    for _, first in store.read(name, 0):
        return ModelAnnounced.decoded(first.payload).template if first.kind == ModelAnnounced.KIND else None
    return None


def create(store: Store, name: str, configuration: Configuration, settings: Settings) -> tuple[Model, Obstacle | None]:
    """Create a new model with its log."""
    warm.warm_up_first(configuration.solver, configuration.dtype)
    created = begin_log(store, name, configuration)
    if created is None:  # an earlier call has begun the log, so load it
        return load(store, name, settings)
    model = Model(name, configuration, **settings.model_sizes)
    model.apply(1, created)
    return model, None


def load(store: Store, name: str, settings: Settings) -> tuple[Model, Obstacle | None]:
    """Load a model of the store; return it, and the event that it could not apply, if any.

    Raise the errors of ModelHistory.reached.
    """
    return ModelHistory(store, name, **settings.model_sizes).reached()


def import_file(store: Store, name: str, file: IO[bytes], settings: Settings) -> Model:
    """Create a model from a file and begin its log with that model. Raise Invalid if this server does not accept the
    file.
    """
    model, imported = read_import(name, file, settings, settings.model_sizes)
    try:
        store.create(name, imported.record())
    except KeyError:  # an earlier creation, whose outcome was unknown, has succeeded
        there, _ = load(store, name, settings)
        if there.snapshot() != model.snapshot():
            raise Conflict(f"there is a model {name!r} already; start the server again to see it") from None
        return there
    return model
