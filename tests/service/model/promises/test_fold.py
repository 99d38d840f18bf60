"""The promise in a model: a fold of its log, with late labels, changes, damaged sets, and forgotten examples."""

import json

import numpy as np
import pytest

from hinged.frames import BadFrame, decode, encode
from hinged.service.data.configuration import parse_configuration
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ModelReconfigured
from hinged.service.model.events.learning import PredictionsMade
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.promises.sets import Sent
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from tests.helpers.states import digest_of
from tests.service.model.test_late import LABELS, RACE, SIZES, Served

LASVM = {"solver": "lasvm", "C": 1}
PROMISES = [{"error": 0.1}, {"error": {"out": 0.1, "in": 0.05}}]


class Promising(Served):
    """A model with a promise. Its predictions keep their sets."""

    def predict(self, begin, end):
        published = self.model.published()
        decided, promise = published.decide(self.rows.part(begin, end)), published.promise
        waiting = [
            Prediction(
                f"e{r}",
                self.rows.part(r, r + 1),
                self.digests[r],
                decided.columns[r - begin],
                int(decided.numbers[r - begin]),
                source=0,
                at_ms=0,
                promised=b"" if promise is None else promise.sent(decided.sets[r - begin]),
            )
            for r in range(begin, end)
        ]
        self.apply(PredictionsMade(waiting, 0))

    def promise(self, promised):
        body = json.dumps({**RACE, **LASVM, "promise": promised})
        configuration = parse_configuration(body, Settings()).model_dump(mode="json")
        self.apply(ModelReconfigured(configuration, 0))

    @property
    def figures(self):
        return self.model.metrics.figures(LABELS).get("promise")


@pytest.mark.parametrize("promised", PROMISES)
def test_a_snapshot_and_the_log_after_it_equal_the_whole_log(promised):
    served = Promising(**LASVM, promise=promised)
    served.predict(0, 5)  # nothing is known yet
    served.learn(0, 100)
    served.predict(100, 200)
    served.learn(100, 130)
    snapshot, at = served.model.snapshot(), len(served.log)
    served.promise({"error": 0.2})
    served.learn(130, 160)
    served.promise(promised)
    served.learn(160, 200)
    served.predict(200, 250)
    served.learn(250, 300)
    served.learn(200, 250)
    restored = served.restored(snapshot, at)
    assert restored.metrics.figures(LABELS) == served.model.metrics.figures(LABELS)
    again = Promising(**LASVM, promise=promised)
    again.apply(*(decode_event(*event) for event in served.log[len(again.log) :]))
    assert digest_of(again.model) == digest_of(served.model)


def test_a_set_of_a_former_promise_does_not_count():
    served = Promising(**LASVM, promise=PROMISES[0])
    served.learn(0, 100)
    served.predict(100, 150)
    served.promise({"error": 0.2})
    served.learn(100, 150)
    assert served.figures["all"]["examples"] == 0
    served.learn(150, 160)
    assert served.figures["all"]["examples"] == 10


def test_nothing_of_a_promise_is_in_a_model_without_one():
    plain, served = Promising(**LASVM), Promising(**LASVM, promise=PROMISES[0])
    for each in (plain, served):
        each.learn(0, 100)
        each.predict(100, 120)
    names = [set(decode(each.model.snapshot(), SNAPSHOT)[1]) for each in (plain, served)]
    assert not any("promise" in name for name in names[0])
    assert {name for name in names[1] - names[0] if "promise" not in name} == set()
    served.promise(None)
    served.learn(100, 120)
    plain.learn(100, 120)
    assert served.figures is None
    assert digest_of(plain.model) == digest_of(served.model)


@pytest.mark.parametrize("damage", [lambda a: a[:-1], lambda a: np.full_like(a, 255)])
def test_a_snapshot_with_damaged_sets_is_refused(damage):
    served = Promising(**LASVM, promise=PROMISES[0])
    served.learn(0, 100)
    served.predict(100, 120)
    facts, arrays = decode(served.model.snapshot(), SNAPSHOT)
    arrays["pending.promised"] = damage(arrays["pending.promised"])
    with pytest.raises((ValueError, BadFrame)):
        Model.restore("m", encode(SNAPSHOT, facts, arrays), **SIZES)


def test_a_waiting_prediction_keeps_the_set_of_its_answer():
    served = Promising(**LASVM, promise=PROMISES[0])
    served.learn(0, 100)
    published = served.model.published()
    served.predict(100, 110)
    flags = published.decide(served.rows.part(100, 110)).sets
    assert [Sent.decoded(each.promised).flags.tolist() for each in served.model.pending] == flags.tolist()
    assert {Sent.decoded(each.promised).seen for each in served.model.pending} == {99}


def test_an_alarm_is_a_fold_of_the_log_and_nothing_without_it_changes():
    plain, served = Promising(**LASVM), Promising(**LASVM, alarm={"level": 0.3})
    for each in (plain, served):
        each.predict(0, 5)
        each.learn(0, 100)
        each.predict(100, 150)
        each.learn(100, 130)
    snapshot, at = served.model.snapshot(), len(served.log)
    for each in (plain, served):
        each.learn(130, 300)
    restored = served.restored(snapshot, at)
    assert restored.metrics.alarm.columns() == served.model.metrics.alarm.columns()
    states = [each.model.metrics.state() for each in (plain, served)]
    assert states[1].keys() - states[0].keys() == {
        f"alarm.{name}" for name in ("alarms", "capital", "counts", "highest", "path", "path_at", "seen")
    }
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
