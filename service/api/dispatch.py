"""Dispatch: execute an operation on a model. Every request for a model ends here, whichever way it comes.

A request comes over HTTP, through the shortcut (service/edge/shortcut.py), in a WebSocket frame, or to a process that
only follows the model. Each of these ways has already checked the key and read the body. The operation's handler says
how bodies are parsed, and which bodies may be parsed together (`Handling`). Small bodies that arrive in the same turn
of the event loop are processed together. Most of the cost of a small request does not depend on its examples: a batch
of one row takes as long as a batch of thirty.
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
"""Maximum number of requests that are processed together. This many requests keep the event loop busy for about a
millisecond. A larger number delays everything else.
"""


class Packed(NamedTuple):
    """A body that holds rows as bytes (data/batches.py)."""

    data: Raw


Brought: TypeAlias = Body | Packed


class Context(NamedTuple):
    """The key, model and settings with which bodies are parsed."""

    key: Key
    worker: Worker
    settings: Settings


class Change(NamedTuple):
    """The change that a body asks for: parsed, but not yet started.

    begin: queues the change for the model's worker and returns the change's future. Raises QueueFull or Unavailable.
    shown: makes the answer from the result of the future.
    """

    begin: Callable[[], asyncio.Future[Any]]
    shown: Callable[[Any], Answer]


class Handling(NamedTuple):
    """How an operation is executed.

    read: returns the change that a body asks for, or the answer. Raises the error that refuses the body.
    gathers: says whether a small body may be parsed together with other bodies. None means never.
    together: does the same as `read` for several bodies in one step. Returns None if they must be read one by one, and
    has done nothing then.
    """

    read: Callable[[Context, Brought], Awaitable[Change | Answer]]
    gathers: Callable[[Context, Raw], bool] | None = None
    together: Callable[[Context, Sequence[Any]], Awaitable[Sequence[Change | Outcome] | None]] | None = None


class ModelsByName(Protocol):
    """The models that this process owns or follows, by name."""

    @property
    def settings(self) -> Settings:
        """Return the server's settings."""

    def get(self, name: str) -> Any:
        """Return the model with this name. Raise NotFound or Unavailable."""


class Dispatch:
    """Executes operations. All calls come from one event loop."""

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
        """Begin an operation, and call `tell` with its outcome. Return False if this body may not be parsed together
        with other bodies. If this method returns False or raises, nothing was begun.
        """
        return self._gather(operation, key, self._models.get(model), body, tell)

    async def read(
        self, operation: Operation[..., Any], key: Key, worker: Worker, bodies: Sequence[Brought]
    ) -> list[Change | Outcome]:
        """Return one result per body: a change, the answer, or the error that refuses the body. The caller begins the
        changes in the order of the bodies.
        """
        return await self._read(self._handlings[operation], Context(key, worker, self._models.settings), bodies)

    async def _read(self, handling: Handling, context: Context, bodies: Sequence[Brought]) -> list[Change | Outcome]:
        try:
            if len(bodies) == 1:
                return [await handling.read(context, bodies[0])]
            if handling.together is not None and (found := await handling.together(context, bodies)) is not None:
                return [*found]
        except Exception as error:  # noqa: BLE001  unexpected errors are logged
            return [foreseen(error)] * len(bodies)
        alone = await asyncio.gather(*[self._read(handling, context, [body]) for body in bodies])
        return [outcome for (outcome,) in alone]

    def _gather(
        self, operation: Operation[..., Any], key: Key, worker: Worker, body: Raw, tell: Callable[[Outcome], None]
    ) -> bool:
        """Queue a body, to be parsed with similar bodies that arrive in this turn. Return False if the body must be
        parsed alone.
        """
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
    """Call `tell` with the outcome of a parsed body, as soon as the outcome is known."""
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
