"""The alarm about inputs: its scores, false alarms, changes it finds, a fold of the log, forgetting, and damage."""

import numpy as np
import pytest

from hinged.frames import decode
from hinged.service.data.features.reader import AS_THEY_CAME, Reading
from hinged.service.data.inputs import Records
from hinged.service.model.novelty import FLAGGED, INPUT_ALARM
from hinged.service.model.promises.alarm import AT_ONCE
from hinged.service.model.promises.inputs import FROZEN, InputAlarm
from hinged.service.model.promises.martingale import Martingale, uniform
from hinged.service.model.state import SNAPSHOT, ids_of
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from tests.helpers.states import refuse_damaged
from tests.service.model.test_late import SIZES
from tests.service.model.test_novelty import LASVM, Novel

ON = {"novelty": {"level": 0.05}, "alarm": {"level": 0.01}}
KERNEL = make_kernel("rbf", 1.0)
READING = Reading(AS_THEY_CAME, KERNEL, 2, np.float32)


def told(X, level=0.01, batch=10_000, first=1):
    """Return the alarm after a stream of x."""
    rows, found = rows_from_dense(X, KERNEL, X.shape[1]), InputAlarm.new({"level": level})
    for begin in range(0, len(rows), batch):
        numbers = range(first + begin, first + min(len(rows), begin + batch))
        found = found.saw([f"x{n}" for n in numbers], rows.part(begin, begin + len(numbers)), numbers, READING)
    return found


def three_nearest(x, others):
    return np.sort(np.sqrt(((others - x) ** 2).sum(axis=1)))[:3].sum()


def normal(n, seed=0, d=2):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_a_score_is_the_rank_of_the_strangeness_among_the_fixed_sample():
    X = normal(400)
    fixed, further = X[:FROZEN], X[FROZEN:]
    usual = [three_nearest(x, np.delete(fixed, r, axis=0)) for r, x in enumerate(fixed)]
    strange = [three_nearest(x, fixed) for x in further]
    scores = np.array([sum(u < each for u in usual) + sum(u <= each for u in usual) for each in strange])
    martingale = Martingale(2 * FROZEN + 1, sides=2)
    martingale.add(scores, np.array([uniform(n) for n in range(FROZEN + 1, 401)]))
    found = told(X).alarm.martingale
    assert found.counts.tolist() == martingale.counts.tolist()
    assert found.value == martingale.value


@pytest.mark.parametrize("batch", [1, 7, AT_ONCE, 1_000])
def test_the_alarm_does_not_depend_on_how_the_stream_is_divided(batch):
    X = np.vstack((normal(600), 4 + normal(500), normal(400, 2)))
    one, two = told(X), told(X, batch=batch)
    assert one.alarm.count == two.alarm.count == 2
    for (facts, arrays), (others, their) in [(one.state(), two.state())]:
        assert facts == others
        assert {name: a.tobytes() for name, a in arrays.items()} == {name: a.tobytes() for name, a in their.items()}


def test_shuffled_streams_rarely_cause_an_alarm():
    streams, level, found = 100, 0.1, 0
    for k in range(streams):
        random = np.random.default_rng(k)
        groups = np.vstack((random.standard_normal((300, 2)), 3 + random.exponential(size=(100, 2))))
        found += told(random.permutation(groups), level, first=1 + 1_000 * k).alarm.count > 0
    # A bound, not the expected number: three standard deviations above it almost never happen.
    assert found <= streams * level + 3 * np.sqrt(streams * level * (1 - level))


def test_a_sample_of_equal_x_finds_x_that_differ():
    assert told(np.vstack((np.zeros((600, 2)), np.ones((50, 2))))).alarm.count == 1
    assert told(np.zeros((3_000, 2))).alarm.count == 0


@pytest.mark.parametrize(
    "changed",
    [normal(600, 1) + np.array([2.0, 0.0]), normal(600, 1) * 2.0, normal(600, 1) * [0.0, 1.0], np.zeros((600, 2))],
    ids=["moved", "wider", "one number stuck", "all x equal"],
)
def test_a_change_that_stays_causes_one_alarm(changed):
    found = told(np.vstack((normal(1_000), changed)))
    assert found.alarm.count == 1
    assert 1_000 < found.alarm.last_at < 1_400
    assert len(found.ids) == FROZEN
    assert found.ids[0] == f"x{found.alarm.last_at + 1}"


def test_a_new_sample_after_an_alarm_finds_the_change_back():
    found = told(np.vstack((normal(1_000), 3 + normal(600, 1), normal(600, 2))))
    assert found.alarm.count == 2
    assert 1_600 < found.alarm.last_at < 1_900


def test_saw_changes_nothing_in_place():
    before = told(normal(300))
    facts, arrays = before.state()
    kept = {name: a.copy() for name, a in arrays.items()}
    rows = rows_from_dense(9 + normal(200, 3), KERNEL, 2)
    after = before.saw([f"y{r}" for r in range(200)], rows, range(301, 501), READING)
    assert after.alarm.count == 1
    assert before.state()[0] == facts
    assert all(np.array_equal(array, kept[name]) for name, array in before.state()[1].items())


class Told(Novel):
    """A model that sees x near the origin, and then x far from it."""

    def __init__(self, **parts):
        super().__init__(**parts)
        X = np.vstack((normal(250), 5 + normal(150, 1)))
        self.rows = rows_from_dense(X, self.model.solver.kernel, 2)

    @property
    def alarm(self):
        return self.model.describe()["novelty"]["alarm"]


def test_the_alarm_counts_each_x_once_whether_learned_offered_or_predicted():
    served = Told(**LASVM, **ON)
    served.predict(0, 100)
    served.offer(50, 150)
    assert (served.alarm["lacking"], served.alarm["examples"]) == (0, 150 - FROZEN)
    served.learn(0, 200)
    assert served.alarm["examples"] == 200 - FROZEN
    assert served.model.novelty.alarm.ids == tuple(f"e{r}" for r in range(FROZEN))


@pytest.mark.parametrize("way", ["learn", "offer", "predict"])
def test_an_alarm_is_noticed_and_marked_whatever_event_brings_the_x(way):
    served = Told(**LASVM, **ON)
    for begin in range(0, 400, 50):
        getattr(served, way)(begin, begin + 50)
    assert (served.alarm["count"], served.alarm["flagged"]) == (1, True)
    marks = [mark for mark in served.model.curves.marks if mark.kind == INPUT_ALARM]
    assert len(marks) == 1
    assert 250 < served.alarm["last_at"] < 290
    assert served.model.novelty.alarmed
    assert served.model.novelty.seen < served.alarm["last_at"] + FLAGGED


def test_neither_novelty_nor_an_alarm_alone_is_an_alarm_about_inputs():
    for part in ("novelty", "alarm"):
        served = Told(**LASVM, **{part: ON[part]})
        served.learn(0, 200)
        assert "alarm" not in served.model.describe().get("novelty", {})
        assert INPUT_ALARM not in served.model.noticed


def test_the_alarm_comes_goes_and_stays_with_the_configuration():
    served = Told(**LASVM, novelty=ON["novelty"])
    served.predict(0, 100)
    served.change(**ON)
    assert served.alarm["lacking"] == FROZEN
    served.predict(100, 250)
    then = served.alarm
    assert then["examples"] == 150 - FROZEN
    served.change(**ON, promise={"error": 0.1})
    assert served.alarm == then
    served.change(**{**ON, "alarm": {"level": 0.1}})
    assert (served.alarm["level"], served.alarm["lacking"]) == (0.1, FROZEN)
    served.change(novelty=ON["novelty"])
    assert "alarm" not in served.model.describe()["novelty"]
    late = Told(**LASVM)
    late.predict(0, 150)
    late.change(**ON)
    assert late.alarm["lacking"] == 0


def test_a_snapshot_and_the_log_after_it_equal_the_whole_log():
    for cut in (60, 200, 280, 350):
        served = Told(**LASVM, **ON)
        served.predict(0, 60)
        served.learn(40, cut)
        snapshot, at = served.model.snapshot(), len(served.log)
        served.forget("e3")
        served.predict(cut, cut + 3)
        served.learn(cut, 400)
        restored = served.restored(snapshot, at)
        assert restored.noticed == served.model.noticed


def test_a_forgotten_x_of_the_fixed_sample_begins_a_new_sample_and_keeps_the_capital():
    served = Told(**LASVM, **ON)
    served.learn(0, 220)
    before = served.model.novelty.alarm.alarm.martingale
    served.forget("e200")
    assert served.alarm["lacking"] == 0
    served.forget("e5")
    assert "e5" not in ids_of(served.model.snapshot())
    assert served.alarm["lacking"] == FROZEN
    after = served.model.novelty.alarm.alarm.martingale
    assert (after.seen, after.value, after.counts.sum()) == (before.seen, before.value, 0)
    assert after.capital.tolist() == before.capital.tolist()
    assert not any(name.startswith("novelty.alarm.rows") for name in decode(served.model.snapshot(), SNAPSHOT)[1])
    served.learn(220, 400)
    assert served.alarm["count"] == 0  # the new sample has both kinds of x


def test_x_whose_id_is_in_the_fixed_sample_do_not_count_again():
    found = Novel(**LASVM, **ON)
    found.predict(0, 200)
    counted = found.model.novelty.alarm.alarm.martingale.seen
    ids = [f"e{r}" for r in range(50)]
    novelty = found.model.novelty
    emptied = novelty.without(set(novelty.ids) - set(novelty.alarm.ids), None)
    assert emptied.alarm is novelty.alarm
    again = emptied.saw(ids, found.rows.row, found.model.learner.reading)
    assert again.alarm.alarm.martingale.seen == counted


def test_new_columns_are_not_read_until_the_sample_is_new():
    features = {"type": "named", "warmup": 20}
    body = {**LASVM, **ON, "kernel": {"type": "rbf", "gamma": 0.5}, "features": features}
    served = Novel(**body)
    reading = None
    records = [{"a": float(x[0]), "kind": f"k{r // 40}"} for r, x in enumerate(normal(400))]
    served.rows = Records(tuple(records))
    for begin in range(0, 400, 20):
        served.learn(begin, begin + 20)
        alarm = served.model.novelty.alarm
        if alarm.sample is not None and reading is None:
            reading = alarm.columns
    now = served.model.learner.reading.reader.columns
    assert now > reading == served.model.novelty.alarm.columns
    assert served.model.novelty.alarm.alarm.count == 0
    fresh = served.model.learner.reading(Records((records[-1],)), reading)
    assert fresh.indices.max() < reading <= served.model.learner.reading(Records((records[-1],))).indices.max()


@pytest.mark.parametrize(
    "damage",
    [
        lambda facts, arrays: facts["novelty"].pop("alarm"),
        lambda facts, arrays: facts["novelty"]["alarm"]["ids"].pop(),
        lambda facts, arrays: facts["novelty"]["alarm"].update(rows=None),
        lambda facts, arrays: facts["novelty"]["alarm"].update(columns=-1),
        lambda facts, arrays: facts["novelty"]["alarm"].update(rows={"records": []}),
        lambda facts, arrays: facts["novelty"]["alarm"]["rows"].update(dim=3),
        lambda facts, arrays: facts["learner"]["configuration"].update(alarm=None),
        lambda facts, arrays: arrays.update({"novelty.alarm.counts": arrays["novelty.alarm.counts"][:-1]}),
        lambda facts, arrays: arrays.update({"novelty.alarm.capital": -arrays["novelty.alarm.capital"]}),
        lambda facts, arrays: arrays.update({"novelty.alarm.rows.values": arrays["novelty.alarm.rows.values"][:-1]}),
        lambda facts, arrays: arrays.pop("novelty.alarm.path"),
    ],
)
def test_a_damaged_state_is_refused(damage):
    served = Told(**LASVM, **ON)
    served.learn(0, 200)
    refuse_damaged(served.model, damage, **SIZES)


def test_the_bits_are_the_recorded_bits():
    alarm = told(np.vstack((normal(500), 1.05 * normal(500, 1)))).alarm
    assert (alarm.count, alarm.martingale.value.hex()) == (0, "0x1.e172b41838debp-3")
