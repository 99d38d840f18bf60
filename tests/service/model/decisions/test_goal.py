"""A race that follows the costs of its model's configuration."""

import numpy as np
import pytest

from hinged.service.commands.change import Configure
from hinged.service.errors import Invalid
from hinged.service.model.events import decode_event
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.states import digest_of
from tests.helpers.worker import SIZES
from tests.service.model.test_weights import learn, stream

COSTS = {"p": {"n": 50}, "n": {"p": 2}, "ask": 1}
DENSE = {"type": "dense", "dim": 2, "warmup": 30}
BODY = {"kernel": {"type": "rbf"}, "features": DENSE, "goal": "cost", "costs": COSTS}


def new_model(**parts):
    return models.new_model(BODY | parts)


def taught(model, begin, end):
    xs, labels, weights = stream(end)
    return learn(model, xs[begin:], labels[begin:], weights[begin:])


def test_the_race_counts_errors_by_the_costs_of_the_configuration_in_its_own_order_of_classes():
    model = new_model()
    taught(model, 0, 100)
    names = model.labels.names
    expected = [[0 if t == d else COSTS[t][d] for d in names] for t in names]
    assert model.solver.costs.tolist() == expected


def test_other_costs_count_from_now_on_to_the_bit_from_a_snapshot_and_from_the_log():
    model = new_model()
    events = taught(model, 0, 100)
    plain = model.solver.standings.correct.copy()
    events.append(models.change(model, costs={"p": {"n": 3}, "x": {"n": 7}}))
    assert np.array_equal(model.solver.standings.correct, plain)  # what was counted stays
    loaded = Model.restore("m", model.snapshot(), **SIZES)
    events += taught(model, 100, 200)
    taught(loaded, 100, 200)
    assert digest_of(loaded) == digest_of(model)
    again = new_model()
    for event in events:
        again.apply(again.position + 1, decode_event(event.KIND, event.record().payload))
    assert digest_of(again) == digest_of(model)
    names = model.labels.names
    assert model.solver.costs[names.index("p"), names.index("n")] == 3
    assert model.solver.costs[names.index("n"), names.index("p")] == 1


@pytest.mark.parametrize("costs", [None, {"ask": 1}])
def test_costs_as_the_goal_need_costs(costs):
    with pytest.raises(Invalid, match="costs"):
        new_model(costs=costs)
    with pytest.raises(Invalid, match="costs"):
        Configure({"costs": costs}, Settings()).plan(new_model(), 0)
    plain = new_model(goal="accuracy", costs=None)
    with pytest.raises(Invalid, match='"cost" needs costs, got none'):
        Configure({"goal": "cost"}, Settings()).plan(plain, 0)
