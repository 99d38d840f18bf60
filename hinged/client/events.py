"""A model's events, one after another, over however many connections it takes.

A connection that breaks, or that the server ends, is followed by another that goes on behind the last event. What comes
without data is no event: the reader of the stream makes such a thing of a heartbeat behind an event.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import httpx

from hinged.client.exchange import (
    RETRIED_ERRORS,
    RETRIED_STATUSES,
    answer_of,
    backoff_s,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

# Heartbeats come more often; without any the connection is dead.
SILENCE_S = 120.0


class FollowerPosition:
    """Where a follower stands, and how often it tried in vain."""

    def __init__(self, url: str, after: int | None, tries_max: int) -> None:
        self.url = url
        self.after = after
        self.tries_max = tries_max
        self.failed = 0

    def request(self) -> dict[str, Any]:
        """What to ask for next."""
        headers = {} if self.after is None else {"last-event-id": str(self.after)}
        return {"headers": headers, "timeout": httpx.Timeout(10.0, read=SILENCE_S)}

    def takes(self, response: httpx.Response) -> bool:
        """Whether events follow; HingedError where they never will."""
        if response.is_success:
            self.failed = 0
            return True
        if response.status_code not in RETRIED_STATUSES or self.failed >= self.tries_max:
            answer_of(response)
        return False

    def event(self, sse: Any) -> dict[str, Any]:
        """An event as it was told."""
        if sse.id:
            self.after = int(sse.id)
        told: dict[str, Any] = json.loads(sse.data)
        return told

    def pause_s(self, error: Exception | None = None) -> float:
        """How long to wait before the next try; HingedError after the last."""
        self.failed += 1
        if self.failed > self.tries_max:
            raise unreachable(self.url, error)
        return backoff_s(self.failed)


def follow(http: httpx.Client, place: FollowerPosition) -> Iterator[dict[str, Any]]:
    """Events until somebody stops asking; HingedError once the model is gone or nothing answers."""
    from httpx_sse import connect_sse  # noqa: PLC0415 - only who follows needs it

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
    """The same for asyncio."""
    from httpx_sse import aconnect_sse  # noqa: PLC0415

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
