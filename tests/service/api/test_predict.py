import json
import math
import random

import pytest

from hinged import Client
from tests.helpers.http_client import example, refusal


@pytest.fixture(scope="module")
def model(ask):
    taught = ask.new_model("predict", C=100)
    taught.learn(*(example([math.sin(k), math.cos(k)], "left" if math.sin(k) < 0 else "right") for k in range(60)))
    return taught


def test_predictions_come_in_order_with_their_ids(ask, model):
    body = {"examples": [{"id": "p1", "x": [-0.9, 0]}, {"x": [0.9, 0]}, {"id": "p1", "x": [0.9, 0]}]}
    answer = ask("POST", f"{model.path}/predict", json=body).json()
    assert list(answer) == ["model", "position", "results"]
    assert answer["model"] == model.name
    assert answer["position"] == model.figures()["position"]
    assert all(list(r) == ["id", "prediction", "probability", "scores", "label"] for r in answer["results"])
    assert [(r["id"], r["prediction"]) for r in answer["results"]] == [("p1", "left"), (None, "right"), ("p1", "right")]


def test_the_prediction_has_the_highest_score(model):
    for result in model.predict([-0.9, 0.1], [0.9, 0.1], [0.01, 0.5]):
        assert set(result["scores"]) == {"left", "right"}
        assert result["prediction"] == max(result["scores"], key=result["scores"].get)


def test_a_single_example_may_come_without_a_list_or_in_the_query(ask, model):
    listed = model.try_predict([-0.9, 0.25]).json()
    assert ask("POST", f"{model.path}/predict", json={"x": [-0.9, 0.25]}).json() == listed
    assert ask("GET", f"{model.path}/predict?x=[-0.9,0.25]").json() == listed
    sparse = json.dumps({"indices": [1, 0], "values": [0.25, -0.9]})
    assert ask("GET", f"{model.path}/predict", params={"x": sparse}).json() == listed
    named = ask("POST", f"{model.path}/predict", json={"x": [-0.9, 0.25], "id": "p"}).json()["results"]
    assert named == [listed["results"][0] | {"id": "p"}]


def test_predicting_without_an_id_changes_nothing(ask):
    model = ask.new_model()
    model.learn(example([0, 1], "up"), example([0, -1], "down"))
    before = model.figures()
    first = model.predict([0.5, 0.5], [-0.5, 0.5])
    assert model.predict([0.5, 0.5], [-0.5, 0.5]) == first
    assert model.figures() == before


def test_a_model_that_has_learned_nothing_predicts_nothing(ask):
    assert ask.new_model().predict([0, 1]) == [
        {
            "id": None,
            "prediction": None,
            "probability": None,
            "scores": {},
            "label": {"wanted": True, "probability": 1.0, "reason": "active"},
        }
    ]


def test_a_prediction_has_the_same_bits_in_any_batch(ask):
    """If a prediction needs more kernel values than the event loop computes itself, it runs on a thread: 600 points
    times 500 examples.
    """
    model = ask.new_model(C=1000)
    model.learn(*(example([math.sin(k * k), math.cos(5 * k)], k % 2) for k in range(900)))
    assert model.figures()["points"] > 400
    xs = [[math.sin(k), math.cos(2 * k)] for k in range(500)]
    together = model.predict(*xs)
    assert [model.predict(x)[0] for x in xs[::50]] == together[::50]
    assert model.predict(*xs[100:107]) == together[100:107]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"x": [1]}, "examples[0].x: expected 2 features, got 1"),
        ({"examples": [{"x": [1, 2]}, {"x": [1, 2, 3]}]}, "examples[1].x: expected 2 features, got 3"),
        ({"examples": [{"x": [1, 2]}, {"x": {"indices": [5], "values": [1]}}]}, "examples[1].x: index 5 is outside"),
        ({"examples": [{"x": [1, 2]}, {"x": [1, 2], "y": 1}]}, "unknown part 'y' of examples[1]; allowed are x, id"),
        ({"examples": [{"x": [1, 2]}, {"x": [1, 2], "id": ""}]}, "examples[1].id"),
        ({"examples": [{"x": [1e300, 2]}]}, "examples[0].x: feature 0 is 1e+300, too large for float32"),
        ({"x": [1, 2], "y": 1}, "unknown part 'y'; allowed are "),
        ({"examples": [{"x": {"x": [1, 2]}}]}, "unknown part 'x' of examples[0].x; allowed are indices, values"),
        ({"examples": []}, "examples must be 1 to 10000, got 0"),
        ({}, "send either examples, or one example with x; x is missing"),
        (
            {"examples": [{"x": [1, 2]}], "x": [1, 2]},
            "send either examples, or the parts of a single example, not both",
        ),
        ([], "body"),
    ],
    ids=str,
)
def test_a_request_with_an_invalid_example_is_refused_as_a_whole(ask, model, body, reason):
    error = refusal(ask("POST", f"{model.path}/predict", json=body), 422, "invalid")
    assert error["message"].startswith(reason)


@pytest.mark.parametrize(
    "x", ["", "x", "5", "null", '"[1,2]"', "[1]", "[1,2", "[1,true]", "[NaN,1]", "[1,2][1,2]", "{}", "[1e39,0]"]
)
def test_an_x_in_the_query_is_checked_like_any_other(ask, model, x):
    refusal(ask("GET", f"{model.path}/predict", params={"x": x}), 422, "invalid")


def test_a_query_without_x_is_refused(ask, model):
    error = refusal(ask("GET", f"{model.path}/predict"), 422, "invalid")
    assert "query.x" in error["message"]
    error = refusal(ask("GET", f"{model.path}/predict", params={"y": "[1, 2]"}), 422, "invalid")
    assert error["message"] == "unknown query parameter 'y'; allowed are x, min_position"


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_all_classes_are_returned_if_asked_for(ask, classes):
    model = ask.new_model()
    rng = random.Random(classes)
    centres = [(0, 0), (2, 0), (0, 2)][:classes]
    drawn = [(k % classes, [c + rng.gauss(0, 0.8) for c in centres[k % classes]]) for k in range(120)]

    def asked(*xs):
        body = {"examples": [{"x": x} for x in xs], "probabilities": True}
        answer = ask("POST", f"{model.path}/predict", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]

    assert asked([0, 0])[0]["probabilities"] == {}
    model.learn(*(example(x, "abc"[k]) for k, x in drawn[:10]))
    assert set(asked([0, 0])[0]["probabilities"].values()) == {None}
    model.learn(*(example(x, "abc"[k]) for k, x in drawn[10:]))
    assert "probabilities" not in model.predict([0, 0])[0]
    for result in asked(*(x for _, x in drawn[:20])):
        chances = result["probabilities"]
        assert set(chances) == set(result["scores"]) == set("abc"[:classes])
        assert sum(chances.values()) == pytest.approx(1)
        assert chances[result["prediction"]] == pytest.approx(result["probability"])
    xs = [x for _, x in drawn[:20]]
    with Client(ask.url) as client:
        some = client.predict(model.name, [{"x": x} for x in xs], probabilities=["b", "later"])["results"]
    for result, every in zip(some, asked(*xs), strict=True):
        assert result["probabilities"] == {"b": every["probabilities"]["b"], "later": None}


@pytest.mark.parametrize("part", ["probabilities", "intervals"])
def test_a_declared_model_refuses_the_name_of_an_unknown_class(ask, part):
    model = ask.new_model(classes=["a", "b"])
    answer = ask("POST", f"{model.path}/predict", json={"x": [1, 2], part: ["b"]})
    assert answer.json()["results"][0][part] == {"b": None}
    answer = ask("POST", f"{model.path}/predict", json={"x": [1, 2], part: ["b", "c"]})
    said = refusal(answer, 422, "invalid")["message"]
    assert said == f"{part}: the model's declared classes are a, b, got c"


@pytest.mark.parametrize("part", ["probabilities", "intervals"])
@pytest.mark.parametrize("wrong", ["yes", 1, [1], {"b": True}, ["b"] * 1025])
def test_which_classes_are_listed_must_be_a_boolean_or_names(ask, model, part, wrong):
    answer = ask("POST", f"{model.path}/predict", json={"x": [1, 2], part: wrong})
    assert part in refusal(answer, 422, "invalid")["message"]


def test_intervals_of_the_probabilities_are_returned_if_asked_for(ask):
    model = ask.new_model("intervals", C=1)
    asked = {"examples": [{"x": [0, 0]}], "intervals": ["a", "later"]}

    def intervals(**more):
        return ask("POST", f"{model.path}/predict", json=asked | more).json()["results"][0]["intervals"]

    assert intervals(intervals=True) == {}
    assert intervals() == {"a": None, "later": None}
    random.seed(0)
    noisy = [(x := random.gauss(0, 1), "b" if x + random.gauss(0, 1) > 0 else "a") for _ in range(300)]
    model.learn(example([0.0, 1.0], "a"))
    assert intervals() == {"a": [0.0, 1.0], "later": None}  # no example was predicted yet
    model.learn(*(example([x, 1.0], y) for x, y in noisy))
    before = model.figures()
    with Client(ask.url) as client:
        many = [{"x": [x / 10, 1.0]} for x in range(-20, 20)]
        results = client.predict(model.name, many, intervals=True, explain=1, probabilities=True)["results"]
    widths = []
    for result in results:
        found = result["intervals"]
        assert set(found) == {"a", "b"}
        assert 0 <= found["a"][0] < found["a"][1] <= 1
        assert found["b"] == pytest.approx([1 - found["a"][1], 1 - found["a"][0]])
        widths.append(found["a"][1] - found["a"][0])
        assert len(result["support_vectors"]) == 1
    near = [r["intervals"]["a"][0] - 0.1 < r["probabilities"]["a"] < r["intervals"]["a"][1] + 0.1 for r in results]
    assert sum(near) > 30
    assert sum(widths) / len(widths) < 0.2
    plain = model.predict(*(one["x"] for one in many))
    assert [{part: result[part] for part in plain[0]} for result in results] == plain
    assert model.figures() == before


def test_intervals_of_several_classes_are_each_against_the_rest(ask):
    model = ask.new_model(C=1)
    random.seed(0)
    centres = {"a": (0, 2), "b": (2, 0), "c": (-2, 0)}
    examples = []
    for k in range(400):
        y = "abc"[k % 3]
        examples.append(example([c + random.gauss(0, 1) for c in centres[y]], y))
    model.learn(*examples)
    body = {"examples": [{"x": list(map(float, c))} for c in centres.values()], "intervals": True}
    for name, result in zip(centres, ask("POST", f"{model.path}/predict", json=body).json()["results"], strict=True):
        ends = result["intervals"]
        assert set(ends) == {"a", "b", "c"}
        assert ends[name][0] > 0.5 > max(ends[other][1] for other in ends if other != name)
