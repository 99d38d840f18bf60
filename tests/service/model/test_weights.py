"""Weights of single examples: factors of C that the log keeps."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.learn import make_plan
from hinged.service.data.examples import to_inputs
from hinged.service.errors import Invalid
from hinged.service.model.events.learning import ExamplesLearned
from hinged.service.model.learner import ModelLearner
from hinged.service.model.model import Model
from tests.helpers import models
from tests.helpers.states import digest_of
from tests.helpers.worker import SIZES

PLAIN = {"solver": "lasvm", "C": 2, "kernel": {"type": "rbf", "gamma": 0.5}}
DENSE = {"type": "dense", "dim": 2, "scale": None}
WARMING = {"type": "dense", "dim": 2, "warmup": 30}


def new_model(features=DENSE, **parts):
    return models.new_model({**PLAIN, "features": features, **parts})


def request_of(model, xs, labels, weights=(), ids=None):
    return models.request_of(to_inputs(xs, model.configuration), labels, ids, weights=weights)


def learn(model, xs, labels, weights=(), ids=None):
    """Learn examples, and return the events."""
    plan = models.learn(model, request_of(model, xs, labels, weights, ids))
    assert not isinstance(plan.planned[0], Invalid), plan.planned[0]
    return plan.events


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = ["p" if x > 0 else "n" for x in X[:, 0] + 0.5 * rng.normal(size=n)]
    return X.tolist(), y, np.exp(rng.normal(size=n)).round(2).tolist()


def test_a_model_learns_an_example_with_its_weight_as_its_solver_does():
    model, (xs, y, weights) = new_model(), stream(120)
    learn(model, xs, y, weights)
    alone = model.configuration.build_solver(SIZES["cache_bytes"])
    alone.add_class()
    alone.add_class()
    classes = np.array([model.labels.number(label) for label in y])
    rows = to_inputs(xs, model.configuration)
    # The plan adds the second class just before its first example, so the rows come in two runs.
    first = next(k for k in range(len(y)) if y[k] != y[0])
    for part in (slice(0, first), slice(first, len(y))):
        alone.learn_weighted(
            rows.part(part.start, part.stop), classes[part], np.arange(1, 121)[part], np.array(weights)[part]
        )
    probe = to_inputs(stream(20, seed=1)[0], model.configuration)
    assert np.allclose(model.solver.decision(probe), alone.decision(probe), atol=1e-9)
    unweighted = new_model()
    learn(unweighted, xs, y)
    assert not np.allclose(model.solver.decision(probe), unweighted.solver.decision(probe), atol=1e-3)


@pytest.mark.parametrize("features", [DENSE, WARMING], ids=["plain", "warm-up"])
def test_weights_of_one_leave_log_and_state_as_they_were(features):
    (xs, y, _), with_ones, without = stream(50), new_model(features), new_model(features)
    told = [learn(model, xs, y, given) for model, given in ((with_ones, [1.0] * 50), (without, ()))]
    assert [event.record() for event in told[0]] == [event.record() for event in told[1]]
    assert digest_of(with_ones) == digest_of(without)


@pytest.mark.parametrize("solver", ["lasvm", "auto", "exact", "smo", "bsgd", "perceptron"])
def test_a_learner_of_the_log_has_the_same_weights(solver):
    features = WARMING if solver == "lasvm" else DENSE
    model = models.new_model({"kernel": PLAIN["kernel"], "features": features, "solver": solver})
    xs, y, weights = stream(80)
    events = [
        event
        for begin in range(0, 80, 20)
        for event in learn(model, xs[begin : begin + 20], y[begin : begin + 20], weights[begin : begin + 20])
    ]
    again = ModelLearner(model.configuration, SIZES["cache_bytes"])
    for event in events:
        if isinstance(event, ExamplesLearned):
            again.follow(event)
        else:
            again.add_class(event.label)
    mine, theirs = model.learner.state()[1], again.state()[1]
    for name in mine:
        if name.startswith("solver."):
            assert np.array_equal(mine[name], theirs[name]), name


@given(cuts=st.lists(st.integers(0, 60), max_size=4).map(lambda at: sorted({0, 60, *at})), restarts=st.booleans())
@settings(max_examples=10, deadline=None)
def test_the_state_is_the_same_for_any_batches_and_restarts_in_a_warm_up(cuts, restarts):
    xs, y, weights = stream(60)
    model, whole = new_model(WARMING, classes=["n", "p"]), new_model(WARMING, classes=["n", "p"])
    for begin, end in pairwise(cuts):
        learn(model, xs[begin:end], y[begin:end], weights[begin:end])
        if restarts:
            model = Model.restore("m", model.snapshot(), **SIZES)
    learn(whole, xs, y, weights)
    assert np.array_equal(
        model.published().decide(to_inputs(xs, model.configuration)).columns,
        whole.published().decide(to_inputs(xs, whole.configuration)).columns,
    )


def test_parts_of_a_batch_keep_their_weights():
    model, (xs, y, weights) = new_model(classes=["n", "p"]), stream(10)
    (event,) = learn(model, xs, y, weights)
    assert event.part(2, 5).weights.tolist() == weights[2:5]
    assert event.take(np.array([7, 1])).weights.tolist() == [weights[7], weights[1]]


@pytest.mark.parametrize("wrong", [1e300, 1e15])
@pytest.mark.parametrize("ids", [None, ["a", "b"]])
def test_a_weight_that_the_solver_refuses_is_refused_before_anything_changes(wrong, ids):
    model = new_model(classes=["n", "p"])
    before = digest_of(model)
    plan = make_plan(model, [request_of(model, [[0, 1], [1, 0]], ["n", "p"], [1.0, wrong], ids)], lambda _: {}, 8, 0)
    (error,) = plan.planned
    assert error.message.startswith("examples[1].weight: C times the weight of an example must be > 0 and < 1e+15")
    assert error.details == {"index": 1}
    assert not plan.events
    assert digest_of(model) == before


def test_the_bound_of_a_weight_counts_the_weight_of_every_class_that_may_come():
    model = new_model(class_weight={"rare": 1e14})
    plan = make_plan(model, [request_of(model, [[0, 1]], ["n"], [100.0])], lambda _: {}, 8, 0)
    assert isinstance(plan.planned[0], Invalid)


def test_extra_steps_and_weights_are_refused_together():
    model = new_model(solver="bsca", extra_steps=2, classes=["n", "p"])
    plan = make_plan(model, [request_of(model, [[0, 1]], ["n"], [2.0])], lambda _: {}, 8, 0)
    assert plan.planned[0].message.startswith("examples[0].weight: extra_steps must be 0")
