"""Routes for models: create, list, describe, delete, overview and history."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from hinged.answers import Models
from hinged.operations import ModelOperations
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.whole import put_models
from hinged.service.api.wire import Full, PathWorker, read_command, registry_of
from hinged.service.commands.columns import columns_of
from hinged.service.commands.figures import curves_of, glance, thresholds_of
from hinged.service.data.answers import Answer
from hinged.service.data.configuration import (
    CONFIGURATIONS,
    new_configuration,
    shown_configuration,
    template_of,
)
from hinged.service.edge.access import visible
from hinged.service.edge.middleware import JSON
from hinged.service.engine.roster import SERVING
from hinged.service.errors import Conflict, StoreUnavailable, Unavailable

group = Group("models")

MODEL = Shape(
    CONFIGURATIONS,
    {
        "solver": "lasvm",
        "kernel": {"type": "rbf", "gamma": 2.0},
        "features": {"type": "dense", "dim": 2},
        "C": 10.0,
    },
)


@group.serves(ModelOperations.models, answers=Models, put_together=put_models)
async def list_models(request: Request, full: Full = False) -> Answer:
    """List all models with a short description: state, configuration, position in the log, examples and classes."""
    return {"models": visible(request, registry_of(request).opened().summaries(full=full))}


@group.serves(ModelOperations.create_model, Conflict, StoreUnavailable, takes=MODEL, statuses=(200, 201))
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


@group.serves(ModelOperations.model)
async def describe_model(worker: PathWorker, request: Request, full: Full = False) -> Answer:
    """Describe a model: configuration, position in the log, examples, classes, support vectors, duality gap, metrics
    and memory.
    """
    state, error = registry_of(request).roster.state(worker.name)
    if error is not None and worker.obstacle is None:
        raise Unavailable(f"model {worker.name} has stopped: {error}", state=state)
    why = {} if error is None else {"error": error}
    return {"model": worker.name, "state": state, **why, **await worker.describe(full=full), "jobs": worker.jobs()}


@group.serves(ModelOperations.overview, put_together=put_models)
async def overview(request: Request) -> Answer:
    """List all models with a few figures, from the state that each model published last. No model delays the answer."""
    roster = registry_of(request).opened()
    found = visible(request, [*roster.summaries(configured=False), *roster.compiling()])
    asked = {model["model"] for model in found}
    loaded = [(name, worker.model, worker.queue) for name, worker in roster.workers() if name in asked]
    figures = {name: glance(model, queue.examples, queue.examples_max) for name, model, queue in loaded}
    return {"models": [model | figures.get(model["model"], {}) for model in found]}


@group.serves(ModelOperations.history)
async def show_history(
    worker: PathWorker,
    after: Annotated[int, Query(alias="from", ge=0, lt=2**63, description="only points after this position")] = 0,
) -> Answer:
    """Return the learning curves of the model and its challengers, with the marks on the curves."""
    kept = await worker.snapshots()
    return {**await worker.read(partial(curves_of, after=after)), "snapshots": kept}


@group.serves(ModelOperations.columns)
async def show_columns(worker: PathWorker) -> Answer:
    """Return what the server made of each name of x, at most 100, and how much the predictions depend on the name."""
    found = await worker.read(columns_of)
    return {"model": worker.name, "position": worker.published.position, "columns": found}


@group.serves(ModelOperations.thresholds, Conflict)
async def show_thresholds(
    worker: PathWorker,
    label: Annotated[str | None, Query(alias="class", max_length=300, description="one of the two classes")] = None,
    beta: Annotated[
        float, Query(gt=0, le=1000, description="how many times as important recall is as precision, in f_beta")
    ] = 1.0,
) -> Answer:
    """Return what each threshold on the probability of a class would have meant, for a model of two classes."""
    return await worker.read(partial(thresholds_of, wanted=label, beta=beta))


@group.serves(ModelOperations.delete_model, StoreUnavailable)
async def delete_model(model: str, request: Request) -> Answer:
    """Delete a model, its log and its snapshots."""
    await registry_of(request).delete(model)
    return {"model": model, "deleted": True}
