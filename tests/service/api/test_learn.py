import json
import math
import random

import pytest
from asking import KERNEL, example, refusal

MOONS = [([math.cos(k), math.sin(k) + k % 2], "up" if k % 2 else "down") for k in range(60)]


def heaps(n, labels, dim=2, seed=0):
    """Well separated heaps of points, one for each label, in random order."""
    rng = random.Random(seed)
    drawn = [rng.randrange(len(labels)) for _ in range(n)]
    return [([4.0 * (c == f) + rng.gauss(0, 0.3) for f in range(dim)], labels[c]) for c in drawn]


def examples_of(stream, prefix="e"):
    return [example(x, y, f"{prefix}{k}") for k, (x, y) in enumerate(stream)]


# -- one request --------------------------------------------------------------------------------------------------


def test_examples_are_answered_in_order_with_their_ids_and_the_position(ask):
    model = ask.new_model()
    answer = model.try_learn(example([0, 1], "up", "a"), example([1, 0], "down"), example([0, 2], "up", "c"))
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["model", "position", "results"]
    assert body["model"] == model.name
    assert body["position"] == model.figures()["position"]
    assert [r["id"] for r in body["results"]] == ["a", "@2", "c"]
    assert all(list(r) == ["id", "prediction", "score", "duplicate"] for r in body["results"])
    assert not any(r["duplicate"] for r in body["results"])


def test_one_example_may_come_bare(ask):
    model = ask.new_model()
    for number, body in enumerate([{"x": [0, 1], "y": 1}, {"x": [0, 1], "y": 1, "id": None}], 1):
        answer = ask("POST", f"{model.path}/learn", json=body)
        assert [r["id"] for r in answer.json()["results"]] == [f"@{number}"]
    answer = ask("POST", f"{model.path}/learn", json={"x": [1, 0], "y": 2, "id": "b"})
    assert [r["id"] for r in answer.json()["results"]] == ["b"]


def test_before_the_first_example_nothing_is_predicted_and_then_what_is_known(ask):
    model = ask.new_model()
    first, second, third = model.learn(example([0, 1], "up"), example([9, 9], "down"), example([0, 1], "up"))
    assert (first["prediction"], first["score"]) == (None, None)
    assert (second["prediction"], second["score"]) == ("up", 1.0)  # the only class there is
    assert third["prediction"] == "up"


@pytest.mark.parametrize("labels", [("a", "b"), ("a", "b", 3, True)])
def test_each_prediction_is_made_right_before_its_example_also_inside_a_batch(ask, labels):
    stream = heaps(60, labels, dim=4) + [([0.1 * k, 0.0, 0.0, 0.1], labels[k % len(labels)]) for k in range(20)]
    features = {"type": "dense", "dim": 4}
    one_by_one, at_once = ask.new_model(features=features), ask.new_model(features=features)
    expected = []
    for x, y in stream:
        (before,) = one_by_one.predict(x)
        (result,) = one_by_one.learn(example(x, y))
        assert result["prediction"] == before["prediction"]
        if before["scores"]:
            assert result["score"] == max(before["scores"].values())
        expected.append((result["prediction"], result["score"]))
    assert [(r["prediction"], r["score"]) for r in at_once.learn(*(example(x, y) for x, y in stream))] == expected
    assert at_once.predict(*(x for x, _ in stream)) == one_by_one.predict(*(x for x, _ in stream))


def test_a_stream_is_learned(ask):
    model = ask.new_model(features={"type": "dense", "dim": 3})
    model.learn(*(example(x, y) for x, y in heaps(300, ("a", "b", "c"), dim=3)))
    test = heaps(100, ("a", "b", "c"), dim=3, seed=1)
    assert [r["prediction"] for r in model.predict(*(x for x, _ in test))] == [y for _, y in test]


# -- an id is learned once ----------------------------------------------------------------------------------------


def test_a_repeat_is_answered_as_the_first_time_and_changes_nothing(ask):
    model = ask.new_model()
    examples = examples_of(MOONS)
    first = model.learn(*examples)
    before = model.figures()
    again = model.learn(*reversed(examples))
    assert again == [r | {"duplicate": True} for r in reversed(first)]
    assert model.figures() == before


def test_the_second_of_two_equal_ids_in_one_request_is_the_duplicate(ask):
    model = ask.new_model()
    model.learn(example([1, 0], "down"))
    first, second = model.learn(example([0, 1], "up", "a"), example([0, 1], "up", "a"))
    assert second == first | {"duplicate": True}
    assert not first["duplicate"]
    assert model.figures()["examples"] == 2


def test_new_and_known_examples_may_come_together(ask):
    model = ask.new_model()
    model.learn(example([0, 1], "up", "a"))
    results = model.learn(example([1, 0], "down", "b"), example([0, 1], "up", "a"), example([2, 0], "down"))
    assert [(r["id"], r["duplicate"]) for r in results] == [("b", False), ("a", True), ("@3", False)]


@pytest.mark.parametrize(("x", "y"), [([0, 1.5], 1), ([0, 1], 2), ([0, 1], True), ([0, 1], "1")])
def test_a_known_id_with_another_x_or_y_is_a_conflict_and_nothing_is_learned(ask, x, y):
    model = ask.new_model()
    model.learn(example([0, 1], 1, "a"))
    before = model.figures()
    error = refusal(model.try_learn(example([1, 1], 2, "b"), example(x, y, "a")), 409, "conflict")
    assert error["details"] == {"index": 1, "id": "a"}
    assert model.figures() == before
    assert not model.learn(example([1, 1], 2, "b"))[0]["duplicate"]


def test_two_examples_of_one_id_in_a_request_are_a_conflict(ask):
    model = ask.new_model()
    error = refusal(model.try_learn(example([0, 1], 1, "a"), example([0, 2], 1, "a")), 409, "conflict")
    assert error["details"] == {"index": 1, "id": "a"}
    assert model.figures()["position"] == 1


@pytest.mark.parametrize(
    "spelling",
    [
        [0.0, 1.5],
        [-0.0, 15e-1],
        {"indices": [1], "values": [1.5]},
        {"indices": [1, 0], "values": [1.5, 0]},
        {"indices": [0, 1], "values": [-0.0, 1.5]},
        [0, 1.5 + 1e-9],  # the same number in float32
    ],
    ids=str,
)
def test_the_same_point_spelled_otherwise_is_the_same_example(ask, spelling):
    model = ask.new_model()
    model.learn(example([0, 1.5], "up", "a"))
    assert model.learn(example(spelling, "up", "a"))[0]["duplicate"]


def test_an_id_of_the_server_names_its_example_in_a_retry(ask):
    model = ask.new_model()
    model.learn(example([1, 0], "down"))
    (first,) = model.learn(example([0, 1], "up"))
    assert first["id"] == "@2"
    assert model.learn(example([0, 1], "up", "@2")) == [first | {"duplicate": True}]
    refusal(model.try_learn(example([0, 2], "up", "@2")), 409, "conflict")


@pytest.mark.parametrize("name", ["@1", "@2", "@", "@x", "@0"])
def test_a_client_gives_no_ids_of_the_servers_kind(ask, name):
    model = ask.new_model()
    model.learn(example([0, 1], "up", "own"))  # example 1, which has a name of its own
    error = refusal(model.try_learn(example([0, 1], "up", name)), 422, "invalid")
    assert "given by the server" in error["message"]


@pytest.mark.parametrize("name", ["x", "ä", "a b", "'; --", "x" * 256, "\U0001f600"])
def test_any_printable_id_is_kept_as_it_came(ask, name):
    model = ask.new_model()
    assert model.learn(example([0, 1], "up", name))[0]["id"] == name
    assert model.learn(example([0, 1], "up", name))[0]["duplicate"]


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "\x00", "\x7f", 5, True, ["a"], {}])
def test_any_other_id_is_refused(ask, name):
    model = ask.new_model()
    error = refusal(model.try_learn(example([0, 1], "up"), {"x": [0, 1], "y": "up", "id": name}), 422, "invalid")
    assert error["details"] == {"index": 1}


# -- refused whole ------------------------------------------------------------------------------------------------

GOOD = example([0, 1], "up", "good")
SPARSE = {"indices": [0], "values": [1]}
NOT_JSON = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "huge": "1e999"}

BAD = [
    ({"x": [1], "y": 1}, "examples[1].x: expected 2 features, got 1"),
    ({"x": [1, 2, 3], "y": 1}, "examples[1].x: expected 2 features, got 3"),
    ({"x": [], "y": 1}, "examples[1].x: expected 2 features, got 0"),
    ({"x": [1, "nan"], "y": 1}, "examples[1].x: feature 1 is nan; numbers must be finite"),
    ({"x": [1, "inf"], "y": 1}, "examples[1].x: feature 1 is inf; numbers must be finite"),
    ({"x": ["-inf", 0], "y": 1}, "examples[1].x: feature 0 is -inf; numbers must be finite"),
    ({"x": ["huge", 0], "y": 1}, "examples[1].x: feature 0 is inf; numbers must be finite"),
    ({"x": [1e39, 0], "y": 1}, "examples[1].x: feature 0 is 1e+39, too large for float32"),
    ({"x": [1e30, 0], "y": 1}, "examples[1].x: its norm"),
    ({"x": [1, None], "y": 1}, "examples[1].x[1]"),
    ({"x": [1, "2"], "y": 1}, "examples[1].x[1]"),
    ({"x": [1, True], "y": 1}, "examples[1].x[1]"),
    ({"x": [[1, 2]], "y": 1}, "examples[1].x[0]"),
    ({"x": 5, "y": 1}, "examples[1].x: x is an array of numbers or"),
    ({"x": "[1, 2]", "y": 1}, "examples[1].x: x is an array of numbers or"),
    ({"x": None, "y": 1}, "examples[1].x: x is an array of numbers or"),
    ({"x": {}, "y": 1}, "examples[1].x.indices"),
    ({"x": {"indices": [0]}, "y": 1}, "examples[1].x.values"),
    ({"x": SPARSE | {"dim": 2}, "y": 1}, "examples[1].x.dim"),
    ({"x": SPARSE | {"indices": [0, 1]}, "y": 1}, "examples[1].x: 2 indices, but 1 values"),
    ({"x": SPARSE | {"indices": [2]}, "y": 1}, "examples[1].x: index 2 is outside 0..1"),
    ({"x": SPARSE | {"indices": [-1]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": [2**31]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": [10**30]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": [0.5]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": [1.0]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": ["0"]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": SPARSE | {"indices": [True]}, "y": 1}, "examples[1].x.indices[0]"),
    ({"x": {"indices": [1, 1], "values": [1, 1]}, "y": 1}, "examples[1].x: index 1 is given twice"),
    ({"x": {"indices": [0], "values": ["nan"]}, "y": 1}, "examples[1].x: feature 0 is nan; numbers must be finite"),
    ({"x": [1, 2]}, "examples[1].y: Field required"),
    ({"y": 1}, "examples[1].x: x is missing, and there is no id to know it by"),
    ({"x": [1, 2], "y": 1, "lease": "l"}, "examples[1].id: an example with a lease needs its id"),
    ({"x": [1, 2], "y": 1.5}, "examples[1].y: a label is a string, an integer or a boolean, got 1.5"),
    ({"x": [1, 2], "y": 1.0}, "examples[1].y: a label is a string, an integer or a boolean, got 1.0"),
    ({"x": [1, 2], "y": None}, "examples[1].y: a label is a string, an integer or a boolean, got None"),
    ({"x": [1, 2], "y": [1]}, "examples[1].y: a label is a string, an integer or a boolean, got [1]"),
    ({"x": [1, 2], "y": {}}, "examples[1].y: a label is a string, an integer or a boolean, got {}"),
    ({"x": [1, 2], "y": 2**63}, "examples[1].y: an integer label has at most 63 bits"),
    ({"x": [1, 2], "y": "l" * 257}, "examples[1].y: a label has at most 256 characters, got 257"),
    ({"x": [1, 2], "y": 1, "weight": 2}, "examples[1].weight"),
    (5, "examples[1]"),
    (None, "examples[1]"),
    ([[1, 2], 1], "examples[1]"),
]


def spelled(value):
    """JSON text in which the words of NOT_JSON stand for what JSON has no word for."""
    text = json.dumps(value)
    for word, number in NOT_JSON.items():
        text = text.replace(f'"{word}"', number)
    return text


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=lambda part: str(part)[:60])
def test_one_bad_example_refuses_the_request_and_says_which_and_why(ask, bad, reason):
    model = ask.new_model()
    model.learn(example([1, 0], "down"))
    before = model.figures()
    body = spelled({"examples": [GOOD, bad, GOOD]})
    answer = ask("POST", f"{model.path}/learn", content=body, headers={"content-type": "application/json"})
    error = refusal(answer, 422, "invalid")
    assert error["message"].startswith(reason)
    assert error["details"] == {"index": 1}
    assert model.figures() == before
    assert not model.learn(GOOD)[0]["duplicate"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"examples": []}',
        '{"examples": null}',
        '{"examples": {}}',
        '{"x": [1, 2]}',
        '{"y": 1}',
        '{"x": [1, 2], "y": 1, "z": 1}',
        '{"examples": [{"x": [1, 2], "y": 1}], "x": [1, 2], "y": 1}',
        '{"examples": [{"x": [1, 2], "y": 1}]} {}',
        '{"x": [1, 2], "y": "\\ud800"}',
        '{"x": [1' + "0" * 5000 + ', 2], "y": 1}',
        '{"x": ' + "[" * 100_000 + "1",
    ],
    ids=lambda body: body[:50],
)
def test_a_body_that_holds_no_examples_is_refused(ask, body):
    model = ask.new_model()
    answer = ask("POST", f"{model.path}/learn", content=body, headers={"content-type": "application/json"})
    refusal(answer, 422, "invalid")
    assert model.figures()["position"] == 1


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
    # The columns of the first two went on from what they had learned.
    assert [r["prediction"] for r in three[:2]] == [r["prediction"] for r in before[:2]] == ["a", "b"]
    model.finish()
    assert [r["prediction"] for r in model.predict([0, 0], [9, 0], [0, 9])] == ["a", "b", "c"]


def test_each_new_class_is_an_event_of_its_own(ask):
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
    assert error["message"] == 'examples[1].y: the classes are declared as "no", "yes", 3, got "3"'
    assert model.figures()["examples"] == 1


def test_one_class_for_long_stays_small_and_the_other_is_learned_when_it_comes(ask):
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
def test_each_kernel_and_precision_learns_what_it_was_shown(ask, changes):
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
    """A weight for the string "1" is none for the number 1."""
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
