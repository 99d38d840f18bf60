"""Seals of a journal with a real store: what they cover, and what a redaction removes from them."""

import asyncio
import random
import subprocess
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hinged.service.commands.change import Configure
from hinged.service.engine.jobs import erasure
from hinged.service.engine.receipts.sealing import signing_key
from hinged.service.errors import Conflict, Gone, Invalid, NotFound, Unavailable
from hinged.service.model.events.receipts import EventsSealed
from hinged.service.model.receipts import GONE, Tree, commitment_of
from hinged.service.settings import Settings
from hinged.solvers.dual.lasvm import LASVM
from tests.faults.tampering import write_key
from tests.helpers.states import load_model
from tests.helpers.worker import SIZES, examples_of, learning, on_worker, until, with_worker

RECEIPTS = {"receipts": True}


def seals_of(store):
    """Return the seals of a log. Each event before the last seal must be in exactly one of them."""
    events, seals = dict(store.read("m", 0)), []
    for at, event in events.items():
        if event.kind == EventsSealed.KIND:
            seals.append((at, EventsSealed.decoded(event.payload)))
    covered = [seal.first + k for _, seal in seals for k in range(len(seal.kinds))]
    plain = [at for at, event in events.items() if event.kind != EventsSealed.KIND and at < seals[-1][0]]
    assert covered == [at for at in plain if at >= seals[0][1].first]
    for at, seal in seals:
        for k, (salt, commitment) in enumerate(zip(seal.salts, seal.commitments, strict=True), seal.first):
            assert k < at
            assert salt == GONE or commitment == commitment_of(salt, events[k].payload)
    return seals


async def teach(worker, *seeds):
    for seed in seeds:
        await worker.learn(learning(worker.model, examples_of(seed, 6)))


@on_worker(configuration=RECEIPTS)
async def test_an_event_that_was_set_aside_is_in_the_next_seal(worker, store, monkeypatch):
    await teach(worker, 1, 2)
    learn = LASVM.learn

    def may_fail(self, rows, *arguments, **options):
        if 7.5 in rows.values:
            raise ValueError("no such thing")
        return learn(self, rows, *arguments, **options)

    monkeypatch.setattr(LASVM, "learn", may_fail)
    with pytest.raises(Unavailable):
        await worker.learn(learning(worker.model, [("bad", [7.5, 1.0], "a")]))
    await until(lambda: worker.obstacle is not None)
    await worker.set_aside(None)
    monkeypatch.setattr(LASVM, "learn", learn)
    assert store.end("m") == worker.model.receipts.through + 1
    await teach(worker, 4)
    assert "set_aside" in seals_of(store)[-1][1].kinds
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


async def turn(worker, on):
    await worker.command(Configure({"receipts": on}, Settings()))


@on_worker(configuration=RECEIPTS)
async def test_a_new_tree_begins_after_events_without_a_seal(worker, store):
    await teach(worker, 1, 2)
    origins = [worker.model.receipts.head.origin]
    for pause in (0, 1, 3):
        await turn(worker, False)
        await teach(worker, *range(10 * pause, 11 * pause))
        await turn(worker, True)
        await teach(worker, 100 + pause)
        origins.append(worker.model.receipts.head.origin)
    assert len({*origins}) == 4
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


async def ended(worker, jobs):
    """Wait for all jobs, and remove them from the list."""
    while jobs:
        await asyncio.wait_for(worker.ended(jobs.pop()), 300)


STEPS = ["on", "off", "learn", "learn", "back", "forget"]


@pytest.mark.long
@given(steps=st.lists(st.sampled_from(STEPS), max_size=9), seed=st.integers(0, 99))
@settings(max_examples=40)
@example(["learn", "off", "back", "learn"], 1)  # a rollback to a state with receipts, while they are off
@example(["off", "learn", "on", "learn", "off", "back", "forget"], 3)
def test_no_head_is_followed_by_another_tree_however_receipts_are_turned_on_and_off(steps, seed):
    """Two heads of one tree never have one size, and no salt opens an event that was forgotten."""

    async def history(worker, store):
        rng, number, known, jobs = random.Random(seed), 0, [], []
        for step in ["learn", *steps, "on", "learn"]:
            if step in ("on", "off"):
                await turn(worker, step == "on")
            elif step == "back":
                positions = [at for at in range(2, worker.model.position + 1) if worker.model.counts(at)]
                with suppress(Conflict):  # an example was forgotten since
                    await worker.roll_back(rng.choice(positions))
            elif step == "learn":
                number += 1
                await teach(worker, number)
                known.append(f"s{number}-1")
            elif step == "forget" and known:
                gone = known.pop(rng.randrange(len(known)))
                with suppress(NotFound, Gone):  # a rollback may have undone it
                    jobs.append((await worker.forget(gone))["at"])
                if rng.random() < 0.5:  # otherwise the log changes while it is redacted
                    await ended(worker, jobs)
        await ended(worker, jobs)
        heads, leaves = [], {}
        events = dict(store.read("m", 0))
        for at, event in events.items():
            if event.kind != EventsSealed.KIND:
                continue
            seal = EventsSealed.decoded(event.payload)
            tree = leaves.setdefault(seal.head.origin, [])
            assert (seal.before.size, seal.before) == (len(tree), Tree().extended(tree))
            tree += seal.leaves
            heads.append((seal.head.origin, seal.head.size))
            for k, (kind, salt, commitment) in enumerate(
                zip(seal.kinds, seal.salts, seal.commitments, strict=True), seal.first
            ):
                assert k < at
                assert kind != EventsSealed.KIND
                assert salt == GONE or commitment == commitment_of(salt, events[k].payload)
        assert len({*heads}) == len(heads)
        assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()

    with_worker(history, configuration=RECEIPTS)


@on_worker(configuration=RECEIPTS)
async def test_a_rollback_does_not_shorten_the_tree(worker, store):
    await teach(worker, 1, 2, 3)
    before = worker.model.receipts
    await worker.roll_back(4)  # in the middle of an append
    after = worker.model.receipts
    assert after.tree.size == before.tree.size + 1
    await teach(worker, 4)
    seals_of(store)
    assert load_model(store, "m", **SIZES).snapshot() == worker.model.snapshot()


@on_worker(configuration=RECEIPTS)
async def test_a_redaction_that_stops_halfway_has_removed_salts_before_it_replaces_events(worker, store, monkeypatch):
    await teach(worker, 1, 2, 3)
    rewrite, passes = erasure._rewrite, []

    def stopping(*arguments):
        passes.append(arguments)
        if len(passes) == 2:
            raise Conflict("stopped between the passes")
        return rewrite(*arguments)

    monkeypatch.setattr(erasure, "_rewrite", stopping)
    answer = await worker.forget("s2-1")
    await until(lambda: len(passes) == 2)
    gone = [at for _, seal in seals_of(store) for at, salt in enumerate(seal.salts, seal.first) if salt == GONE]
    whole = dict(store.read("m", 0))
    assert any(b"s2-1" in whole[at].payload for at in gone)
    assert (await asyncio.wait_for(worker.ended(answer["at"]), 300))["state"] == "done"
    assert len(passes) == 4
    assert not any(b"s2-1" in event.payload for _, event in store.read("m", 0))
    assert gone == [at for _, seal in seals_of(store) for at, salt in enumerate(seal.salts, seal.first) if salt == GONE]


def test_a_key_that_cannot_sign_is_refused(tmp_path):
    assert signing_key(None) is None
    assert write_key(tmp_path / "good") == signing_key(tmp_path / "good").public_key().public_bytes_raw().hex()
    (tmp_path / "text").write_text("no key")
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "x25519", "-out", tmp_path / "other"], check=True, capture_output=True
    )
    for name in ("text", "other", "missing"):
        with pytest.raises(Invalid, match="HINGED_RECEIPT_KEY"):
            signing_key(tmp_path / name)
