"""Routes for models: create, list, describe, delete, overview and history."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from hinged.operations import ModelOperations
from hinged.service.api.models.shapes import (
    COLUMNS,
    CREATED,
    DELETED,
    DESCRIBED,
    HISTORY,
    MODEL,
    MODELS,
    OVERVIEW,
    THRESHOLDS,
)
from hinged.service.api.serving import Group
from hinged.service.api.whole import put_models
from hinged.service.api.wire import Full, read_command, registry_of
from hinged.service.commands.columns import columns_of
from hinged.service.commands.figures import curves_of, glance, thresholds_of
from hinged.service.data.configuration import new_configuration, shown_configuration, template_of
from hinged.service.edge.access import visible
from hinged.service.edge.middleware import JSON
from hinged.service.engine.roster import SERVING
from hinged.service.errors import Conflict, StoreUnavailable, Unavailable

group = Group("models")


@group.serves(ModelOperations.models, MODELS, put_together=put_models)
async def list_models(request: Request, full: Full = False) -> Response:
    """List all models with a short description: state, configuration, position in the log, examples and classes."""
    return JSON({"models": visible(request, registry_of(request).opened().summaries(full=full))})


@group.serves(ModelOperations.create_model, CREATED, Conflict, StoreUnavailable, takes=MODEL, statuses=(200, 201))
async def create_model(model: str, request: Request) -> Response:
    """Create a model: 201. If the model exists: 200 with the same configuration, 409 with a different configuration.

    Without `features`, the first examples determine them; until then the answer's `state` is `waiting`. The state is
    `compiling` if the model's solver has to be compiled first.
    """
    registry = registry_of(request)
    body = await read_command(request)
    template = template_of(body, registry.settings)
    if template is not None:
        shown, new, state = await registry.announce(model, template)
    else:
        # A thread, because reading an embedding for the first time takes 0.1 s.
        wanted = await asyncio.to_thread(new_configuration, body, registry.settings)
        configuration, new, state = await registry.begin(model, wanted)
        shown = shown_configuration(configuration)
    found = {"model": model, "configuration": shown}
    return JSON(found if state == SERVING else found | {"state": state}, 201 if new else 200)


@group.serves(ModelOperations.model, DESCRIBED)
async def describe_model(model: str, request: Request, full: Full = False) -> Response:
    """Describe a model: configuration, position in the log, examples, classes, support vectors, duality gap, metrics
    and memory.
    """
    registry = registry_of(request)
    worker = registry.get(model)
    state, error = registry.roster.state(model)
    if error is not None and worker.obstacle is None:
        raise Unavailable(f"model {model} has stopped: {error}", state=state)
    why = {} if error is None else {"error": error}
    return JSON({"model": model, "state": state, **why, **await worker.describe(full=full), "jobs": worker.jobs()})


@group.serves(ModelOperations.overview, OVERVIEW, put_together=put_models)
async def overview(request: Request) -> Response:
    """List all models with a few figures, from the state that each model published last. No model delays the answer."""
    roster = registry_of(request).opened()
    found = visible(request, [*roster.summaries(configured=False), *roster.compiling()])
    asked = {model["model"] for model in found}
    loaded = [(name, worker.model, worker.queue) for name, worker in roster.workers() if name in asked]
    figures = {name: glance(model, queue.examples, queue.examples_max) for name, model, queue in loaded}
    return JSON({"models": [model | figures.get(model["model"], {}) for model in found]})


@group.serves(ModelOperations.history, HISTORY)
async def show_history(
    model: str,
    request: Request,
    after: Annotated[int, Query(alias="from", ge=0, lt=2**63, description="only points after this position")] = 0,
) -> Response:
    """Return the learning curves of the model and its challengers, with the marks on the curves."""
    worker = registry_of(request).get(model)
    kept = await worker.snapshots()
    return JSON({**await worker.read(partial(curves_of, after=after)), "snapshots": kept})


@group.serves(ModelOperations.columns, COLUMNS)
async def show_columns(model: str, request: Request) -> Response:
    """Return what the server made of each name of x, at most 100, and how much the predictions depend on the name."""
    worker = registry_of(request).get(model)
    found = await worker.read(columns_of)
    return JSON({"model": model, "position": worker.published.position, "columns": found})


@group.serves(ModelOperations.thresholds, THRESHOLDS, Conflict)
async def show_thresholds(
    model: str,
    request: Request,
    label: Annotated[str | None, Query(alias="class", max_length=300, description="one of the two classes")] = None,
    beta: Annotated[
        float, Query(gt=0, le=1000, description="how many times as important recall is as precision, in f_beta")
    ] = 1.0,
) -> Response:
    """Return what each threshold on the probability of a class would have meant, for a model of two classes."""
    return JSON(await registry_of(request).get(model).read(partial(thresholds_of, wanted=label, beta=beta)))


@group.serves(ModelOperations.delete_model, DELETED, StoreUnavailable)
async def delete_model(model: str, request: Request) -> Response:
    """Delete a model, its log and its snapshots."""
    await registry_of(request).delete(model)
    return JSON({"model": model, "deleted": True})
