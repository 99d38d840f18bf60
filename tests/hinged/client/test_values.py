"""Values of Python, NumPy and pandas keep their meaning on the way to the server."""

import datetime as dt
import decimal
import json
import math

import numpy as np
import pytest

from hinged import Client
from hinged.operations.values import encoded, several
from tests.helpers.server import RunningServer

# pandas need not be installed, because the client recognises its missing values by the names of their types.
NaT = type("NaTType", (), {"isoformat": lambda self: "NaT"})()
NA = type("NAType", (), {})()


def sent(x):
    return json.loads(encoded({"examples": [{"x": x, "y": 1}]}))["examples"][0]["x"]


def test_missing_values_of_named_features_are_sent_as_null():
    missing = {"a": None, "b": math.nan, "c": np.float32("nan"), "d": NaT, "e": NA, "f": np.datetime64("NaT")}
    assert sent({**missing, "n": 1}) == {**dict.fromkeys(missing), "n": 1}


def test_scalars_of_libraries_are_sent_as_numbers_booleans_and_texts():
    x = {
        "i": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "s": np.str_("u"), "d": decimal.Decimal("1.5"),
        "at": dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC), "day": dt.date(2026, 5, 1),
        "np": np.datetime64("2026-05-01T12:00", "s"), "nan": math.nan,
    }  # fmt: skip
    assert sent(x) == {
        "i": 3, "f": 0.5, "b": True, "s": "u", "d": 1.5, "at": "2026-05-01T12:00:00+00:00", "day": "2026-05-01",
        "np": "2026-05-01T12:00:00", "nan": None,
    }  # fmt: skip
    assert sent(np.array([1.0, 2.5], np.float32)) == [1.0, 2.5]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([0.0, math.nan], r"examples\[1\].x\[1\] must be a finite number, got nan; in an object"),
        (np.array([np.inf, 0.0]), r"examples\[1\].x\[0\] must be a finite number, got inf"),
        ({"age": -math.inf}, r"examples\[1\].x.age must be a finite number, got -inf"),
        ({"indices": [0], "values": [math.nan]}, r"examples\[1\].x.values\[0\] must be a finite number"),
        ({"age": object()}, r"examples\[1\].x.age: object is not a JSON value"),
        ({"age": {1, 2}}, r"examples\[1\].x.age: set is not a JSON value"),
    ],
)
def test_an_error_about_a_value_names_its_row_and_its_field(x, message):
    with pytest.raises((ValueError, TypeError), match=message):
        encoded({"examples": [{"x": [1.0]}, {"x": x}]})


def test_an_example_may_be_given_without_a_list():
    assert list(several({"x": [1], "y": 0})) == [{"x": [1], "y": 0}]
    assert list(several([{"x": [1]}, {"x": [2]}])) == [{"x": [1]}, {"x": [2]}]


def test_the_server_understands_the_values_that_the_client_sends(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.create_model("m", kernel={"type": "rbf"}, features={"type": "named", "warmup": 2})
        client.learn(
            "m", {"id": "one", "x": {"age": np.float64(39), "kind": np.str_("a"), "note": math.nan}, "y": "up"}
        )
        client.learn("m", [{"x": {"age": NaT, "kind": "b", "at": dt.date(2026, 5, 1)}, "y": "down"}])
        assert client.offer("m", {"id": "later", "x": {"kind": "b"}})["added"] == 1
        (result,) = client.predict("m", {"x": {"age": 39, "kind": "a"}})["results"]
        assert result["prediction"] == "up"
        with client.stream("m") as stream:
            assert stream.learn({"x": {"age": 1, "kind": None}, "y": "up"}).result()["results"][0]["duplicate"] is False


def test_an_x_that_is_not_in_an_object_is_refused_with_its_index():
    for examples in ([{"x": [1]}, [1.0, 2.0]], [{"x": [1]}, "text"]):
        with pytest.raises(TypeError, match=r"examples\[1\]: expected an object such as .* got "):
            several(examples)
