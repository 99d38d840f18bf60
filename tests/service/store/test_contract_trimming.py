"""The contract of every store for trimmed logs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hinged.service.store.base import Damaged, Event
from tests.helpers.store_events import CREATED


def test_a_long_log_is_trimmed_up_to_the_position_asked_for(store, model):
    store.append(model, 1, [Event("learned", bytes(500), (f"{n}",)) for n in range(2, 10_002)])
    store.trim(model, 7_000)
    assert [position for position, _ in store.read(model, 0)] == list(range(7_001, 10_002))
    assert store.find(model, [f"{n}" for n in range(2, 10_002)]) == {f"{n}": n for n in range(7_001, 10_002)}


def test_a_trim_ends_although_the_log_is_busy(store, model):
    store.create("busy", CREATED)
    stop = threading.Event()

    def write():
        end = 1
        while not stop.is_set():
            end = store.append("busy", end, [CREATED])
        return end

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(write)
        try:  # the trim and the appends end while the other goes on
            for n in range(1, 41):
                store.append(model, n, [CREATED])
                store.trim(model, n)
        finally:
            stop.set()
        assert busy.result() > 40


def test_a_reader_notices_a_trim_of_its_events(store, model):
    store.append(model, 1, [Event("learned", bytes(2**20))] * 5)
    reading = store.read(model, 0)
    next(reading)
    store.trim(model, 5)
    with pytest.raises(Damaged, match="missing"):
        list(reading)
