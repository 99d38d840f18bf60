"""Follow a model: first the events in its log, then new events as they happen. Contents of examples are left out.

A follower reads the log a page at a time until it has caught up. From then on it gets the newest events from memory.
The feed of a model keeps the newest events while the model has followers. A follower that falls behind gets an error
and must begin again from the log at its position. So neither the number of followers nor a slow follower makes memory
grow.
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
"""Maximum number of events that a follower gets at once."""

ReadLog = Callable[[int], Iterator[tuple[int, Event]]]


class Told(NamedTuple):
    """A message to a follower: counts, never contents of examples.

    position: the position in the log. note: whether the message is not in the log; such a message is sent only once.
    """

    position: int
    kind: str
    facts: dict[str, Any]
    note: bool = False

    @classmethod
    def of(cls, position: int, event: ModelEvent) -> Told:
        """Return the message about an event. It has no reference to the event, which may be large."""
        at = {"at": shown_time(event.at_ms)} if event.at_ms else {}
        return cls(position, event.KIND, at | event.told())

    def shown(self) -> dict[str, Any]:
        """Return the message in the form in which it is sent."""
        return {"position": self.position, "kind": self.kind, **self.facts}


class Feed:
    """Keeps the newest events of one model. All methods except `note` run on the event loop."""

    def __init__(self, position: int, kept: int) -> None:
        self.over = asyncio.Event()
        self.reason = ""
        self.elsewhere = False
        """Whether the model continues at another server. Set when the feed ends."""
        self._kept = kept
        self._noted: list[Told] = []  # from the worker's thread, not yet sent by `publish`
        self._newest: deque[Told] = deque()
        self._left = 0  # number of messages dropped from the front of `_newest`
        self._begins = position  # every event after this position is in `_newest`
        self._reached = position  # position of the last published event
        self._early: list[Told] = []  # notes about positions that are not published yet
        self._followers: set[Follower] = set()

    def note(self, position: int, event: ModelEvent, noticed: tuple[str, ...]) -> None:
        """Record that an event was applied. The worker's thread calls this."""
        told = Told.of(position, event)
        self._noted += [told, *(Told(position, kind, {"at": told.facts.get("at")}, note=True) for kind in noticed)]

    def publish(self) -> None:
        """Send the recorded events to the followers. The worker's thread does nothing in the meantime."""
        noted, self._noted = self._noted, []
        if noted:
            self._reached = noted[-1].position
        early, self._early = self._early, []
        if not self._followers:
            self._begins = self._reached
            return
        for told in noted:
            self._add(told)
        self._wake()
        for note in early:
            self._tell(note)

    def tell(self, position: int, kind: str, **facts: Any) -> None:
        """Send a message that is not in the log. It is sent once the event at its position is published."""
        self._tell(Told(position, kind, facts, note=True))

    def _tell(self, note: Told) -> None:
        if note.position > self._reached:
            self._early.append(note)
        elif self._followers:
            self._add(note)
            self._wake()

    def begin_anew(self, position: int) -> None:
        """Set the position of the model and drop the recorded events. Followers continue from the log."""
        self._noted.clear()
        self._early.clear()
        self._left += len(self._newest) + 1  # a gap, which shows followers that messages are missing
        self._newest.clear()
        self._begins = self._reached = position
        self._wake()

    def end(self, reason: str, *, elsewhere: bool = False) -> None:
        """End the feed. elsewhere: whether the model continues at another server."""
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
        """Return one page of the messages after the first `number` messages.

        position: the follower's position. Raise FellBehind if some of these messages were dropped.
        """
        if number < self._left:
            raise FellBehind(
                f"the follower fell behind; the log has the events after position {position}", position=position
            )
        return list(islice(self._newest, number - self._left, number - self._left + PAGE_EVENTS))

    def first_behind(self, position: int) -> int | None:
        """Return the number of the first message after a position; None if some of these messages were dropped.

        A note is sent after the event at its position, and perhaps after later events.
        """
        if position < self._begins:
            return None
        ahead = takewhile(lambda news: news.note or news.position <= position, self._newest)
        return self._left + sum(1 for _ in ahead)


class Follower:
    """Follows a model, starting at a position. Iterate over `pages` only once."""

    def __init__(self, feed: Feed, read: ReadLog, published: Callable[[], int], position: int) -> None:
        self.position = position
        self.news = asyncio.Event()
        self._feed = feed
        self._read = read
        self._published = published
        self._ended = False

    def end(self) -> None:
        """End the iteration over `pages`."""
        self._ended = True
        self.news.set()

    async def pages(self, pause_s: float) -> AsyncGenerator[list[Told]]:
        """Yield pages of past and new messages until the feed ends.

        After `pause_s` seconds without a message, yield an empty page. Raise FellBehind, or the store's errors while
        the log is read.
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
                    self.position = max(self.position, *(news.position for news in page))  # a note may be late
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
            page.append(Told.of(position, decode_event(record.kind, record.payload)))
            if len(page) == PAGE_EVENTS:
                break
        return page
