from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import SNAPSHOT_CHUNK_BYTES, Damaged, Event
from tests.helpers.store_events import CREATED, EMPTY, log


def word(rng):
    """Return a word that does not occur by chance and cannot be compressed."""
    return f"{rng.getrandbits(128):032x}"


# -- what a redaction changes ---------------------------------------------------------------------------------------


def test_a_larger_event_may_replace_a_smaller_one(store, model, event):
    store.append(model, 1, [event("a"), event("b")])
    large = bytes(range(256)) * 20_000
    store.redact(model, 2, {2: Event("learned", large)}, [])
    assert list(store.read(model, 1)) == [(2, Event("learned", large)), (3, Event("learned", event("b").payload))]


def test_replacing_a_damaged_event_mends_only_that_event(store, model, reopen, backend):
    store.append(model, 1, [Event("learned", b"spoiled"), Event("learned", b"ruined"), Event("learned", b"sound")])
    reopen.close()
    backend.spoil(b"spoiled", b"sp\x00iled")
    backend.spoil(b"ruined", b"ru\x00ned")
    store = reopen()
    store.redact(model, 2, {2: EMPTY}, [])
    with pytest.raises(Damaged, match="event 3 of m fails its checksum"):
        log(store, model)
    store.redact(model, 3, {3: EMPTY}, [])
    assert log(store, model, 1) == [(2, "redacted", b""), (3, "redacted", b""), (4, "learned", b"sound")]


@pytest.mark.long
def test_many_events_and_ids_are_redacted_wherever_they_are(store, model):
    ids = [f"{n}" for n in range(2, 8_002)]
    store.append(model, 1, [Event("learned", b"%d" % n * 90, (f"{n}",)) for n in range(2, 8_002)])
    many = tuple(f"many {n}" for n in range(10_000))
    store.append(model, 8_001, [Event("learned", b"many", many), CREATED])
    gone = {at: Event("less", b"%d" % at) for at in range(2, 8_002) if at % 3}
    store.redact(model, 8_002, gone | {8_002: EMPTY}, [f"{at}" for at in gone] + [*many[:9_500]])
    expected = [(at, "less", b"%d" % at) if at in gone else (at, "learned", b"%d" % at * 90) for at in range(2, 8_002)]
    assert log(store, model, 1) == [*expected, (8_002, "redacted", b""), (8_003, "created", b"{}")]
    assert store.find(model, ids) == {f"{at}": at for at in range(2, 8_002) if at not in gone}
    assert store.find(model, many) == dict.fromkeys(many[9_500:], 8_002)


def test_large_events_are_redacted_wherever_they_are(store, model):
    store.append(model, 1, [Event("learned", b"%d" % n * 2**19) for n in range(8)])
    gone = {at: Event("less", b"%d" % at * 2**20) for at in (3, 4, 8)}
    store.redact(model, 9, gone, [])
    assert [event for _, event in store.read(model, 1)] == [
        gone.get(at, Event("learned", b"%d" % (at - 2) * 2**19)) for at in range(2, 10)
    ]


# -- earlier states are not rebuilt ---------------------------------------------------------------------------------


@pytest.mark.parametrize("forget", ["redact", "trim"])
def test_an_earlier_snapshot_that_is_being_written_is_dropped(store, model, event, forget, monkeypatch):
    store.append(model, 1, [event("a"), event("b")])
    begun, go_on, outcome = threading.Event(), threading.Event(), []

    def hold(_):
        begun.set()
        go_on.wait()

    def put():
        try:
            store.put_snapshot(model, 1, bytes(3 * SNAPSHOT_CHUNK_BYTES))
        except StoreUnavailable as error:
            outcome.append(str(error))

    with monkeypatch.context() as patched:
        for name in ("sqlite.store", "redis.chunks"):
            patched.setattr(f"hinged.service.store.{name}.snapshot_hash", lambda _: SimpleNamespace(update=hold))
        snapshot = threading.Thread(target=put)
        snapshot.start()
        begun.wait()
    if forget == "trim":
        store.trim(model, 2)
    else:
        store.redact(model, 2, {2: EMPTY}, ["a"])
    store.put_snapshot(model, 2, b"less")
    go_on.set()
    snapshot.join()
    assert outcome == ["a snapshot of m was dropped while it was written: the log was trimmed or redacted"]
    assert store.snapshots(model) == [2]


# -- other work meanwhile -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_appends_go_on_during_a_redaction_and_none_is_lost(store, model):
    store.append(model, 1, [Event("learned", b"%d" % n * 100) for n in range(2, 10_002)])
    gone = dict.fromkeys(range(2, 10002, 2), EMPTY)
    redaction = threading.Thread(target=store.redact, args=(model, 10_001, gone, []))
    redaction.start()
    end = 10_001
    while redaction.is_alive():
        end = store.append(model, end, [Event("learned", b"%d" % (end + 1) * 100, (f"{end + 1}",))])
    redaction.join()
    assert end > 10_001
    assert log(store, model, 1) == [
        (at, "redacted", b"") if at in gone else (at, "learned", b"%d" % at * 100) for at in range(2, end + 1)
    ]
    assert store.find(model, [f"{end}"]) == {f"{end}": end}


def test_a_reader_during_a_redaction_finds_the_old_or_the_new_event(store, model):
    store.append(model, 1, [Event("learned", b"%d" % n * 1_000) for n in range(2, 2_002)])
    gone = dict.fromkeys(range(2, 2002), EMPTY)
    redaction = threading.Thread(target=store.redact, args=(model, 2_001, gone, []))
    redaction.start()
    reads = 0
    while reads < 3 or redaction.is_alive():
        for at, event in store.read(model, 1):
            assert event in (EMPTY, Event("learned", b"%d" % at * 1_000))
        assert at == 2_001
        reads += 1
    redaction.join()
    assert {event for _, event in store.read(model, 1)} == {EMPTY}


def test_simultaneous_redactions_are_all_done(store, model):
    store.append(model, 1, [Event("learned", b"%d" % n * 100, (f"{n}",)) for n in range(2, 3_002)])

    def redact(n):
        store.redact(model, 3_001, dict.fromkeys(range(2 + n, 3002, 4), EMPTY), [f"{2 + n}"])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(redact, range(3)))
    kept = {at: b"%d" % at * 100 for at in range(5, 3_002, 4)}
    assert {at: event.payload for at, event in store.read(model, 1) if event != EMPTY} == kept
    assert store.find(model, ["2", "3", "4", "5"]) == {"5": 5}


def test_appends_and_reads_go_on_during_a_purge(store, model):
    store.append(model, 1, [Event("learned", bytes(1_000))] * 3_000)
    told = []
    purge = threading.Thread(target=lambda: told.append(store.purge()))
    purge.start()
    for n in count(3_001):
        assert store.append(model, n, [Event("learned", b"%d" % (n + 1))]) == n + 1
        assert log(store, model, n) == [(n + 1, "learned", b"%d" % (n + 1))]
        if not purge.is_alive():
            break
    purge.join()
    assert told == [[]]
    assert [at for at, _ in store.read(model, 0)] == list(range(1, n + 2))


# -- the bytes in the files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 40, 3_000])
@pytest.mark.parametrize("way", ["redact", "trim", "delete", "snapshot"])
def test_after_a_purge_no_file_holds_anything_removed_or_replaced(store, model, backend, reopen, way, size):
    rng = random.Random(size)
    kept, gone, ids = word(rng), word(rng), word(rng)
    store.create("other", Event("created", kept.encode(), (f"{kept} id",)))
    store.append(model, 1, [Event("learned", bytes(size))] * 50)
    store.append(model, 51, [Event("learned", gone.encode() * size, (ids,)), Event("learned", bytes(size))])
    store.put_snapshot(model, 53, gone.encode() * size)
    store.append(model, 53, [Event("learned", bytes(size))] * 50)
    assert backend.holding([kept, gone, ids]) == {kept, gone, ids}
    for position in (101, 102, 103):
        store.put_snapshot(model, position, b"less")
    if way == "redact":
        store.redact(model, 103, {52: EMPTY}, [ids])
    elif way == "trim":
        store.trim(model, 52)
    elif way == "delete":
        store.delete(model)
    else:
        store.redact(model, 52, {52: EMPTY}, [ids])
    assert store.purge() == []
    assert backend.holding([kept, gone, ids]) == {kept}
    store = reopen()
    assert log(store, "other") == [(1, "created", kept.encode())]
    assert backend.holding([kept, gone, ids]) == {kept}


@pytest.mark.long
def test_after_a_purge_no_file_holds_ids_that_were_moved_before_they_were_removed(store, model, backend):
    # SQLite splits pages as ids are inserted. Moved ids remain unused in the old page.
    rng = random.Random(20)
    ids = [word(rng) + "x" * rng.choice([0, 10, 150]) for _ in range(20_000)]
    for n in range(0, len(ids), 500):
        store.append(model, n // 500 + 1, [Event("learned", b"", tuple(ids[n : n + 500]))])
    store.redact(model, store.end(model), {}, ids[::2])
    assert store.purge() == []
    assert backend.holding([name[:32] for name in ids]) == {name[:32] for name in ids[1::2]}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_after_any_history_the_files_hold_only_what_is_kept(store, backend, reopen, seed):
    rng = random.Random(seed)
    logs, trimmed, states, said, dropped = {}, {}, {}, set(), set()

    def event():
        fresh, name = word(rng), word(rng)
        said.update((fresh, name))
        return Event("learned", fresh.encode() * rng.choice([1, 1, 5, 300, 5_000]), (name,))

    def words(event):
        return {event.payload[:32].decode(), *event.ids}

    for step in range(120):
        name = rng.choice("abc")
        if name not in logs:
            logs[name], trimmed[name], states[name] = [event()], 0, {}
            store.create(name, logs[name][0])
            continue
        events, what = logs[name], rng.random()
        if what < 0.55:
            more = [event() for _ in range(rng.choice([1, 3, 60]))]
            store.append(name, len(events), more)
            events += more
        elif what < 0.75:
            through = rng.randint(1, len(events))
            places = rng.sample(range(1, through + 1), rng.randint(0, min(through, 4)))
            ids = [i for at in places for i in events[at - 1].ids]
            for at in places:
                dropped |= words(events[at - 1])
                events[at - 1] = Event("less", b"", ())
            store.redact(name, through, {at: events[at - 1] for at in places}, ids)
            states[name] = {at: state for at, state in states[name].items() if at >= through}
        elif what < 0.8:
            trimmed[name] = max(trimmed[name], rng.randint(0, len(events)))
            store.trim(name, trimmed[name])
            states[name] = {at: state for at, state in states[name].items() if at >= trimmed[name]}
        elif what < 0.9:
            state = word(rng)
            said.add(state)
            kept = {**states[name], len(events): state}
            states[name] = {at: kept[at] for at in sorted(kept)[-2:]}
            store.put_snapshot(name, len(events), state.encode() * rng.choice([1, 300, 50_000]))
        elif what < 0.94:
            store.delete(name)
            for mine in (logs, trimmed, states):
                del mine[name]
        elif what < 0.97:
            store = reopen()
        if step % 40 == 39:
            assert store.purge() == []
            kept = {w for each, mine in logs.items() for e in mine[trimmed[each] :] for w in words(e)} - {""}
            kept |= {state for mine in states.values() for state in mine.values()}
            assert backend.holding(sorted(said)) == kept
            assert kept < said


# -- interrupted by a crash -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_kill_9_during_a_redaction_leaves_each_event_old_or_new_and_the_next_call_completes_it(
    backend, reopen, store, model
):
    rng = random.Random(9)
    old = {at: word(rng) for at in range(2, 3_002)}
    ids = {at: word(rng) for at in old}
    gone = [at for at in old if at % 2]
    store.append(model, 1, [Event("learned", old[at].encode() * 8, (ids[at],)) for at in old])
    reopen.close()
    body = (
        f"gone, ids = {gone!r}, {[ids[at] for at in gone]!r}\n"
        "print('go', flush=True)\n"
        "store.redact('m', 3001, {at: Event('redacted', b'') for at in gone}, ids)\n"
        "print('redacted', flush=True)\n"
        "assert store.purge() == []\n"
        "print('purged', flush=True)\n"
    )
    ended = set()
    for n, delay_s in enumerate([0.005, 0.02, 0.04, 0.08, 0.0, 0.01, 0.03]):
        with backend.program(body) as program:
            for awaited in ("go\n", "redacted\n")[: 1 + (n > 3)]:
                assert program.stdout.readline() == awaited
            time.sleep(delay_s)
            program.kill()
            ended.add(program.stdout.read())
        store = reopen()
        now = dict(store.read(model, 1))
        assert now.keys() == old.keys()
        assert store.find(model, [*ids.values()]) == {
            ids[at]: at for at in old if now[at] == Event("learned", old[at].encode() * 8)
        }
        assert all(now[at] == EMPTY for at in gone if now[at].kind != "learned")
        assert store.append(model, 3_001, []) == 3_001
        reopen.close()
    assert "" in ended
    store = reopen()
    store.redact(model, 3_001, dict.fromkeys(gone, EMPTY), [ids[at] for at in gone])
    assert store.purge() == []
    kept = {each for at in old if at not in gone for each in (old[at], ids[at])}
    assert backend.holding([*old.values(), *ids.values()]) == kept
