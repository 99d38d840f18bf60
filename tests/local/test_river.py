import datetime as dt
import pickle
import random
import subprocess
import sys

import pytest
from river import checks, datasets, evaluate, metrics

from hinged.river import HingedClassifier
from hinged.sklearn import HingedClassifier as Batch


def named(check):
    return check.__name__


@pytest.mark.long
@pytest.mark.parametrize("check", list(checks.yield_checks(HingedClassifier())), ids=named)
def test_river_finds_nothing_amiss(check):
    random.seed(0)  # some checks shuffle
    check(HingedClassifier())


def payments(n=120):
    for k in range(n):
        shop, amount = "abc"[k % 3], 5.0 * (k % 11)
        day = dt.date(2026, 1, 1) + dt.timedelta(days=k)
        x = {"shop": shop, "amount": None if k % 10 == 3 else amount, "card": k % 2 == 0, "day": day}
        yield x, "fraud" if shop == "a" and amount > 20 else "fine"


@pytest.mark.long
def test_it_is_the_model_of_scikit_learn_to_the_bit():
    model, batch = HingedClassifier(), Batch(finish=False)
    for x, y in payments():
        model.learn_one(x, y)
    xs, ys = zip(*payments(), strict=True)
    batch.fit(list(xs), list(ys))
    for k, x in enumerate(xs):
        assert model.predict_one(x) == batch.predict([x])[0]
        if k % 10 == 0:
            assert list(model.predict_proba_one(x).values()) == batch.predict_proba([x])[0].tolist()


@pytest.mark.long
def test_without_settings_it_learns_streams_of_numbers_and_of_strings():
    told = evaluate.progressive_val_score(payments(300), HingedClassifier(), metrics.Accuracy()).get()
    assert told > 0.9
    numbers = evaluate.progressive_val_score(datasets.Phishing(), HingedClassifier(), metrics.Accuracy()).get()
    assert numbers > 0.88


def test_texts_are_learned_from_their_words():
    model = HingedClassifier()
    assert model.predict_one("a prize") is None
    assert model.predict_proba_one("a prize") == {}
    for text, y in [("win a prize", "spam"), ("lunch at noon", "ham")] * 20:
        model.learn_one(text, y)
    assert model.predict_one("a prize") == "spam"


@pytest.mark.long
def test_a_copy_goes_on_learning_to_the_bit():
    model = HingedClassifier(half_life=200, class_weight={"fraud": 2.0})
    for x, y in payments(60):
        model.learn_one(x, y)
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301 - it is our own
    for x, y in list(payments())[60:]:
        assert model.predict_proba_one(x) == twin.predict_proba_one(x)
        model.learn_one(x, y)
        twin.learn_one(x, y)


def test_invalid_input_is_refused_before_anything_changes():
    model = HingedClassifier()
    model.learn_one({"a": 1}, True)
    before = pickle.dumps(model)
    with pytest.raises(TypeError, match="column 'a'"):
        model.learn_one({"a": []}, True)
    with pytest.raises(ValueError, match="labels must be"):
        model.learn_one({"a": 1}, None)
    assert pickle.dumps(model) == before
    for parameters in ({"solver": "guess"}, {"C": 0}, {"kernel": "tanh"}, {"columns": {"a": "words"}}):
        with pytest.raises(ValueError, match=r"must|should"):
            HingedClassifier(**parameters)


@pytest.mark.parametrize(
    ("parameters", "solver"),
    [
        ({}, "auto"),
        ({"configuration": {"points_max": 50}}, "auto"),
        ({"C": 1.0}, "lasvm"),
        ({"gamma": 0.1}, "lasvm"),
        ({"configuration": {"tol": 0.1}}, "lasvm"),
    ],
)
def test_the_solver_follows_the_rule_of_a_server(parameters, solver):
    model = HingedClassifier(**parameters)
    model.learn_one({"a": 1.0}, True)
    assert model._local.configuration.solver == solver


@pytest.mark.parametrize("solver", ["lasvm", "ogd", "smo"])
def test_a_weight_is_a_factor_of_C_and_weight_0_leaves_an_example_out(solver):
    weighted = HingedClassifier(solver=solver, gamma=0.5)
    by_class = HingedClassifier(solver=solver, gamma=0.5, class_weight={"fraud": 3.0})
    for x, y in payments():
        weighted.learn_one(x, y, w=3.0 if y == "fraud" else 1)
        weighted.learn_one(x, "fraud" if y == "fine" else "fine", w=0)
        by_class.learn_one(x, y)
        assert weighted.decision_one(x) == by_class.decision_one(x)


@pytest.mark.parametrize("w", [-1.0, float("nan"), float("inf"), "1", None, 1e16])
def test_an_invalid_weight_is_refused_before_anything_changes(w):
    model = HingedClassifier()
    with pytest.raises(ValueError, match=r"w must be a number >= 0|weight"):
        model.learn_one({"a": 1.0}, True, w=w)
    assert model.decision_one({"a": 1.0}) == {}


def test_decision_values_are_by_label():
    model = HingedClassifier(C=10.0)
    assert model.decision_one({"x": 1.0}) == {}
    for k in range(60):
        model.learn_one({"x": float(k % 3) + 0.01 * k}, "abc"[k % 3])
        scores = model.decision_one({"x": 1.0})
        assert list(scores) == list("abc")[: k + 1]


def test_without_river_it_says_what_is_missing():
    program = "import sys; sys.modules['river'] = None; import hinged.river"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "Lacking: hinged.river needs the package river" in done.stderr
