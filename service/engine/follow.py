"""Following a model: its events as they happen, and before that those of the log, without the contents of examples.

A follower reads the log page by page until it has caught up; from then on the newest events, which a model's feed keeps
while anybody follows, come to it from memory. One that falls behind these is told so and ends: it begins again where it
stood, with the log. So nothing grows with the number of followers or their slowness.
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
"""Events that a follower is given at once."""

ReadLog = Callable[[int], Iterator[tuple[int, Event]]]


class Told(NamedTuple):
    """What a follower is told. position: that of the log; note: no event of the log, told once and never again."""

    position: int
    kind: str
    facts: dict[str, Any]
    note: bool = False

    def shown(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return {"position": self.position, "kind": self.kind, **self.facts}


def told(position: int, event: ModelEvent) -> Told:
    """What an event of the log tells everyone who may see its model: how many, never what."""
    at = {"at": shown_time(event.at_ms)} if event.at_ms else {}
    return Told(position, event.KIND, at | event.told())


class Feed:
    """The newest events of one model. All but `note` runs on the event loop."""

    def __init__(self, position: int, kept: int) -> None:
        self.over = asyncio.Event()
        self.reason = ""
        self.elsewhere = False
        """Where it is over: whether the model goes on at another server."""
        self._kept = kept
        self._noted: list[tuple[int, ModelEvent, bool]] = []  # by the worker's thread, until it is told
        self._newest: deque[Told] = deque()
        self._left = 0  # of the newest, how many have gone
        self._begins = position  # every event behind this position is among the newest
        self._reached = position  # of the last event that was told
        self._early: list[Told] = []  # notes of positions that were not told yet
        self._followers: set[Follower] = set()

    def note(self, position: int, event: ModelEvent, *, drifted: bool) -> None:
        """An event was applied. Called by the worker's thread."""
        self._noted.append((position, event, drifted))

    def publish(self) -> None:
        """Tell of what was noted; the worker's thread rests meanwhile."""
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
        """Tell of what stands in no log, once the event at its position was told."""
        self._tell(Told(position, kind, facts, note=True))

    def _tell(self, note: Told) -> None:
        if note.position > self._reached:
            self._early.append(note)
        elif self._followers:
            self._add(note)
            self._wake()

    def begin_anew(self, position: int) -> None:
        """The model stands there, whatever was noted: who follows reads on in the log."""
        self._noted.clear()
        self._early.clear()
        self._left += len(self._newest) + 1  # so that nobody takes what comes next for what follows
        self._newest.clear()
        self._begins = self._reached = position
        self._wake()

    def end(self, reason: str, *, elsewhere: bool = False) -> None:
        """Nothing comes any more; elsewhere: from this server."""
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
        """Tell this one too."""
        self._followers.add(follower)

    def leave(self, follower: Follower) -> None:
        """No longer."""
        self._followers.discard(follower)
        if not self._followers and self._newest:
            self._begins = self._reached
            self._left += len(self._newest)
            self._newest.clear()

    def since(self, number: int, position: int) -> list[Told]:
        """A page of what came after so many, the last of them at a position. FellBehind if some of it has gone."""
        if number < self._left:
            raise FellBehind(
                f"more came than was read; the log has what follows position {position}", position=position
            )
        return list(islice(self._newest, number - self._left, number - self._left + PAGE_EVENTS))

    def first_behind(self, position: int) -> int | None:
        """The number of the first event behind a position; None if some of them have gone.

        A note comes after the event at its position, and perhaps after later ones.
        """
        if position < self._begins:
            return None
        ahead = takewhile(lambda news: news.note or news.position <= position, self._newest)
        return self._left + sum(1 for _ in ahead)


class Follower:
    """One who follows a model from behind a position. `pages` is to be iterated once."""

    def __init__(self, feed: Feed, read: ReadLog, published: Callable[[], int], position: int) -> None:
        self.position = position
        self.news = asyncio.Event()
        self._feed = feed
        self._read = read
        self._published = published
        self._ended = False

    def end(self) -> None:
        """Let `pages` come to its end."""
        self._ended = True
        self.news.set()

    async def pages(self, pause_s: float) -> AsyncGenerator[list[Told]]:
        """What happened, and what happens, until the feed is over; an empty page where nothing did for so long.

        FellBehind; what a store raises where the log is read.
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
                    self.position = max(self.position, *(news.position for news in page))  # a note may be of an earlier
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
            if position > last:  # appended, and not yet applied
                break
            page.append(told(position, decode_event(record.kind, record.payload)))
            if len(page) == PAGE_EVENTS:
                break
        return page
