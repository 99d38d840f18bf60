"""A journal with a real store, on the thread of the test."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from hinged.service.commands.ask import Offer
from hinged.service.commands.change import Challenge, Configure, Forget
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.engine.history import ModelHistory
from hinged.service.engine.jobs.retraining import Retraining
from hinged.service.engine.journal import Journal
from hinged.service.engine.learning import Learning
from hinged.service.engine.work import carry_out, do, finish, keep, roll_back, settle_jobs
from hinged.service.engine.work import swap as swap_learners
from hinged.service.errors import StoreUnavailable
from hinged.service.model.pending import Made, Prediction
from hinged.service.settings import Settings
from hinged.service.store.base import Damaged, OutcomeUnknown
from hinged.service.store.sqlite import SQLiteStore
from tests.helpers.states import digest_of, load_model
from tests.helpers.worker import SIZES, begun, examples_of, learning


@pytest.fixture
def store(tmp_path):
    store = SQLiteStore(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def journal(store):
    model = begun(store, SIZES, {})
    with ThreadPoolExecutor(1) as executor:
        yield Journal(model, store, Settings(), executor, None, lambda _: None, lambda: False)


def learn(journal, seed):
    return do(journal, Learning([learning(journal.model, examples_of(seed, 6))]), []).answers[0]


def test_the_history_applies_only_further_epochs(journal, monkeypatch):
    asked, apply = [], ModelHistory.apply

    def noting(history, model, position, event):
        if model is journal.model:
            asked.append(event)
        return apply(history, model, position, event)

    monkeypatch.setattr(ModelHistory, "apply", noting)
    learn(journal, 1)
    to = journal.model.position
    do(journal, finish, [])
    learn(journal, 2)
    do(journal, partial(roll_back, to=to), [])
    assert not asked
    do(journal, partial(finish, epochs=1), [])
    assert [event.epochs for event in asked] == [1]


def test_a_rollback_replaces_the_model(journal, store):
    learn(journal, 1)
    before, to, digest = journal.model, journal.model.position, digest_of(journal.model)
    learn(journal, 2)
    answer = do(journal, partial(roll_back, to=to), []).answers[0]
    assert journal.model is not before
    assert answer["position"] == journal.model.position == journal.published.position
    assert digest_of(journal.model) == digest
    assert load_model(store, "m", **SIZES).snapshot() == journal.model.snapshot()


@pytest.mark.parametrize("written", [True, False])
def test_a_rollback_of_unknown_outcome_is_found_in_the_log_or_has_not_happened(journal, store, monkeypatch, written):
    learn(journal, 1)
    to = journal.model.position
    learn(journal, 2)
    last, append = journal.model.position, store.append

    def lost(*args):
        if written:
            append(*args)
        raise OutcomeUnknown("the answer was lost")

    def away(_):
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", lost)
        patch.setattr(store, "end", away)
        assert isinstance(do(journal, partial(roll_back, to=to), []).answers[0], StoreUnavailable)
    assert journal.unresolved
    assert journal.model.position == last
    learn(journal, 3)
    assert not journal.unresolved
    assert journal.model.counts(to + 1) is not written
    assert load_model(store, "m", **SIZES).snapshot() == journal.model.snapshot()


@pytest.mark.parametrize("solver", ["lasvm", "exact"])
def test_a_swap_that_is_not_written_changes_nothing(journal, store, monkeypatch, solver):
    """A written swap may convert the queued predictions for another kernel, or let a challenger forget in place."""
    learn(journal, 1)
    rows = to_inputs([[0.5, 0.5], [1.0, 0.0]], journal.model.configuration)
    do(journal, partial(carry_out, command=Offer(["c", "d"], rows, x_digests(rows), [None, None])), [])
    swap(journal, Challenge("shadow", {"solver": solver, "C": 3}, Settings()))
    where = journal.lookup.locate(journal.model, "s1-1")

    def fail(*_):
        raise StoreUnavailable("the disk did not take it")

    for command in (Forget("s1-1", where), Configure({"kernel": {"type": "linear"}}, Settings())):
        with monkeypatch.context() as patch:
            do(journal, partial(carry_out, command=command), [])
            before = journal.model.snapshot()
            patch.setattr(store, "append", fail)
            assert isinstance(swap(journal), StoreUnavailable)
        assert journal.model.snapshot() == before
        assert isinstance(swap(journal), int)
        assert load_model(store, "m", **SIZES).snapshot() == journal.model.snapshot()


def swap(journal, command=None):
    """Run the jobs of the model, or of this command; return the swap's answer."""
    if command is not None:
        do(journal, partial(carry_out, command=command), [])
    retraining = Retraining(journal.history, journal.model)
    retraining.advance(journal.model.position)
    answer = do(journal, partial(swap_learners, retraining=retraining), []).answers[0]
    if isinstance(answer, int):
        do(journal, partial(settle_jobs, retraining=retraining, unwritten=[]), [])
    return answer


@pytest.mark.parametrize("failure", [StoreUnavailable("the store is away"), Damaged("event 2 is damaged")])
def test_a_prediction_whose_forgetting_failed_still_waits_for_its_label(journal, store, monkeypatch, failure):
    learn(journal, 1)
    rows = to_inputs([[0.5, 0.5]], journal.model.configuration)
    waits = Prediction("w", rows, x_digests(rows)[0], np.zeros(0), -1, 0, journal.now_ms())

    def fail(*_):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", fail)
        refused = do(journal, partial(carry_out, command=Forget("w")), [Made(waits, journal.model.labels.labels)])
    assert isinstance(refused.answers[0], StoreUnavailable)
    assert [made.prediction.id for made in refused.unlogged] == ["w"]
    done = do(journal, partial(carry_out, command=Forget("w")), refused.unlogged)
    assert not done.unlogged
    assert journal.model.tombstones.knows("w")
    assert journal.model.pending.find("w", journal.now_ms()) is None


def waiting(journal, ids):
    """Return predictions, as many for each row as there are ids, that wait for their labels."""
    rows = to_inputs([[0.1 + k, 0.5] for k in range(len(ids))], journal.model.configuration)
    digests = x_digests(rows)
    return [
        Made(Prediction(given, rows.row(r), digests[r], np.zeros(0), -1, 0, journal.now_ms()))
        for r, given in enumerate(ids)
    ]


def test_many_predictions_are_written_in_several_events_before_the_other_events(journal, store, monkeypatch):
    monkeypatch.setattr("hinged.service.engine.journal.EVENT_NUMBERS", 4)  # two rows of two numbers
    learn(journal, 1)
    before = journal.model.position
    along = waiting(journal, ["a", "b", "c", "d", "e"])
    done = do(journal, Learning([learning(journal.model, examples_of(2, 6))]), along)
    assert not along
    assert not done.unlogged
    kinds = [event.kind for _, event in store.read("m", before)]
    assert kinds == ["predicted", "predicted", "predicted", "learned"]
    assert journal.model.position == before + 4
    assert [p.id for p in journal.model.pending] == ["a", "b", "c", "d", "e"]
    assert digest_of(load_model(store, "m", **SIZES)) == digest_of(journal.model)


def test_a_rollback_finds_its_position_after_many_predictions(journal, monkeypatch):
    monkeypatch.setattr("hinged.service.engine.journal.EVENT_NUMBERS", 4)
    learn(journal, 1)
    to = journal.model.position
    learn(journal, 2)
    before = journal.model.position
    do(journal, partial(roll_back, to=to), waiting(journal, ["a", "b", "c"]))
    assert journal.model.position == before + 3
    assert journal.model.learned == 6


def test_after_a_jump_of_the_clock_the_time_of_a_log_runs_on(journal, monkeypatch):
    right = time.time_ns
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: right() + 10**18)
        learn(journal, 1)
    ahead = learn_at(journal, 2)
    assert ahead > right() // 10**6 + 10**11
    time.sleep(0.02)
    assert learn_at(journal, 3) >= ahead + 20


def learn_at(journal, seed):
    """Learn; return the time of the event."""
    learn(journal, seed)
    return journal.model.at_ms


@pytest.mark.parametrize("ahead_ms", [10**12, -(10**12)])
def test_a_prediction_waits_by_the_time_of_the_log_and_not_by_another_clock(journal, ahead_ms):
    learn(journal, 1)
    (made,) = waiting(journal, ["a"])
    made = replace(made.prediction, at_ms=made.prediction.at_ms + ahead_ms)
    keep(journal, [Made(made, journal.model.labels.labels)])
    (kept,) = journal.model.pending
    assert 0 <= journal.model.at_ms - kept.at_ms < 10_000
