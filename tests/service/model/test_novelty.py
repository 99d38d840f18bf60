"""Novelty in a model: which x are seen and drawn, a fold of the log, changes, damaged states, and forgetting."""

import json
from itertools import pairwise

import numpy as np
import pytest

from hinged.frames import decode
from hinged.service.commands.change import Forget
from hinged.service.data.configuration import parse_configuration
from hinged.service.model.events.changes import ModelReconfigured
from hinged.service.model.events.labelling import CandidatesOffered
from hinged.service.model.novelty import FIRST, HORIZON, RENEWED, SAMPLE, Novelty
from hinged.service.model.promises.martingale import uniform
from hinged.service.model.state import SNAPSHOT, ids_of
from hinged.service.settings import Settings
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from hinged.solvers.scores.novelty import Sample
from tests.helpers.states import digest_of, refuse_damaged
from tests.service.model.test_late import RACE, SIZES, Served

LASVM = {"solver": "lasvm", "C": 1}
ON = {"novelty": {"level": 0.05}}


class Novel(Served):
    """A model whose candidates are offered, too, and whose configuration changes."""

    def offer(self, begin, end):
        ids = [f"e{r}" for r in range(begin, end)]
        rows, digests = self.rows.part(begin, end), self.digests[begin:end]
        self.apply(CandidatesOffered(ids, rows, digests, [None] * len(ids), 0))

    def change(self, **changes):
        body = json.dumps({**RACE, **LASVM, **changes})
        self.apply(ModelReconfigured(parse_configuration(body, Settings()).model_dump(mode="json"), 0))

    def forget(self, given):
        self.apply(*Forget(given).plan(self.model, 0).events)

    @property
    def figures(self):
        return self.model.describe()["novelty"]

    def p_values(self, begin, end):
        return self.model.published().decide(self.rows.part(begin, end)).novelty


def sampled(count):
    """Return the numbers of the drawn x of a stream, newest last, by a plain loop."""
    return [i for i in range(1, count + 1) if uniform(i) < SAMPLE / min(i, HORIZON)][-SAMPLE:]


def test_the_sample_is_drawn_from_a_stream_of_any_length_and_covers_the_horizon():
    rows = rows_from_dense(np.arange(60_000.0).reshape(-1, 1), make_kernel("rbf", 1.0), 1)
    found, ends = Novelty(), [0, 1, 7, 500, 600, 3_000, 20_000, 60_000]
    for begin, end in pairwise(ends):
        ids = [str(number) for number in range(begin + 1, end + 1)]
        found = found.saw(ids, lambda r, begin=begin: rows.row(begin + r), lambda xs: xs)
        assert found.ids == tuple(map(str, sampled(end)))
        assert [float(x.values[0]) + 1 for x in found.xs if x.values.size] == [float(i) for i in found.ids if i != "1"]
    assert (found.seen, len(found.ids)) == (60_000, SAMPLE)
    assert 60_000 - int(found.ids[0]) == pytest.approx(HORIZON, rel=0.1)


def test_the_sample_does_not_depend_on_how_the_stream_is_divided():
    whole, parts = Novel(**LASVM, **ON), Novel(**LASVM, **ON)
    whole.learn(0, 300)
    for begin in range(0, 300, 20):
        parts.learn(begin, begin + 20)
    assert whole.model.novelty.ids == parts.model.novelty.ids
    assert whole.model.novelty.seen == parts.model.novelty.seen == 300


def test_each_x_counts_once_however_often_it_comes():
    served = Novel(**LASVM, **ON)
    served.predict(0, 100)
    served.predict(0, 100)
    served.offer(50, 200)
    served.predict(150, 200)
    served.learn(0, 250)
    assert served.figures["seen"] == 250
    assert sorted(served.model.novelty.ids) == sorted(f"e{r}" for r in range(250))


def test_x_is_compared_with_the_sample_before_there_is_a_label():
    served = Novel(**LASVM, **ON)
    served.predict(0, FIRST - 1)
    assert np.isnan(served.p_values(300, 310)).all()
    served.offer(FIRST, 200)
    rest = [r for r in range(200) if r != FIRST - 1]
    assert served.figures == {"seen": 199, "compared": 199}
    assert served.model.memory_bytes() > served.model.solver.memory_bytes() + 199 * 2 * 8
    expected = Sample(served.rows.take(np.array(rest))).compare(served.rows.part(300, 310))[1]
    assert served.p_values(300, 310).tolist() == expected.tolist()


def test_the_comparison_is_renewed_when_an_eighth_of_the_sample_is_new():
    served, sizes = Novel(**LASVM, **ON), []
    for r in range(200):
        served.predict(r, r + 1)
        sizes.append(served.figures["compared"])
    held, expected = 0, []
    for count in range(1, 201):
        if count >= FIRST and (not held or RENEWED * (count - held) >= count):
            held = count
        expected.append(held)
    assert sizes == expected


def test_a_snapshot_and_the_log_after_it_equal_the_whole_log():
    served = Novel(**LASVM, **ON)
    served.predict(0, 15)
    served.offer(10, 60)
    served.learn(40, 150)
    snapshot, at = served.model.snapshot(), len(served.log)
    served.predict(150, 153)
    served.forget("e20")
    served.change()
    served.learn(170, 180)
    served.change(novelty=True)
    served.learn(0, 30)
    served.predict(180, 300)
    restored = served.restored(snapshot, at)
    decided = [model.published().decide(served.rows).novelty.tolist() for model in (restored, served.model)]
    assert decided[0] == decided[1]


def test_nothing_of_novelty_is_in_a_model_without_it():
    plain, served = Novel(**LASVM), Novel(**LASVM, **ON)
    for each in (plain, served):
        each.offer(0, 50)
        each.learn(0, 100)
        each.predict(100, 120)
    facts, arrays = decode(plain.model.snapshot(), SNAPSHOT)
    assert "novelty" not in facts
    assert not any("novelty" in name for name in arrays)
    assert "novelty" not in plain.model.describe()
    assert plain.p_values(0, 9) is None
    served.change()
    for each in (plain, served):
        each.learn(120, 130)
    assert digest_of(plain.model) == digest_of(served.model)


def test_what_waits_is_in_the_sample_of_a_model_that_gets_novelty():
    served = Novel(**LASVM)
    served.offer(0, 60)
    served.predict(40, 100)
    served.change(**ON)
    assert served.figures == {"seen": 100, "compared": 100}


def test_a_change_of_the_precision_keeps_the_sample():
    served = Novel(**LASVM, **ON)
    served.predict(0, 60)
    before = served.p_values(200, 250)
    served.model.replace_learner(Novel(**LASVM, **ON, precision="float64").model.learner)
    assert {x.values.dtype for x in served.model.novelty.xs} == {np.dtype(np.float64)}
    wide = rows_from_dense(np.array([[0.3, 0.4]]), served.model.solver.kernel, 2, np.float64)
    assert served.model.published().decide(wide).novelty.shape == (1,)
    assert served.figures == {"seen": 60, "compared": 60}
    assert before.size == 50


def test_a_forgotten_x_leaves_the_sample_as_if_it_had_not_been_drawn():
    served = Novel(**LASVM, **ON)
    served.predict(0, 30)
    served.offer(30, 60)
    served.learn(0, 100)
    gone = ("e3", "e40", "e99")
    for given in gone:
        served.forget(given)
    kept = [r for r in range(100) if f"e{r}" not in gone]
    assert set(gone).isdisjoint(ids_of(served.model.snapshot()))
    assert sorted(served.model.novelty.ids) == sorted(f"e{r}" for r in kept)
    order = np.array([int(given[1:]) for given in served.model.novelty.ids])
    sample = Sample(rows_from_dense(np.vstack([row(served, r) for r in order]), served.model.solver.kernel, 2))
    assert served.p_values(200, 260).tolist() == sample.compare(served.rows.part(200, 260))[1].tolist()
    arrays = served.model.novelty.state()[1]
    assert [row(served, r)[0].astype(np.float32).tobytes() in arrays["xs.values"].tobytes() for r in (98, 99)] == [
        True,
        False,
    ]
    assert row(served, 99)[0].astype(np.float32).tobytes() not in arrays["rows.values"].tobytes()


def row(served, r):
    x = np.zeros((1, 2))
    one = served.rows.part(r, r + 1)
    x[0, one.indices] = one.values
    return x


def test_p_values_along_a_stream_without_a_change_are_uniform():
    random, found = np.random.default_rng(4), []
    X = random.standard_normal((6_000, 3)) * [1.0, 5.0, 0.2]
    rows = rows_from_dense(X, make_kernel("rbf", 1.0), 3)
    novelty = Novelty()
    for begin in range(0, 6_000, 10):
        if novelty.compared is not None:
            found += novelty.compared.compare(rows.part(begin, begin + 10))[1].tolist()
        ids = [str(r) for r in range(begin, begin + 10)]
        novelty = novelty.saw(ids, lambda r, begin=begin: rows.row(begin + r), lambda xs: xs)
    p_values = np.array(found)
    for level in (0.01, 0.05, 0.1, 0.5):
        assert (p_values <= level).mean() == pytest.approx(level, abs=3 * np.sqrt(level / 512))
    assert p_values.mean() == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize(
    "damage",
    [
        lambda facts, arrays: facts["novelty"].update(seen=5),
        lambda facts, arrays: facts["novelty"].update(fresh=500),
        lambda facts, arrays: facts["novelty"]["ids"].append("more"),
        lambda facts, arrays: facts["novelty"]["ids"].__setitem__(0, facts["novelty"]["ids"][1]),
        lambda facts, arrays: facts["novelty"]["rows"].update(dim=3),
        lambda facts, arrays: facts["novelty"]["xs"].update(dim=3),
        lambda facts, arrays: facts.pop("novelty"),
        lambda facts, arrays: arrays.update({"novelty.rows.values": arrays["novelty.rows.values"][:-1]}),
        lambda facts, arrays: arrays.update({"novelty.rows.values": arrays["novelty.rows.values"].astype(np.float64)}),
        lambda facts, arrays: arrays.update({"novelty.xs.indices": arrays["novelty.xs.indices"] + 9}),
        lambda facts, arrays: arrays.update({"novelty.xs.values": arrays["novelty.xs.values"] * np.nan}),
        lambda facts, arrays: arrays.pop("novelty.xs.indptr"),
    ],
)
def test_a_damaged_state_is_refused(damage):
    served = Novel(**LASVM, **ON)
    served.learn(0, 100)
    refuse_damaged(served.model, damage, **SIZES)


def test_x_are_compared_in_the_columns_that_the_warm_up_has_found_last():
    features = {"type": "dense", "dim": 2, "scale": "auto", "warmup": 64}
    served = Novel(**LASVM, **ON, kernel={"type": "rbf", "gamma": 0.5}, features=features)
    X = np.vstack([row(served, r) for r in range(400)]) * [1.0, 100.0]
    served.rows = rows_from_dense(X, served.model.solver.kernel, 2, np.float64)
    for end in range(1, 120):
        served.learn(end - 1, end)
        novelty = served.model.novelty
        if novelty.rows is not None:
            order = [int(given[1:]) for given in novelty.ids[: len(novelty.rows)]]
            now = served.model.learner.reading(served.rows.take(np.array(order)))
            assert now.values.tolist() == novelty.rows.values.tolist()
    assert served.figures["compared"] > 100
    assert served.p_values(100, 120).shape == (20,)
