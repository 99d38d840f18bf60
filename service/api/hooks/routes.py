"""Routes for hooks: add, list and remove the URLs that the server calls when something happens to a model."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from hinged.operations import HookOperations
from hinged.service.api.hooks.shapes import ADDED, LISTED, NEW_HOOK, NEW_HOOK_BODY, REMOVED
from hinged.service.api.serving import Group
from hinged.service.api.wire import parsed, read_command, registry_of
from hinged.service.commands.hooks import AddHook, RemoveHook
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("hooks")


@group.serves(
    HookOperations.add_hook,
    ADDED,
    Conflict,
    StoreUnavailable,
    takes=NEW_HOOK_BODY,
    statuses=(201,),
    status_code=201,
)
async def add_hook(model: str, request: Request) -> Response:
    """Call a URL after each later event of these kinds. Only this answer contains the secret of the hook."""
    worker = registry_of(request).get(model)
    body = parsed(NEW_HOOK, await read_command(request))
    worker.hooks.calls.check_enabled()
    await worker.hooks.calls.check(body["url"])
    answer = await worker.command(AddHook(body["url"], body["events"]))
    return JSON({**answer, "secret": worker.hooks.calls.secret(answer["id"])}, 201)


@group.serves(HookOperations.hooks, LISTED)
async def list_hooks(model: str, request: Request) -> Response:
    """List the hooks of a model, with the number of messages that wait for each, and why the last call failed."""
    worker = registry_of(request).get(model)
    return JSON(await worker.read(worker.hooks.shown))


@group.serves(HookOperations.remove_hook, REMOVED, StoreUnavailable)
async def remove_hook(model: str, hook: str, request: Request) -> Response:
    """Remove a hook. The server calls its URL no more."""
    return JSON(await registry_of(request).get(model).command(RemoveHook(hook)))
