"""Learning on a real server: labels, classes and configurations."""

import random

import pytest

from tests.helpers.examples import MOONS, heaps
from tests.helpers.http_client import KERNEL, example, refusal

# -- labels and classes -------------------------------------------------------------------------------------------


def test_true_1_and_the_string_1_are_three_labels_with_three_names(ask):
    model = ask.new_model(C=100)
    corners = [([0, 0], True), ([9, 0], 1), ([0, 9], "1")]
    model.learn(*(example(x, y) for x, y in corners))
    model.finish()
    assert model.figures()["classes"] == [True, 1, "1"]
    assert [type(label) for label in model.figures()["classes"]] == [bool, int, str]
    for (_, y), result in zip(corners, model.predict(*(x for x, _ in corners)), strict=True):
        assert result["prediction"] == y
        assert type(result["prediction"]) is type(y)
        assert list(result["scores"]) == ["true", "1", '"1"']
        assert max(result["scores"], key=result["scores"].get) == {bool: "true", int: "1", str: '"1"'}[type(y)]


def test_two_classes_are_one_column_and_the_third_makes_three(ask):
    model = ask.new_model(kernel=KERNEL | {"gamma": 0.05}, C=100)
    model.learn(example([0, 0], "a"))
    (one,) = model.predict([0, 0])
    assert (one["prediction"], one["scores"]) == ("a", {"a": 1.0})
    model.learn(example([9, 0], "b"), example([1, 0], "a"))
    (two,) = model.predict([8, 1])
    assert two["scores"]["a"] == -two["scores"]["b"] < 0
    before = model.predict([0, 0], [9, 0], [5, 5])
    model.learn(example([0, 9], "c"))
    three = model.predict([0, 0], [9, 0], [5, 5])
    assert [list(r["scores"]) for r in three] == [["a", "b", "c"]] * 3
    # The columns of the first two classes have kept what they had learned.
    assert [r["prediction"] for r in three[:2]] == [r["prediction"] for r in before[:2]] == ["a", "b"]
    model.finish()
    assert [r["prediction"] for r in model.predict([0, 0], [9, 0], [0, 9])] == ["a", "b", "c"]


def test_each_new_class_is_a_separate_event(ask):
    model = ask.new_model()
    positions = [model.try_learn(example([0, 1], y)).json()["position"] for y in ("a", "a", "b", "b", "c")]
    assert positions == [3, 4, 6, 7, 9]


def test_declared_classes_are_there_from_the_first_example_and_no_other_may_come(ask):
    model = ask.new_model(classes=["no", "yes", 3])
    (unknown,) = model.predict([0, 0])
    assert (unknown["prediction"], unknown["probability"], unknown["scores"]) == (None, None, {})
    (first,) = model.learn(example([0, 0], "yes"))
    assert (first["prediction"], first["score"]) == (None, None)
    assert list(model.predict([0, 0])[0]["scores"]) == ["no", "yes", "3"]
    assert model.figures()["classes"] == ["no", "yes", 3]
    error = refusal(model.try_learn(example([0, 1], "no"), example([0, 1], "3")), 422, "invalid")
    assert error["details"] == {"index": 1}
    assert error["message"] == """examples[1].y: the model's declared classes are "no", "yes", 3, got "3\""""
    assert model.figures()["examples"] == 1


def test_a_long_stream_of_one_class_stays_small_and_a_second_class_is_learned(ask):
    model = ask.new_model()
    rng = random.Random(5)
    for _ in range(3):
        results = model.learn(*(example([rng.gauss(0, 1), rng.gauss(0, 1)], "ham") for _ in range(1000)))
        assert all(r["prediction"] == "ham" for r in results[1:])
    figures = model.figures()
    assert figures["examples"] == 3000
    assert figures["points"] == 1000  # a sample
    (far,) = model.predict([50, 50])
    assert (far["prediction"], far["scores"]) == ("ham", {"ham": 1.0})
    model.learn(*(example([10 + rng.gauss(0, 1), rng.gauss(0, 1)], "spam") for _ in range(50)))
    model.finish()
    assert [r["prediction"] for r in model.predict([10, 0], [0, 0])] == ["spam", "ham"]


# -- configurations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"kernel": {"type": "linear"}},
        {"kernel": {"type": "polynomial", "gamma": 0.5, "degree": 2, "coef0": 1}},
        {"kernel": {"type": "laplacian", "gamma": 0.5}},
        {"kernel": KERNEL, "delta_max": 1.5},
        {"kernel": KERNEL, "precision": "float64"},
        {"kernel": {"type": "polynomial"}, "precision": "float64", "seed": 7},
        {"kernel": KERNEL, "classes": ["b", "a", "c"]},
    ],
    ids=str,
)
def test_each_kernel_and_precision_learns_its_examples(ask, changes):
    model = ask.new_model(C=100, **{"features": {"type": "dense", "dim": 3}} | changes)
    stream = heaps(120, ("a", "b", "c"), dim=3)
    model.learn(*(example(x, y) for x, y in stream))
    model.finish()
    assert [r["prediction"] for r in model.predict(*(x for x, _ in stream))] == [y for _, y in stream]
    assert model.figures()["certificate"]["kkt_violation"] <= 0.001


def test_delta_max_makes_each_example_go_further(ask):
    violations = []
    for delta_max in (None, 0.1):
        model = ask.new_model(delta_max=delta_max)
        model.learn(*(example(x, y) for x, y in MOONS))
        violations.append(model.figures()["certificate"]["kkt_violation"])
    assert violations[1] <= 0.1 < violations[0]


def test_float64_holds_what_float32_cannot(ask):
    wide, narrow = ask.new_model(precision="float64"), ask.new_model()
    assert not wide.learn(example([1.0 + 1e-12, 0], "up", "a"))[0]["duplicate"]
    refusal(wide.try_learn(example([1.0, 0], "up", "a")), 409, "conflict")
    narrow.learn(example([1.0 + 1e-12, 0], "up", "a"))
    assert narrow.learn(example([1.0, 0], "up", "a"))[0]["duplicate"]


def test_a_class_weight_moves_the_border_towards_the_other_class(ask):
    rng = random.Random(3)
    stream = [([rng.gauss(k % 6 == 0, 1), 0.0], "common" if k % 6 else "rare") for k in range(300)]
    counts = []
    for class_weight in ({"rare": 0.2}, {"rare": 5}):
        model = ask.new_model(kernel={"type": "rbf", "gamma": 0.5}, C=1, class_weight=class_weight)
        model.learn(*(example(x, y) for x, y in stream))
        model.finish()
        counts.append([r["prediction"] for r in model.predict(*(x for x, _ in stream))].count("rare"))
    assert counts[1] > counts[0]


def test_a_class_weight_names_its_class_as_scores_do(ask):
    """A weight for the class "1" (a string) does not apply to the class 1 (a number)."""
    objectives = []
    for class_weight in (None, {'"1"': 5}, {"1": 5}):
        model = ask.new_model(C=0.1, class_weight=class_weight)
        model.learn(*(example([0.01 * k, k % 2], k % 2) for k in range(30)))
        model.finish()
        objectives.append(model.figures()["certificate"]["dual"])
    assert objectives[0] == objectives[1] != objectives[2]


def test_a_sparse_model_of_a_million_features(ask):
    model = ask.new_model(kernel={"type": "linear"}, C=10, features={"type": "sparse", "dim": 1_000_000})
    rng = random.Random(1)

    def text(y):
        words = [*rng.sample(range(1000), 5), {"ham": 999_999, "spam": 500_000}[y]]
        rng.shuffle(words)
        return {"indices": words, "values": [rng.uniform(0.1, 1) for _ in words[:-1]] + [1.0]}

    stream = [(text(y), y) for y in (rng.choice(["ham", "spam"]) for _ in range(200))]
    model.learn(*(example(x, y) for x, y in stream))
    model.finish()
    assert [r["prediction"] for r in model.predict(*(x for x, _ in stream))] == [y for _, y in stream]
    nothing = {"indices": [], "values": []}
    assert set(model.predict(nothing)[0]["scores"]) == {"ham", "spam"}
    error = refusal(model.try_learn(example({"indices": [1_000_000], "values": [1]}, "ham")), 422, "invalid")
    assert error["message"] == "examples[0].x: index 1000000 is outside 0..999999"


def test_a_model_takes_either_form_of_x(ask):
    dense, sparse = ask.new_model(), ask.new_model(features={"type": "sparse", "dim": 2})
    for model in (dense, sparse):
        model.learn(example([0, 1], "up"), example({"indices": [0], "values": [1]}, "down"))
    xs = [[0.3, 0.2], {"indices": [1, 0], "values": [0.2, 0.3]}]
    assert dense.predict(*xs) == sparse.predict(*xs)
    assert dense.predict(xs[0]) == dense.predict(xs[1])
