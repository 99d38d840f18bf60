"""Dense and sparse features that the model scales, and candidates that count towards the warm-up."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hinged.service.commands.ask import Ask, Offer
from hinged.service.commands.change import Forget
from hinged.service.data.configuration import new_configuration, read_configuration
from hinged.service.data.examples import to_inputs
from hinged.service.data.inputs import x_digests
from hinged.service.model.model import Model
from hinged.service.settings import Settings
from tests.helpers import models
from tests.helpers.states import digest_of
from tests.helpers.worker import SIZES

DENSE = {"type": "dense", "dim": 3, "warmup": 20}
SPARSE = {"type": "sparse", "dim": 6, "warmup": 20}
NAMED = {"type": "named", "warmup": 20, "columns_max": 8}


def configured(features, **parts):
    body = {"kernel": {"type": "rbf"}, "features": features, "C": 2} | parts
    return new_configuration(json.dumps(body), Settings())


def new_model(features, **parts):
    return models.created(configured(features, **parts))


def learn(model, xs, labels, ids=None):
    models.learn(model, models.request_of(to_inputs(xs, model.configuration), labels, ids))


def offer(model, xs, ids):
    inputs = to_inputs(xs, model.configuration)
    models.take(model, Offer(ids, inputs, x_digests(inputs), [None] * len(ids)).plan(model, 0).events)


def scores(model, xs):
    return model.published().decide(to_inputs(xs, model.configuration)).columns


def stream(seed, n, features):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1, 50, 0.01] + [0, 1000, 3]
    labels = ["p" if x > 0 else "n" for x in X[:, 0]]
    if features["type"] == "named":
        return [{"a": r[0], "b": r[1], "c": "xyz"[int(abs(r[2])) % 3]} for r in X.tolist()], labels
    if features["type"] == "sparse":
        return [{"indices": [0, 1, 5], "values": r} for r in X.tolist()], labels
    return X.tolist(), labels


@pytest.mark.long
@pytest.mark.parametrize("features", [DENSE, SPARSE], ids=["dense", "sparse"])
@given(
    cuts=st.lists(st.integers(0, 60), max_size=4).map(lambda at: sorted({0, 60, *at})),
    restarts=st.booleans(),
    offered=st.integers(0, 30),
)
@settings(max_examples=25, deadline=None)
def test_the_state_is_the_same_for_any_batches_and_restarts(features, cuts, restarts, offered):
    xs, labels = stream(1, 60, features)
    ids = [f"e{k}" for k in range(60)]
    digest = set()
    for places in ([0, 60], cuts):
        model = new_model(features)
        if offered:
            offer(model, xs[-offered:], ids[-offered:])
        for begin, end in itertools.pairwise(places):
            learn(model, xs[begin:end], labels[begin:end], ids[begin:end])
            if restarts and places is cuts:
                model = Model.restore("m", model.snapshot(), **SIZES)
        digest.add(digest_of(model))
    assert len(digest) == 1


@given(st.integers(0, 1000), st.integers(2, 80))
@settings(max_examples=25, deadline=None)
def test_scaling_the_columns_changes_no_prediction(seed, n):
    xs, labels = stream(seed, n, DENSE)
    factors = 2.0 ** np.random.default_rng(seed).integers(-30, 30, 3)
    found = []
    for factor in (np.ones(3), factors):
        model = new_model(DENSE)
        learn(model, (np.array(xs) * factor).tolist(), labels)
        found.append(scores(model, (np.array(xs) * factor).tolist()))
    assert np.array_equal(*found)


def test_badly_scaled_columns_are_learned_as_well_as_scaled_columns():
    xs, labels = stream(2, 600, DENSE)
    accuracy = []
    for scale, factor in (("auto", 1), ("auto", [1e-3, 1e5, 1e8]), (None, [1e-3, 1e5, 1e8])):
        model = new_model(DENSE | {"scale": scale, "warmup": 200})
        learn(model, (np.array(xs) * factor).tolist(), labels)
        accuracy.append(model.metrics.figures(model.labels.labels)["accuracy"])
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.01)
    assert accuracy[1] > accuracy[2] + 0.2


def test_gamma_is_the_inverse_total_variance_even_without_scaling():
    xs, labels = stream(3, 20, DENSE)
    model = new_model(DENSE | {"scale": None})
    learn(model, xs, labels)
    assert model.learner.gamma == pytest.approx(1 / np.array(xs, np.float32).astype(float).var(axis=0).sum(), rel=1e-5)
    model = new_model(DENSE)
    learn(model, xs, labels)
    Z = model.published().rows(to_inputs(xs, model.configuration))
    table = np.zeros((20, 3))
    table[np.repeat(np.arange(20), np.diff(Z.indptr)), Z.indices] = Z.values
    assert model.learner.gamma == pytest.approx(1 / table.var(axis=0).sum(), rel=1e-5)
    assert model.describe()["features"] == {"warmup_left": 0, "gamma": pytest.approx(model.learner.gamma)}


@pytest.mark.parametrize("features", [DENSE, SPARSE, NAMED], ids=["dense", "sparse", "named"])
def test_candidates_count_once_for_the_warm_up_which_may_end_before_the_first_label(features):
    xs, labels = stream(4, 30, features)
    ids = [f"e{k}" for k in range(30)]
    model = new_model(features)
    offer(model, xs[:16], ids[:16])
    gamma = model.learner.gamma
    assert gamma != 1.0
    assert model.learner.warmup.encoder.left == 4
    order = [3, 1, 2, 0]
    learn(model, [xs[k] for k in order], [labels[k] for k in order], [ids[k] for k in order])
    assert model.learner.warmup.encoder.left == 4
    assert model.learner.gamma == gamma
    assert model.published().discerns == (len(set(labels[:4])) > 1)
    learn(model, xs[16:20], labels[16:20], ids[16:20])
    assert not model.learner.warmup.active
    assert sorted(model.solver.known()) == list(range(1, 9))


def test_a_model_with_a_pool_ranks_questions_as_soon_as_there_are_two_classes():
    xs, labels = stream(5, 200, NAMED)
    model = new_model(NAMED | {"warmup": 1000}, labels={"explore": 0})
    offer(model, xs, [f"e{k}" for k in range(200)])
    two = [labels.index("p"), labels.index("n")]
    learn(model, [xs[k] for k in two], [labels[k] for k in two], [f"e{k}" for k in two])
    answer = Ask(3, "ann", "active", 60_000, None, 100).plan(model, 0)
    models.take(model, answer.events)
    queries = answer.answer(model)["queries"]
    assert [query["reason"] for query in queries] == ["active"] * 3
    assert all(query["score"] is not None for query in queries)


def test_a_forgotten_candidate_leaves_the_warm_up_with_its_names():
    xs, labels = stream(6, 18, NAMED)
    model = new_model(NAMED)
    offer(model, [*xs, {"secret": "word"}], [f"e{k}" for k in range(18)] + ["gone"])
    assert b"secret" in model.snapshot()
    models.take(model, Forget("gone").plan(model, 0).events)
    learn(model, xs[:3], labels[:3], ["e0", "e1", "e2"])
    assert b"secret" not in model.snapshot()
    assert model.learner.warmup.encoder.left == 2


def test_an_older_configuration_scales_nothing_and_keeps_its_gamma():
    kernel, features = {"type": "rbf", "gamma": 0.5}, {"type": "dense", "dim": 2}
    old = {"solver": "lasvm", "kernel": kernel, "features": features, "points_max": 100}
    configuration = read_configuration(old)
    assert not configuration.scaled
    assert configuration.warmup == 0
    named = read_configuration(old | {"kernel": {"type": "rbf", "gamma": "auto"}, "features": NAMED})
    assert not named.features.warmup_candidates
    found = {}
    for configuration in (named, configured(NAMED)):
        model = models.created(configuration)
        learn(model, *stream(7, 40, NAMED))
        found[configuration.gamma] = model.learner.gamma
    assert found["scale"] == 2 * found["auto"]


@pytest.mark.parametrize(
    ("parts", "warmup"),
    [({}, 1000), ({"points_max": 50}, 50), ({"window": {"examples": 70}}, 70), ({"half_life": {"examples": 10}}, 50)],
)
def test_a_default_warm_up_is_no_longer_than_what_may_be_held(parts, warmup):
    assert configured({"type": "dense", "dim": 2}, **parts).warmup == warmup


@pytest.mark.parametrize(
    ("kernel", "features", "scale"),
    [
        ({"type": "rbf"}, {"type": "dense", "dim": 2}, "auto"),
        ({"type": "linear"}, {"type": "sparse", "dim": 2}, "auto"),
        ({"type": "rbf", "gamma": 1}, {"type": "dense", "dim": 2}, None),
        ({"type": "rbf", "gamma": 1}, {"type": "dense", "dim": 2, "scale": "auto"}, "auto"),
        ({"type": "rbf"}, {"type": "dense", "dim": 2, "scale": None}, None),
        ({"type": "linear"}, {"type": "dense", "dim": 2**14 + 1}, None),
    ],
)
def test_features_are_scaled_unless_gamma_is_a_number(kernel, features, scale):
    assert configured(features, kernel=kernel).features.scale == scale
