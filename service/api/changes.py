"""Routes that change what was learned: forget, correct, reconfigure, manage challengers, and show jobs."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Request
from pydantic import with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.operations import ExampleOperations, ModelOperations, ServerOperations
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, Full, PathWorker, registry_of
from hinged.service.commands import figures
from hinged.service.commands.change import (
    Challenge,
    Configure,
    Correct,
    Promote,
    Retire,
)
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT, Y
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

CHANGES = Shape(dict[str, Any], {"C": 5.0})
CHANGED = (200, 202)
"""The statuses of a change: done, or a job will do it."""

group = Group("changes")


@with_config(STRICT)
class Correction(TypedDict):
    """The correct label of an example."""

    y: Y


@group.serves(ExampleOperations.forget, StoreUnavailable, statuses=CHANGED)
async def forget(worker: PathWorker, example: str) -> Response:
    """Forget an example: 200 when the example is gone, or 202 with a job if that takes longer."""
    return await changed(worker, await worker.forget(example))


@group.serves(
    ExampleOperations.correct, Gone, StoreUnavailable, takes=Shape(Correction, {"y": "rain"}), statuses=CHANGED
)
async def correct(worker: PathWorker, example: str, request: Request, body: Annotated[Correction, SENT]) -> Response:
    """Correct the label of a learned example: 200, or 202 with a job that retrains the model."""
    classes_max = registry_of(request).settings.classes_max
    return await changed(worker, await worker.change(Correct(example, body["y"], classes_max)))


@group.serves(ModelOperations.change_model, StoreUnavailable, takes=CHANGES, statuses=CHANGED)
async def change_model(worker: PathWorker, request: Request, body: Annotated[dict[str, Any], SENT]) -> Response:
    """Change parts of a model's configuration: 200, or 202 with a job that retrains the model. The old state stays in
    use until the job is done.
    """
    return await changed(worker, await worker.command(Configure(body, registry_of(request).settings)))


async def changed(worker: Worker, answer: dict[str, Any]) -> Response:
    """Return the answer to a change: 200 when the change is done, or 202 with the job that will do it."""
    receipts = {"receipts": answer["receipts"]} if "receipts" in answer else {}
    shown = {"model": worker.name, "position": answer["position"], **receipts}
    if "at" not in answer:
        return JSON({**shown, "certificate": answer["certificate"]})
    at = answer["at"]
    job = JSON({**shown, "job": f"/jobs/{worker.name}.{at}"}, 202)
    if answer["folds"]:
        return job
    ended = await worker.ended(at, CHANGE_WAIT_S)
    if ended["state"] == "running":
        return job
    found = {name: ended[name] for name in ("certificate", "unwritten") if name in ended}
    return JSON({**shown, "position": worker.published.position, **found})


@group.serves(ServerOperations.job, NotFound)
async def show_job(job: str, request: Request) -> Answer:
    """Show the state of a job: running, done or failed."""
    model, _, at = job.rpartition(".")
    if not MODEL_NAME.fullmatch(model) or not at.isascii() or not at.isdigit() or len(at) > 18:
        raise NotFound(f"there is no job {job[:80]!r}")
    require(request, "reader", model)
    return {"job": f"/jobs/{job}", "model": model, **registry_of(request).get(model).job(int(at))}


@group.serves(ModelOperations.certificate)
async def certificate(worker: PathWorker) -> Answer:
    """Report how good the solution is: its duality gap, how far it violates the optimality conditions, and the weight
    degradation that a budget has caused.
    """
    position, found = await worker.read(figures.certificate)
    return {"model": worker.name, "position": position, "certificate": found}


@group.serves(ModelOperations.leave_one_out, Conflict)
async def leave_one_out(worker: PathWorker, request: Request) -> Answer:
    """Compute the exact solver's leave-one-out error: each example is predicted by a machine without that example."""
    position, copy = await worker.read(figures.copy_of_exact)
    examples, errors = await registry_of(request).beside(figures.left_out, copy)
    error = errors / examples if examples else None
    return {"model": worker.name, "position": position, "examples": examples, "errors": errors, "error": error}


# -- challengers ------------------------------------------------------------------------------------------------------


@group.serves(ModelOperations.shadows, tag="challengers")
async def list_shadows(worker: PathWorker, full: Full = False) -> Answer:
    """List the model and its challengers, each with the metrics of its own predictions."""
    return await worker.read(partial(figures.challengers, full=full))


@group.serves(ModelOperations.challenge, Conflict, StoreUnavailable, takes=CHANGES, statuses=CHANGED, tag="challengers")
async def challenge(
    worker: PathWorker, shadow: str, request: Request, body: Annotated[dict[str, Any], SENT]
) -> Response:
    """Start a challenger, with the model's configuration and the given changes: 202 with a job. When the job is done,
    the challenger learns along with the model.
    """
    return await changed(worker, await worker.command(Challenge(shadow, body, registry_of(request).settings)))


@group.serves(ModelOperations.retire, StoreUnavailable, tag="challengers")
async def retire(worker: PathWorker, shadow: str) -> Answer:
    """Retire a challenger. The challenger stops learning and is removed."""
    return await worker.command(Retire(shadow))


@group.serves(ModelOperations.promote, Conflict, StoreUnavailable, tag="challengers")
async def promote(worker: PathWorker, shadow: str) -> Response:
    """Promote a challenger. The challenger replaces the model."""
    return await changed(worker, await worker.command(Promote(shadow)))
