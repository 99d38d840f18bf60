"""p-values of full conformal prediction in the answers to predict."""

import random

import pytest

from hinged import Client
from hinged.sklearn import ExactSVMClassifier
from tests.helpers.http_client import example, refusal

EXACT = {"solver": "exact", "C": 2.0, "kernel": {"type": "rbf", "gamma": 0.5}}


def stream(n, seed=0):
    draw = random.Random(seed)
    rows = [[draw.gauss(0, 1), draw.gauss(0, 1)] for _ in range(n)]
    return rows, ["up" if x + draw.gauss(0, 0.6) > 0 else "down" for x, _ in rows]


def test_p_values_are_those_of_the_estimator_and_asking_changes_nothing(ask):
    model = ask.new_model(**EXACT)
    rows, labels = stream(80)
    model.learn(*(example(x, y) for x, y in zip(rows, labels, strict=True)))
    new = stream(9, seed=1)[0]
    before = model.figures(), model.predict(*new)
    with Client(ask.url) as client:
        results = client.predict(model.name, [{"x": x} for x in new], conformal="full", intervals=["up"])["results"]
    reference = ExactSVMClassifier(C=2.0, gamma=0.5).fit(rows, labels)
    expected = reference.p_values(new)
    for result, p in zip(results, expected, strict=True):
        assert result["p_values"] == pytest.approx(dict(zip(reference.classes_.tolist(), p, strict=True)), abs=1e-9)
        assert set(result["intervals"]) == {"up"}
    after = model.figures(), model.predict(*new)
    assert after[1] == before[1]
    assert "p_values" not in after[1][0]
    for figures, _ in (before, after):  # kernel values were computed, and are kept in memory
        figures["certificate"].pop("kernel_evaluations")
        figures.pop("memory_bytes")
    assert after[0] == before[0]


def test_before_the_first_example_p_values_are_unknown(ask):
    model = ask.new_model(**EXACT, classes=["up", "down"])
    body = {"x": [1, 2], "conformal": "full"}
    assert ask("POST", f"{model.path}/predict", json=body).json()["results"][0]["p_values"] == {}
    model.learn(example([0.0, 1.0], "up"))
    assert ask("POST", f"{model.path}/predict", json=body).json()["results"][0]["p_values"] == {"up": 1, "down": 1}


def test_only_the_exact_solver_has_p_values_and_not_too_many_at_once(ask):
    other, model = ask.new_model(), ask.new_model(**EXACT)
    rows, labels = stream(30)
    for each in (other, model):
        each.learn(*(example(x, y) for x, y in zip(rows, labels, strict=True)))
    answer = ask("POST", f"{other.path}/predict", json={"x": [1, 2], "conformal": "full"})
    said = refusal(answer, 422, "invalid")["message"]
    assert said == "conformal needs the solver exact, got a model of the solver lasvm"
    answer = ask("POST", f"{model.path}/predict", json={"examples": [{"x": [0, 1]}] * 501, "conformal": "full"})
    said = refusal(answer, 422, "invalid")["message"]
    assert said == "conformal: a request may ask for 1000 p-values, got 501 examples with 2 classes"
    answer = ask("POST", f"{model.path}/predict", json={"x": [1, 2], "conformal": "half"})
    assert "conformal" in refusal(answer, 422, "invalid")["message"]
