"""Moments: days and times in ISO 8601, and the columns that they make.

Forms: 2026-05-01, 2026-05-01T12:30, 2026-05-01 12:30:15.25. A time may end with Z or an offset such as +02:00. Hours,
weekdays and months are taken as written, whatever the time zone, because an office opens at nine by its local clock.

The time of day, the day of the week and the part of the year are each a point on a circle, given by a cosine and a
sine. The end of a day, week or year is therefore next to the beginning of the next. A line separates an arc of the
circle (nine to five, the weekend), so linear kernels can learn such periods too. The configuration can ask for a
further column: the logarithm of the time since the previous example. A day without a time has neither the columns of
the time of day nor this column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hinged.service.data.features.columns.base import Aspect, ColumnKind, Measure, Said, Strings, Told, Value
from hinged.service.data.features.records import Record
from hinged.solvers.core.elementary import TWO_PI, cosine_and_sine
from hinged.solvers.core.states import StateReader
from hinged.solvers.estimators.scaling import CLIP, bent

HOUR, WEEKDAY, MONTH = "hour", "weekday", "month"
SINCE: Aspect = ("since",)
ASPECTS: tuple[Aspect, ...] = (*((cycle, part) for cycle in (HOUR, WEEKDAY, MONTH) for part in ("cos", "sin")), SINCE)

DAY_S = 86_400
AT_MAX = 1e12  # seconds; later than the year 9999
SINCE_CLIP = 2.0
"""Limit, in deviations from the mean, to which the time since the previous example is clipped.

Other numbers are clipped at 5. If this limit were 5 too, any gap longer than all learned gaps would place a point far
from all other points. An RBF machine would then give the same prediction for every x that comes a day later."""
TIMES_SHARE = 0.95  # a name has times if at least this share of its strings are moments
UNIT_S = 1.0  # seconds; the scale of the time since the previous example is linear below, logarithmic above

_FORM = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)


class Moment(NamedTuple):
    """A day or a time. day: 1 is January 1 of the year 1. second: the second of the day, None for a day without a time.

    at: seconds since January 1 of the year 1 in UTC. A moment without a time zone counts as UTC.
    """

    day: int
    second: float | None
    at: float


def moment_of(text: str) -> Moment | None:
    """Return the moment that a text represents. Return None if the text is not a day or a time."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
    try:
        number = date(int(year), int(month), int(day)).toordinal()
    except ValueError:
        return None
    if hour is None:
        return Moment(number, None, float(DAY_S * number))
    seconds = 3600 * int(hour) + 60 * int(minute) + int(second or 0)
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 60:  # 60 is a leap second
        return None
    offset = (3600 * int(hours) + 60 * int(minutes)) * (-1 if sign == "-" else 1) if sign else 0
    exact = seconds + (float(f"0.{fraction}") if fraction else 0.0)
    return Moment(number, exact, DAY_S * number + exact - offset)


@lru_cache(2**14)  # compiled functions give up Python's lock, and a thread that does so often starves the event loop
def _place(turn: float) -> tuple[float, float]:
    """Return the cosine and the sine of a part of a round."""
    cosine, sine = cosine_and_sine(TWO_PI * turn)  # type: ignore[no-untyped-call]
    return float(cosine), float(sine)


def aspects_of(moment: Moment, before: float | None) -> list[tuple[Value, float]]:
    """Return the aspects of a moment, with a number for each. before: `at` of the previous example, if there is one.

    If the previous example is the later of the two, the time since the previous example is left out.
    """
    day = date.fromordinal(moment.day)
    rounds = {WEEKDAY: day.weekday() / 7.0, MONTH: (day.month - 1 + (day.day - 1) / 31.0) / 12.0}
    if moment.second is not None:
        rounds = {HOUR: moment.second / DAY_S, **rounds}
    told: list[tuple[Value, float]] = []
    for cycle, turn in rounds.items():
        cosine, sine = _place(turn)
        told += [((cycle, "cos"), cosine), ((cycle, "sin"), sine)]
    if moment.second is not None and before is not None and moment.at >= before:
        told.append((SINCE, float(bent(np.array(moment.at - before), UNIT_S))))
    return told


class Moments(ColumnKind):
    """Names whose strings are days and times.

    For each name, an instance remembers `at` of the previous example.
    """

    NAME, MEANING = "time", "a day or a time as ISO 8601"
    EXAMPLE, SQUARE_MAX = "2026-05-01T12:00Z", CLIP**2 + 3  # the column for the time since, and three circles
    FOUND_BY: ClassVar[str] = "times"
    ASPECTS: ClassVar[Mapping[Aspect, Measure]] = {
        **dict.fromkeys(ASPECTS, Measure(standardised=False)),
        SINCE: Measure(standardised=True, limit=SINCE_CLIP, follows=True),
    }
    STRICT: ClassVar[bool] = True

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self._since = said.since
        # Before `since` existed, all names of times had this column, and models learned its clipped numbers.
        self.clipped = said.since is None

    def told(self, name: str, text: str, before: dict[str, float], *, notes: bool) -> Told:
        """Return the positions on the circles, and the time since the previous example if the configuration asks for
        it.
        """
        moment = moment_of(text)
        if moment is None:
            return ()
        if self._since is not None and name not in self._since:
            return aspects_of(moment, None)
        former = before.get(name)
        if notes and moment.second is not None:
            before[name] = moment.at if former is None else max(moment.at, former)
        return aspects_of(moment, former)

    def observe(self, records: Sequence[Record], strings: Strings) -> None:
        if self.looked_for:
            self.names = self.declared | {name for name, given in strings.items() if _are_times(given)}

    def keep(self, names: AbstractSet[str]) -> None:
        self.names = {name for name in self.names if name in names or name in self.declared}

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        found = sorted(self.names - self.declared)
        return {"times": found} if found else {}, {}

    def load(self, facts: dict[str, Any], read: StateReader) -> None:
        before, times = dict(map(tuple, facts.get("before", []))), facts.get("times", [])
        if not all(type(name) is str for name in (*before, *times)):
            raise ValueError("a name must be a string")
        if not all(type(at) is float and abs(at) <= AT_MAX for at in before.values()):
            raise ValueError(f"a moment must be a number of seconds, at most {AT_MAX:g} from 0")
        self.names = self.declared | set(times)

    def of_field(self) -> dict[str, Any]:
        return {"time": True}


def _are_times(strings: Sequence[str]) -> bool:
    return sum(moment_of(text) is not None for text in strings) >= TIMES_SHARE * len(strings)
