"""The columns that a model describes, beside predictions of x that lack a name."""

import numpy as np
import pytest

from hinged.service.commands import columns
from hinged.service.commands.columns import columns_of
from hinged.service.data.examples import to_inputs
from hinged.solvers.estimators.scaling import bent, unbent
from tests.helpers import models

NAMED = {"type": "named", "warmup": 60, "columns": {"note": {"type": "text"}}}
DENSE = {"type": "dense", "dim": 3, "scale": "auto", "warmup": 40}


def payments(n):
    random = np.random.default_rng(4)
    for k in range(n):
        amount, shop = float(random.gamma(1.0, 20.0)), "abc"[random.integers(3)]
        x = {
            "shop": shop, "amount": amount, "member": bool(random.integers(2)), "flat": 3.0, "receipt": f"r{k}",
            "at": f"2026-01-{1 + k % 28:02}T10:00:00Z", "note": ("late again", "as usual")[random.integers(2)],
        }  # fmt: skip
        yield x, "fraud" if shop == "a" and amount > 12 else "fine"


def learned(features, examples, solver="lasvm", **parts):
    body = {"solver": solver, "kernel": {"type": "rbf", "gamma": "scale"}, "features": features, **parts}
    model = models.new_model(body, {"cache_bytes": 2**22, "answers_kept": 1000})
    xs, ys = (list(part) for part in zip(*examples, strict=True))
    inputs = to_inputs([model.configuration.features.ONE.validate_python(x) for x in xs], model.configuration)
    models.learn(model, models.request_of(inputs, ys, [str(k) for k in range(len(xs))]))
    return model


def decided(model, xs):
    read = model.configuration.features.ONE.validate_python
    return model.published().decide(to_inputs([read(x) for x in xs], model.configuration)).numbers


def by_name(model):
    return {column["name"]: column for column in columns_of(model)}


def test_an_effect_is_the_share_of_points_that_are_predicted_otherwise_without_the_name():
    examples = list(payments(120))
    model = learned(NAMED, examples)
    held = [examples[int(model.id_of(key))][0] for key in model.solver.keys().tolist()]
    told = by_name(model)
    assert set(told) == set(examples[0][0])
    for name in set(told) - {"at"}:  # the time since the example before depends on the order
        without = [{other: value for other, value in x.items() if other != name} for x in held]
        assert told[name]["effect"] == np.mean(decided(model, held) != decided(model, without)), name
    assert told["shop"]["effect"] > 0.1 > told["flat"]["effect"] == told["receipt"]["effect"] == 0.0


def test_kinds_values_and_usual_numbers_are_those_of_the_examples():
    examples = list(payments(120))
    told = by_name(learned(NAMED, examples))
    kinds = {name: column["kinds"] for name, column in told.items()}
    assert kinds == {
        "shop": ["category"], "member": ["category"], "amount": ["number"], "flat": ["number"],
        "at": ["time"], "note": ["text"], "receipt": ["identifier"],
    }  # fmt: skip
    assert told["shop"]["values"] == 3
    assert {each["value"] for each in told["shop"]["frequent"]} == set("abc")
    assert sum(each["share"] for each in told["shop"]["frequent"]) == pytest.approx(1.0)
    assert {type(each["value"]) for each in told["member"]["frequent"]} == {bool}
    low, high = told["amount"]["usual"]
    amounts = [x["amount"] for x, _ in examples]
    assert min(amounts) - 20 < low < np.median(amounts) < high < max(amounts)
    assert told["note"]["usual"] is told["shop"]["usual"] is None


def test_the_share_missing_is_the_share_of_points_whose_x_lacks_the_name():
    examples = [
        ({name: value for name, value in x.items() if k % 4 or name not in {"amount", "shop", "at", "note"}}, y)
        for k, (x, y) in enumerate(payments(120))
    ]
    model = learned(NAMED, examples)
    held = [examples[int(model.id_of(key))][0] for key in model.solver.keys().tolist()]
    told = by_name(model)
    for name in ("amount", "shop", "member", "at", "note"):
        assert told[name]["missing"] == pytest.approx(np.mean([name not in x for x in held])), name
    assert told["shop"]["missing"] > 0.0 == told["member"]["missing"]
    assert told["receipt"]["missing"] is told["flat"]["missing"] is None  # no column; always the mean
    assert {
        column["missing"] for column in columns_of(learned(DENSE, [([1.0, 0.0, 0.0], k % 2) for k in range(60)]))
    } == {None}


def test_dense_columns_have_numbers_as_names():
    random = np.random.default_rng(0)
    X = random.standard_normal((80, 3)) * [1.0, 1.0, 1e4] + [0.0, 5.0, 0.0]
    model = learned(DENSE, [(x.tolist(), bool(x[0] > 0)) for x in X])
    told = by_name(model)
    assert list(told) == ["0", "1", "2"]
    assert told["0"]["effect"] > max(told["1"]["effect"], told["2"]["effect"])
    ends = np.array([column["usual"] for column in told.values()])
    assert np.allclose(ends.mean(axis=1), X[:40].mean(axis=0), atol=0.05 * X.std(axis=0))
    unscaled = by_name(learned(DENSE | {"scale": None, "warmup": 1}, [(x.tolist(), bool(x[0] > 0)) for x in X]))
    assert list(unscaled) == ["0", "1", "2"]
    assert {column["usual"] for column in unscaled.values()} == {None}


@pytest.mark.parametrize(
    ("features", "x", "solver"),
    [
        ({"type": "sparse", "dim": 9}, {"indices": [3], "values": [1.0]}, "lasvm"),
        ({"type": "text", "warmup": 1}, "a word", "lasvm"),
        ({"type": "dense", "dim": 2}, [1.0, 2.0], "fogd"),
        ({"type": "dense", "dim": 2}, [1.0, 2.0], "lasvm"),
    ],
)
def test_without_points_classes_or_names_an_effect_is_unknown(features, x, solver):
    model = learned(features, [(x, "only")], solver, **({"frequencies": 8} if solver == "fogd" else {}))
    assert {column["effect"] for column in columns_of(model)} <= {None}


def test_texts_that_share_their_columns_have_no_effect_of_their_own():
    examples = [({"note": "late again" if k % 2 else "on time", "more": "words"}, k % 2 == 0) for k in range(80)]
    one = by_name(learned(NAMED, examples))
    both = by_name(learned(NAMED | {"columns": {name: {"type": "text"} for name in ("note", "more")}}, examples))
    assert one["note"]["effect"] > 0.3
    assert both["note"]["effect"] is both["more"]["effect"] is None


def test_fewer_points_are_compared_where_a_prediction_costs_more(monkeypatch):
    model = learned(DENSE, [(x, x[0] > 0) for x in np.random.default_rng(1).standard_normal((90, 3)).tolist()])
    whole = columns_of(model)
    monkeypatch.setattr(columns, "WORK_MAX", 1)
    few = columns_of(model)
    assert [column["usual"] for column in few] == [column["usual"] for column in whole]
    assert {round(column["effect"] * columns.POINTS_MIN, 6) % 1 for column in few} == {0.0}


def test_a_bend_can_be_taken_back():
    values = np.concatenate((np.random.default_rng(2).standard_cauchy(200) * 50, [0.0, 1.0, -3.0, 2.0**40]))
    assert np.allclose(unbent(bent(values, 3.0), 3.0), values, rtol=1e-9)
