"""Functions that the routes share: read the body of a request, and find the registry."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import IO, Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.requests import HTTPConnection
from starlette.types import Message

from hinged.operations.base import BINARY, ROWS_TYPE
from hinged.service import limits
from hinged.service.data.examples import Body, Raw, validated
from hinged.service.data.portions import ELEMENTS_MAX, checked_lists, is_long
from hinged.service.data.problems import first_problem, shown
from hinged.service.data.slices import Slices, sliced
from hinged.service.data.trees import SMALL_BYTES, Long, Take, tree
from hinged.service.edge.access import caller
from hinged.service.edge.connection import MALFORMED, WHOLE
from hinged.service.engine.registry import Registry
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    BadRequest,
    BodyTooLarge,
    Invalid,
    RequestTimeout,
    UnsupportedMediaType,
)

Full = Annotated[bool, Query(description="with every default of a configuration")]
EXAMPLES = ("application/json", ROWS_TYPE)

COMMAND_BYTES_MAX = 2**18
"""Maximum size of a body without examples, in bytes. A configuration of 1,024 classes and 1,000 columns has 100 KiB."""
COMMAND_PARTS_MAX = 4_000
"""Maximum number of commas in such a body. Each part of a body may be invalid, and reporting one invalid part takes 2
us.
"""


def registry_of(connection: HTTPConnection) -> Registry:
    """Return the server's models."""
    registry: Registry = connection.app.state.registry
    return registry


def _of_path(request: Request, model: str) -> Worker:
    """Return the model of the path. This function tells FastAPI what the path contains; `Route` calls no such
    function.
    """
    return registry_of(request).get(model)


PathWorker = Annotated[Worker, Depends(_of_path)]
"""The type of a handler's parameter `worker`."""
SENT = Depends(lambda: None)
"""Marks a handler's parameter `body`. Its value is the body of a command, read with the type in `takes`."""


async def read_body(request: Request, adapter: TypeAdapter[Any], *, optional: bool = False) -> Any:
    """Return the parsed body of a command. If the body may be absent, return {} without a body. Raise Invalid."""
    headers = request.headers
    if optional and headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return {}
    return parsed(adapter, await read_command(request))


async def read_command(request: Request) -> Raw:
    """Read a JSON body without examples. The body is parsed and checked in a single step, so its size is limited."""
    bytes_max = min(COMMAND_BYTES_MAX, registry_of(request).settings.body_bytes_max)
    body = await read_json(request, bytes_max)
    if body.count(b",") > COMMAND_PARTS_MAX:
        raise Invalid(f"body: at most {COMMAND_PARTS_MAX} commas are allowed, got {body.count(b',')}")
    return body


def parsed(adapter: TypeAdapter[Any], body: Body) -> Any:
    """Parse a small body, and return it. The error Invalid says what is wrong."""
    if isinstance(body, Long):
        raise Invalid(f"body: besides examples at most {SMALL_BYTES} bytes are allowed, got more")
    try:
        return validated(adapter, body)
    except ValidationError as error:
        raise Invalid(first_problem(error, adapter)) from None


async def read_lists(
    request: Request,
    adapter: TypeAdapter[Any],
    lists: Mapping[str, TypeAdapter[Any]],
    taken: Mapping[str, Take] = MappingProxyType({}),
) -> Any:
    """Return a JSON body in which these lists may be long. The maximum length of a list is the maximum number of
    examples per request. Raise Invalid.

    taken: functions that process the elements of long lists while the lists are parsed (trees.py).
    """
    settings = registry_of(request).settings
    body = await read_json(request, settings.body_bytes_max)
    if not is_long(body):
        return parsed(adapter, body)
    return await sliced(_parsed_lists(body, adapter, lists, settings.batch_examples_max, taken))


def _parsed_lists(
    body: Raw,
    adapter: TypeAdapter[Any],
    lists: Mapping[str, TypeAdapter[Any]],
    most: int,
    taken: Mapping[str, Take],
) -> Slices[Any]:
    told = yield from tree(body, {"": ELEMENTS_MAX, "result": most, **dict.fromkeys(lists, most)}, taken)
    if not isinstance(told, dict):
        raise Invalid(f"body must be an object, got {shown(told)}")
    rest, checked = yield from checked_lists(told, lists)
    return {**parsed(adapter, {**rest}), **checked}


async def read_json(request: Request, bytes_max: int) -> Raw:
    """Return the body of a JSON request. Raise UnsupportedMediaType, BodyTooLarge, RequestTimeout, or BadRequest if it
    is cut off.
    """
    _check_type(request, "application/json")
    return await read_bytes(request, bytes_max)


async def read_examples(request: Request, bytes_max: int) -> tuple[Raw, bool]:
    """Return the body of a request, and whether the body is a batch (data/batches.py) instead of JSON. The errors are
    the same as in read_json.
    """
    media_type = media_type_of(request)
    if media_type not in EXAMPLES:
        raise UnsupportedMediaType(f"Content-Type must be {' or '.join(EXAMPLES)}, got {media_type or 'none'!r}")
    return await read_bytes(request, bytes_max), media_type == ROWS_TYPE


async def receive_file(request: Request, bytes_max: int) -> IO[bytes]:
    """Save a body of bytes in a temporary file, so that slow clients fill no memory. The errors are the same as in
    read_json.
    """
    file: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        _check_type(request, BINARY)
        async for part in _pieces(request, bytes_max):
            await asyncio.to_thread(file.write, part)
    except BaseException:
        file.close()
        raise
    return file


def _check_type(request: Request, wanted: str) -> None:
    media_type = media_type_of(request)
    if media_type != wanted:
        raise UnsupportedMediaType(f"Content-Type must be {wanted}, got {media_type or 'none'!r}")


def media_type_of(request: Request) -> str:
    """Return the content type of a body, without parameters. The result is empty if the request has no content type."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bytes(request: Request, bytes_max: int) -> Raw:
    """Return the body of a request. Raise BodyTooLarge, RequestTimeout, or BadRequest if the body is cut off."""
    bytes_max = _allowed(request, bytes_max)
    if WHOLE in request.scope:
        message = await request.receive()
        if len(message.get("body", b"")) > bytes_max:
            _check_declared(request, bytes_max)
        return _checked_piece(request, message, 0, bytes_max)
    body = bytearray()  # a long body is not copied again: a copy takes half a millisecond per MiB
    async for part in _pieces(request, bytes_max):
        body += part
    return bytes(body) if len(body) <= SMALL_BYTES else body


async def _pieces(request: Request, bytes_max: int) -> AsyncIterator[bytes]:
    _check_declared(request, bytes_max)
    size, more = 0, True
    seconds = registry_of(request).settings.request_s
    began = asyncio.get_running_loop().time()
    while more:
        try:
            async with asyncio.timeout_at(began + body_s(size, seconds)):
                message = await request.receive()
        except TimeoutError:
            raise too_slow(size, seconds) from None
        part, more = _checked_piece(request, message, size, bytes_max), message.get("more_body", False)
        size += len(part)
        yield part


def body_s(size: int, seconds: float) -> float:
    """Return the number of seconds that a client may take to send more than `size` bytes. seconds: the time allowed at
    the start.
    """
    return seconds + size / limits.BODY_BYTES_PER_S


def too_slow(size: int, seconds: float) -> RequestTimeout:
    """Return the error for a client that took longer than allowed."""
    return RequestTimeout(f"too slow: only {size} bytes of the body came in {body_s(size, seconds):g} s")


def _allowed(request: Request, bytes_max: int) -> int:
    most = registry_of(request).settings.reader_bytes_max
    return bytes_max if most is None or caller(request).plays("writer") else min(bytes_max, most)


def _check_declared(request: Request, bytes_max: int) -> None:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > bytes_max:
        raise BodyTooLarge(f"a body may have at most {bytes_max} bytes, got {declared}")


def _checked_piece(request: Request, message: Message, size: int, bytes_max: int) -> bytes:
    if MALFORMED in request.scope:
        raise BadRequest(request.scope[MALFORMED])
    if message["type"] == "http.disconnect":
        raise BadRequest("the client closed the connection in the middle of the body")
    part: bytes = message.get("body", b"")
    if size + len(part) > bytes_max:
        raise BodyTooLarge(f"a body may have at most {bytes_max} bytes, got more")
    return part
