"""Copy a log, a slice at a time, while appends continue. With the last slice the copy replaces the log.

This removes trimmed events, whose bytes a stream keeps in memory. It also replaces redacted events.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import PositionTaken
from hinged.service.store.redis import scripts
from hinged.service.store.redis.packing import BATCH_BYTES, BATCH_EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hinged.service.store.redis.packing import Packed
    from hinged.service.store.redis.scripts import Script, Steps

SLICE_IDS = 4_096
"""Maximum number of ids that are removed in one step. A larger value blocks Redis for longer."""


def rebuild(steps: Steps, model: str, through: int, others: Mapping[int, Packed], ids: list[bytes]) -> None:
    """Replace a log with a copy that contains the given new events. In the same step, remove ids from the index.

    through: position that the log must reach. `others`: the new events by position, ascending. If there are many ids,
    all except the last slice are removed first. Raise PositionTaken if the log is shorter, StoreUnavailable if another
    writer rebuilds it.
    """
    name, places = uuid4().hex, [*others]
    word, found = steps(scripts.BEGIN_REBUILDING, through, name)
    if word == "short":
        raise PositionTaken(f"the log of {model} ends at {int(found[0])}, not at {through} or later")
    at, end, done = int(found[0]), int(found[1]), 0
    try:
        while len(ids) > SLICE_IDS:
            steps(scripts.FORGET_IDS, through, *ids[:SLICE_IDS])
            ids = ids[SLICE_IDS:]
        while not done:
            if at < end:
                script, more = scripts.COPY, _next(others, places, at, end)
            else:
                script, more = scripts.FINISH_REBUILDING, ["", BATCH_BYTES, BATCH_EVENTS, 0, *ids]
            at, done = _copy(steps, model, script, through, name, at, *more)
    except BaseException:
        with suppress(StoreUnavailable):  # the next rebuilding or opening removes the copy
            steps(scripts.END_REBUILDING, name)
        raise


def _copy(steps: Steps, model: str, script: Script, *arguments: Any) -> list[int]:
    """Copy one slice; return the position that the copy has reached, and whether it has replaced the log."""
    word, found = steps(script, *arguments, lasting=True)
    if word == "overtaken":
        raise StoreUnavailable(f"the log of {model} was rebuilt by another writer meanwhile")
    return [int(number) for number in found]


def _next(others: Mapping[int, Packed], places: Sequence[int], at: int, end: int) -> list[Any]:
    """Return the arguments for the next slice after `at`, with as many new events as may be sent at once."""
    to, size, sent = min(at + BATCH_EVENTS, end), 0, list[Any]()
    for place in places[bisect_right(places, at) : bisect_right(places, to)]:
        size += len(others[place][1])
        if sent and size > BATCH_BYTES:
            to = place - 1
            break
        sent += [place, *others[place]]
    return [to, BATCH_BYTES, BATCH_EVENTS, len(sent) // 4, *sent]
