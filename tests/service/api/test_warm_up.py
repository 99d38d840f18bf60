"""Further epochs, and records with names from before and after the warm-up."""

import math
import random

import numpy as np
import pytest
from sklearn.svm import SVC

from tests.helpers.http_client import BASE, AskedModel, example, refusal
from tests.helpers.questions import asked, named_model

# -- further epochs -------------------------------------------------------------------------------------------------


def test_finishing_may_learn_the_log_again(ask):
    rng = random.Random(4)
    examples = [example([x := rng.gauss(0, 1), rng.gauss(0, 1)], int(x > 0) ^ (rng.random() < 0.1)) for _ in range(300)]
    plain, further = (ask.new_model(solver="bsca", budget=30) for _ in range(2))
    for model in (plain, further):
        for begin in range(0, 300, 50):
            model.learn(*examples[begin : begin + 50])
    plain.finish()
    answer = further.ask("POST", f"{further.path}/finish", json={"epochs": 2})
    assert answer.status_code == 200
    a, b = plain.figures(), further.figures()
    assert a["examples"] == b["examples"] == 300
    assert b["certificate"]["steps"] > a["certificate"]["steps"]
    assert b["metrics"] == a["metrics"]
    refusal(further.ask("POST", f"{further.path}/finish", json={"epochs": -1}), 422, "invalid")


def dual_of(X, y, *, C, gamma):
    """Return the dual objective at LIBSVM's optimum."""
    svc = SVC(C=C, gamma=gamma, tol=1e-7).fit(X, y)
    beta = svc.dual_coef_[0]
    return abs(beta).sum() - beta @ svc.decision_function(X[svc.support_]) / 2 + beta.sum() * svc.intercept_[0] / 2


@pytest.mark.parametrize("room", [1000, 100])
def test_finishing_after_an_epoch_reaches_the_optimum_of_the_whole_log(ask, room):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 2)).astype(np.float32)
    y = (np.hypot(*X.T) > 1.1) ^ (rng.random(600) < 0.1)
    model = ask.new_model(solver="lasvm", kernel={"type": "rbf", "gamma": 0.5}, C=2.0, idle_max=0, points_max=room)
    for begin in range(0, 600, 50):
        part = slice(begin, begin + 50)
        model.learn(*map(example, X[part].tolist(), y[part].astype(int).tolist()))
    model.finish()
    before = model.figures()["certificate"]["dual"]
    answer = ask("POST", f"{model.path}/finish", json={"epochs": 1}).json()
    best, found = dual_of(X, y, C=2.0, gamma=0.5), model.figures()["certificate"]["dual"]
    fits = room == 1000
    assert answer["converged"] == fits
    assert (answer["missing"] == 0) == fits
    assert (best * (1 - 1e-6) < found < best * (1 + 1e-9)) == fits
    assert found > before or not fits


# -- earlier faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "full", "lasvm", "exact", "tracking-cached", "ogd"])
def test_a_further_epoch_over_held_examples_needs_no_room(ask, solver):
    body = {key: value for key, value in BASE.items() if key != "C"} | {"solver": solver, "points_max": 30}
    assert ask("PUT", f"/models/epoch-{solver}", json=body).status_code == 201
    model = AskedModel(ask, f"epoch-{solver}")
    rng = random.Random(1)
    model.learn(*(example([rng.gauss(0, 1), rng.gauss(0, 1)], k % 2) for k in range(20)))
    answer = ask("POST", f"{model.path}/finish", json={"epochs": 2})
    assert answer.status_code == 200, answer.text
    assert answer.json()["points"] <= 30


def test_a_warm_up_in_a_small_model_is_refused_when_it_is_full_and_goes_on(ask):
    model = named_model(ask, "small", points_max=20, when_full="refuse")
    records = [example({"a": k / 10, "b": str(k % 3)}, k % 2) for k in range(40)]
    model.learn(*records[:10])
    refusal(model.try_learn(*records[10:30]), 507, "model_full")
    model.learn(*records[10:20])
    assert model.figures()["examples"] == 20
    assert model.predict({"a": 1.0})[0]["prediction"] in (0, 1)


def test_a_named_record_never_has_too_large_a_kernel_value(ask):
    body = {"features": {"type": "named", "warmup": 2}, "kernel": {"type": "polynomial", "gamma": 1e13, "degree": 3}}
    assert "gamma at most" in refusal(ask("PUT", "/models/steep", json=body), 422, "invalid")["message"]
    model = named_model(
        ask, "wide", kernel={"type": "polynomial", "gamma": "auto", "degree": 16}, labels={"explore": 0}
    )
    model.learn(*(example({"a": "v"} if k == 3 else {}, k % 2) for k in range(20)))
    wild = {f"n{k}": 1e100 for k in range(900)}
    model.learn(example(wild, 1))
    assert model.ask("POST", f"{model.path}/pool", json={"examples": [{"id": "w", "x": wild}]}).status_code == 200
    assert asked(model)[0]["x"] == wild
    assert math.isfinite(model.predict(wild)[0]["scores"]["1"])


def test_without_a_warm_up_named_examples_are_learned_from_the_first(ask):
    kernel = {"type": "rbf", "gamma": 1.0}
    model = named_model(ask, "cold", features={"type": "named", "warmup": 0}, kernel=kernel, classes=["p", "q"])
    results = model.learn(*(example({"a": float(k % 2)}, "pq"[k % 2]) for k in range(50)))
    assert results[0]["prediction"] is None
    assert model.figures()["points"] > 1
    assert [r["prediction"] for r in model.predict({"a": 0.0}, {"a": 1.0})] == ["p", "q"]
