"""Dispatch: does an operation on a model. Every way that a request can take ends here.

A request comes over HTTP, by the shortcut of a connection, in a WebSocket frame, or to a process that only follows the
model. Each way has checked the key and read the body before. An operation's handler says how bodies are read, and which
of them may be read together (`Handling`). Small bodies that arrive in one turn of the event loop are read together: a
small request's cost is mostly not its examples, and a batch of one row takes as long as a batch of thirty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from hinged.operations.base import Operation
from hinged.service.data.answers import Answer
from hinged.service.data.examples import Body, Raw
from hinged.service.edge.keys import Key
from hinged.service.edge.shortcut import SMALL_BYTES, Outcome
from hinged.service.engine.queue import settle
from hinged.service.engine.worker import Worker
from hinged.service.errors import ServiceError, foreseen
from hinged.service.settings import Settings

TOGETHER_MAX = 32
"""Requests that are read together. They keep the event loop busy for about a millisecond; more delay everything else.
"""


class Packed(NamedTuple):
    """A body that holds rows as bytes (data/batches.py)."""

    data: Raw


Brought: TypeAlias = Body | Packed


class Context(NamedTuple):
    """The key, model and settings for which bodies are read."""

    key: Key
    worker: Worker
    settings: Settings


class Change(NamedTuple):
    """The change that a body asks for: read, but not yet begun.

    begin: queues the change for the model's writer; returns its future. QueueFull, or Unavailable.
    shown: makes the answer from the future's result.
    """

    begin: Callable[[], asyncio.Future[Any]]
    shown: Callable[[Any], Answer]


class Handling(NamedTuple):
    """How an operation is done.

    read: returns for each body a change, the answer, or the error that refuses it.
    gathers: whether a small body may be read together with other bodies; None: never.
    """

    read: Callable[[Context, Sequence[Brought]], Awaitable[list[Change | Outcome]]]
    gathers: Callable[[Context, Raw], bool] | None = None


class ModelsByName(Protocol):
    """Models by name: those that this process owns or follows."""

    @property
    def settings(self) -> Settings:
        """The server's settings."""

    def get(self, name: str) -> Any:
        """Return the model that serves under a name. NotFound, Unavailable."""


class Dispatch:
    """Does operations. All calls come from one event loop."""

    def __init__(self, models: ModelsByName, handlings: Mapping[Operation[..., Any], Handling]) -> None:
        self._models = models
        self._handlings = handlings
        self._open: dict[tuple[Handling, Worker], list[tuple[Raw, Callable[[Outcome], None]]]] = {}
        self._working: set[asyncio.Task[None]] = set()  # the event loop holds only weak references to tasks

    async def __call__(self, operation: Operation[..., Any], key: Key, worker: Worker, body: Brought) -> Answer:
        """Return a model's answer, or raise the error that refuses the request."""
        if isinstance(body, bytes | bytearray) and len(body) <= SMALL_BYTES:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            if self._gather(operation, key, worker, body, lambda outcome: settle([future], [outcome])):
                return await future
        (found,) = await self.read(operation, key, worker, [body])
        if isinstance(found, Change):
            return found.shown(await found.begin())
        if isinstance(found, ServiceError):
            raise found
        return found

    def begin(
        self, operation: Operation[..., Any], key: Key, model: str, body: Raw, tell: Callable[[Outcome], None]
    ) -> bool:
        """Begin an operation, and call `tell` with its outcome. Return False, or raise, if nothing was begun: this body
        is not read together with other bodies.
        """
        return self._gather(operation, key, self._models.get(model), body, tell)

    async def read(
        self, operation: Operation[..., Any], key: Key, worker: Worker, bodies: Sequence[Brought]
    ) -> list[Change | Outcome]:
        """Return for each body a change, the answer, or the error that refuses it. The caller begins the changes in
        order.
        """
        return await self._read(self._handlings[operation], Context(key, worker, self._models.settings), bodies)

    async def _read(self, handling: Handling, context: Context, bodies: Sequence[Brought]) -> list[Change | Outcome]:
        try:
            return await handling.read(context, bodies)
        except Exception as error:  # noqa: BLE001  unexpected errors are logged
            return [foreseen(error)] * len(bodies)

    def _gather(
        self, operation: Operation[..., Any], key: Key, worker: Worker, body: Raw, tell: Callable[[Outcome], None]
    ) -> bool:
        """Queue a body to be read with bodies of its kind that arrive in this turn. False if it must be read alone."""
        handling = self._handlings[operation]
        context = Context(key, worker, self._models.settings)
        if handling.gathers is None or not handling.gathers(context, body):
            return False
        kind = handling, worker
        mates = self._open.get(kind)
        if mates is None or len(mates) == TOGETHER_MAX:
            mates = self._open[kind] = []
            working = asyncio.get_running_loop().create_task(self._work(kind, context, mates))
            self._working.add(working)
            working.add_done_callback(self._working.discard)
        mates.append((body, tell))
        return True

    async def _work(
        self,
        kind: tuple[Handling, Worker],
        context: Context,
        mates: list[tuple[Raw, Callable[[Outcome], None]]],
    ) -> None:
        if self._open.get(kind) is mates:
            del self._open[kind]
        found = await self._read(kind[0], context, [body for body, _ in mates])
        for (_, tell), outcome in zip(mates, found, strict=True):
            try:
                _end(outcome, tell)
            except Exception as error:  # noqa: BLE001  the remaining callers still need their outcome
                foreseen(error)


def _end(found: Change | Outcome, tell: Callable[[Outcome], None]) -> None:
    """Call `tell` with the outcome of a body that was read, as soon as it is known."""
    if not isinstance(found, Change):
        tell(found)
        return
    try:
        future = found.begin()
    except Exception as error:  # noqa: BLE001
        tell(foreseen(error))
        return

    def done(future: asyncio.Future[Any]) -> None:
        try:
            outcome: Outcome = found.shown(future.result())
        except Exception as error:  # noqa: BLE001
            outcome = foreseen(error)
        tell(outcome)

    future.add_done_callback(done)
