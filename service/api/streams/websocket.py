"""The WebSocket of a model. Frames request the same operations as routes. Many frames can be open at once; answers keep
their order.

The server reads frames and passes them to the worker without waiting for their answers. Frames that arrive during an
append therefore share the next micro-batch and its fsync. Frames of the same kind that arrive together are also parsed
and answered together (dispatch.py). At most FRAMES_IN_FLIGHT_MAX frames wait for their answers. At this limit, or if
the client does not read its answers, the server stops reading, and TCP slows the client down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Annotated, Any, NamedTuple, NotRequired, TypeAlias

from pydantic import Field, TypeAdapter, with_config
from starlette.websockets import WebSocket, WebSocketDisconnect
from typing_extensions import TypedDict

from hinged.operations import FOLLOW, FRAMES, ExampleOperations
from hinged.operations.base import Operation
from hinged.service import limits
from hinged.service.api.dispatch import TOGETHER_MAX, Change, Dispatch
from hinged.service.api.streams.frames import FrameLimits, Read, read_frame, told
from hinged.service.api.wire import parsed, registry_of
from hinged.service.data.answers import Answer, json_bytes, json_pieces
from hinged.service.data.answers import is_long as is_long_answer
from hinged.service.data.examples import STRICT, Body
from hinged.service.data.portions import is_long, limits_of
from hinged.service.data.slices import sliced
from hinged.service.edge.access import Access, caller, require
from hinged.service.edge.shortcut import Outcome
from hinged.service.edge.websocket import PIECES, THERE
from hinged.service.engine.follow import Follower
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    Conflict,
    QueueFull,
    ServiceError,
    StoreUnavailable,
    Unauthenticated,
    foreseen,
)
from hinged.service.store.base import Damaged

TOGETHER_BYTES_MAX = 2**16
"""Maximum number of bytes in frames that are parsed together."""

ANSWERED = (ExampleOperations.predict, ExampleOperations.decide)
"""Operations that teach the model nothing. The next frame need not wait for them."""

Begun: TypeAlias = Outcome | tuple[asyncio.Future[Any], Callable[[Any], Answer]]
"""Either a change that has begun, with the function that makes its answer, or an outcome."""


SubscribeBody = TypedDict("SubscribeBody", {"from": NotRequired[Annotated[int, Field(ge=0)] | None]})
with_config(STRICT)(SubscribeBody)
SUBSCRIBE: TypeAdapter[Any] = TypeAdapter(SubscribeBody)


class Close(NamedTuple):
    """Why the server closes a socket: a standard close code, or 4000 plus an HTTP status."""

    code: int
    reason: str


COME_BACK = 1012
STOPPED = Close(COME_BACK, "the server stops")
REVOKED = Close(4401, "the key of this socket was revoked")
DELETED = 4404
IDLE = 4408


class FrameBatch(NamedTuple):
    """Frames that are processed together, and their outcomes."""

    refs: Sequence[str | None]
    outcomes: asyncio.Task[list[Outcome]]
    answered: asyncio.Event


class Frames:
    """An open WebSocket."""

    def __init__(self, socket: WebSocket, worker: Worker) -> None:
        self._socket = socket
        self._worker = worker
        self._access: Access = socket.app.state.access
        self._settings = registry_of(socket).settings
        self._dispatch: Dispatch = socket.app.state.dispatch
        self._room = asyncio.Semaphore(limits.FRAMES_IN_FLIGHT_MAX)
        self._asked: asyncio.Queue[FrameBatch | None] = asyncio.Queue()
        self._newest: FrameBatch | None = None
        self._change: asyncio.Future[Any] | None = None  # the newest change; predictions and subscriptions wait for it
        self._there: Callable[[], Any] = socket.scope.get(THERE, lambda: None)
        self._subscription: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._sending = asyncio.Lock()  # an answer in several pieces must not be interrupted
        self._left = False  # the client has left

    def stop(self) -> None:
        """Read no more frames, answer the frames that were read, then close."""
        self._stop.set()

    async def run(self) -> None:
        """Read and answer frames until the client leaves, the model is deleted, or the server stops."""
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._write())
        ends = [asyncio.create_task(end.wait()) for end in (self._stop, self._worker.journal.feed.over)]
        over: Close | None = None  # set when the model is no longer on this server
        try:
            await asyncio.wait([reading, writing, *ends], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                close = reading.result()
            elif writing.done():  # the client does not read its answers
                close = None
            elif self._stop.is_set():
                close = STOPPED
            else:
                feed = self._worker.journal.feed
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
            await _cancelled(*(asked.outcomes for asked in left if asked))  # the worker still finishes its work

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self) -> Close | None:
        """Read frames until the client leaves (return None) or there is a reason to close (return the reason)."""
        while True:
            data = await self._receive()
            if data is None or isinstance(data, Close):
                return data
            await self._room.acquire()
            frames, over = await self._with_following(data)
            await self._access.rates.paced(caller(self._socket), len(frames))
            standing = self._standing()
            within = FrameLimits(limits.FRAME_BYTES_MAX, self._elements())
            read = [await sliced(read_frame(frame, within, standing)) for frame in frames]
            for (op, _), of_op in groupby(enumerate(read), _kind):
                await self._submit(op, [frame for _, frame in of_op])
            await asyncio.sleep(0)  # a client that sends without a pause must not block the event loop
            if over:
                return None
            if isinstance(standing, Unauthenticated):
                return REVOKED

    async def _with_following(self, first: str | bytes) -> tuple[list[str | bytes], bool]:
        """Return (frames, left): the given frame and the frames that have arrived after it, up to the limits; and
        whether the client has left.
        """
        frames, size = [first], len(first)
        while len(frames) < TOGETHER_MAX and size < TOGETHER_BYTES_MAX and not self._room.locked():
            message = self._there()
            if message is None:
                break
            if message["type"] == "websocket.disconnect":
                return frames, True
            await self._room.acquire()
            frames.append(_data(message))
            size += len(frames[-1])
        return frames, False

    async def _receive(self) -> str | bytes | Close | None:
        """Return the next frame. Return None if the client has left, or the reason to close if the client is idle."""
        while True:
            try:
                async with asyncio.timeout(limits.STREAM_IDLE_S):
                    message = await self._socket.receive()
            except TimeoutError:
                waits = self._newest is not None and not self._newest.answered.is_set()
                if waits or (self._subscription is not None and not self._subscription.done()):
                    continue
                return Close(IDLE, f"no frame for {limits.STREAM_IDLE_S:g} s")
            return None if message["type"] == "websocket.disconnect" else _data(message)

    def _elements(self) -> Mapping[str, int]:
        """Return the maximum lengths of the arrays in a frame."""
        return limits_of(self._worker.published.configuration, self._settings)

    def _standing(self) -> ServiceError | None:
        """Return the error that currently refuses all frames of the client, or None if the client's key is valid."""
        try:
            return None if self._access.knows(caller(self._socket)) else Unauthenticated(REVOKED.reason)
        except ServiceError as error:
            return error

    # -- doing --------------------------------------------------------------------------------------------------------

    async def _submit(self, op: str, run: Sequence[Read]) -> None:
        """Start the requests of consecutive frames with the same op, before the next frame is processed."""
        operation = FRAMES.get(op)
        try:
            if operation is not None:
                require(self._socket, operation.role or "admin")
        except ServiceError as error:
            run = [frame._replace(op="", refusal=error) for frame in run]
            operation = None
        if operation is None:
            self._put(run, _refused([frame.refusal for frame in run if frame.refusal is not None]))
        elif operation is FOLLOW:
            for frame in run:
                answered = asyncio.Event()
                self._put([frame], self._subscribed(frame, self._change, answered), answered)
        elif operation in ANSWERED:
            self._put(run, self._answered(operation, [frame.body for frame in run], self._change))
        else:
            await self._changed(operation, run)

    async def _changed(self, operation: Operation[..., Any], run: Sequence[Read]) -> None:
        """Begin the changes that frames ask for, in the order of the frames."""
        found = await self._read_bodies(operation, [frame.body for frame in run])
        begun: list[Begun] = []
        try:
            for each in found:
                begun.append(await self._begun(each) if isinstance(each, Change) else each)  # noqa: PERF401  it may be cancelled
        finally:  # changes that the worker has received are answered, even if the server stops
            self._put(run[: len(begun)], _ended(begun))

    async def _begun(self, change: Change) -> Begun:
        """Begin a change. If the queue of the model is full, first wait for the changes of this socket that are in the
        queue.
        """
        try:
            try:
                future = change.begin()
            except QueueFull:
                if self._change is None or self._change.done():
                    raise
                await asyncio.wait([self._change])
                future = change.begin()
        except ServiceError as error:
            return error
        self._change = future
        return future, change.shown

    async def _answered(
        self, operation: Operation[..., Any], bodies: Sequence[Body], before: asyncio.Future[Any] | None
    ) -> list[Outcome]:
        await _over(before)
        found = await self._read_bodies(operation, bodies)
        return [each for each in found if not isinstance(each, Change)]

    async def _read_bodies(self, operation: Operation[..., Any], bodies: Sequence[Body]) -> list[Change | Outcome]:
        return await self._dispatch.read(operation, caller(self._socket), self._worker, bodies)

    async def _subscribed(
        self, frame: Read, before: asyncio.Future[Any] | None, answered: asyncio.Event
    ) -> list[Outcome]:
        await _over(before)
        try:
            return [self._subscribe(frame, answered)]
        except ServiceError as error:
            return [error]

    def _put(
        self,
        run: Sequence[Read],
        outcomes: Coroutine[Any, Any, list[Outcome]],
        answered: asyncio.Event | None = None,
    ) -> None:
        """Queue the answers to frames, after the answers to earlier frames."""
        task = asyncio.create_task(outcomes)
        self._newest = FrameBatch([frame.ref for frame in run], task, answered or asyncio.Event())
        self._asked.put_nowait(self._newest)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Answer frames in order. A None in the queue ends the loop."""
        while (asked := await self._asked.get()) is not None:
            answers = zip(asked.refs, await _foreseen(asked), strict=True)
            await self._send([{"ref": ref, **told(outcome)} for ref, outcome in answers])
            asked.answered.set()
            for _ in asked.refs:
                self._room.release()

    async def _send(self, frames: Sequence[dict[str, Any]]) -> None:
        """Send frames, unless the client has left. Raise TimeoutError if the client does not read."""
        if self._left:
            return
        try:
            async with asyncio.timeout(limits.STREAM_IDLE_S), self._sending:
                for frame in frames:
                    if is_long_answer(frame):
                        pieces = await sliced(json_pieces(frame))
                        await self._socket.send({"type": "websocket.send", PIECES: pieces})
                    else:
                        await self._socket.send_text(json_bytes(frame).decode())
        except WebSocketDisconnect:  # frames that the client sent before it left are still read and processed
            self._left = True

    # -- subscribing --------------------------------------------------------------------------------------------------

    def _subscribe(self, frame: Read, answered: asyncio.Event) -> Answer:
        if self._subscription is not None and not self._subscription.done():
            raise Conflict("this socket has subscribed already")
        follower = self._worker.follow(parsed(SUBSCRIBE, frame.body).get("from"))
        begins = follower.position
        self._subscription = asyncio.create_task(self._tell(frame.ref, follower, answered))
        return {"model": self._worker.model.name, "position": begins}

    async def _tell(self, ref: str | None, follower: Follower, answered: asyncio.Event) -> None:
        """Send a follower's events, as long as the client reads fast enough."""
        await answered.wait()
        try:
            async with aclosing(follower.pages(limits.HEARTBEAT_S)) as pages:
                async for page in pages:
                    if not self._access.knows(caller(self._socket)):
                        raise Unauthenticated(REVOKED.reason)
                    await self._send([{"ref": ref, "event": news.shown()} for news in page])
        except (ServiceError, Damaged) as error:
            await self._send([{"ref": ref, **told(_public(error))}])


def _kind(numbered: tuple[int, Read]) -> tuple[str, int]:
    """Return the op of a frame as a key that groups frames for processing. A long frame gets a key of its own."""
    number, frame = numbered
    return frame.op, number if is_long(frame.body) else -1


def _data(message: Any) -> str | bytes:
    """Return the content of a frame."""
    return message.get("text") or message.get("bytes") or ""


async def _refused(refusals: Sequence[ServiceError]) -> list[Outcome]:
    return [*refusals]


async def _ended(begun: Sequence[Begun]) -> list[Outcome]:
    """Return the outcomes of changes that have begun."""
    outcomes: list[Outcome] = []
    try:
        for each in begun:
            if isinstance(each, tuple):
                future, shown = each
                try:
                    outcomes.append(shown(await future))
                except ServiceError as error:
                    outcomes.append(error)
            else:
                outcomes.append(each)
    finally:  # if the client has left, nobody waits for the other outcomes
        for each in begun[len(outcomes) :]:
            if isinstance(each, tuple):
                each[0].cancel()
    return outcomes


async def _over(before: asyncio.Future[Any] | None) -> None:
    """Wait until a change has ended, whatever its outcome."""
    if before is not None and not before.done():
        await asyncio.wait([before])


async def _foreseen(asked: FrameBatch) -> list[Outcome]:
    """Return the outcomes of frames. As over HTTP, an unexpected error is logged, and the client gets an
    InternalError.
    """
    try:
        return await asked.outcomes
    except Exception as error:  # noqa: BLE001
        return [foreseen(error)] * len(asked.refs)


def _public(error: Exception) -> ServiceError:
    """Return the form of an error that a client may see."""
    if isinstance(error, ServiceError):
        return error
    return StoreUnavailable(f"the log cannot be read: {error}")


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for them, whatever they raise."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
