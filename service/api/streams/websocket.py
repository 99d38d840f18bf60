"""The WebSocket of a model: frames that say what the routes say, many under way at once, answered in order.

Frames are read and given to the worker, then the next ones are read: what comes while an append is under way shares the
next micro-batch and its fsync. Frames of one kind that have come together are also read and answered together
(examples/together.py). At most FRAMES_IN_FLIGHT_MAX frames wait for their answers; beyond that nothing is read, and TCP
slows the client down. So it does where the client does not read its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any, NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

from hinged.operations import FRAMES
from hinged.service import limits
from hinged.service.api.examples.requests import read_request, shown_learned
from hinged.service.api.examples.together import TOGETHER_MAX, predict_together, read_learn
from hinged.service.api.streams.frames import ALONE, FrameLimits, Read, read_frame, told
from hinged.service.api.streams.shapes import SUBSCRIBE
from hinged.service.api.wire import parsed, registry_of
from hinged.service.commands.planned import LearnRequest
from hinged.service.data.answers import Answer, json_bytes, json_pieces
from hinged.service.data.answers import is_long as is_long_answer
from hinged.service.data.examples import Body
from hinged.service.data.portions import is_long, limits_of
from hinged.service.data.slices import sliced
from hinged.service.edge.access import Access, caller, require
from hinged.service.edge.shortcut import Outcome
from hinged.service.edge.websocket import PIECES, THERE
from hinged.service.engine.follow import Follower
from hinged.service.engine.learning import LearnAnswer
from hinged.service.engine.worker import Worker
from hinged.service.errors import (
    UNFORESEEN,
    Conflict,
    InternalError,
    QueueFull,
    ServiceError,
    StoreUnavailable,
    Unauthenticated,
)
from hinged.service.store.base import Damaged

log = logging.getLogger(__name__)

TOGETHER_BYTES_MAX = 2**16
"""Of frames that are read together."""


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
    """Frames that are done together, and what becomes of each."""

    refs: Sequence[str | None]
    outcomes: asyncio.Task[list[Outcome]]
    answered: asyncio.Event


class Frames:
    """One open socket."""

    def __init__(self, socket: WebSocket, worker: Worker) -> None:
        self._socket = socket
        self._worker = worker
        self._access: Access = socket.app.state.access
        self._settings = registry_of(socket).settings
        self._room = asyncio.Semaphore(limits.FRAMES_IN_FLIGHT_MAX)
        self._asked: asyncio.Queue[Asked | None] = asyncio.Queue()
        self._newest: Asked | None = None
        self._change: asyncio.Future[Any] | None = None  # the newest one, which what only reads waits for
        self._there: Callable[[], Any] = socket.scope.get(THERE, lambda: None)
        self._subscription: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._sending = asyncio.Lock()  # an answer in pieces has nothing between them
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
            await _cancelled(*(asked.outcomes for asked in left if asked))  # what the worker has it does all the same

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read(self) -> Close | None:
        """Take frames until the client leaves (None) or there is a reason to close."""
        while True:
            data = await self._receive()
            if data is None or isinstance(data, Close):
                return data
            await self._room.acquire()
            frames, over = await self._with_following(data)
            standing = self._standing()
            within = FrameLimits(limits.FRAME_BYTES_MAX, self._elements())
            read = [await sliced(read_frame(frame, within, standing)) for frame in frames]
            for (op, _), of_op in groupby(enumerate(read), _kind):
                await self._submit(op, [frame for _, frame in of_op])
            await asyncio.sleep(0)  # who sends without a pause leaves the event loop to others now and then
            if over:
                return None
            if isinstance(standing, Unauthenticated):
                return REVOKED

    async def _with_following(self, first: str | bytes) -> tuple[list[str | bytes], bool]:
        """A frame and those that have come behind it, as far as there is room; whether the client has left then."""
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
        """The next frame; None if the client has left, a reason to close if it is idle."""
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
        """How long the arrays of a frame may be."""
        return limits_of(self._worker.published.configuration, self._settings)

    def _standing(self) -> ServiceError | None:
        """Why nothing is done for the client any more, or just now; None where it has a key that is good."""
        try:
            return None if self._access.knows(caller(self._socket)) else Unauthenticated(REVOKED.reason)
        except ServiceError as error:
            return error

    # -- doing --------------------------------------------------------------------------------------------------------

    async def _submit(self, op: str, run: Sequence[Read]) -> None:
        """Begin what some frames ask for, all of them the same, before the next one is looked at."""
        bodies = [frame.body for frame in run]
        try:
            if op:
                require(self._socket, FRAMES[op].role or "admin")
        except ServiceError as error:
            run = [frame._replace(op="", refusal=error) for frame in run]
            op = ""
        if op in ALONE or op == "subscribe":
            for frame in run:
                await self._submit_one(frame)
            return
        if op == "learn":
            await self._learn(run, bodies)
        elif op == "predict":
            self._put(run, asyncio.create_task(self._predicted(bodies, self._change)), asyncio.Event())
        else:
            refusals = [frame.refusal for frame in run if frame.refusal is not None]
            self._put(run, asyncio.create_task(_refused([*refusals])), asyncio.Event())

    async def _learn(self, run: Sequence[Read], bodies: Sequence[Body]) -> None:
        requests: list[LearnRequest | ServiceError]
        try:
            if is_long(bodies[0]):  # and alone
                requests = [await self._read_long(bodies[0])]
            else:
                requests = read_learn(self._settings, caller(self._socket), self._worker, bodies)
        except Exception:
            log.exception("unforeseen")
            requests = [InternalError(UNFORESEEN)] * len(run)
        waiting: list[asyncio.Future[LearnAnswer] | ServiceError] = []
        try:
            for request in requests:
                waiting.append(await self._queued(request))  # noqa: PERF401  as far as it comes
        finally:  # what the model has is answered, also where the server stops meanwhile
            self._put(run[: len(waiting)], asyncio.create_task(self._learned(waiting)), asyncio.Event())

    async def _read_long(self, body: Body) -> LearnRequest | ServiceError:
        configuration = self._worker.published.configuration
        try:
            return await sliced(read_request(body, configuration, self._settings, caller(self._socket)))
        except ServiceError as error:
            return error

    async def _queued(self, request: LearnRequest | ServiceError) -> asyncio.Future[LearnAnswer] | ServiceError:
        """Let a request wait. Where the model's queue is full, our own frames in it are done first."""
        if isinstance(request, ServiceError):
            return request
        try:
            try:
                self._change = future = self._worker.begin_to_learn(request)
            except QueueFull:
                if self._change is None or self._change.done():
                    raise
                await asyncio.wait([self._change])
                self._change = future = self._worker.begin_to_learn(request)
        except ServiceError as error:
            return error
        return future

    async def _learned(self, waiting: Sequence[asyncio.Future[LearnAnswer] | ServiceError]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for one in waiting:
                try:
                    outcomes.append(one if isinstance(one, ServiceError) else shown_learned(self._worker, await one))
                except ServiceError as error:
                    outcomes.append(error)
        finally:  # where the client has left nobody asks for the rest
            for one in waiting[len(outcomes) :]:
                if not isinstance(one, ServiceError):
                    one.cancel()
        return outcomes

    async def _predicted(self, bodies: Sequence[Body], before: asyncio.Future[Any] | None) -> list[Outcome]:
        if before is not None and not before.done():
            await asyncio.wait([before])
        return await predict_together(self._settings, self._worker, bodies)

    async def _submit_one(self, frame: Read) -> None:
        """Begin what is done alone. Where the model's queue is full, our own frames in it are answered first."""
        answered = asyncio.Event()
        run, before = ALONE.get(frame.op), self._change

        async def work() -> list[Outcome]:
            try:
                if run is not None:
                    return [await run(self._socket, self._worker, frame.body)]
                if before is not None and not before.done():
                    await asyncio.wait([before])
                return [self._subscribe(frame, answered)]
            except ServiceError as error:
                return [error]

        task = asyncio.create_task(work())
        await asyncio.sleep(0)  # now it is in the model's queue, before the next frame
        newest = self._newest
        if newest is not None and not newest.answered.is_set() and _was_full(task):
            await newest.answered.wait()
            task = asyncio.create_task(work())
            await asyncio.sleep(0)
        if run is not None:
            self._change = task
        self._put([frame], task, answered)

    def _put(self, run: Sequence[Read], outcomes: asyncio.Task[list[Outcome]], answered: asyncio.Event) -> None:
        self._newest = Asked([frame.ref for frame in run], outcomes, answered)
        self._asked.put_nowait(self._newest)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Answer what was read, in order, until a None."""
        while (asked := await self._asked.get()) is not None:
            answers = zip(asked.refs, await _foreseen(asked), strict=True)
            await self._send([{"ref": ref, **told(outcome)} for ref, outcome in answers])
            asked.answered.set()
            for _ in asked.refs:
                self._room.release()

    async def _send(self, frames: Sequence[dict[str, Any]]) -> None:
        """Send frames, to nobody if the client has left. TimeoutError where it does not read."""
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
        except WebSocketDisconnect:  # what it sent before is on its way to us, and will be done
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
        """Send what a follower is told, as long as it keeps up."""
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
    """What frames have in common that are done together: the op; a long frame is done alone."""
    number, frame = numbered
    return frame.op, number if is_long(frame.body) else -1


def _data(message: Any) -> str | bytes:
    """What stands in a frame."""
    return message.get("text") or message.get("bytes") or ""


def _was_full(task: asyncio.Task[list[Outcome]]) -> bool:
    return task.done() and not task.cancelled() and isinstance(task.result()[0], QueueFull)


async def _refused(refusals: list[Outcome]) -> list[Outcome]:
    return refusals


async def _foreseen(asked: Asked) -> list[Outcome]:
    """What came of frames; what nobody foresaw is told to the log and not to the client, as over HTTP."""
    try:
        return await asked.outcomes
    except Exception:
        log.exception("unforeseen")
        return [InternalError(UNFORESEEN)] * len(asked.refs)


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
