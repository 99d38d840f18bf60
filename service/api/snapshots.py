"""Routes for snapshots: take, export, import, roll back, and skip an event that the model cannot apply."""

from __future__ import annotations

from typing import Annotated, NotRequired

from fastapi import Query, Request
from pydantic import Field, WithJsonSchema, with_config
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from hinged.operations import SnapshotOperations
from hinged.operations.base import BINARY
from hinged.operations.snapshots import LOG_SUFFIX, SUFFIX
from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, PathWorker, receive_file, registry_of
from hinged.service.data.answers import Answer
from hinged.service.data.configuration import shown_configuration
from hinged.service.data.examples import STRICT
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

Position = Annotated[int, Field(ge=1, lt=2**53)]
File = Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})]

group = Group("snapshots")


@with_config(STRICT)
class RollBack(TypedDict):
    """The position of the state to which the model returns."""

    position: Position


@with_config(STRICT)
class PassOver(TypedDict):
    """The position of the event at which the model stopped. By default, that event is skipped whatever its position."""

    position: NotRequired[Position]


@group.serves(SnapshotOperations.snapshot, StoreUnavailable)
async def keep_snapshot(worker: PathWorker) -> Answer:
    """Take a snapshot now. The answer comes when the snapshot is durable."""
    return {"model": worker.name, "position": await worker.snapshot()}


@group.serves(SnapshotOperations.export_model, Conflict, StoreUnavailable, answers=File, media_type=BINARY)
async def export_model(
    model: str,
    request: Request,
    as_of: Annotated[
        Position | None, Query(description="position of the log: the model as it was there; by default as it is now")
    ] = None,
    log: Annotated[bool, Query(description="add the log, for `hinged verify`; such a file cannot be imported")] = False,
) -> Response:
    """Export the model as one file, in its current state or in its state at a position of the log."""
    position, file = await registry_of(request).export(model, as_of, log=log)
    suffix = LOG_SUFFIX if log else SUFFIX
    headers = {"Content-Disposition": f'attachment; filename="{model}-{position}{suffix}"'}
    if isinstance(file, bytes):
        return Response(file, media_type=BINARY, headers=headers)
    return StreamingResponse(file, media_type=BINARY, headers=headers)


@group.serves(
    SnapshotOperations.import_model,
    Conflict,
    StoreUnavailable,
    takes=Shape(File, ""),
    takes_type=BINARY,
    statuses=(201,),
)
async def import_model(model: str, request: Request) -> Response:
    """Import a model from an exported file: 201, or 409 if the name is taken."""
    registry = registry_of(request)
    with await receive_file(request, limits.IMPORT_BYTES_MAX) as file:
        worker = await registry.import_file(model, file)
    configuration = shown_configuration(worker.model.configuration)
    published = worker.published
    answer = {"model": model, "configuration": configuration, "position": published.position}
    return JSON({**answer, "examples": published.examples, "classes": list(published.labels)}, 201)


@group.serves(SnapshotOperations.rollback, Conflict, StoreUnavailable, takes=Shape(RollBack, {"position": 5}))
async def roll_back(worker: PathWorker, body: Annotated[RollBack, SENT]) -> Answer:
    """Roll a model back to its state at a position. The log continues; the events that are undone no longer count."""
    return await worker.roll_back(body["position"])


@group.serves(
    SnapshotOperations.skip_event, Conflict, StoreUnavailable, takes=Shape(PassOver, {"position": 11}), optional=True
)
async def set_aside(worker: PathWorker, body: Annotated[PassOver, SENT]) -> Answer:
    """Skip the event that stopped the model because the model could not apply it. The model then continues to learn."""
    return await worker.set_aside(body.get("position"))
