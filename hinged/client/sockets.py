"""A model's WebSocket. Many requests can be open at once; their answers come in order.

`Stream` returns `concurrent.futures.Future` objects, and `AsyncStream` returns awaitables. The two streams send the
same bodies as the clients' methods. If the server cannot keep up, a stream waits for the server.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import json
import queue
import threading
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from hinged.client.exchange import PREFER, HingedError, owner_named
from hinged.operations.streams import STREAM
from hinged.operations.values import Examples, plain, with_ids
from hinged.operations.values import encoded as encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Mapping

    import websockets.asyncio.client
    import websockets.sync.client

    from hinged.client.shapes import ExampleDecisions, Learned, Offered, Predicted, Queries

EVENTS_WAITING_MAX = 1000
LOOPBACK = ("localhost", "127.0.0.1", "::1")

Answer = dict[str, Any]


class Conversation:
    """The requests of a stream that wait for their answers, without I/O. Futures are of asyncio, or of threads."""

    def __init__(self) -> None:
        self._refs = itertools.count(1)
        self.waiting: dict[str, Any] = {}
        self.closed: HingedError | None = None

    def request(self, future: Any, op: str, body: Mapping[str, Any]) -> tuple[str, bytes]:
        """Let a future wait for the answer to a frame. Return the frame's ref, and the frame as bytes."""
        ref = str(next(self._refs))
        frame = encode({"op": op, "ref": ref, **body})  # a frame that is not JSON gets no answer
        self.waiting[ref] = future
        return ref, frame

    def hear(self, text: str | bytes) -> Answer | HingedError | None:
        """Take a frame from the server. Return an event, or the error that ended the events; None after an answer."""
        frame = json.loads(text)
        future = self.waiting.pop(str(frame.get("ref")), None)
        if future is None:
            return None if frame.get("ok") else frame["event"] if "event" in frame else _error(frame)
        if _awaited(future):
            if frame.pop("ok"):
                del frame["ref"]
                future.set_result(frame)
            else:
                future.set_exception(_error(frame))
        return None

    def end(self) -> HingedError:
        """Refuse all requests that wait. Return the error that says why the stream is closed."""
        self.closed = self.closed or HingedError("the stream is closed", code="closed")
        while self.waiting:
            _, future = self.waiting.popitem()
            if _awaited(future):
                future.set_exception(self.closed)
        return self.closed


def _awaited(future: Any) -> bool:
    """Return whether the caller of a request still waits for the future. A future of threads can then no longer be
    cancelled; callers of `concurrent.futures.wait` learn of a cancelled future only here.
    """
    if isinstance(future, concurrent.futures.Future):
        return future.set_running_or_notify_cancel()
    return not future.done()


class Stream:
    """One WebSocket. Its methods return at once with a future of the answer. Use a stream in a `with` block.

    >>> with client.stream("spam") as stream:
    ...     answers = [stream.learn([example]) for example in examples]
    ...     print(answers[-1].result()["position"])
    """

    def __init__(self, url: str, model: str, headers: Mapping[str, str], timeout_s: float) -> None:
        from websockets.exceptions import WebSocketException  # noqa: PLC0415 - only who streams needs it
        from websockets.sync.client import connect  # noqa: PLC0415

        self._open = ExitStack()
        try:
            ways = _ways(url, model, headers, timeout_s)
            address, options = next(ways)
            connection: websockets.sync.client.ClientConnection | None = None
            while connection is None:
                try:
                    connection = self._open.enter_context(connect(address, **options))
                except (OSError, WebSocketException) as error:
                    address, options = ways.send(error)
            self._socket = connection
        except (OSError, WebSocketException) as error:
            raise _refused(url, error) from error
        self._frames = Conversation()
        self._sending = threading.Lock()
        self._events: queue.Queue[dict[str, Any] | HingedError] = queue.Queue(EVENTS_WAITING_MAX)
        self._hearing = threading.Thread(target=self._hear, name=f"stream of {model}", daemon=True)
        self._hearing.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the answers to all requests that were sent, then close the socket."""
        concurrent.futures.wait(list(self._frames.waiting.values()))
        self._open.close()
        while self._hearing.is_alive():  # the thread may be waiting to deliver an event that no caller takes
            self._hearing.join(0.05)
            while not self._events.empty():
                self._events.get_nowait()

    def learn(self, examples: Examples) -> concurrent.futures.Future[Learned]:
        """Learn examples, like `Client.learn`."""
        return self.send("learn", examples=with_ids(examples))

    def decide(self, examples: Examples, **options: Any) -> concurrent.futures.Future[ExampleDecisions]:
        """Decide about examples after learning everything that this stream sent before, like `Client.decide`."""
        return self.send("decide", examples=plain(examples), **options)

    def predict(self, examples: Examples, **options: Any) -> concurrent.futures.Future[Predicted]:
        """Predict examples after learning everything that this stream sent before, like `Client.predict`."""
        return self.send("predict", examples=plain(examples), **options)

    def offer(self, examples: Examples) -> concurrent.futures.Future[Offered]:
        """Add candidates to the pool, like `Client.offer`."""
        return self.send("pool", examples=plain(examples))

    def query(self, *, annotator: str, **options: Any) -> concurrent.futures.Future[Queries]:
        """Lease the candidates whose labels are worth most, like `Client.query`."""
        return self.send("query", annotator=annotator, **options)

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the model's events after a position, or from now on, until the socket is closed.

        If you read too slowly, HingedError `fell_behind` is raised. Then call this method again with the last position.
        """
        self.send("subscribe", **{"from": after}).result()
        return self._told()

    def _told(self) -> Iterator[dict[str, Any]]:
        while True:
            found = self._events.get()
            if isinstance(found, HingedError):
                if found is self._frames.closed:
                    return
                raise found
            yield found

    def send(self, op: str, **body: Any) -> concurrent.futures.Future[Any]:
        """Send any frame. Return a future of its answer, which raises HingedError if the server refuses the frame."""
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        future: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        frames = self._frames
        with self._sending:
            ref, frame = frames.request(future, op, body)
            try:
                self._socket.send(frame, text=True)
            except ConnectionClosed as error:
                frames.waiting.pop(ref, None)
                raise frames.closed or _ended(error) from error
            except BaseException:  # an interrupt: the caller will not get the future
                frames.waiting.pop(ref, None)
                raise
        if frames.closed and frames.waiting.pop(ref, None):
            raise frames.closed
        return future

    def _hear(self) -> None:
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        try:
            for text in self._socket:
                if (told := self._frames.hear(text)) is not None:
                    self._events.put(told)
        except ConnectionClosed as error:
            self._frames.closed = _ended(error)
        finally:  # however the socket ended, no caller must wait any longer
            self._events.put(self._frames.end())


class AsyncStream:
    """One WebSocket for asyncio. Its methods send in the order of the calls, and return an awaitable of the answer.

    >>> async with client.stream("spam") as stream:
    ...     answers = [await stream.learn([example]) for example in examples]
    ...     print((await answers[-1])["position"])
    """

    def __init__(self, url: str, model: str, headers: Mapping[str, str], timeout_s: float) -> None:
        self._url, self._model, self._headers, self._timeout_s = url, model, headers, timeout_s
        self._frames = Conversation()
        self._events: asyncio.Queue[dict[str, Any] | HingedError] = asyncio.Queue(EVENTS_WAITING_MAX)

    async def __aenter__(self) -> Self:
        from websockets.asyncio.client import connect  # noqa: PLC0415
        from websockets.exceptions import WebSocketException  # noqa: PLC0415

        self._open = AsyncExitStack()
        try:
            ways = _ways(self._url, self._model, self._headers, self._timeout_s)
            address, options = next(ways)
            connection: websockets.asyncio.client.ClientConnection | None = None
            while connection is None:
                try:
                    connection = await self._open.enter_async_context(connect(address, **options))
                except (OSError, WebSocketException) as error:
                    address, options = ways.send(error)
            self._socket = connection
        except (OSError, WebSocketException) as error:
            raise _refused(self._url, error) from error
        self._hearing = asyncio.create_task(self._hear())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Wait for the answers to all requests that were sent, then close the socket."""
        if self._frames.waiting:
            await asyncio.wait(list(self._frames.waiting.values()))
        await self._open.aclose()
        self._hearing.cancel()
        await asyncio.gather(self._hearing, return_exceptions=True)

    async def learn(self, examples: Examples) -> asyncio.Future[Learned]:
        """Learn examples, like `AsyncClient.learn`."""
        return await self.send("learn", examples=with_ids(examples))

    async def decide(self, examples: Examples, **options: Any) -> asyncio.Future[ExampleDecisions]:
        """Decide about examples after learning everything that this stream sent before, like `AsyncClient.decide`."""
        return await self.send("decide", examples=plain(examples), **options)

    async def predict(self, examples: Examples, **options: Any) -> asyncio.Future[Predicted]:
        """Predict examples after learning everything that this stream sent before, like `AsyncClient.predict`."""
        return await self.send("predict", examples=plain(examples), **options)

    async def offer(self, examples: Examples) -> asyncio.Future[Offered]:
        """Add candidates to the pool, like `AsyncClient.offer`."""
        return await self.send("pool", examples=plain(examples))

    async def query(self, *, annotator: str, **options: Any) -> asyncio.Future[Queries]:
        """Lease the candidates whose labels are worth most, like `AsyncClient.query`."""
        return await self.send("query", annotator=annotator, **options)

    async def events(self, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the model's events, like `Stream.events`."""
        await (await self.send("subscribe", **{"from": after}))
        while True:
            found = await self._events.get()
            if isinstance(found, HingedError):
                if found is self._frames.closed:
                    return
                raise found
            yield found

    async def send(self, op: str, **body: Any) -> asyncio.Future[Any]:
        """Send any frame. Return an awaitable of its answer, which raises HingedError if the server refuses the
        frame.
        """
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        frames, future = self._frames, asyncio.get_running_loop().create_future()
        ref, frame = frames.request(future, op, body)
        try:
            await self._socket.send(frame, text=True)
        except ConnectionClosed as error:
            frames.waiting.pop(ref, None)
            raise frames.closed or _ended(error) from error
        except BaseException:  # cancelled: the caller will not get the future
            frames.waiting.pop(ref, None)
            raise
        return future

    async def _hear(self) -> None:
        from websockets.exceptions import ConnectionClosed  # noqa: PLC0415

        try:
            async for text in self._socket:
                if (told := self._frames.hear(text)) is not None:
                    await self._events.put(told)
        except ConnectionClosed as error:
            self._frames.closed = _ended(error)
        finally:  # however the socket ended, no caller must wait any longer
            closed = self._frames.end()
        await self._events.put(closed)


def _address(url: str, model: str) -> str:
    return f"ws{url.removeprefix('http')}{STREAM.path_for(model=model)}"


def _ways(
    url: str, model: str, headers: Mapping[str, str], timeout_s: float
) -> Generator[tuple[str, dict[str, Any]], Exception, None]:
    """Yield an address and options to connect to. If the connection failed, the caller sends the error back.

    If several servers share a store, the first address answers with the address of the model's owner. If the client
    cannot reach the owner, the first server forwards the socket to the owner.
    """
    error = yield _address(url, model), _options(url, {**headers, **PREFER}, timeout_s)
    owner = _owner(error)
    if owner is None:
        raise error
    error = yield _address(owner, model), _options(owner, headers, timeout_s)
    if not isinstance(error, OSError):
        raise error
    raise (yield _address(url, model), _options(url, headers, timeout_s))


def _owner(error: Exception) -> str | None:
    """Return the server to which a handshake was redirected. Return None if the handshake was refused for another
    reason.

    Newer versions of websockets follow a redirect themselves, but without the key. Newer versions also refuse an http
    address.
    """
    response: Any = getattr(error, "response", None) or getattr(error.__context__, "response", None)
    return None if response is None else owner_named(response.status_code, response.headers)


def _options(url: str, headers: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    # A proxy from the environment cannot reach the loopback names of this machine. The server limits the size of
    # answers.
    proxy = None if urlsplit(url).hostname in LOOPBACK else True
    return {
        "additional_headers": dict(headers),
        "open_timeout": timeout_s,
        "proxy": proxy,
        "max_size": None,
        "compression": None,
    }


def _error(frame: dict[str, Any]) -> HingedError:
    error = frame["error"]
    return HingedError(error["message"], code=error["code"], details=error.get("details"))


def _refused(url: str, error: Exception) -> HingedError:
    """Return the error for a handshake that failed."""
    response = getattr(error, "response", None)
    body = bytes(getattr(response, "body", None) or b"")
    try:
        told = json.loads(body)["error"]
        return HingedError(told["message"], code=told["code"], status=response.status_code, details=told.get("details"))  # type: ignore[union-attr]
    except (ValueError, LookupError, TypeError, AttributeError):
        status = getattr(response, "status_code", None)
        code = "unreachable" if status is None else "unexpected_answer"
        return HingedError(f"no stream from {url}: {error}", code=code, status=status)


def _ended(error: Any) -> HingedError:
    """Return the error for a socket that closed before the client closed it."""
    close = error.rcvd
    if close is None:
        return HingedError("the connection broke", code="closed")
    return HingedError(
        f"the stream was closed: {close.reason or close.code}", code="closed", details={"code": close.code}
    )
