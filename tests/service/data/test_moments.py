from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.data.features.columns.moments import SINCE, aspects_of, moment_of


def aspects(text, before=None):
    return dict(aspects_of(moment_of(text), before))


@pytest.mark.parametrize(
    "text",
    ["", "2026", "2026-05", "2026-5-1", "2026-13-01", "2026-02-30", "0000-01-01", "2026-05-01T", "2026-05-01T24:00",
     "2026-05-01T12", "2026-05-01T12:60", "2026-05-01 12:00 ", "2026-05-01T12:00+2", "20260501", "2026-W18-5",
     "1.5.2026", "2026-05-01Z", "\u0662026-05-01"],
)  # fmt: skip
def test_a_text_that_is_not_a_day_or_time_gives_none(text):
    assert moment_of(text) is None


@settings(deadline=None)
@given(st.datetimes(timezones=st.just(UTC)) | st.datetimes(timezones=st.timezones()), st.sampled_from(["T", " "]))
def test_times_written_by_python_are_read_exactly(time, between):
    time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    offset = time.utcoffset()
    if offset.total_seconds() % 60 or not timedelta(days=2) < time.replace(tzinfo=None) - datetime.min:  # noqa: DTZ901
        return
    moment = moment_of(time.isoformat(between))
    assert moment.day == time.date().toordinal()
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    assert moment.second == pytest.approx((time.replace(tzinfo=None) - midnight).total_seconds(), abs=1e-9)
    since = time.replace(tzinfo=None) - offset - datetime.min + timedelta(days=1)  # noqa: DTZ901
    assert moment.at == pytest.approx(since.total_seconds(), abs=1e-4)


def test_hours_weekdays_and_months_are_circles():
    noon = aspects("2026-05-04T12:00")  # a Monday
    assert noon["hour", "cos"] == pytest.approx(-1)
    assert (noon["weekday", "cos"], noon["weekday", "sin"]) == pytest.approx((1, 0))
    late, early = aspects("2026-12-31T23:59"), aspects("2027-01-01T00:01")
    for aspect in (("hour", "cos"), ("hour", "sin"), ("month", "cos"), ("month", "sin")):
        assert late[aspect] == pytest.approx(early[aspect], abs=0.05)


def test_a_zone_shifts_the_instant_and_not_the_hour():
    here, there = moment_of("2026-05-01T09:00+02:00"), moment_of("2026-05-01 09:00:00Z")
    assert here.second == there.second
    assert there.at - here.at == 7200
    assert moment_of("2026-05-01T09:00").at == there.at


def test_a_day_has_no_hour():
    assert {aspect[0] for aspect in aspects("2026-05-01", 0.0)} == {"weekday", "month"}


def test_the_time_since_is_bent_and_missing_if_the_other_time_is_later():
    at = moment_of("2026-05-01T12:00").at
    assert [aspects("2026-05-01T12:00", at - gap)[SINCE] for gap in (0, 1, 3, 1023)] == [0, 1, 2, 10]
    assert SINCE not in aspects("2026-05-01T12:00", at + 1)
    assert SINCE not in aspects("2026-05-01T12:00")
