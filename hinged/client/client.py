"""The clients. Each client has a method for each route: `Client` blocks, and `AsyncClient` returns awaitables."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from hinged.client.events import FollowerPosition, afollow, follow
from hinged.client.exchange import Exchange, HingedError, Outcome, Pause, Send
from hinged.client.routes import PAGE_EXAMPLES, Routes
from hinged.client.sockets import AsyncStream, Stream
from hinged.operations.base import Awaiting, Blocking
from hinged.operations.streams import FOLLOW

if TYPE_CHECKING:
    from hinged.client.shapes import ListedExample

__all__ = ["AsyncClient", "Client", "HingedError"]

Answer = TypeVar("Answer")

URL = "http://127.0.0.1:8000"
TIMEOUT_S = 60.0
TRIES_MAX = 8


class Client(Routes, Blocking):
    """A client of one server. Any number of threads may share a client. Close the client, or use the client in a `with`
    block.

    Parameters
    ----------
    url : str, default 'http://127.0.0.1:8000'
        Address of the server.
    key : str or None, default None
        API key. None: the server needs no key.
    timeout_s : float, default 60
        Seconds to wait for a part of an answer.
    tries_max : int, default 8
        How often a request is sent in all, if no answer comes or the server is busy.

    See Also
    --------
    AsyncClient : The same methods for asyncio.

    Examples
    --------
    >>> client = Client()
    >>> client.create_model("spam", features={"type": "dense", "dim": 2}, kernel={"type": "rbf", "gamma": 2})
    >>> client.learn("spam", [{"x": [0.1, 0.9], "y": "ham"}])
    >>> client.predict("spam", [{"x": [0.2, 0.8]}])["results"][0]["prediction"]
    """

    def __init__(
        self, url: str = URL, *, key: str | None = None, timeout_s: float = TIMEOUT_S, tries_max: int = TRIES_MAX
    ) -> None:
        super().__init__(url, key, timeout_s, tries_max)
        self._http = httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def stream(self, model: str) -> Stream:
        """Open the model's WebSocket, which can carry many requests at once. Use the stream in a `with` block."""
        return Stream(self.url, model, self._authorization, self._timeout_s)

    def events(self, model: str, *, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield a model's events after a position of its log, or from now on. Reconnect if the connection breaks."""
        return follow(self._http, FollowerPosition(self.url + FOLLOW.path_for(model=model), after, self.tries_max))

    def every_example(self, model: str, **wanted: Any) -> Iterator[ListedExample]:
        """Yield every learned example, or the examples that a filter of `examples` selects. Fetch the examples page
        by page.
        """
        cursor: str | None = None
        while True:
            page = self.examples(model, n=PAGE_EXAMPLES, cursor=cursor, **wanted)
            yield from page["examples"]
            cursor = page["next"]
            if cursor is None:
                return

    def _run(self, steps: Exchange[Answer]) -> Answer:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            outcome = self._do(step)

    def _do(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            return self._http.request(**self._request(step))
        except httpx.RequestError as error:
            return error


class AsyncClient(Routes, Awaiting):
    """The client for asyncio: each method returns an awaitable. Close the client, or use the client in an `async with`
    block.

    Parameters
    ----------
    url, key, timeout_s, tries_max : optional
        As in `Client`.

    Examples
    --------
    >>> async with AsyncClient() as client:
    ...     await client.learn("spam", [{"x": [0.1, 0.9], "y": "ham"}])
    """

    def __init__(
        self, url: str = URL, *, key: str | None = None, timeout_s: float = TIMEOUT_S, tries_max: int = TRIES_MAX
    ) -> None:
        super().__init__(url, key, timeout_s, tries_max)
        self._http = httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def stream(self, model: str) -> AsyncStream:
        """Open the model's WebSocket, which can carry many requests at once. Use the stream in an `async with`
        block.
        """
        return AsyncStream(self.url, model, self._authorization, self._timeout_s)

    def events(self, model: str, *, after: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield a model's events after a position of its log, or from now on. Reconnect if the connection breaks."""
        return afollow(self._http, FollowerPosition(self.url + FOLLOW.path_for(model=model), after, self.tries_max))

    async def every_example(self, model: str, **wanted: Any) -> AsyncIterator[ListedExample]:
        """Yield every learned example, or the examples that a filter of `examples` selects. Fetch the examples page
        by page.
        """
        cursor: str | None = None
        while True:
            page = await self.examples(model, n=PAGE_EXAMPLES, cursor=cursor, **wanted)
            for example in page["examples"]:
                yield example
            cursor = page["next"]
            if cursor is None:
                return

    async def _run(self, steps: Exchange[Answer]) -> Answer:
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            outcome = await self._do(step)

    async def _do(self, step: Send | Pause) -> Outcome:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._http.request(**self._request(step))
        except httpx.RequestError as error:
            return error
