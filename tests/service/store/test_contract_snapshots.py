"""The contract of every store for snapshots."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import shake_128

import pytest

from hinged.service.store.base import SNAPSHOT_CHUNK_BYTES, Damaged, Event, NoModel
from tests.helpers.store_events import CREATED


@pytest.mark.parametrize("size", [0, 1, *(n * SNAPSHOT_CHUNK_BYTES + d for n in (1, 3) for d in (-1, 0, 1))])
def test_a_snapshot_comes_back_as_it_was(store, model, size):
    state = shake_128(b"%d" % size).digest(size)
    store.put_snapshot(model, 1, state)
    assert store.snapshots(model) == [1]
    assert store.get_snapshot(model, 1) == state


@pytest.fixture
def long(store, model):
    """The model, with events up to position 9."""
    store.append(model, 1, [CREATED] * 8)


def test_appends_go_on_while_a_snapshot_is_written(store, model):
    snapshot = threading.Thread(target=store.put_snapshot, args=(model, 1, bytes(64 * SNAPSHOT_CHUNK_BYTES)))
    snapshot.start()
    end = 1
    while snapshot.is_alive():
        end = store.append(model, end, [Event("learned", b"")])
    snapshot.join()
    assert store.snapshots(model) == [1]
    # About one group of appends passes per chunk. If a snapshot were written in one piece, only one or two groups would
    # pass.
    assert end > 20


def test_snapshots_of_several_models_can_be_written_at_once(store):
    names = [f"m{n}" for n in range(4)]
    for name in names:
        store.create(name, CREATED)
        store.append(name, 1, [CREATED] * 4)

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
        except NoModel:
            outcome.append(NoModel)

    snapshot = threading.Thread(target=put)
    snapshot.start()
    while not (store._in_progress or outcome) and snapshot.is_alive():
        time.sleep(0.001)
    store.delete(model)
    store.create(model, CREATED)
    snapshot.join()
    assert store.snapshots(model) == []


@pytest.mark.usefixtures("long")
def test_a_crash_in_the_middle_of_a_snapshot_leaves_the_older_snapshots(backend, reopen, store, model):
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


@pytest.mark.usefixtures("long")
def test_a_damaged_snapshot_is_not_read_but_the_one_before_is(store, model, reopen, backend):
    store.put_snapshot(model, 1, b"older")
    store.put_snapshot(model, 2, bytes(SNAPSHOT_CHUNK_BYTES + 10) + b"spoiled")
    reopen.close()
    backend.spoil(b"spoiled", b"sp0iled")
    store = reopen()
    with pytest.raises(Damaged, match="snapshot of m at position 2"):
        store.get_snapshot(model, 2)
    assert store.snapshots(model) == [2, 1]
    assert store.get_snapshot(model, 1) == b"older"
