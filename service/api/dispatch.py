"""One door to what a model is asked: every way that a request can come ends here.

A request comes over HTTP, by the shortcut of a connection, in a frame of a WebSocket, or to a process that only follows
the model. Each way has checked the key and has the body. The handler that serves an operation says how its bodies are
read, and which of them together (`Handling`). Small bodies that came in one turn of the event loop are read as one:
most of what a small request costs is not its examples, and a batch of one row takes as long as one of thirty.
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
"""Requests that are read as one at most: they keep the event loop busy for a millisecond."""


class Packed(NamedTuple):
    """A body that is rows as bytes (data/batches.py)."""

    data: Raw


Brought: TypeAlias = Body | Packed


class Context(NamedTuple):
    """What bodies are read for: by whom, and of which model."""

    key: Key
    worker: Worker
    settings: Settings


class Change(NamedTuple):
    """What a body asks for, read and not yet begun.

    begin: lets it wait for the model's writer. QueueFull, or Unavailable. shown: what is told of what came of it.
    """

    begin: Callable[[], asyncio.Future[Any]]
    shown: Callable[[Any], Answer]


class Handling(NamedTuple):
    """How an operation is done.

    read: of each body the change that it asks for, the answer, or why it is refused. gathers: whether a small body may
    be read with others; without it none is.
    """

    read: Callable[[Context, Sequence[Brought]], Awaitable[list[Change | Outcome]]]
    gathers: Callable[[Context, Raw], bool] | None = None


class ModelsByName(Protocol):
    """Where models are found by name: those that this process owns, or follows."""

    @property
    def settings(self) -> Settings:
        """Of the server."""

    def get(self, name: str) -> Any:
        """The model that serves under a name. NotFound, Unavailable."""


class Dispatch:
    """Does operations. On one event loop."""

    def __init__(self, models: ModelsByName, handlings: Mapping[Operation[..., Any], Handling]) -> None:
        self._models = models
        self._handlings = handlings
        self._open: dict[tuple[Handling, Worker], list[tuple[Raw, Callable[[Outcome], None]]]] = {}
        self._working: set[asyncio.Task[None]] = set()  # the loop itself keeps no hold of them

    async def __call__(self, operation: Operation[..., Any], key: Key, worker: Worker, body: Brought) -> Answer:
        """What a model answers. A refusal is raised."""
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
        """Begin to do the same for who does not wait but is told. False, or an error, where nothing was begun: the body
        is not one that is read with others.
        """
        return self._gather(operation, key, self._models.get(model), body, tell)

    async def read(
        self, operation: Operation[..., Any], key: Key, worker: Worker, bodies: Sequence[Brought]
    ) -> list[Change | Outcome]:
        """What each of some bodies asks for, its answer, or why it is refused. The changes are to be begun in order."""
        return await self._read(self._handlings[operation], Context(key, worker, self._models.settings), bodies)

    async def _read(self, handling: Handling, context: Context, bodies: Sequence[Brought]) -> list[Change | Outcome]:
        try:
            return await handling.read(context, bodies)
        except Exception as error:  # noqa: BLE001  what nobody foresaw is logged
            return [foreseen(error)] * len(bodies)

    def _gather(
        self, operation: Operation[..., Any], key: Key, worker: Worker, body: Raw, tell: Callable[[Outcome], None]
    ) -> bool:
        """Have a body read with those of its kind that come in this turn, where it is one of which several are."""
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
            except Exception as error:  # noqa: BLE001  the others are still to be told
                foreseen(error)


def _end(found: Change | Outcome, tell: Callable[[Outcome], None]) -> None:
    """Tell what comes of a body that was read, once it is known."""
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
