"""List the examples that a model has learned, a page at a time, while the worker continues.

A request reads a limited number of events and bytes of the log. If it finds fewer examples than the client asked for,
its answer says where to continue. The worker is asked only for the current state of the examples that were found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from hinged.service import limits
from hinged.service.commands.listing import (
    Cursor,
    Listed,
    ListFilter,
    LoggedExample,
    entries_of,
    kept_entries,
    listed,
    missing_before,
    with_points,
    with_x,
)
from hinged.service.errors import Conflict
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.events.states import ModelCreated
from hinged.service.model.model import Model
from hinged.service.model.state import was_undone
from hinged.service.store.base import Lost, Store

ENTRIES = 1_000
"""Maximum number of examples in memory at once. A larger value takes more memory. With a smaller value, the
worker is asked more often."""


class LogPage(NamedTuple):
    """Examples read from a log.

    reached: the cursor at which to continue, or None at the end of the log. events: number of events that were read.
    size: number of bytes that were read.
    """

    entries: list[LoggedExample]
    reached: Cursor | None
    events: int = 0
    size: int = 0


class Listing:
    """Lists the learned examples of one model, oldest first."""

    def __init__(
        self, store: Store, name: str, ask: Callable[[Callable[[Model], Any]], Awaitable[Any]], executor: Executor
    ) -> None:
        """Take the store. ask: asks the model a question between two changes."""
        self._store = store
        self._name = name
        self._ask = ask
        self._executor = executor

    async def page(self, wanted: ListFilter, most: int, begin: Cursor, *, x: bool = False) -> dict[str, Any]:
        """Return a page of at most `most` examples. x: whether each example has its x and its weight.

        Raise Conflict if the log no longer contains the events at the cursor.
        """
        last, undone, oldest, newest = await self._ask(_bounds)
        log, first = await self._run(self._beginning, last, undone)
        first = min(first or newest + 1, newest + 1)
        at: Cursor | None = begin if begin.position else Cursor(0, max(begin.row, oldest))
        found: Listed = []
        events, size = limits.READ_EVENTS_MAX, limits.READ_BYTES_MAX
        while at is not None and len(found) <= most and events > 0 and size > 0:
            if at.position:
                read = await self._run(self._read, at, last, undone, wanted, events, size)
                at, events, size = read.reached, events - read.events, size - read.size
                found += await self._ask(partial(listed, entries=read.entries, wanted=wanted))
            elif at.row < first:
                end = min(first, at.row + ENTRIES)
                found += await self._ask(partial(_kept, begin=at.row, end=end, wanted=wanted))
                at = Cursor(0, end)
            else:
                at = log
        page = found[:most]
        if x and page:
            features, page = await self._ask(partial(with_points, found=page))
            page = await self._run(with_x, features, page, limits.LISTED_VALUES_MAX)
        if len(found) > len(page):
            at = found[len(page)][0].cursor
        return {
            "missing": await self._ask(partial(missing_before, first=first)),
            "examples": [example for _, example in page],
            "next": None if at is None else at.shown(),
        }

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def _beginning(self, last: int, undone: Sequence[tuple[int, int]]) -> tuple[Cursor | None, int | None]:
        """Return the first event of the log and the number of the log's first example.

        The event is None if the log is empty. The number is None if the log has no example.
        """
        begin: Cursor | None = None
        for at, record in self._store.read_around(self._name, 0):
            if at > last:
                break
            begin = begin or Cursor(at, 0)
            if at == 1 and record.kind == ModelCreated.KIND:
                return begin, 1
            if record.kind == ExamplesLearned.KIND and not was_undone(undone, at):
                event = ExamplesLearned.decoded(record.payload)
                if event.ids:
                    return begin, int(event.keys[0])
        return begin, None

    def _read(
        self, begin: Cursor, last: int, undone: Sequence[tuple[int, int]], wanted: ListFilter, events: int, size: int
    ) -> LogPage:
        """Return the examples of the log from the cursor on, limited by ENTRIES, and by `events` and `size`
        of the log.
        """
        entries: list[LoggedExample] = []
        count = taken = 0
        for at, record in self._store.read_around(self._name, begin.position - 1):
            if at > last:  # the event is appended, but not yet applied
                break
            if count == 0 and at > begin.position:
                raise Conflict(f"the log of model {self._name} has been trimmed beyond the cursor; begin again")
            if count == events or taken >= size or len(entries) >= ENTRIES:
                return LogPage(entries, Cursor(at, 0), count, taken)
            count, taken = count + 1, taken + len(record.payload)
            if was_undone(undone, at):
                continue
            if isinstance(record, Lost):
                raise Conflict(f"event {at} of the log of model {self._name} {record.reason}")
            if record.kind != ExamplesLearned.KIND:
                continue
            event = ExamplesLearned.decoded(record.payload)
            if wanted.to_ms is not None and event.at_ms >= wanted.to_ms:
                break
            if wanted.from_ms is None or event.at_ms >= wanted.from_ms:
                row = begin.row if at == begin.position else 0
                room = ENTRIES - len(entries)
                entries += entries_of(at, event, row, room)
                if row + room < len(event.ids):
                    return LogPage(entries, Cursor(at, row + room), count, taken)
        return LogPage(entries, None, count, taken)


def _bounds(model: Model) -> tuple[int, list[tuple[int, int]], int, int]:
    return model.position, model.undone, model.answers.oldest, model.learned


def _kept(model: Model, begin: int, end: int, wanted: ListFilter) -> Listed:
    return [] if wanted.timed else listed(model, kept_entries(model, begin, end), wanted)
