"""Yield the events of a model, over as many connections as necessary.

If a connection breaks, or the server ends it, the client reconnects and continues after the last event. A message
without data is a heartbeat, not an event.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
from httpx_sse import aconnect_sse, connect_sse

from hinged.client.exchange import (
    RETRIED_ERRORS,
    RETRIED_STATUSES,
    answer_of,
    backoff_s,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# Heartbeats come more often than every SILENCE_S seconds. Without a heartbeat for this long, the connection is dead.
SILENCE_S = 120.0


class FollowerPosition:
    """The position of a follower, and the number of failed tries since its last event."""

    def __init__(self, url: str, after: int | None, tries_max: int) -> None:
        self.url = url
        self.after = after
        self.tries_max = tries_max
        self.failed = 0

    def request(self) -> dict[str, Any]:
        """Return the next request."""
        headers = {} if self.after is None else {"last-event-id": str(self.after)}
        return {"headers": headers, "timeout": httpx.Timeout(10.0, read=SILENCE_S)}

    def takes(self, response: httpx.Response) -> bool:
        """Return whether events will follow. Raise HingedError if no event will ever follow."""
        if response.is_success:
            self.failed = 0
            return True
        if response.status_code not in RETRIED_STATUSES or self.failed >= self.tries_max:
            answer_of(response)
        return False

    def event(self, sse: Any) -> dict[str, Any]:
        """Return the event in the form in which the server sent it."""
        if sse.id:
            self.after = int(sse.id)
        told: dict[str, Any] = json.loads(sse.data)
        return told

    def pause_s(self, error: Exception | None = None) -> float:
        """Return the pause before the next try. Raise HingedError after the last try."""
        self.failed += 1
        if self.failed > self.tries_max:
            raise unreachable(self.url, error)
        return backoff_s(self.failed)


def follow(http: httpx.Client, place: FollowerPosition) -> Iterator[dict[str, Any]]:
    """Yield events until the caller stops. Raise HingedError if the model is deleted or nothing answers."""
    while True:
        error: Exception | None = None
        try:
            with connect_sse(http, "GET", place.url, **place.request()) as source:
                if place.takes(_read(source.response)):
                    for sse in source.iter_sse():
                        if sse.data:
                            yield place.event(sse)
        except RETRIED_ERRORS as broken:
            error = broken
        time.sleep(place.pause_s(error))


async def afollow(http: httpx.AsyncClient, place: FollowerPosition) -> AsyncIterator[dict[str, Any]]:
    """Yield events as `follow` does, for asyncio."""
    while True:
        error: Exception | None = None
        try:
            async with aconnect_sse(http, "GET", place.url, **place.request()) as source:
                if not source.response.is_success:
                    await source.response.aread()
                if place.takes(source.response):
                    async for sse in source.aiter_sse():
                        if sse.data:
                            yield place.event(sse)
        except RETRIED_ERRORS as broken:
            error = broken
        await asyncio.sleep(place.pause_s(error))


def _read(response: httpx.Response) -> httpx.Response:
    if not response.is_success:
        response.read()
    return response
