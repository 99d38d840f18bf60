"""What the routes share: reading a request, finding the registry, and keeping the event loop free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, HTTPConnection

from service.errors import BadRequest, BodyTooLarge, Invalid, UnsupportedMediaType
from service.examples import Body, validated
from service.inputs import Inputs, Records
from service.model import Published
from service.parts import Configuration, first_problem
from service.registry import Registry

T = TypeVar("T")

# Work above which a prediction goes to a thread, so that the event loop stays free: multiplications, of which turning
# an inner sum into a kernel value is worth VALUE_WORK. About a millisecond.
INLINE_WORK_MAX = 5_000_000
VALUE_WORK = 8

NAMED_VALUES = 20  # numbers that a record is taken to hold


def registry_of(connection: HTTPConnection) -> Registry:
    """The server's models."""
    registry: Registry = connection.app.state.registry
    return registry


async def read_optional(request: Request, adapter: TypeAdapter[Any], bytes_max: int) -> Any:
    """A small JSON body, {} where there is none. Invalid says what is wrong with it."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return {}
    return parsed(adapter, await read_json(request, bytes_max))


def parsed(adapter: TypeAdapter[Any], body: Body) -> Any:
    """What a small body says. Invalid says what is wrong with it."""
    try:
        return validated(adapter, body)
    except ValidationError as error:
        raise Invalid(first_problem(error)) from None


async def read_json(request: Request, bytes_max: int) -> bytes:
    """The body of a JSON request. UnsupportedMediaType, BodyTooLarge, BadRequest where it is cut off."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise UnsupportedMediaType(f"Content-Type must be application/json, got {media_type or 'none'!r}")
    return await read_bytes(request, bytes_max)


async def read_bytes(request: Request, bytes_max: int) -> bytes:
    """The body of a request. BodyTooLarge, BadRequest where it is cut off."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise BodyTooLarge(f"a body has at most {bytes_max} bytes, got {declared}")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise BodyTooLarge(f"a body has at most {bytes_max} bytes, got more")
            parts.append(part)
    except ClientDisconnect:
        raise BadRequest("the client went away in the middle of the body") from None
    return b"".join(parts)


def is_named(configuration: Configuration) -> bool:
    """Whether x is an object of names and values."""
    return configuration.features.type == "named"


async def decided_soon(published: Published, inputs: Inputs, work: Callable[[Inputs], T]) -> T:
    """Decision values take a moment: on the event loop where it is short, else on a thread."""
    values = len(inputs) * NAMED_VALUES if isinstance(inputs, Records) else inputs.values.size
    if (values + VALUE_WORK * len(inputs)) * published.view.size <= INLINE_WORK_MAX:
        return work(inputs)
    return await asyncio.to_thread(work, inputs)
