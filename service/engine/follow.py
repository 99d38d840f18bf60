"""Follow a model: first the events of its log, then new events as they happen, without the contents of examples.

A follower reads the log a page at a time until it has caught up. From then on it gets the newest events from memory,
where a model's feed keeps them while anybody follows. A follower that falls behind gets an error and must begin again
from the log at its position. So memory does not grow with the number of followers, or with their slowness.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any, NamedTuple

from hinged.service.data.times import shown_time
from hinged.service.errors import FellBehind
from hinged.service.model.events import ModelEvent, decode_event
from hinged.service.store.base import Event

PAGE_EVENTS = 100
"""Most events that a follower gets at once."""

ReadLog = Callable[[int], Iterator[tuple[int, Event]]]


class Told(NamedTuple):
    """A message to a follower. position: in the log; note: not an event of the log; sent once and never repeated."""

    position: int
    kind: str
    facts: dict[str, Any]
    note: bool = False

    def shown(self) -> dict[str, Any]:
        """The message as it is sent."""
        return {"position": self.position, "kind": self.kind, **self.facts}


def told(position: int, event: ModelEvent) -> Told:
    """The public message of a logged event: counts, never contents."""
    at = {"at": shown_time(event.at_ms)} if event.at_ms else {}
    return Told(position, event.KIND, at | event.told())


class Feed:
    """The newest events of one model. All methods but `note` run on the event loop."""

    def __init__(self, position: int, kept: int) -> None:
        self.over = asyncio.Event()
        self.reason = ""
        self.elsewhere = False
        """When the feed is over: whether the model goes on at another server."""
        self._kept = kept
        self._noted: list[tuple[int, ModelEvent, bool]] = []  # from the worker's thread, until `publish`
        self._newest: deque[Told] = deque()
        self._left = 0  # number of messages dropped from the front of `_newest`
        self._begins = position  # every event after this position is in `_newest`
        self._reached = position  # position of the last published event
        self._early: list[Told] = []  # notes whose positions are not published yet
        self._followers: set[Follower] = set()

    def note(self, position: int, event: ModelEvent, *, drifted: bool) -> None:
        """Note that an event was applied. Called by the worker's thread."""
        self._noted.append((position, event, drifted))

    def publish(self) -> None:
        """Send what was noted to the followers; the worker's thread rests meanwhile."""
        noted, self._noted = self._noted, []
        if noted:
            self._reached = noted[-1][0]
        early, self._early = self._early, []
        if not self._followers:
            self._begins = self._reached
            return
        for position, event, drifted in noted:
            told_now = told(position, event)
            self._add(told_now)
            if drifted:
                self._add(Told(position, "drift", {"at": told_now.facts.get("at")}, note=True))
        self._wake()
        for note in early:
            self._tell(note)

    def tell(self, position: int, kind: str, **facts: Any) -> None:
        """Send a message that is in no log, once the event at its position is published."""
        self._tell(Told(position, kind, facts, note=True))

    def _tell(self, note: Told) -> None:
        if note.position > self._reached:
            self._early.append(note)
        elif self._followers:
            self._add(note)
            self._wake()

    def begin_anew(self, position: int) -> None:
        """Set the position of the model and drop what was noted: followers read on from the log."""
        self._noted.clear()
        self._early.clear()
        self._left += len(self._newest) + 1  # a gap, which shows followers that messages are missing
        self._newest.clear()
        self._begins = self._reached = position
        self._wake()

    def end(self, reason: str, *, elsewhere: bool = False) -> None:
        """End the feed. elsewhere: the model goes on at another server."""
        self.elsewhere = elsewhere
        self.reason = self.reason or reason
        self.over.set()
        self._wake()

    def _add(self, news: Told) -> None:
        self._newest.append(news)
        while len(self._newest) > self._kept:
            gone = self._newest.popleft()
            self._left += 1
            self._begins = max(self._begins, gone.position)

    def _wake(self) -> None:
        for follower in self._followers:
            follower.news.set()

    def join(self, follower: Follower) -> None:
        """Add a follower."""
        self._followers.add(follower)

    def leave(self, follower: Follower) -> None:
        """Remove a follower."""
        self._followers.discard(follower)
        if not self._followers and self._newest:
            self._begins = self._reached
            self._left += len(self._newest)
            self._newest.clear()

    def since(self, number: int, position: int) -> list[Told]:
        """A page of the messages after the first `number`. position: of the follower. FellBehind if some were
        dropped.
        """
        if number < self._left:
            raise FellBehind(
                f"the follower fell behind; the log has the events after position {position}", position=position
            )
        return list(islice(self._newest, number - self._left, number - self._left + PAGE_EVENTS))

    def first_behind(self, position: int) -> int | None:
        """The number of the first message after a position; None if some of them were dropped.

        A note comes after the event at its position, and perhaps after later events.
        """
        if position < self._begins:
            return None
        ahead = takewhile(lambda news: news.note or news.position <= position, self._newest)
        return self._left + sum(1 for _ in ahead)


class Follower:
    """Follows a model from a position on. Iterate `pages` once."""

    def __init__(self, feed: Feed, read: ReadLog, published: Callable[[], int], position: int) -> None:
        self.position = position
        self.news = asyncio.Event()
        self._feed = feed
        self._read = read
        self._published = published
        self._ended = False

    def end(self) -> None:
        """End `pages`."""
        self._ended = True
        self.news.set()

    async def pages(self, pause_s: float) -> AsyncGenerator[list[Told]]:
        """Pages of past and new messages until the feed is over; an empty page after `pause_s` without a message.

        FellBehind, or a store's errors while the log is read.
        """
        self._feed.join(self)
        try:
            number = self._feed.first_behind(self.position)
            while not self._ended:
                self.news.clear()
                over = self._feed.over.is_set()
                if number is None:
                    page = await asyncio.to_thread(self._page_of_log)
                else:
                    page = self._feed.since(number, self.position)
                    number += len(page)
                if page:
                    self.position = max(self.position, *(news.position for news in page))  # a note's may be earlier
                    yield page
                elif over:
                    return
                elif not await self._heard(pause_s):
                    yield []
                if number is None:
                    number = self._feed.first_behind(self.position)
        finally:
            self._feed.leave(self)

    async def _heard(self, pause_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.news.wait(), pause_s)
            return True
        return False

    def _page_of_log(self) -> list[Told]:
        page = []
        last = self._published()
        for position, record in self._read(self.position):
            if position > last:  # appended, but not yet applied
                break
            page.append(told(position, decode_event(record.kind, record.payload)))
            if len(page) == PAGE_EVENTS:
                break
        return page
