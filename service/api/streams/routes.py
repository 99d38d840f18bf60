"""Routes for streams: the events of a model, for a browser's EventSource and for programs that read lines, and the
model's WebSocket.

The id of an event is its position in the log. A client that reconnects with `Last-Event-ID` gets all later events,
however old that position is. A client that reads too slowly is disconnected. A disconnected client reconnects in the
same way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, NotRequired

from fastapi import Header, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket
from typing_extensions import TypedDict

from hinged.operations import FOLLOW, STREAM
from hinged.service import limits
from hinged.service.api.serving import Group
from hinged.service.api.streams.websocket import Frames
from hinged.service.api.wire import registry_of
from hinged.service.edge.access import Access, caller
from hinged.service.edge.streams import Streams
from hinged.service.engine.follow import Follower, Told
from hinged.service.errors import ServiceError
from hinged.service.store.base import Damaged

group = Group("events")

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies must not buffer events


class StreamEvent(TypedDict):
    """A server-sent event."""

    event: str
    data: str
    id: NotRequired[str]


class EventStream(StreamingResponse):
    """Server-sent events. FastAPI's own class always calls the route itself, and does not stop with the server."""

    media_type = "text/event-stream"


@group.serves(FOLLOW, answers=StreamEvent, media_type="text/event-stream")
async def follow(
    model: str,
    request: Request,
    after: Annotated[
        int | None, Query(alias="from", ge=0, lt=2**63, description="only events after this position; 0: all events")
    ] = None,
    last_event_id: Annotated[
        int | None, Header(ge=0, lt=2**63, description="the same, as a client sends it when it reconnects")
    ] = None,
    named: Annotated[
        bool,
        Query(description="whether events carry their kind as a name; if not, a browser's `onmessage` gets all events"),
    ] = True,
) -> Response:
    """Stream the events of a model as server-sent events. The `id` of an event is its position in the log."""
    registry = registry_of(request)
    follower = registry.get(model).follow(after if last_event_id is None else last_event_id)
    request.app.state.streams.check()
    lines = _lines(request, follower, limits.HEARTBEAT_S, named=named)
    return EventStream(lines, headers=HEADERS)


async def _lines(
    request: Request, follower: Follower, heartbeat_s: float, *, named: bool
) -> AsyncGenerator[bytes, None]:
    access: Access = request.app.state.access
    streams: Streams = request.app.state.streams
    try:
        with streams.one(follower.end):
            yield KEEPALIVE_COMMENT  # a client may wait for the first byte: show that the stream is open
            async with aclosing(follower.pages(heartbeat_s)) as pages:
                async for page in pages:
                    if not access.knows(caller(request)):
                        return
                    yield b"".join(_block(news, named=named) for news in page) or KEEPALIVE_COMMENT
    except (ServiceError, Damaged):  # the client reconnects, and then gets the error
        return


def _block(news: Told, *, named: bool) -> bytes:
    """Return an event as bytes. A note has no id, so no client resumes after a note."""
    shown = json.dumps(news.shown(), ensure_ascii=False, separators=(",", ":"))
    kind, position = news.kind if named else None, None if news.note else str(news.position)
    return format_sse_event(event=kind, data_str=shown, id=position)


@group.opens(STREAM)
async def stream(model: str, socket: WebSocket) -> None:
    """Answer frames. A frame {"op", "ref", ...the body of the route} gets the answer {"ref", "ok", ...the route's
    answer}.
    """
    worker = registry_of(socket).get(model)
    streams: Streams = socket.app.state.streams
    frames = Frames(socket, worker)
    with streams.one(frames.stop):
        await socket.accept()
        await frames.run()
