"""Routes for the keys of the key file: list, make and revoke them. The command `hinged keys` changes the same file."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, NotRequired

from fastapi import Request
from pydantic import Field, with_config
from starlette.responses import Response
from typing_extensions import TypedDict

from hinged.answers import MAY, Role
from hinged.operations import ServerOperations
from hinged.operations.base import EVERY
from hinged.service import limits
from hinged.service.api.openapi import Shape
from hinged.service.api.serving import Group
from hinged.service.api.wire import SENT
from hinged.service.data.answers import Answer
from hinged.service.data.examples import STRICT
from hinged.service.edge.access import FIRST_KEY, Access, caller
from hinged.service.edge.keys import KeyName, Keyring, Pattern, create_key, revoke_key
from hinged.service.edge.middleware import JSON
from hinged.service.errors import Conflict, NotFound

log = logging.getLogger(__name__)
group = Group("access")


@with_config(STRICT)
class KeyBody(TypedDict):
    """A key to make."""

    name: KeyName
    role: Role
    models: NotRequired[Annotated[list[Pattern], Field(min_length=1, max_length=limits.KEY_MODELS_MAX)]]


KEY_BODY = Shape(KeyBody, {"name": "ann", "role": "annotator", "models": ["fraud-*"]})


def _keyring(request: Request) -> Keyring:
    access: Access = request.app.state.access
    if access.keyring is None:
        raise Conflict(f"this server has no keys, so everyone who reaches it may do everything. {FIRST_KEY}")
    return access.keyring


@group.serves(ServerOperations.keys, Conflict)
async def list_keys(request: Request) -> Answer:
    """List the keys of the key file, without their texts, and what each role may do."""
    ring = _keyring(request)
    listed = ring.keys()
    keys = [key.model_dump(mode="json", exclude={"sha256"}) for key in listed]
    return {"keys": keys, "changeable": ring.changeable(), "roles": dict(MAY)}


@group.serves(ServerOperations.create_key, Conflict, takes=KEY_BODY, statuses=(201,))
async def make_key(request: Request, body: Annotated[KeyBody, SENT]) -> Response:
    """Make a key. Its text is in this answer, and nowhere else: the file holds its digest."""
    ring = _keyring(request)
    name, role, models = body["name"], body["role"], tuple(body.get("models", (EVERY,)))
    # A thread, because the file is synced.
    text = await asyncio.to_thread(create_key, ring.path, name, role, models, by=caller(request))
    log.info("%s made the key %s (%s)", caller(request).name, name, role)
    found = {"name": name, "role": role, "models": list(models), "key": text}
    return JSON(found, 201, headers={"Cache-Control": "no-store"})


@group.serves(ServerOperations.revoke_key, Conflict, NotFound)
async def drop_key(key: str, request: Request) -> Answer:
    """Revoke a key, from the next request on. A key cannot revoke itself, so one admin always remains."""
    ring, own = _keyring(request), caller(request)
    if key == own.name:
        raise Conflict("this request uses the key itself: ask another admin, or run `hinged keys revoke`")
    await asyncio.to_thread(revoke_key, ring.path, key, by=own)
    log.info("%s revoked the key %s", own.name, key)
    return {"name": key, "revoked": True}
