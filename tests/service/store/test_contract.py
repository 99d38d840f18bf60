from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import shake_128

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import (
    SNAPSHOT_CHUNK_BYTES,
    SPOILED,
    Damaged,
    Event,
    PositionTaken,
)

CREATED = Event("created", b"{}")


@pytest.fixture
def model(store):
    store.create("m", CREATED)
    return "m"


def log(store, model, after=0):
    return [(position, event.kind, event.payload) for position, event in store.read(model, after)]


def now_and_reopened(store, reopen):
    yield store
    yield reopen()


def test_a_new_store_is_empty(store):
    assert store.models() == []


def test_a_new_model_has_its_first_event_at_position_1(store):
    store.create("m", Event("created", b"config", ("a",)))
    assert store.models() == ["m"]
    assert store.end("m") == 1
    assert log(store, "m") == [(1, "created", b"config")]
    assert store.find("m", ["a"]) == {"a": 1}


def test_a_model_is_created_once(store, model):
    with pytest.raises(KeyError):
        store.create(model, Event("created", b"other"))
    assert log(store, model) == [(1, "created", b"{}")]


def test_models_are_listed_in_order_of_their_names(store):
    for name in ("b", "a", "B"):
        store.create(name, CREATED)
    assert store.models() == ["B", "a", "b"]


def test_positions_have_no_holes(store, model, event):
    assert store.append(model, 1, [event("a")]) == 2
    assert store.append(model, 2, [event("b"), event("c"), event("d")]) == 5
    assert store.append(model, 5, [event("e")]) == 6
    assert [position for position, _ in store.read(model, 0)] == [1, 2, 3, 4, 5, 6]


def test_no_events_append_nothing(store, model):
    assert store.append(model, 1, []) == 1
    with pytest.raises(PositionTaken):
        store.append(model, 2, [])
    assert store.end(model) == 1


@pytest.mark.parametrize("after", [0, 2, 7])
def test_an_append_elsewhere_than_at_the_end_is_refused_and_writes_nothing(store, model, event, after):
    with pytest.raises(PositionTaken):
        store.append(model, after, [event("a"), event("b")])
    assert store.end(model) == 1
    assert store.find(model, ["a", "b"]) == {}


def test_several_events_are_appended_all_or_none(store, model, event):
    unwritable = Event("learned", b"", ("\ud800",))
    with pytest.raises(UnicodeEncodeError):
        store.append(model, 1, [event("a"), event("b"), unwritable])
    assert store.end(model) == 1
    assert store.find(model, ["a", "b"]) == {}
    assert store.append(model, 1, [event("c")]) == 2


@pytest.mark.parametrize("payload", [b"", b"\0", bytes(range(256)), b"x" * (3 * 2**20)])
def test_a_payload_comes_back_as_it_was(store, model, payload):
    store.append(model, 1, [Event("learned", payload)])
    assert list(store.read(model, 1)) == [(2, Event("learned", payload))]


def test_reading_begins_behind_the_position_asked_for(store, model, event):
    store.append(model, 1, [event("a"), event("b")])
    assert [position for position, _ in store.read(model, 1)] == [2, 3]
    assert log(store, model, 3) == []
    assert log(store, model, 9) == []


def test_reading_a_long_log_gives_every_event(store, model):
    events = [Event("learned", b"%d" % n) for n in range(5_000)]
    store.append(model, 1, events)
    assert [event for _, event in store.read(model, 1)] == events


def test_reading_goes_on_while_others_append_and_ends_where_the_log_ended(store, model):
    store.append(model, 1, [Event("learned", bytes(2**18))] * 20)
    positions = []
    for position, _ in store.read(model, 0):
        positions.append(position)
        store.append(model, 20 + position, [Event("learned", b"")])
    assert positions == list(range(1, 22))
    assert store.end(model) == 42


def test_an_abandoned_read_harms_nobody(store, model, event):
    reading = store.read(model, 0)
    next(reading)
    store.append(model, 1, [event("a")])
    store.delete(model)
    assert store.models() == []


def test_ids_are_found_at_the_position_of_their_event(store, model, event):
    store.append(model, 1, [event("a", "b"), event("c")])
    store.create("other", Event("created", b"", ("z",)))
    assert store.find(model, ["c", "a", "z", "b", "A"]) == {"a": 2, "b": 2, "c": 3}
    assert store.find(model, []) == {}


def test_an_id_is_found_at_its_newest_event(store, model, event):
    store.append(model, 1, [event("a"), event("a", "b"), event("c")])
    assert store.find(model, ["a"]) == {"a": 3}


def test_many_ids_are_found_at_once(store, model):
    ids = tuple(f"é{n}" for n in range(3_000))
    store.append(model, 1, [Event("learned", b"", ids)])
    assert store.find(model, ids) == dict.fromkeys(ids, 2)


def test_all_is_there_after_reopening(store, model, event, reopen):
    store.append(model, 1, [event("a"), event("b")])
    store.put_snapshot(model, 2, b"state")
    before = log(store, model)
    store = reopen()
    assert store.models() == [model]
    assert log(store, model) == before
    assert store.find(model, ["b"]) == {"b": 3}
    assert store.get_snapshot(model, 2) == b"state"
    assert store.append(model, 3, [event("c")]) == 4


def test_models_that_append_at_once_keep_each_its_order(store):
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


def test_who_is_refused_does_not_take_others_down(store):
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


def test_a_model_without_a_log_is_a_key_error(store):
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
        with pytest.raises(KeyError):
            call()
    assert store.models() == []


@pytest.mark.parametrize("size", [0, 1, *(n * SNAPSHOT_CHUNK_BYTES + d for n in (1, 3) for d in (-1, 0, 1))])
def test_a_snapshot_comes_back_as_it_was(store, model, size):
    state = shake_128(b"%d" % size).digest(size)
    store.put_snapshot(model, 1, state)
    assert store.snapshots(model) == [1]
    assert store.get_snapshot(model, 1) == state


def test_the_newest_two_snapshots_are_kept(store, model):
    store.create("other", CREATED)
    store.put_snapshot("other", 1, b"other")
    for position in (1, 5, 3, 9):
        store.put_snapshot(model, position, b"%d" % position)
    assert store.snapshots(model) == [9, 5]
    assert [store.get_snapshot(model, position) for position in (9, 5)] == [b"9", b"5"]
    with pytest.raises(KeyError):
        store.get_snapshot(model, 3)
    assert store.snapshots("other") == [1]


def test_a_snapshot_at_the_same_position_is_replaced(store, model):
    for state in (b"a", b"b", b"c"):
        store.put_snapshot(model, 1, b"older")
        store.put_snapshot(model, 2, state)
    assert store.snapshots(model) == [2, 1]
    assert store.get_snapshot(model, 2) == b"c"


def test_appends_go_on_while_a_snapshot_is_written(store, model):
    snapshot = threading.Thread(target=store.put_snapshot, args=(model, 1, bytes(64 * SNAPSHOT_CHUNK_BYTES)))
    snapshot.start()
    end = 1
    while snapshot.is_alive():
        end = store.append(model, end, [Event("learned", b"")])
    snapshot.join()
    assert store.snapshots(model) == [1]
    # About a group for each chunk; a snapshot in one piece would let one or two through.
    assert end > 20


def test_snapshots_of_several_models_can_be_written_at_once(store):
    names = [f"m{n}" for n in range(4)]
    for name in names:
        store.create(name, CREATED)

    def write(name):
        for position in range(1, 6):
            store.put_snapshot(name, position, name.encode() * SNAPSHOT_CHUNK_BYTES)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(write, names))
    for name in names:
        assert store.snapshots(name) == [5, 4]
        assert store.get_snapshot(name, 5) == name.encode() * SNAPSHOT_CHUNK_BYTES


def test_a_snapshot_of_a_model_that_is_deleted_meanwhile_leaves_nothing(store, model):
    outcome = []

    def put():
        try:
            store.put_snapshot(model, 1, bytes(64 * SNAPSHOT_CHUNK_BYTES))
        except KeyError:
            outcome.append(KeyError)

    snapshot = threading.Thread(target=put)
    snapshot.start()
    while not (store._in_progress or outcome) and snapshot.is_alive():
        time.sleep(0.001)
    store.delete(model)
    store.create(model, CREATED)
    snapshot.join()
    assert store.snapshots(model) == []


def test_a_crash_half_way_of_a_snapshot_leaves_the_older_ones(backend, reopen, store, model):
    for position in (1, 2):
        store.put_snapshot(model, position, b"%d" % position)
    reopen.close()
    for delay_s in (0.0, 0.02, 0.08):
        body = f"state = bytes({128 * SNAPSHOT_CHUNK_BYTES})\nprint('go', flush=True)\n"
        with backend.program(f"{body}store.put_snapshot('m', 3, state)\nprint('done')") as program:
            assert program.stdout.readline() == "go\n"
            time.sleep(delay_s)
            program.kill()
            assert program.stdout.read() == ""
        store = reopen()
        assert store.snapshots(model) == [2, 1]
        assert [store.get_snapshot(model, position) for position in (2, 1)] == [b"2", b"1"]
        reopen.close()
    store = reopen()
    store.put_snapshot(model, 3, b"3")
    assert store.get_snapshot(model, 3) == b"3"


def test_a_damaged_event_is_not_read_and_those_before_it_are(store, model, reopen, backend):
    store.append(model, 1, [Event("learned", b"sound"), Event("learned", b"spoiled"), Event("learned", b"next")])
    reopen.close()
    backend.spoil(b"spoiled", b"sp\x00iled")
    reading = reopen().read(model, 0)
    assert [next(reading)[1].payload for _ in range(2)] == [b"{}", b"sound"]
    with pytest.raises(Damaged, match="event 3 of m"):
        next(reading)


def test_around_a_damaged_event_the_others_are_read(store, model, reopen, backend):
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


def test_a_damaged_snapshot_is_not_read_and_the_one_before_is(store, model, reopen, backend):
    store.put_snapshot(model, 1, b"older")
    store.put_snapshot(model, 2, bytes(SNAPSHOT_CHUNK_BYTES + 10) + b"spoiled")
    reopen.close()
    backend.spoil(b"spoiled", b"sp0iled")
    store = reopen()
    with pytest.raises(Damaged, match="snapshot of m at position 2"):
        store.get_snapshot(model, 2)
    assert store.snapshots(model) == [2, 1]
    assert store.get_snapshot(model, 1) == b"older"


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


def test_snapshots_that_no_log_follows_go_with_what_is_trimmed(store, model, event):
    store.append(model, 1, [event("a"), event("b"), event("c")])
    store.put_snapshot(model, 2, b"2")
    store.put_snapshot(model, 3, b"3")
    store.trim(model, 2)
    assert store.snapshots(model) == [3, 2]
    store.trim(model, 3)
    assert store.snapshots(model) == [3]


def test_a_trim_under_a_reader_is_not_passed_over_in_silence(store, model):
    store.append(model, 1, [Event("learned", bytes(2**20))] * 5)
    reading = store.read(model, 0)
    next(reading)
    store.trim(model, 5)
    with pytest.raises(Damaged, match="missing"):
        list(reading)


def test_a_deletion_under_a_reader_is_a_key_error(store, model):
    store.append(model, 1, [Event("learned", bytes(2**20))] * 5)
    reading = store.read(model, 0)
    next(reading)
    store.delete(model)
    store.create(model, CREATED)
    with pytest.raises(KeyError):
        list(reading)


def test_a_name_used_again_finds_nothing_of_the_old_model(store, model, event, reopen):
    store.append(model, 1, [event("a"), event("b")])
    store.put_snapshot(model, 1, b"old")
    store.delete(model)
    assert store.models() == []
    store.create(model, CREATED)
    for opened in now_and_reopened(store, reopen):
        assert log(opened, model) == [(1, "created", b"{}")]
        assert opened.find(model, ["a", "b"]) == {}
        assert opened.snapshots(model) == []


def test_deleting_one_model_leaves_the_others(store, model):
    store.create("other", Event("created", b"other", ("a",)))
    store.put_snapshot("other", 1, b"kept")
    store.delete(model)
    assert log(store, "other") == [(1, "created", b"other")]
    assert store.find("other", ["a"]) == {"a": 1}
    assert store.get_snapshot("other", 1) == b"kept"


def test_a_closed_store_is_unavailable(store, model, reopen):
    reopen.close()
    for call in (store.models, lambda: store.append(model, 1, [CREATED]), lambda: store.end(model)):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


def test_what_was_acknowledged_outlives_kill_9(backend, reopen, store, model):
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
        # The last append may last although the process died before it could say so.
        assert store.end(model) in {acknowledged, acknowledged + 1}
        assert log(store, model, 1) == [(n, "learned", b"%d" % n) for n in range(2, store.end(model) + 1)]
        assert store.find(model, [f"{acknowledged}"]) == {f"{acknowledged}": acknowledged}
        acknowledged = store.end(model)
        reopen.close()
    assert acknowledged > 6


class StoreAgainstDict(RuleBasedStateMachine):
    """A store does what a dict of lists would do."""

    reopen = None
    names = st.sampled_from(["a", "b"])
    ids = st.lists(st.sampled_from(["", "1", "2", "é", "\0", "2\0"]), max_size=2)
    event = st.builds(Event, st.text(st.characters(codec="utf-8"), max_size=3), st.binary(max_size=5), ids.map(tuple))
    events = st.lists(event, max_size=4)

    def __init__(self):
        super().__init__()
        self.store = self.reopen()
        for name in self.store.models():
            self.store.delete(name)
        self.logs = {}
        self.index = {}
        self.snapshots = {}
        self.trimmed = {}

    def expect(self, known, call):
        if known:
            return call()
        with pytest.raises(KeyError):
            call()
        return None

    @rule(name=names)
    def create(self, name):
        self.expect(name not in self.logs, lambda: self.store.create(name, CREATED))
        if name not in self.logs:
            self.logs[name], self.index[name], self.snapshots[name], self.trimmed[name] = [CREATED], {}, {}, 0

    @rule(name=names)
    def delete(self, name):
        self.expect(name in self.logs, lambda: self.store.delete(name))
        for kept in (self.logs, self.index, self.snapshots, self.trimmed):
            kept.pop(name, None)

    @rule(name=names, events=events, astray=st.sampled_from([0, 0, 0, 0, -1, 1]))
    def append(self, name, events, astray):
        known = self.logs.get(name, [])
        after = len(known) + astray
        if known and astray:
            with pytest.raises(PositionTaken):
                self.store.append(name, after, events)
        else:
            end = self.expect(name in self.logs, lambda: self.store.append(name, after, events))
            if name in self.logs:
                self.index[name] |= {i: at for at, event in enumerate(events, after + 1) for i in event.ids}
            known += events
            assert end == (len(known) if name in self.logs else None)

    @rule(name=names, position=st.integers(0, 5), state=st.binary(max_size=5))
    def put_snapshot(self, name, position, state):
        self.expect(name in self.logs, lambda: self.store.put_snapshot(name, position, state))
        if name in self.logs:
            kept = {**self.snapshots[name], position: state}
            self.snapshots[name] = {at: kept[at] for at in sorted(kept)[-2:]}

    @rule(name=names, through=st.integers(-1, 12))
    def trim(self, name, through):
        self.expect(name in self.logs, lambda: self.store.trim(name, through))
        if name in self.logs:
            through = min(through, len(self.logs[name]))
            self.trimmed[name] = max(self.trimmed[name], through)
            self.snapshots[name] = {at: s for at, s in self.snapshots[name].items() if at >= through}

    @rule(name=names, through=st.integers(0, 12), places=st.sets(st.integers(-1, 12), max_size=3), ids=ids, new=event)
    def redact(self, name, through, places, ids, new):
        end = len(self.logs.get(name, []))
        call = partial(self.store.redact, name, through, dict.fromkeys(places, new), ids)
        if any(not 1 <= at <= through for at in places):
            with pytest.raises(ValueError, match="can be replaced"):
                call()
        elif name in self.logs and through > end:
            with pytest.raises(PositionTaken):
                call()
        else:
            self.expect(name in self.logs, call)
        if name in self.logs and all(1 <= at <= through for at in places) and through <= end:
            for at in places:
                self.logs[name][at - 1] = new
            for i in ids:
                if self.index[name].get(i, end + 1) <= through:
                    del self.index[name][i]
            self.snapshots[name] = {at: s for at, s in self.snapshots[name].items() if at >= through}

    @rule()
    def purge(self):
        assert self.store.purge() == []

    @rule()
    def close_and_open(self):
        self.store = self.reopen()

    @rule(name=names, after=st.integers(0, 12))
    def look(self, name, after):
        assert self.store.models() == sorted(self.logs)
        if name not in self.logs:
            return
        events = list(enumerate(self.logs[name], 1))
        assert self.store.end(name) == len(events)
        assert log(self.store, name, after) == [
            (at, event.kind, event.payload) for at, event in events if at > max(after, self.trimmed[name])
        ]
        ids = {i: at for i, at in self.index[name].items() if at > self.trimmed[name]}
        assert self.store.find(name, ["", "1", "2", "é", "\0", "2\0", "3"]) == ids
        assert self.store.snapshots(name) == sorted(self.snapshots[name], reverse=True)
        for at, state in self.snapshots[name].items():
            assert self.store.get_snapshot(name, at) == state


def test_any_sequence_of_calls_does_what_a_dict_would_do(reopen):
    machine = type("Machine", (StoreAgainstDict,), {"reopen": staticmethod(reopen)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
