"""The interface of message brokers for `hinged consume`: deliver messages in order, and publish messages."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult

from hinged.commands.logins import Login
from hinged.commands.writing import write
from hinged.readers import Place

UNIT = "message"


class Message(NamedTuple):
    """A message.

    Attributes
    ----------
    place : the topic, with the partition if there are partitions, and the number of the message.
    body : the bytes of the message.
    id : the id that the broker's place gives to the message, None if the broker has no such place.
    """

    place: Place
    body: bytes
    id: str | None


Take = Callable[[Sequence[Message]], Awaitable[bool]]
"""A function that processes messages in order, and returns whether to acknowledge them."""


class BrokerError(Exception):
    """The broker refuses, or does not exist. The message is one sentence for people."""


class Broker(ABC):
    """A connection to a broker.

    Parameters
    ----------
    url : address of the broker, without a login
    login : how to log in
    group : name under which the broker remembers which messages are acknowledged
    batch : limit of the messages of a batch, > 0
    """

    def __init__(self, url: SplitResult, login: Login, group: str, batch: int) -> None:
        self.url, self.login, self.group, self.batch = url, login, group, batch
        self._turn, self._closing = asyncio.Lock(), False

    @abstractmethod
    async def open(self) -> None:
        """Connect."""

    @abstractmethod
    async def start(self, topic: str, take: Take) -> None:
        """Pass the messages of a topic to `take`, in order."""

    @abstractmethod
    async def publish(self, topic: str, body: bytes) -> None:
        """Publish a message. Return when the broker has the message."""

    @abstractmethod
    async def _stop(self) -> None:
        """Disconnect."""

    async def close(self) -> None:
        """Wait until the batch in work is acknowledged, and disconnect."""
        self._closing = True
        async with self._turn:
            for logger in (problems(), logging.getLogger("asyncio")):
                logger.disabled = True  # FastStream and aiokafka report the end of their own connections as problems
            await self._stop()

    async def _deliver(self, take: Take, messages: Sequence[Message], ack: Callable[[], Awaitable[Any]]) -> bool:
        """Process and acknowledge a batch in its turn. Return whether the batch is acknowledged."""
        async with self._turn:
            return await self._process(take, messages, ack)

    async def _process(self, take: Take, messages: Sequence[Message], ack: Callable[[], Awaitable[Any]]) -> bool:
        if self._closing or not await take(messages):
            return False
        await ack()
        return True


def problems() -> logging.Logger:
    """Return the logger of brokers' libraries. It writes problems to stderr."""
    logger = logging.getLogger("hinged.consume")
    logger.setLevel(logging.WARNING)
    logger.handlers, logger.propagate, logger.disabled = [_Lines()], False, False
    return logger


class _Lines(logging.Handler):
    """Writes each record in one line, without a traceback."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        reason = f": {error}" if error is not None and str(error) not in record.getMessage() else ""
        write(f"broker: {record.getMessage()}{reason}".replace("\n", " "), err=True)
