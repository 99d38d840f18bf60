"""What every store does where the beginning of a log is trimmed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hinged.service.store.base import Damaged, Event, PositionTaken
from tests.helpers.store_events import CREATED, log, now_and_reopened


def test_trimmed_events_are_forgotten_and_their_positions_stay_used(store, model, event, reopen):
    store.append(model, 1, [event("a"), event("b"), event("c")])
    store.trim(model, 3)
    for opened in now_and_reopened(store, reopen):
        assert [position for position, _ in opened.read(model, 0)] == [4]
        assert opened.find(model, ["a", "b", "c"]) == {"c": 4}
        assert opened.end(model) == 4
    assert opened.append(model, 4, [event("d")]) == 5


def test_the_end_is_known_when_all_is_trimmed(store, model, event, reopen):
    store.append(model, 1, [event("a")])
    store.trim(model, 99)
    for opened in now_and_reopened(store, reopen):
        assert opened.end(model) == 2
        assert log(opened, model) == []
    with pytest.raises(PositionTaken):
        opened.append(model, 0, [event("b")])
    assert opened.append(model, 2, [event("b")]) == 3
    opened.trim(model, 1)
    assert log(opened, model) == [(3, "learned", event("b").payload)]


def test_a_long_log_is_trimmed_up_to_the_position_asked_for(store, model):
    store.append(model, 1, [Event("learned", bytes(500), (f"{n}",)) for n in range(2, 10_002)])
    store.trim(model, 7_000)
    assert [position for position, _ in store.read(model, 0)] == list(range(7_001, 10_002))
    assert store.find(model, [f"{n}" for n in range(2, 10_002)]) == {f"{n}": n for n in range(7_001, 10_002)}


def test_an_id_of_a_trimmed_event_is_found_where_it_came_again(store, model, event):
    store.append(model, 1, [event("a"), event("a")])
    store.trim(model, 2)
    assert store.find(model, ["a"]) == {"a": 3}


def test_a_busy_log_keeps_no_trim_waiting(store, model):
    store.create("busy", CREATED)
    stop = threading.Event()

    def write():
        end = 1
        while not stop.is_set():
            end = store.append("busy", end, [CREATED])
        return end

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(write)
        try:  # each ends while the other goes on
            for n in range(1, 41):
                store.append(model, n, [CREATED])
                store.trim(model, n)
        finally:
            stop.set()
        assert busy.result() > 40


def test_a_trim_under_a_reader_is_not_passed_over_in_silence(store, model):
    store.append(model, 1, [Event("learned", bytes(2**20))] * 5)
    reading = store.read(model, 0)
    next(reading)
    store.trim(model, 5)
    with pytest.raises(Damaged, match="missing"):
        list(reading)
