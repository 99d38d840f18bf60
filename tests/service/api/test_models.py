import math

import pytest

from tests.helpers.http_client import BASE, KERNEL, example, refusal

FULL = {
    "solver": "lasvm",
    "kernel": {"type": "rbf", "gamma": 0.005},
    "C": 100,
    "tol": 0.001,
    "features": {"type": "dense", "dim": 123},
    "classes": None,
    "seed": 0,
}


def test_a_model_is_created_once_and_repeating_the_request_changes_nothing(ask):
    first = ask("PUT", "/models/full", json=FULL)
    assert first.status_code == 201
    assert first.json()["model"] == "full"
    configuration = first.json()["configuration"]
    assert configuration == {
        "solver": "lasvm",
        "kernel": FULL["kernel"],
        "features": {"scale": None, "warmup_candidates": True, **FULL["features"]},
        "points_max": 10_000,
        "C": 100.0,
    }
    again = ask("PUT", "/models/full", json=FULL)
    assert again.status_code == 200
    assert again.json() == first.json()
    # The configuration that the server shows creates the same model, even with every default written out.
    whole = ask("GET", "/models/full?full=true").json()["configuration"]
    assert whole | FULL | {"features": whole["features"]} == whole
    for body in (configuration, whole):
        assert ask("PUT", "/models/full", json=body).status_code == 200
        assert ask("PATCH", "/models/full", json=body).status_code == 200
    for query, told in (("", configuration), ("?full=true", whole)):
        listed = {found["model"]: found for found in ask("GET", f"/models{query}").json()["models"]}
        assert listed["full"]["configuration"] == told
        assert ask("GET", f"/models/full/shadows{query}").json()["champion"]["configuration"] == told


def test_another_configuration_of_a_model_is_a_conflict_that_shows_the_present_one(ask):
    model = ask.new_model()
    error = refusal(ask("PUT", model.path, json=BASE | {"C": 11}), 409, "conflict")
    assert error["details"]["configuration"] == model.figures()["configuration"]
    assert model.figures()["configuration"]["C"] == 10


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ({}, {"solver": "auto", "rules": 5, "goal": "accuracy"}),
        (
            {"solver": "lasvm"},
            {
                "solver": "lasvm",
                "C": 1.0,
                "tol": 0.001,
                "delta_min": None,
                "delta_max": 2.0,
                "second_order": False,
                "idle_max": 2000,
            },
        ),
    ],
)
def test_every_default_of_a_configuration_is_filled_in(ask, said, more):
    body = {"kernel": {"type": "polynomial"}, "features": {"type": "sparse", "dim": 7}, **said}
    name = f"/models/defaults{len(said)}"
    assert ask("PUT", name, json=body).status_code == 201
    assert ask("GET", f"{name}?full=true").json()["configuration"] == more | {
        "kernel": {"type": "polynomial", "gamma": 1.0, "degree": 3, "coef0": 0.0},
        "features": {"type": "sparse", "dim": 7, "scale": None, "warmup": None, "warmup_candidates": True},
        "classes": None,
        "class_weight": None,
        "costs": None,
        "capacity": None,
        "watch": None,
        "segments": None,
        "promise": None,
        "alarm": None,
        "receipts": False,
        "explore": None,
        "novelty": None,
        "precision": "float32",
        "points_max": 10_000,
        "when_full": "remove",
        "window": None,
        "half_life": None,
        "calibration": "auto",
        "labels": {
            "pool_max": 10_000,
            "overlap": 1,
            "tie_breakers": 1,
            "combine": "majority",
            "explore": 0.05,
            "budget": None,
            "pending_max": 10_000,
            "pending_s": 86_400.0,
            "pending_durable": False,
            "guide": None,
        },
        "show": None,
        "seed": 0,
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"kernel": {"type": "sigmoid"}},
            'kernel.type must be one of linear, polynomial, rbf, laplacian, got "sigmoid"',
        ),
        ({"kernel": {"type": "rbff"}}, "got \"rbff\", did you mean 'rbf'?"),
        ({"kernel": {"gamma": 1}}, "kernel.type is missing"),
        ({"kernel": {"type": "rbf", "gama": 1}}, "unknown part 'gama' of kernel, did you mean 'gamma'?"),
        ({"solver": "fogd", "C": 1}, "unknown part 'C'; only another solver or type has it"),
        ({"kernal": {"type": "rbf"}}, "unknown part 'kernal', did you mean 'kernel'?"),
        ({"window": {"example": 5}}, "unknown part 'example' of window, did you mean 'examples'?"),
        ({"window": {"examples": 5, "step": 6}}, "window: Input should have a step of at most 5"),
        ({"half_life": {"seconds": 5, "step": 1}}, "half_life: Input should have no step beside seconds"),
        ({"window": {"examples": 5, "step": 0}}, "window.step"),
        ({"kernel": None}, "kernel: Input should be an object, got null"),
        ({"kernel": {"type": "rbf", "gamma": 0}}, "gamma"),
        ({"kernel": {"type": "rbf", "gamma": "wide"}}, "kernel.gamma: Input should be a number > 0"),
        ({"kernel": {"type": "linear", "gamma": 1}}, "gamma"),
        ({"kernel": {"type": "polynomial", "degree": 17}}, "degree"),
        ({"kernel": {"type": "polynomial", "degree": 2.5}}, "degree"),
        ({"kernel": {"type": "polynomial", "coef0": -1}}, "coef0"),
        ({"kernel": None}, "kernel"),
        ({"solver": "svm"}, "solver"),
        ({"C": 0}, "C"),
        ({"C": -1}, "C"),
        ({"C": "10"}, "C"),
        ({"C": True}, "C"),
        ({"C": 1e15}, "C"),
        ({"tol": 0}, "tol"),
        ({"delta_max": 0.001}, "delta_max must be > tol"),
        ({"delta_min": -1}, "delta_min"),
        ({"delta_min": 1000}, "delta_min"),
        ({"features": {"type": "dense"}}, "features.dim"),
        ({"features": {"type": "dense", "dim": 0}}, "features.dim"),
        ({"features": {"type": "dense", "dim": 2**20 + 1}}, "at most 1048576"),
        ({"labels": {"explore": 1.5}}, "labels.explore"),
        ({"labels": {"pool": 5}}, "unknown part 'pool' of labels"),
        ({"features": {"type": "named", "warmup": 50}, "points_max": 40, "when_full": "refuse"}, "features.warmup"),
        ({"features": {"type": "wide", "dim": 2}}, "features.type must be one of dense, sparse, named"),
        ({"features": {"type": "named", "dim": 2}}, "unknown part 'dim' of features; allowed are type, warmup"),
        ({"features": {"type": "named", "warmup": -1}}, "features.warmup"),
        ({"features": {"type": "named", "warmup": 100_001}}, "features.warmup"),
        ({"features": {"type": "named", "columns_max": 0}}, "features.columns_max"),
        ({"features": {"type": "named", "columns_max": 2**20 + 1}}, "features.columns_max must be at most 1048576"),
        ({"kernel": {"type": "rbf"}, "features": {"type": "named", "warmup": 0}}, "warm-up of the features"),
        (
            {"kernel": {"type": "rbf", "gamma": "auto"}, "features": {"type": "named", "warmup": 0}},
            "warm-up of the features",
        ),
        (
            {"features": {"type": "dense", "dim": 2, "scale": "log"}},
            "features.scale: Input should be 'auto', got \"log\"",
        ),
        ({"features": {"type": "dense", "dim": 2, "warmup": 0}}, "features.warmup"),
        (
            {
                "features": {"type": "sparse", "dim": 2, "scale": "auto", "warmup": 50},
                "points_max": 40,
                "when_full": "refuse",
            },
            "features.warmup",
        ),
        (
            {"features": {"type": "dense", "dim": 2**14 + 1, "scale": "auto"}},
            "centres dense features, so dim must be at most 16384",
        ),
        (
            {
                "kernel": {"type": "polynomial", "gamma": "scale"},
                "features": {"type": "dense", "dim": 2, "scale": None},
            },
            'needs features.scale "auto"',
        ),
        ({"classes": []}, "classes"),
        ({"classes": ["a"]}, "classes"),
        ({"classes": ["a", "a"]}, "twice"),
        ({"classes": ["a", 1.5]}, "classes"),
        ({"classes": ["a", None]}, "classes"),
        ({"classes": ["a", 2**63]}, r"classes[1]"),
        ({"classes": ["a", "b" * 257]}, r"classes[1]"),
        ({"classes": list(range(257))}, "256"),
        ({"class_weight": {"a": 0}}, "class_weight"),
        ({"class_weight": {"a": "1"}}, "class_weight"),
        ({"C": 1e10, "class_weight": {"a": 1e10}}, "class_weight"),
        ({"C": 1e-200, "class_weight": {"a": 1e-200}}, "class_weight"),
        ({"precision": "float16"}, "precision"),
        ({"points_max": 1}, "points_max"),
        ({"points_max": 100_001}, "points_max"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"gamma": 1}, "gamma"),
    ],
    ids=str,
)
def test_an_invalid_configuration_is_refused_with_the_value_that_was_got(ask, changes, reason):
    error = refusal(ask("PUT", "/models/refused", json=BASE | changes), 422, "invalid")
    assert reason in error["message"]
    refusal(ask("GET", "/models/refused"), 404, "not_found")


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"text"', "[" * 1000, '{"kernel": NaN}', "\x00"])
def test_a_body_that_is_not_a_configuration_is_refused(ask, body):
    answer = ask("PUT", "/models/refused", content=body, headers={"content-type": "application/json"})
    refusal(answer, 422, "invalid")


@pytest.mark.parametrize("name", ["a", "0", "A.b_c-d", "x" * 64, "a..", "7-"])
def test_a_name_of_letters_digits_and_some_signs_is_taken(ask, name):
    model = ask.new_model(name)
    assert model.figures()["model"] == name
    assert ask("DELETE", model.path).status_code == 200


@pytest.mark.parametrize("name", ["-a", ".a", "_a", "x" * 65, "a%20b", "a%0A", "%C3%A9", "a~", "a%00", "%D9%A1"])
def test_any_other_name_is_refused_by_every_route(ask, name):
    for method, path, body in (
        ("PUT", "", BASE),
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/learn", example([0, 1], 1)),
        ("POST", "/predict", {"x": [0, 1]}),
        ("GET", "/predict?x=[0,1]", None),
        ("POST", "/finish", None),
    ):
        error = refusal(ask(method, f"/models/{name}{path}", json=body), 422, "invalid")
        assert "1 to 64" in error["message"]


def test_an_unknown_model_is_not_found_by_any_route(ask):
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/predict", {"x": [0, 1]}),
        ("GET", "/predict?x=[0,1]", None),
        ("POST", "/finish", None),
    ):
        error = refusal(ask(method, f"/models/nobody{path}", json=body), 404, "not_found")
        assert "'nobody'" in error["message"]


def test_models_are_listed_by_name_in_short(ask):
    b, a = ask.new_model("list-b"), ask.new_model("list-a")
    b.learn(example([0, 1], "up"))
    listed = ask("GET", "/models").json()["models"]
    names = [entry["model"] for entry in listed]
    assert names == sorted(names)
    entries = {entry["model"]: entry for entry in listed}
    configuration = a.figures()["configuration"]
    assert entries["list-a"] == {
        "model": "list-a",
        "state": "serving",
        "configuration": configuration,
        "position": 1,
        "examples": 0,
        "classes": [],
    }
    assert entries["list-b"] | {"position": 3, "examples": 1, "classes": ["up"]} == entries["list-b"]


def test_a_model_is_described_with_its_figures(ask):
    model = ask.new_model()
    examples = [example([math.sin(k), math.cos(2 * k)], "up" if k % 3 else "down") for k in range(40)]
    results = model.learn(*examples)
    figures = model.figures()
    assert figures["model"] == model.name
    assert figures["examples"] == 40
    assert figures["classes"] == ["down", "up"]
    assert 0 < figures["support_vectors"] <= figures["points"] <= 40
    assert figures["duality_gap"] == figures["certificate"]["gap"] >= 0
    assert figures["certificate"]["primal"] >= figures["certificate"]["dual"] > 0
    assert figures["memory_bytes"] > 0
    right = [r["prediction"] == e["y"] for r, e in zip(results, examples, strict=True) if r["prediction"] is not None]
    assert len(right) == 39
    accuracy = pytest.approx(sum(right) / len(right))
    shown = figures["metrics"]
    assert (shown["predicted"], shown["accuracy"], shown["accuracy_window"]) == (39, accuracy, accuracy)
    assert shown["window"]["accuracy"] == shown["sources"]["streamed"]["accuracy"] == accuracy
    assert shown["confusion"]["classes"] == ["down", "up"]
    assert sum(map(sum, shown["confusion"]["all"])) == 39
    assert (figures["pool"]["size"], figures["pending"]) == (0, 0)


def test_an_untaught_models_description_has_nulls(ask):
    figures = ask.new_model().figures()
    assert figures["position"] == 1
    assert figures["examples"] == figures["support_vectors"] == figures["points"] == 0
    assert figures["classes"] == []
    shown = figures["metrics"]
    assert (shown["predicted"], shown["accuracy"], shown["accuracy_window"]) == (0, None, None)
    assert shown["sources"] == {}


def test_finishing_closes_the_gap(ask):
    model = ask.new_model(C=100)
    model.learn(*(example([math.sin(k), math.cos(3 * k)], k % 2) for k in range(200)))
    before = model.figures()
    finished = model.finish()
    after = model.figures()
    assert finished["steps"] > 0
    assert finished == {
        "model": model.name,
        "position": before["position"] + 1,
        "support_vectors": after["support_vectors"],
        "points": after["points"],
        "duality_gap": after["duality_gap"],
        "steps": finished["steps"],
        "converged": True,
        "missing": 0,
    }
    assert after["certificate"]["kkt_violation"] <= 0.001 < before["certificate"]["kkt_violation"]
    assert after["certificate"]["dual"] > before["certificate"]["dual"]
    assert after["examples"] == 200
    assert model.finish()["steps"] == 0


def test_finishing_a_model_with_fewer_than_two_classes_does_nothing(ask):
    model = ask.new_model()
    assert model.finish()["steps"] == 0
    model.learn(example([0, 1], "a"), example([1, 0], "a"))
    assert model.finish()["steps"] == 0


def test_a_deleted_model_is_gone_and_a_new_model_with_its_name_starts_empty(ask):
    model = ask.new_model("phoenix")
    model.learn(example([0, 1], "up", "a1"))
    assert ask("DELETE", model.path).json() == {"model": "phoenix", "deleted": True}
    refusal(ask("GET", model.path), 404, "not_found")
    refusal(ask("DELETE", model.path), 404, "not_found")
    assert "phoenix" not in [entry["model"] for entry in ask("GET", "/models").json()["models"]]
    reborn = ask.new_model("phoenix", kernel=KERNEL | {"gamma": 2.0})
    assert reborn.figures()["examples"] == 0
    (result,) = reborn.learn(example([5, 5], "down", "a1"))
    assert result == {"id": "a1", "prediction": None, "score": None, "duplicate": False}
