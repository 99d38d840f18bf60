"""`dataframe` returns the learned examples of a model as a data frame."""

import asyncio
import builtins

import pandas as pd
import pytest

from hinged import AsyncClient, Client
from hinged.extras import Lacking
from tests.helpers.fixtures import server_with, speaking

real = server_with()
client = speaking(Client, "real")

FORMS = {
    "dense": ({"type": "dense", "dim": 2}, [[0.5, k] for k in range(4)], ["x.0", "x.1"]),
    "named": (
        {"type": "named"},
        [{"age": 30 + k, "job": None if k else "nurse"} for k in range(4)],
        ["x.age", "x.job"],
    ),
    "sparse": ({"type": "sparse", "dim": 9}, [{"indices": [k], "values": [1.0]} for k in range(4)], ["x"]),
    "text": ({"type": "text"}, [f"text {k}" for k in range(4)], ["x"]),
}
COLUMNS = ["id", "label", "prediction", "source", "answers", "corrected", "at", "weight"]


@pytest.fixture
def model(request, client):
    name = f"frame-{request.param}"
    client.create_model(name, features=FORMS[request.param][0])
    examples = [{"id": f"e{k}", "x": x, "y": [1, "1", True, "a"][k]} for k, x in enumerate(FORMS[request.param][1])]
    client.learn(name, examples)
    yield request.param, name
    client.delete_model(name)


def flat(x):
    if isinstance(x, list):
        return {f"x.{k}": value for k, value in enumerate(x)}
    return {"x": x} if isinstance(x, str) or "indices" in x else {f"x.{name}": value for name, value in x.items()}


@pytest.mark.parametrize("model", FORMS, indirect=True)
def test_each_example_is_a_row_and_each_part_of_x_a_column(client, model):
    form, name = model
    frame = client.dataframe(name)
    listed = list(client.every_example(name, x=True))
    assert list(frame.columns) == COLUMNS + FORMS[form][2]
    assert [type(label) for label in frame["label"]] == [int, str, bool, str]
    assert frame["label"].tolist() == [1, "1", True, "a"]
    assert isinstance(frame["at"].dtype, pd.DatetimeTZDtype)
    for row, example in zip(frame.to_dict("records"), listed, strict=True):
        assert {name: row[name] for name in COLUMNS if name != "at"} == {
            name: example[name] for name in COLUMNS if name != "at"
        }
        assert row["at"] == pd.Timestamp(example["at"])
        for column, value in flat(example["x"]).items():
            assert row[column] == value or (value is None and pd.isna(row[column]))


@pytest.mark.parametrize("model", ["dense"], indirect=True)
def test_filters_select_rows_and_the_asynchronous_client_returns_the_same(client, model):
    _, name = model
    only = client.dataframe(name, label='"1"')
    assert only["id"].tolist() == ["e1"]

    async def awaited():
        async with AsyncClient(client.url) as same:
            return await same.dataframe(name)

    pd.testing.assert_frame_equal(asyncio.run(awaited()), client.dataframe(name))


def test_a_model_without_examples_is_a_frame_without_rows(client):
    client.create_model("frame-empty", features={"type": "named"})
    frame = client.dataframe("frame-empty")
    assert (list(frame.columns), len(frame)) == (COLUMNS, 0)


@pytest.mark.long
def test_more_examples_than_a_page_come_in_order(client):
    client.create_model("frame-long", solver="perceptron", features={"type": "dense", "dim": 1})
    client.learn_rows("frame-long", [[float(k)] for k in range(2_345)], [k % 2 for k in range(2_345)])
    assert client.dataframe("frame-long")["x.0"].tolist() == list(range(2_345))


def test_without_pandas_the_error_names_the_extra(client, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **named):
        if name == "hinged.client.dataframe":
            raise ModuleNotFoundError("no pandas", name="pandas")
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Lacking, match=r'pip install "hinged\[pandas\]"'):
        client.dataframe("any")
