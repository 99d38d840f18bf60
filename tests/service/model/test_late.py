"""Predictions that wait for their labels in a model with a race: what the race's arms answered is kept with them."""

import json

import numpy as np
import pytest

from hinged.frames import BadFrame, decode, encode
from hinged.service.commands.change import Forget
from hinged.service.data.configuration import parse_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import content_of, x_digests
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ChallengerPromoted
from hinged.service.model.events.learning import ClassAdded, ExamplesLearned, PredictionsMade
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.solvers.core.rows import rows_from_dense
from tests.helpers import models
from tests.helpers.solvers.streams import same
from tests.helpers.states import digest_of
from tests.solvers.race.test_race import wavy

SIZES = {"cache_bytes": 2**22, "answers_kept": 1000}
RACE = {"solver": "auto", "kernel": {"type": "rbf", "gamma": 0.5}, "features": {"type": "dense", "dim": 2}}
LABELS = ["out", "in"]
X, CLASSES = wavy(400)
ANSWERS = ("pending.asked", "pending.asked_bytes")


class Served:
    """A model, the events of its log, and a stream of which it predicts and learns parts."""

    def __init__(self, **changes):
        configuration = parse_configuration(json.dumps(RACE | changes), Settings())
        self.model, self.log = models.created(configuration, SIZES), []
        self.apply(*(ClassAdded(label) for label in LABELS))
        self.rows = rows_from_dense(X, self.model.solver.kernel, 2)
        self.digests = x_digests(self.rows)

    def apply(self, *events):
        for event in events:
            self.log.append((event.KIND, event.encode()))
            self.model.apply(self.model.position + 1, decode_event(*self.log[-1]))

    def predict(self, begin, end):
        decided = self.model.published().decide(self.rows.part(begin, end))
        parts = zip(range(begin, end), decided.columns, decided.numbers.tolist(), strict=True)
        waiting = [
            Prediction(f"e{r}", self.rows.part(r, r + 1), self.digests[r], columns, number, source=0, at_ms=0)
            for r, columns, number in parts
        ]
        self.apply(PredictionsMade(waiting, 0))

    def learn(self, begin, end):
        ids, m = [f"e{r}" for r in range(begin, end)], end - begin
        contents = [content_of(self.digests[r], LABELS[CLASSES[r]]) for r in range(begin, end)]
        rows, classes = self.rows.part(begin, end), CLASSES[begin:end].astype(np.int32)
        first = self.model.learned + 1
        self.apply(ExamplesLearned(first, ids, classes, rows, contents, 0, np.zeros(m, np.uint8)))

    def restored(self, snapshot, at):
        """Return the model of a snapshot and the log after it, which is the served model."""
        model = Model.restore("m", snapshot, **SIZES)
        assert model.snapshot() == snapshot
        for event in self.log[at:]:
            model.apply(model.position + 1, decode_event(*event))
        assert digest_of(model) == digest_of(self.model)
        return model

    def asked(self):
        return {prediction.id: prediction.asked for prediction in self.model.pending}


def test_the_race_counts_what_its_arms_answered_when_the_prediction_was_made():
    served = Served()
    race = ModelLearner(served.model.configuration, 2**22).solver
    for _ in LABELS:
        race.add_class()
    served.predict(0, 10)  # nothing is known yet
    served.learn(200, 300)
    race.learn(served.rows.part(200, 300), CLASSES[200:300], np.arange(1, 101))
    served.predict(10, 60)
    asked = race.answers(served.rows.part(10, 60))
    assert served.asked() == {f"e{r}": asked[r - 10] if r >= 10 else b"" for r in range(60)}
    served.learn(300, 350)
    race.learn(served.rows.part(300, 350), CLASSES[300:350], np.arange(101, 151))
    served.learn(0, 70)  # nobody awaited the last ten
    then = [*[b""] * 10, *asked, *[None] * 10]
    race.learn_late(served.rows.part(0, 70), CLASSES[:70], np.arange(151, 221), then)
    same(served.model.solver.state(), race.state())
    assert (race.learned, race.judged) == (220, 210)
    assert not served.asked()


def test_a_snapshot_and_the_log_after_it_equal_the_whole_log_and_the_log_keeps_no_answers():
    served = Served()
    served.learn(0, 60)
    served.predict(60, 160)
    served.learn(60, 90)
    snapshot, at = served.model.snapshot(), len(served.log)
    assert set(ANSWERS) <= decode(snapshot, SNAPSHOT)[1].keys()
    served.predict(160, 170)
    served.learn(90, 170)
    served.restored(snapshot, at)
    for kind, payload in served.log:
        assert "asked" not in decode(payload, kind)[1]


def test_a_model_of_another_solver_or_of_former_rules_keeps_no_answers():
    for changes in ({"rules": 2}, {"rules": 1}, {"solver": "lasvm"}):
        served = Served(**changes)
        served.learn(0, 50)
        served.predict(50, 60)
        assert set(served.asked().values()) == {b""}
        arrays = decode(served.model.snapshot(), SNAPSHOT)[1]
        assert not set(ANSWERS) & arrays.keys()
        served.learn(50, 60)
        assert served.model.metrics.predicted == 59


def changed(snapshot, **changes):
    facts, arrays = decode(snapshot, SNAPSHOT)
    arrays = {name: array for name, array in arrays.items() if name not in ANSWERS or changes}
    return encode(SNAPSHOT, facts, arrays | {f"pending.{name}": array for name, array in changes.items()}, long=True)


def test_a_snapshot_without_answers_opens_and_one_with_wrong_answers_is_refused():
    served = Served()
    served.learn(0, 50)
    served.predict(50, 52)
    snapshot = served.model.snapshot()
    restored = Model.restore("m", changed(snapshot), **SIZES)
    assert [prediction.asked for prediction in restored.pending] == [b"", b""]
    for wrong in ({"asked_bytes": np.array([44, 45], np.int32)}, {"asked_bytes": np.array([-1, 89], np.int32)}):
        with pytest.raises((BadFrame, ValueError)):
            Model.restore("m", changed(snapshot, **wrong), **SIZES)


def test_answers_are_forgotten_with_their_example_and_with_the_learner_that_gave_them():
    served = Served()
    served.learn(0, 50)
    served.predict(50, 55)
    assert all(served.asked().values())
    served.apply(*Forget("e52", waiting=True).plan(served.model, 5).events)
    assert served.asked().keys() == {"e50", "e51", "e53", "e54"}
    assert all(served.asked().values())
    served.model.shadows["other"] = served.model.learner.copy()
    served.apply(ChallengerPromoted("other", served.model.at_ms))
    assert set(served.asked().values()) == {b""}


def test_while_the_warm_up_may_replace_the_solver_no_answers_are_kept():
    served = Served(kernel={"type": "rbf"}, features={"type": "dense", "dim": 2, "scale": "auto", "warmup": 40})
    served.learn(0, 30)
    served.predict(30, 35)
    assert set(served.asked().values()) == {b""}
    served.learn(35, 50)
    served.predict(50, 55)
    assert [bool(asked) for asked in served.asked().values()] == [False] * 5 + [True] * 5
    served.learn(30, 35)
    served.learn(50, 55)
    assert (served.model.solver.learned, served.model.solver.judged) == (55, 50)


def test_answers_to_unknown_names_add_no_columns():
    served = Served(kernel={"type": "rbf"}, features={"type": "named", "warmup": 20})
    model = served.model
    records = [
        {"a": float(x), "b": "high" if y > 0 else "low", **({"c": 1.0} if k > 30 else {})} for k, (x, y) in enumerate(X)
    ]
    served.rows = to_inputs(records, model.configuration)
    served.digests = x_digests(served.rows)
    served.learn(0, 30)
    before = model.learner.state()
    served.predict(25, 40)
    assert all(len(asked) == 4 * len(model.solver.arms) for asked in served.asked().values())
    facts, arrays = model.learner.state()
    assert facts == before[0]
    same(arrays, before[1])
