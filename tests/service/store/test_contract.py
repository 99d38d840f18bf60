"""The contract of every store for models and their logs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SPOILED, Damaged, Event, NoModel, PositionTaken
from tests.helpers.store_events import CREATED, log


@pytest.mark.parametrize("payload", [b"", b"\0", bytes(range(256)), b"x" * (3 * 2**20)])
def test_a_payload_comes_back_as_it_was(store, model, payload):
    store.append(model, 1, [Event("learned", payload)])
    assert list(store.read(model, 1)) == [(2, Event("learned", payload))]


def test_reading_a_long_log_gives_every_event(store, model):
    events = [Event("learned", b"%d" % n) for n in range(5_000)]
    store.append(model, 1, events)
    assert [event for _, event in store.read(model, 1)] == events


def test_a_read_goes_on_during_appends_and_stops_at_the_former_end(store, model):
    store.append(model, 1, [Event("learned", bytes(2**18))] * 20)
    positions = []
    for position, _ in store.read(model, 0):
        positions.append(position)
        store.append(model, 20 + position, [Event("learned", b"")])
    assert positions == list(range(1, 22))
    assert store.end(model) == 42


def test_an_abandoned_read_harms_no_other_call(store, model, event):
    reading = store.read(model, 0)
    next(reading)
    store.append(model, 1, [event("a")])
    store.delete(model)
    assert store.models() == []


def test_many_ids_are_found_at_once(store, model):
    ids = tuple(f"é{n}" for n in range(3_000))
    store.append(model, 1, [Event("learned", b"", ids)])
    assert store.find(model, ids) == dict.fromkeys(ids, 2)


def test_models_that_append_at_once_each_keep_their_order(store):
    names = [f"m{n}" for n in range(8)]
    for name in names:
        store.create(name, CREATED)

    def write(name):
        for n in range(1, 60):
            assert store.append(name, n, [Event("learned", f"{name} {n}".encode(), (f"{n}",))]) == n + 1

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(write, names))
    for name in names:
        assert log(store, name, 1) == [(n + 1, "learned", f"{name} {n}".encode()) for n in range(1, 60)]
        assert store.find(name, ["7"]) == {"7": 8}


def test_of_writers_that_race_for_a_position_one_wins(store, model):
    barrier = threading.Barrier(8)

    def write(n):
        barrier.wait()
        try:
            return store.append(model, 1, [Event("learned", b"%d" % n)])
        except PositionTaken:
            return None

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(write, range(8)))
    assert sorted(end for end in ends if end) == [2]
    assert log(store, model, 1) == [(2, "learned", b"%d" % ends.index(2))]


def test_a_refused_append_does_not_fail_other_appends(store):
    for name in ("good", "bad"):
        store.create(name, CREATED)
    refused = []

    def write(name, ahead):
        for n in range(1, 100):
            try:
                store.append(name, n + ahead, [Event("learned", b"")])
            except PositionTaken:
                refused.append(name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("good", "bad"), (0, 1)))
    assert store.end("good") == 100
    assert refused == ["bad"] * 99


def test_a_model_without_a_log_does_not_exist(store):
    for call in (
        lambda: store.delete("m"),
        lambda: store.append("m", 0, [CREATED]),
        lambda: store.append("m", 0, []),
        lambda: store.end("m"),
        lambda: store.read("m", 0),
        lambda: store.find("m", ["a"]),
        lambda: store.find("m", []),
        lambda: store.put_snapshot("m", 1, b""),
        lambda: store.snapshots("m"),
        lambda: store.get_snapshot("m", 1),
        lambda: store.trim("m", 1),
        lambda: store.redact("m", 1, {}, []),
    ):
        with pytest.raises(NoModel):
            call()
    assert store.models() == []


def test_a_damaged_event_is_not_read_but_earlier_events_are(store, model, reopen, backend):
    store.append(model, 1, [Event("learned", b"sound"), Event("learned", b"spoiled"), Event("learned", b"next")])
    reopen.close()
    backend.spoil(b"spoiled", b"sp\x00iled")
    reading = reopen().read(model, 0)
    assert [next(reading)[1].payload for _ in range(2)] == [b"{}", b"sound"]
    with pytest.raises(Damaged, match="event 3 of m"):
        next(reading)


def test_around_a_damaged_event_the_other_events_are_read(store, model, reopen, backend):
    store.append(model, 1, [Event("learned", b"sound"), Event("learned", b"spoiled"), Event("learned", b"next")])
    reopen.close()
    backend.spoil(b"spoiled", b"sp\x00iled")
    found = list(reopen().read_around(model, 1))
    assert [at for at, _ in found] == [2, 3, 4]
    assert [event.payload for _, event in found] == [b"sound", b"", b"next"]
    assert [event is SPOILED for _, event in found] == [False, True, False]


def test_a_damaged_kind_is_not_read(store, model, reopen, backend):
    store.append(model, 1, [Event("peculiar", b"")])
    reopen.close()
    backend.spoil(b"peculiar", b"pec\xffliar")
    with pytest.raises(Damaged, match="event 2 of m"):
        list(reopen().read(model, 1))


def test_a_reader_of_a_deleted_model_learns_that_there_is_no_such_model(store, model):
    store.append(model, 1, [Event("learned", bytes(2**20))] * 5)
    reading = store.read(model, 0)
    next(reading)
    store.delete(model)
    store.create(model, CREATED)
    with pytest.raises(NoModel):
        list(reading)


def test_a_closed_store_is_unavailable(store, model, reopen):
    reopen.close()
    for call in (store.models, lambda: store.append(model, 1, [CREATED]), lambda: store.end(model)):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


def test_acknowledged_events_survive_kill_9(backend, reopen, store, model):
    reopen.close()
    acknowledged = 1
    for delay_s in (0.0, 0.003, 0.01, 0.03, 0.07, 0.1):
        body = (
            "end = store.end('m')\n"
            "for n in count(end):\n"
            "    print(store.append('m', n, [Event('learned', b'%d' % (n + 1), (str(n + 1),))]), flush=True)"
        )
        with backend.program(body) as program:
            first = program.stdout.readline()
            time.sleep(delay_s)
            program.kill()
            lines = [first, *program.stdout.read().splitlines(keepends=True)]
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        store = reopen()
        # The last append may be in the store even if the process died before it could answer.
        assert store.end(model) in {acknowledged, acknowledged + 1}
        assert log(store, model, 1) == [(n, "learned", b"%d" % n) for n in range(2, store.end(model) + 1)]
        assert store.find(model, [f"{acknowledged}"]) == {f"{acknowledged}": acknowledged}
        acknowledged = store.end(model)
        reopen.close()
    assert acknowledged > 6
