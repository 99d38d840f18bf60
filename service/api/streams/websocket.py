"""The WebSocket of a model: frames that say what the routes say, many under way at once, answered in order.

A frame is read and given to the worker, then the next one is read: what comes while an append is under way shares the
next micro-batch and its fsync. At most `frames_in_flight_max` frames wait for their answers; beyond that nothing is
read, and TCP slows the client down. So it does where the client does not read its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocket, WebSocketDisconnect

from hinged.service.api.examples.routes import learn_from, predict_from
from hinged.service.api.labels.routes import ask_from, offer_from
from hinged.service.api.streams.shapes import SUBSCRIBE
from hinged.service.api.wire import parsed, registry_of
from hinged.service.data.examples import Body
from hinged.service.data.problems import shown
from hinged.service.edge.access import (
    RULES,
    Access,
    caller,
    require,
)
from hinged.service.engine.follow import Follower
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    UNFORESEEN,
    BodyTooLarge,
    Conflict,
    InternalError,
    Invalid,
    QueueFull,
    ServiceError,
    StoreUnavailable,
    Unauthenticated,
)
from hinged.service.store.base import Damaged

log = logging.getLogger(__name__)

REF_CHARS_MAX = 128

Answer = dict[str, Any]


class Operation(NamedTuple):
    """What a frame may ask for, as a route does; changes: whether later frames are to see what it did."""

    route: str
    run: Callable[[HTTPConnection, Worker, Body], Awaitable[Answer]]
    changes: bool


OPERATIONS = {
    "learn": Operation("learn", learn_from, changes=True),
    "predict": Operation("predict", predict_from, changes=False),
    "pool": Operation("offer", offer_from, changes=True),
    "query": Operation("ask", ask_from, changes=True),
}
SUBSCRIBE_OP = "subscribe"
NAMES = (*OPERATIONS, SUBSCRIBE_OP)


class Close(NamedTuple):
    """Why a socket is closed by the server: a common code, or one of HTTP behind a 4."""

    code: int
    reason: str


COME_BACK = 1012
STOPPED = Close(COME_BACK, "the server stops")
REVOKED = Close(4401, "the key of this socket was revoked")
DELETED = 4404
IDLE = 4408


class Asked(NamedTuple):
    """A frame that was read, and what becomes of it."""

    ref: str | None
    answer: asyncio.Task[Answer]
    answered: asyncio.Event


class Frames:
    """One open socket."""

    def __init__(self, socket: WebSocket, worker: Worker) -> None:
        self._socket = socket
        self._worker = worker
        self._access: Access = socket.app.state.access
        self._settings = registry_of(socket).settings
        self._room = asyncio.Semaphore(self._settings.frames_in_flight_max)
        self._asked: asyncio.Queue[Asked | None] = asyncio.Queue()
        self._newest: Asked | None = None
        self._change: asyncio.Task[Answer] | None = None  # the newest one, which what only reads waits for
        self._subscription: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._left = False  # the client

    def stop(self) -> None:
        """Read no more, answer what was read, close."""
        self._stop.set()

    async def run(self) -> None:
        """Read and answer until the client leaves, the model is deleted, or the server stops."""
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        ends = [asyncio.create_task(end.wait()) for end in (self._stop, self._worker.feed.over)]
        over: Close | None = None  # the model is here no more
        try:
            await asyncio.wait([reading, writing, *ends], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                close = reading.result()
            elif writing.done():  # the client does not take its answers
                close = None
            elif self._stop.is_set():
                close = STOPPED
            else:
                feed = self._worker.feed
                close = over = Close(COME_BACK if feed.elsewhere else DELETED, feed.reason)
            if close is not None:
                await _cancelled(reading)
                self._asked.put_nowait(None)
                await writing
                if self._subscription is not None and close is over:  # the last events are still on their way
                    await asyncio.wait([self._subscription])
                await self._socket.close(close.code, close.reason)
        except (WebSocketDisconnect, TimeoutError):
            pass
        finally:
            await _cancelled(reading, writing, *ends, *([self._subscription] if self._subscription else []))
            left = [self._asked.get_nowait() for _ in range(self._asked.qsize())]
            await _cancelled(*(asked.answer for asked in left if asked))  # what the worker has it does all the same

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self) -> Close | None:
        """Take frames until the client leaves (None) or there is a reason to close."""
        while True:
            data = await self._receive()
            if data is None:
                return None
            if isinstance(data, Close):
                return data
            await self._room.acquire()
            ref: str | None = None
            try:
                ref, op, body = _frame(data, self._settings.frame_bytes_max)
                if not self._access.knows(caller(self._socket)):
                    self._put(ref, self._refuse(Unauthenticated(REVOKED.reason)))
                    return REVOKED
                await self._submit(ref, op, body)
            except _Refused as refused:
                self._put(refused.ref, self._refuse(refused.error))
            except ServiceError as error:
                self._put(ref, self._refuse(error))

    async def _receive(self) -> str | bytes | Close | None:
        """The next frame; None if the client has left, a reason to close if it is idle."""
        while True:
            try:
                async with asyncio.timeout(self._settings.stream_idle_s):
                    message = await self._socket.receive()
            except TimeoutError:
                waits = self._newest is not None and not self._newest.answered.is_set()
                if waits or (self._subscription is not None and not self._subscription.done()):
                    continue
                return Close(IDLE, f"no frame for {self._settings.stream_idle_s:g} s")
            if message["type"] == "websocket.disconnect":
                return None
            data: str | bytes = message.get("text") or message.get("bytes") or ""
            return data

    async def _submit(self, ref: str, op: str, body: dict[str, Any]) -> None:
        """Begin what a frame asks for. Where the model's queue is full, our own frames in it are answered first."""
        answered = asyncio.Event()
        begin = self._begin(ref, op, body, answered)
        task = asyncio.create_task(begin())
        await asyncio.sleep(0)  # now it is in the model's queue, before the next frame
        newest = self._newest
        if newest is not None and not newest.answered.is_set() and _was_full(task):
            await newest.answered.wait()
            task = asyncio.create_task(begin())
            await asyncio.sleep(0)
        if op in OPERATIONS and OPERATIONS[op].changes:
            self._change = task
        self._put(ref, task, answered)

    def _put(self, ref: str | None, task: asyncio.Task[Answer], answered: asyncio.Event | None = None) -> None:
        self._newest = Asked(ref, task, answered or asyncio.Event())
        self._asked.put_nowait(self._newest)

    def _begin(
        self, ref: str, op: str, body: dict[str, Any], answered: asyncio.Event
    ) -> Callable[[], Coroutine[Any, Any, Answer]]:
        """What does the work of a frame, whose role is checked here."""
        if op not in NAMES:
            raise Invalid(f"op must be one of {', '.join(NAMES)}, got {shown(op)}")
        before = self._change
        operation = OPERATIONS.get(op)
        require(self._socket, RULES["follow" if operation is None else operation.route].role or "admin")

        async def work() -> Answer:
            if before is not None and not before.done() and (operation is None or not operation.changes):
                await asyncio.wait([before])
            if operation is None:
                return self._subscribe(ref, body, answered)
            return await operation.run(self._socket, self._worker, body)

        return work

    def _refuse(self, error: ServiceError) -> asyncio.Task[Answer]:
        async def refuse() -> Answer:
            raise error

        return asyncio.create_task(refuse())

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Answer what was read, in order, until a None."""
        while (asked := await self._asked.get()) is not None:
            await self._send({"ref": asked.ref, **await _outcome(asked.answer)})
            asked.answered.set()
            self._room.release()

    async def _send(self, frame: dict[str, Any]) -> None:
        """Send one frame, to nobody if the client has left. TimeoutError where it does not read."""
        if self._left:
            return
        try:
            async with asyncio.timeout(self._settings.stream_idle_s):
                await self._socket.send_text(to_json(frame, inf_nan_mode="constants").decode())
        except WebSocketDisconnect:  # what it sent before is on its way to us, and will be done
            self._left = True

    # -- subscribing --------------------------------------------------------------------------------------------------

    def _subscribe(self, ref: str, body: dict[str, Any], answered: asyncio.Event) -> Answer:
        if self._subscription is not None and not self._subscription.done():
            raise Conflict("this socket has subscribed already")
        follower = self._worker.follow(parsed(SUBSCRIBE, body).get("from"))
        begins = follower.position
        self._subscription = asyncio.create_task(self._tell(ref, follower, answered))
        return {"model": self._worker.model.name, "position": begins}

    async def _tell(self, ref: str, follower: Follower, answered: asyncio.Event) -> None:
        """Send what a follower is told, as long as it keeps up."""
        await answered.wait()
        try:
            async with aclosing(follower.pages(self._settings.heartbeat_s)) as pages:
                async for page in pages:
                    if not self._access.knows(caller(self._socket)):
                        raise Unauthenticated(REVOKED.reason)
                    for news in page:
                        await self._send({"ref": ref, "event": news.shown()})
        except (ServiceError, Damaged, KeyError) as error:
            await self._send({"ref": ref, "ok": False, **_public(error).body()})


class _Refused(Exception):
    """A frame that says nothing that could be done, with its ref as far as it has one."""

    def __init__(self, error: ServiceError, ref: str | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.ref = ref


def _frame(data: str | bytes, bytes_max: int) -> tuple[str, str, dict[str, Any]]:
    """ref, op and the rest of a frame."""
    try:
        frame = from_json(data)
    except ValueError as error:
        raise _Refused(Invalid(f"a frame is a JSON object: {error}"), None) from None
    if not isinstance(frame, dict):
        raise _Refused(Invalid(f"a frame is a JSON object, got {shown(frame)}"), None)
    ref, op = frame.pop("ref", None), frame.pop("op", None)
    if not (isinstance(ref, str) and 0 < len(ref) <= REF_CHARS_MAX):
        raise _Refused(Invalid(f"ref must be a string of 1 to {REF_CHARS_MAX} characters, got {shown(ref)}"), None)
    size = len(data) if isinstance(data, bytes) else len(data.encode())
    if size > bytes_max:
        raise _Refused(BodyTooLarge(f"a frame has at most {bytes_max} bytes, got {size}"), ref)
    if not isinstance(op, str):
        raise _Refused(Invalid(f"op must be one of {', '.join(NAMES)}, got {shown(op)}"), ref)
    return ref, op, frame


def _was_full(task: asyncio.Task[Answer]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.exception(), QueueFull)


async def _outcome(answer: asyncio.Task[Answer]) -> dict[str, Any]:
    """What came of a frame, as its answer says it."""
    try:
        return {"ok": True, **await answer}
    except ServiceError as error:
        return {"ok": False, **error.body()}
    except Exception:  # as over HTTP: told to the log, not to the client
        log.exception("unforeseen")
        return {"ok": False, **InternalError(UNFORESEEN).body()}


def _public(error: Exception) -> ServiceError:
    """An error as a client may see it."""
    if isinstance(error, ServiceError):
        return error
    return StoreUnavailable(f"the log cannot be read: {error}")


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """End tasks, whatever comes of them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
