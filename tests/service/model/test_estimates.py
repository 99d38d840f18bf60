"""Estimates from labels that were asked for with known probabilities: intervals, state, and what the log keeps."""

import json

import numpy as np
import pytest
from scipy.stats import binomtest

from hinged.frames import decode, encode
from hinged.service.data.configuration import parse_configuration
from hinged.service.model.estimates import NEWER, WantedLabels, estimate
from hinged.service.model.events import decode_event
from hinged.service.model.events.changes import ModelReconfigured
from hinged.service.model.events.learning import PredictionsMade
from hinged.service.model.model import Model
from hinged.service.model.pending import Prediction
from hinged.service.model.state import SNAPSHOT
from hinged.service.settings import Settings
from hinged.solvers.scores.sigmoid import WINDOW
from tests.helpers.states import digest_of, refuse_damaged
from tests.service.model.test_late import LABELS, RACE, SIZES, Served

LASVM = {"solver": "lasvm", "C": 1}
BUDGET = {"labels": {"budget": 0.5, "explore": 0.2}}


@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (3, 10), (10, 10), (499, 500)])
def test_with_equal_probabilities_the_interval_is_wilsons(right, n):
    found = estimate(np.arange(n) < right, np.full(n, 7.0))
    wilson = binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert found["value"] == right / n
    assert (found["low"], found["high"]) == pytest.approx((wilson.low, wilson.high), abs=1e-12)


def test_without_labels_there_is_no_estimate():
    assert estimate(np.zeros(0, bool), np.zeros(0)) is None


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_intervals_hold_when_labels_are_wanted_with_different_probabilities(rate):
    """Most errors are where labels are wanted often, as within the margin of a model."""
    random, held, widths, alike = np.random.default_rng(0), [], [], []
    for _ in range(1_000):
        chance = random.choice([0.05, 0.6], 2_000, p=[0.8, 0.2])
        wrong = random.random(2_000) < np.where(chance > 0.5, rate, rate / 10)
        drawn = random.random(2_000) < chance
        found = estimate(wrong[drawn], 1 / chance[drawn])
        held.append(found["low"] <= 0.28 * rate <= found["high"])
        widths.append(found["high"] - found["low"])
        fair = wrong[random.random(2_000) < 0.05]  # the least of the probabilities, for all
        found = estimate(fair, np.ones(fair.size))
        alike.append(found["high"] - found["low"])
    assert 0.93 <= np.mean(held) <= 0.99
    assert np.mean(widths) < 0.7 * np.mean(alike)


def test_the_accuracy_is_that_of_the_newest_sixth_and_shares_are_of_the_whole_window():
    asked = WantedLabels()
    for k in range(100):
        asked.add(np.array([k % 2]), np.array([k % 2 if k >= 80 else 1 - k % 2]), 0.5)
    found = asked.figures(LABELS)
    assert found["examples"] == -(-100 // NEWER)
    assert found["accuracy"]["value"] == 1.0
    assert found["classes"]["in"]["share"]["value"] == 0.5
    assert found["classes"]["in"]["recall"]["value"] == 1.0
    for _ in range(WINDOW):
        asked.add(np.array([1]), np.array([0]), 0.1)
    found = asked.figures(LABELS)
    assert found["classes"]["in"]["share"]["value"] == 1.0
    assert found["classes"]["in"]["precision"] is None
    assert found["classes"]["out"]["precision"]["value"] == 0.0


class Wanting(Served):
    """A model with a budget. Each second label is wanted with the probability 1, each sixth with 0.25."""

    def predict(self, begin, end):
        decided = self.model.published().decide(self.rows.part(begin, end))
        waiting = [
            Prediction(
                id=f"e{r}",
                x=self.rows.part(r, r + 1),
                digest=self.digests[r],
                columns=columns,
                number=number,
                source=r % 2,
                at_ms=0,
                chance=(0.25 if r % 3 == 0 else 1.0) if r % 2 else 0.0,
            )
            for r, columns, number in zip(range(begin, end), decided.columns, decided.numbers.tolist(), strict=True)
        ]
        self.apply(PredictionsMade(waiting, 0))

    def change(self, **parts):
        body = json.dumps({**RACE, **LASVM, **BUDGET, **parts})
        self.apply(ModelReconfigured(parse_configuration(body, Settings()).model_dump(mode="json"), 0))

    @property
    def asked(self):
        return self.model.metrics.asked


def worked():
    served = Wanting(**LASVM, **BUDGET)
    served.learn(0, 60)
    served.predict(60, 120)
    served.learn(60, 90)
    return served


def test_only_wanted_labels_count_each_with_its_probability():
    served = worked()
    assert served.asked.seen == 15
    assert served.asked.weights.tolist() == [4.0 if r % 3 == 0 else 1.0 for r in range(61, 90, 2)]
    assert served.model.metrics.figures(LABELS)["estimate"]["examples"] == 3


def test_a_snapshot_and_the_log_after_it_equal_the_whole_log():
    served = worked()
    snapshot, at = served.model.snapshot(), len(served.log)
    served.learn(90, 120)
    served.restored(snapshot, at)
    again = Wanting(**LASVM, **BUDGET)
    again.apply(*(decode_event(*event) for event in served.log[len(again.log) :]))
    assert digest_of(again.model) == digest_of(served.model)
    assert again.asked.seen == 30


def test_without_a_budget_labels_that_were_wanted_no_longer_count():
    served = worked()
    served.change(labels={"budget": None})
    served.learn(90, 120)  # predictions of the time with a budget
    assert served.asked is None
    assert "estimate" not in served.model.metrics.figures(LABELS)


def test_a_label_with_a_tiny_probability_leaves_a_state_that_loads():
    served = worked()
    facts, arrays = decode(served.model.snapshot(), SNAPSHOT)
    arrays["pending.chances"] = np.where(arrays["pending.chances"] > 0, 5e-324, 0.0)
    served.model = Model.restore("m", encode(SNAPSHOT, facts, arrays), **SIZES)
    served.learn(90, 120)
    assert digest_of(Model.restore("m", served.model.snapshot(), **SIZES)) == digest_of(served.model)


@pytest.mark.parametrize(
    ("part", "value"),
    [("weights", 0.5), ("weights", np.nan), ("classes", 2), ("numbers", -1), ("seen", 3), ("seen", 0)],
)
def test_damaged_states_are_refused(part, value):
    def damage(_, arrays):
        (name,) = (name for name in arrays if name.endswith(f"asked.{part}"))
        arrays[name] = arrays[name].copy()
        arrays[name][0] = value

    refuse_damaged(worked().model, damage, **SIZES)


@pytest.mark.parametrize("chance", [-0.1, 1.1, np.nan])
def test_a_probability_outside_of_0_to_1_is_refused(chance):
    def damage(_, arrays):
        arrays["pending.chances"] = np.full_like(arrays["pending.chances"], chance)

    refuse_damaged(worked().model, damage, **SIZES)
