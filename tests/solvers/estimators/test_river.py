import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
from river import checks, datasets, evaluate, linear_model, metrics, preprocessing

from hinged.river import SVMClassifier
from hinged.solvers.catalogue import make_solver
from hinged.solvers.core.kernels import make_kernel
from hinged.solvers.core.rows import rows_from_dense
from tests.helpers.solvers.streams import two_moons


def named(check):
    return check.__name__


@pytest.mark.long
@pytest.mark.parametrize("check", list(checks.yield_checks(SVMClassifier(C=1.0))), ids=named)
def test_river_finds_nothing_amiss(check):
    """Of one machine. tests/local has the same checks of a race."""
    random.seed(0)  # some checks shuffle
    check(SVMClassifier(C=1.0))


@pytest.mark.parametrize(("name", "parameters"), [("lasvm-g", {"idle_max": 0}), ("ogd", {"eta": 0.5}), ("exact", {})])
def test_another_solver_learns_a_stream(name, parameters):
    model = preprocessing.StandardScaler() | SVMClassifier(name, C=10.0, gamma=0.1, **parameters)
    score = evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    assert score.get() > 0.8


@pytest.mark.long
def test_its_defaults_are_ahead_of_logistic_regression():
    by_river = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    scores = [
        evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get()
        for model in (SVMClassifier(), by_river)
    ]
    assert scores[0] > scores[1]


def test_it_is_the_solver_to_the_bit():
    X, y = two_moons(200)
    kernel = make_kernel("rbf", 0.5)
    solver = make_solver("lasvm", kernel, 2, C=2.0)
    model = SVMClassifier(C=2.0, gamma=0.5, scale=None, features_max=2)
    for _ in range(2):
        solver.add_class()
    y[:2] = -1, 1
    for k in range(200):
        x = {"a": X[k, 0], "b": X[k, 1]}
        row = rows_from_dense(X[k : k + 1], kernel, 2)
        if k > 1:
            assert model.decision_one(x)[1] == 0.5 * solver.decision(row)[0, 0]
        model.learn_one(x, int(y[k]))
        solver.learn(row, np.array([int(y[k] > 0)]), np.array([k]))


@pytest.mark.parametrize("name", ["lasvm", "ogd", "smo"])
def test_a_weight_is_a_factor_of_C_and_weight_0_leaves_an_example_out(name):
    X, y = two_moons(120, noise=0.4)
    shared = {"gamma": 0.5, "scale": None, "features_max": 2, "solver": name}
    weighted, by_class = SVMClassifier(**shared), SVMClassifier(class_weight={1: 3.0}, **shared)
    for k in range(120):
        x, label = dict(zip("ab", X[k], strict=True)), int(y[k])
        weighted.learn_one(x, label, w=3.0 if label == 1 else 1)
        weighted.learn_one(x, -label, w=0)
        by_class.learn_one(x, label)
        assert weighted.decision_one(x) == by_class.decision_one(x)


def test_weights_hold_for_the_warm_up_and_in_a_pipeline():
    stream = list(datasets.Phishing().take(60))
    plain, doubled = (preprocessing.StandardScaler() | SVMClassifier(C=C, warmup=30) for C in (2.0, 1.0))
    for x, y in stream:
        plain.learn_one(x, y)
        doubled.learn_one(x, y, w=2.0)
        assert plain.predict_proba_one(x) == doubled.predict_proba_one(x)


@pytest.mark.parametrize("w", [-1.0, float("nan"), float("inf"), "1", None, 1e16])
def test_an_invalid_weight_is_refused_before_anything_changes(w):
    model = SVMClassifier(C=1.0)
    with pytest.raises(ValueError, match=r"w must be a number >= 0|the weight of an example must be > 0 and < 1e\+15"):
        model.learn_one({"a": 1.0}, True, w=w)
    assert model.decision_one({"a": 1.0}) == {}


def test_a_copy_goes_on_learning_to_the_bit():
    stream = list(datasets.ImageSegments().take(120))
    model = SVMClassifier(gamma=1e-3)
    for x, y in stream[:60]:
        model.learn_one(x, y)
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301 - it is our own
    for x, y in stream[60:]:
        assert model.predict_proba_one(x) == twin.predict_proba_one(x)
        model.learn_one(x, y)
        twin.learn_one(x, y)
    mine, other = model._learner.solver.state(), twin._learner.solver.state()
    assert all(np.array_equal(mine[part], other[part]) for part in mine)


@pytest.mark.long
@pytest.mark.parametrize("gamma", ["scale", 0.1])
def test_the_units_of_features_do_not_matter_but_without_a_scale(gamma):
    stream = [(x, y) for x, y in datasets.Phishing().take(400)]
    mixed = [({name: value * 1000.0 ** (k % 3) for k, (name, value) in enumerate(x.items())}, y) for x, y in stream]

    def right(parameters, examples):
        return evaluate.progressive_val_score(examples, SVMClassifier(C=10.0, **parameters), metrics.Accuracy()).get()

    assert right({"gamma": gamma}, mixed) == pytest.approx(right({"gamma": gamma}, stream), abs=0.01)
    assert right({"gamma": gamma}, mixed) > right({"gamma": 1.0, "scale": None}, mixed) + 0.05


def test_the_warm_up_ends_where_no_more_points_are_held():
    model = SVMClassifier(points_max=12, when_full="remove", warmup=1000)
    for x, y in datasets.Phishing().take(40):
        model.learn_one(x, y)
    assert not model._warming
    assert model._learner.solver.live <= 12
    for parameters, problem in (
        ({"scale": "log"}, "scale must be"),
        ({"gamma": "wide"}, "gamma must be"),
        ({"warmup": 0}, "warmup must be"),
    ):
        with pytest.raises(ValueError, match=problem):
            SVMClassifier(**parameters)


@pytest.mark.long
def test_the_order_of_a_dictionary_has_no_meaning():
    stream = list(datasets.Phishing().take(100))
    models = [SVMClassifier(), SVMClassifier()]
    for x, y in stream:
        for model, sign in zip(models, (1, -1), strict=True):
            model.learn_one(dict(list(x.items())[::sign]), y)
    assert all(models[0].decision_one(x) == models[1].decision_one(x) for x, _ in stream)


@pytest.mark.long
@pytest.mark.parametrize(
    ("stream", "loss"), [(datasets.Phishing, metrics.LogLoss), (datasets.ImageSegments, metrics.CrossEntropy)]
)
def test_probabilities_fit_what_comes_better_than_decision_values_as_they_are(stream, loss):
    model, told, plain = SVMClassifier(), loss(), loss()
    for x, y in stream().take(500):
        scores, found = model.decision_one(x), model.predict_proba_one(x)
        assert list(found) == list(scores)
        if len(found) > 1:
            powers = np.exp(list(scores.values()))
            assert max(found, key=found.get) == model.predict_one(x)
            assert sum(found.values()) == pytest.approx(1.0)
            told.update(y, found)
            plain.update(y, dict(zip(scores, (powers / powers.sum()).tolist(), strict=True)))
        model.learn_one(x, y)
    assert told.get() < 0.8 * plain.get()


@pytest.mark.long
def test_asking_for_probabilities_changes_nothing():
    asked, silent = SVMClassifier(), SVMClassifier()
    stream = list(datasets.ImageSegments().take(150))
    for x, y in stream:
        asked.predict_proba_one(x)
        for model in (asked, silent):
            model.learn_one(x, y)
    assert all(asked.predict_proba_one(x) == silent.predict_proba_one(x) for x, _ in stream[:20])


def test_labels_may_come_at_any_time():
    model = SVMClassifier(C=10.0)
    centres = {"low": 0.0, "middle": 2.0, "high": 4.0}
    assert model.predict_one({"x": 1.0}) is None
    assert model.predict_proba_one({"x": 1.0}) == {}
    for count, label in enumerate(centres):
        for k in range(20):
            for known in list(centres)[: count + 1]:
                model.learn_one({"x": centres[known] + 0.01 * k}, known)
        assert set(model.predict_proba_one({"x": 0.0})) == set(list(centres)[: count + 1])
        assert model.predict_one({"x": centres[label]}) == label


def test_a_feature_that_is_new_counts_in_a_prediction_and_is_not_remembered():
    model = SVMClassifier(features_max=2)
    for k in range(10):
        model.learn_one({"a": float(k % 2)}, k % 2)
    before = pickle.dumps(model)
    near, far = model.decision_one({"a": 1.0}), model.decision_one({"a": 1.0, "b": 5.0})
    assert abs(far[1]) < abs(near[1])
    assert model.decision_one({"a": 1.0, "c": 5.0}) == far
    assert pickle.dumps(model) == before


def test_invalid_input_is_refused_before_anything_changes():
    model = SVMClassifier(features_max=2)
    model.learn_one({"a": 1.0}, True)
    before = pickle.dumps(model)
    for x, problem in (
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "at most 2; 2 more"),
        ({"a": "red"}, "'a' is 'red'"),
        ({"a": 1.0, "b": None}, "'b' is None"),
        ({"b": float("nan")}, "'b' is nan"),
        ({"b": [1.0]}, "'b' is"),
        ({"b": 1e300}, "within 1e.100 of 0"),
    ):
        with pytest.raises(ValueError, match=problem):
            model.learn_one(x, False)
        with pytest.raises(ValueError, match=problem):
            model.predict_one(x)
        assert pickle.dumps(model) == before
    for parameters in ({"solver": "guess"}, {"gamma": 0.0}, {"features_max": 0}, {"precision": "float16"}):
        with pytest.raises(ValueError, match="must be"):
            SVMClassifier(**parameters)


def test_without_river_it_says_what_is_missing():
    program = "import sys; sys.modules['river'] = None; import hinged.river"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Lacking: hinged.river needs the package river" in done.stderr
