"""Learning on a real server: answers, ids that are learned only once, and requests that are refused as a whole."""

import json

import pytest

from tests.helpers.examples import MOONS, examples_of, heaps
from tests.helpers.http_client import example, refusal

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


def test_a_single_example_may_come_without_a_list(ask):
    model = ask.new_model()
    for number, body in enumerate([{"x": [0, 1], "y": 1}, {"x": [0, 1], "y": 1, "id": None}], 1):
        answer = ask("POST", f"{model.path}/learn", json=body)
        assert [r["id"] for r in answer.json()["results"]] == [f"@{number}"]
    answer = ask("POST", f"{model.path}/learn", json={"x": [1, 0], "y": 2, "id": "b"})
    assert [r["id"] for r in answer.json()["results"]] == ["b"]


def test_before_the_first_example_nothing_is_predicted_and_then_the_known_class(ask):
    model = ask.new_model()
    first, second, third = model.learn(example([0, 1], "up"), example([9, 9], "down"), example([0, 1], "up"))
    assert (first["prediction"], first["score"]) == (None, None)
    assert (second["prediction"], second["score"]) == ("up", 1.0)  # the only class so far
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


def test_two_examples_with_one_id_in_a_request_are_a_conflict(ask):
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
        [0, 1.5 + 1e-9],  # equal to 1.5 in float32
    ],
    ids=str,
)
def test_the_same_point_in_another_spelling_is_the_same_example(ask, spelling):
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
def test_a_client_may_not_use_ids_reserved_for_the_server(ask, name):
    model = ask.new_model()
    model.learn(example([0, 1], "up", "own"))  # this example has number 1, and an id of its own
    error = refusal(model.try_learn(example([0, 1], "up", name)), 422, "invalid")
    assert "reserved for the server" in error["message"]


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
    ({"x": 5, "y": 1}, "examples[1].x: x must be an array of numbers or"),
    ({"x": "[1, 2]", "y": 1}, "examples[1].x: x must be an array of numbers or"),
    ({"x": None, "y": 1}, "examples[1].x: x must be an array of numbers or"),
    ({"x": {}, "y": 1}, "examples[1].x.indices"),
    ({"x": {"indices": [0]}, "y": 1}, "examples[1].x.values"),
    ({"x": SPARSE | {"dim": 2}, "y": 1}, "unknown part 'dim' of examples[1].x; allowed are indices, values"),
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
    ({"x": [1, 2]}, "examples[1].y is missing"),
    ({"y": 1}, "examples[1].x: x is missing, and without an id it cannot be looked up"),
    ({"x": [1, 2], "y": 1, "lease": "l"}, "examples[1].id: an example with a lease needs its id"),
    ({"x": [1, 2], "y": 1.5}, "examples[1].y: a label must be a string, an integer or a boolean, got 1.5"),
    ({"x": [1, 2], "y": 1.0}, "examples[1].y: a label must be a string, an integer or a boolean, got 1.0"),
    ({"x": [1, 2], "y": None}, "examples[1].y: a label must be a string, an integer or a boolean, got null"),
    ({"x": [1, 2], "y": [1]}, "examples[1].y: a label must be a string, an integer or a boolean, got [1]"),
    ({"x": [1, 2], "y": {}}, "examples[1].y: a label must be a string, an integer or a boolean, got {}"),
    ({"x": [1, 2], "y": 2**63}, "examples[1].y: an integer label may have at most 63 bits"),
    ({"x": [1, 2], "y": "l" * 257}, "examples[1].y: a label may have at most 256 characters, got 257"),
    ({"x": [1, 2], "y": 1, "mass": 2}, "unknown part 'mass' of examples[1]; allowed are x, y, id, lease, weight"),
    (5, "examples[1]"),
    (None, "examples[1]"),
    ([[1, 2], 1], "examples[1]"),
]


def spelled(value):
    """Return JSON text. The words of NOT_JSON in it become values that JSON cannot express."""
    text = json.dumps(value)
    for word, number in NOT_JSON.items():
        text = text.replace(f'"{word}"', number)
    return text


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=lambda part: str(part)[:60])
def test_one_bad_example_refuses_the_request_and_the_error_says_which_and_why(ask, bad, reason):
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
