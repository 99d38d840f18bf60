"""Routes for hooks: add, list and remove the URLs that the server calls when something happens to a model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import MarkKind
from hinged.operations import HookOperations
from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT, PathWorker
from hinged.service.commands.hooks import AddHook, RemoveHook
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, StoreUnavailable

group = Group("hooks")


@with_config(STRICT)
class NewHook(TypedDict):
    """A URL to call, and the kinds of events after which the server calls it."""

    url: Annotated[str, Field(min_length=1, max_length=limits.URL_CHARS_MAX)]
    events: Annotated[list[MarkKind], Field(min_length=1, max_length=100)]


NEW_HOOK = Shape(NewHook, {"url": "https://hooks.example.com/weather", "events": ["drift", "alarm"]})


@group.serves(HookOperations.add_hook, Conflict, StoreUnavailable, takes=NEW_HOOK, statuses=(201,))
async def add_hook(worker: PathWorker, body: Annotated[NewHook, SENT]) -> Response:
    """Call a URL after each later event of these kinds. Only this answer contains the secret of the hook."""
    worker.hooks.calls.check_enabled()
    await worker.hooks.calls.check(body["url"])
    answer = await worker.command(AddHook(body["url"], body["events"]))
    return JSON({**answer, "secret": worker.hooks.calls.secret(answer["id"])}, 201)


@group.serves(HookOperations.hooks)
async def list_hooks(worker: PathWorker) -> Answer:
    """List the hooks of a model, with the number of messages that wait for each, and why the last call failed."""
    return await worker.read(worker.hooks.shown)


@group.serves(HookOperations.remove_hook, StoreUnavailable)
async def remove_hook(worker: PathWorker, hook: str) -> Answer:
    """Remove a hook. The server calls its URL no more."""
    return await worker.command(RemoveHook(hook))
