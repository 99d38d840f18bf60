"""Routes that change what was learned: forget, correct, reconfigure, manage challengers, and show jobs."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response

from hinged.operations import ExampleOperations, ModelOperations, ServerOperations
from hinged.service.api.changes.shapes import (
    CERTIFICATE,
    CHALLENGERS,
    CHANGED,
    CHANGES_BODY,
    CORRECTION_BODY,
    JOB,
    LEFT_OUT,
    RETIRED,
)
from hinged.service.api.serving import Group
from hinged.service.api.wire import Full, parsed, read_command, registry_of
from hinged.service.commands import figures
from hinged.service.commands.change import (
    Challenge,
    Configure,
    Correct,
    Promote,
    Retire,
)
from hinged.service.data.names import MODEL_NAME
from hinged.service.edge.access import require
from hinged.service.edge.middleware import JSON
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    Gone,
    NotFound,
    StoreUnavailable,
)

CHANGE_WAIT_S = 5.0
"""Number of seconds that an answer waits until a forgotten example has left the store. After this time, the client gets
a job instead, because erasing takes minutes in a large store.
"""

group = Group("changes")


@group.serves(ExampleOperations.forget, CHANGED, StoreUnavailable, statuses=(200, 202))
async def forget(model: str, example: str, request: Request) -> Response:
    """Forget an example: 200 when the example is gone, or 202 with a job if that takes longer."""
    worker = registry_of(request).get(model)
    return await changed(model, worker, await worker.forget(example))


@group.serves(ExampleOperations.correct, CHANGED, Gone, StoreUnavailable, takes=CORRECTION_BODY, statuses=(200, 202))
async def correct(model: str, example: str, request: Request) -> Response:
    """Correct the label of a learned example: 200, or 202 with a job that retrains the model."""
    registry = registry_of(request)
    worker = registry.get(model)
    body = parsed(CORRECTION_BODY.adapter, await read_command(request))
    settings = registry.settings
    command = Correct(example, body["y"], settings.classes_max)
    return await changed(model, worker, await worker.change(command))


@group.serves(ModelOperations.change_model, CHANGED, StoreUnavailable, takes=CHANGES_BODY, statuses=(200, 202))
async def change_model(model: str, request: Request) -> Response:
    """Change parts of a model's configuration: 200, or 202 with a job that retrains the model. The old state stays in
    use until the job is done.
    """
    registry = registry_of(request)
    worker = registry.get(model)
    changes = await _read_changes(request)
    return await changed(model, worker, await worker.command(Configure(changes, registry.settings)))


async def changed(model: str, worker: Worker, answer: dict[str, Any]) -> Response:
    """Return the answer to a change: 200 when the change is done, or 202 with the job that will do it."""
    receipts = {"receipts": answer["receipts"]} if "receipts" in answer else {}
    shown = {"model": model, "position": answer["position"], **receipts}
    if "at" not in answer:
        return JSON({**shown, "certificate": answer["certificate"]})
    at = answer["at"]
    job = JSON({**shown, "job": f"/jobs/{model}.{at}"}, 202)
    if answer["folds"]:
        return job
    ended = await worker.ended(at, CHANGE_WAIT_S)
    if ended["state"] == "running":
        return job
    found = {name: ended[name] for name in ("certificate", "unwritten") if name in ended}
    return JSON({**shown, "position": worker.published.position, **found})


async def _read_changes(request: Request) -> dict[str, Any]:
    body = await read_command(request)
    changes: dict[str, Any] = parsed(CHANGES_BODY.adapter, body)
    return changes


@group.serves(ServerOperations.job, JOB, NotFound)
async def show_job(job: str, request: Request) -> Response:
    """Show the state of a job: running, done or failed."""
    model, _, at = job.rpartition(".")
    if not MODEL_NAME.fullmatch(model) or not at.isascii() or not at.isdigit() or len(at) > 18:
        raise NotFound(f"there is no job {job[:80]!r}")
    require(request, "reader", model)
    return JSON({"job": f"/jobs/{job}", "model": model, **registry_of(request).get(model).job(int(at))})


@group.serves(ModelOperations.certificate, CERTIFICATE)
async def certificate(model: str, request: Request) -> Response:
    """Report how good the solution is: its duality gap, how far it violates the optimality conditions, and the weight
    degradation that a budget has caused.
    """
    position, found = await registry_of(request).get(model).read(figures.certificate)
    return JSON({"model": model, "position": position, "certificate": found})


@group.serves(ModelOperations.leave_one_out, LEFT_OUT, Conflict)
async def leave_one_out(model: str, request: Request) -> Response:
    """Compute the exact solver's leave-one-out error: each example is predicted by a machine without that example."""
    registry = registry_of(request)
    position, copy = await registry.get(model).read(figures.copy_of_exact)
    examples, errors = await registry.beside(figures.left_out, copy)
    error = errors / examples if examples else None
    return JSON({"model": model, "position": position, "examples": examples, "errors": errors, "error": error})


# -- challengers ------------------------------------------------------------------------------------------------------


@group.serves(ModelOperations.shadows, CHALLENGERS, tag="challengers")
async def list_shadows(model: str, request: Request, full: Full = False) -> Response:
    """List the model and its challengers, each with the metrics of its own predictions."""
    return JSON(await registry_of(request).get(model).read(partial(figures.challengers, full=full)))


@group.serves(
    ModelOperations.challenge,
    CHANGED,
    Conflict,
    StoreUnavailable,
    takes=CHANGES_BODY,
    statuses=(200, 202),
    tag="challengers",
)
async def challenge(model: str, shadow: str, request: Request) -> Response:
    """Start a challenger, with the model's configuration and the given changes: 202 with a job. When the job is done,
    the challenger learns along with the model.
    """
    registry = registry_of(request)
    worker = registry.get(model)
    command = Challenge(shadow, await _read_changes(request), registry.settings)
    return await changed(model, worker, await worker.command(command))


@group.serves(ModelOperations.retire, RETIRED, StoreUnavailable, tag="challengers")
async def retire(model: str, shadow: str, request: Request) -> Response:
    """Retire a challenger. The challenger stops learning and is removed."""
    return JSON(await registry_of(request).get(model).command(Retire(shadow)))


@group.serves(ModelOperations.promote, CHANGED, Conflict, StoreUnavailable, tag="challengers")
async def promote(model: str, shadow: str, request: Request) -> Response:
    """Promote a challenger. The challenger replaces the model."""
    worker = registry_of(request).get(model)
    return await changed(model, worker, await worker.command(Promote(shadow)))
