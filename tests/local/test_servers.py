"""A HingedClassifier and a server's model without settings are the same model."""

import numpy as np
import pandas as pd
import pytest

from hinged import Client
from hinged.sklearn import HingedClassifier, load
from tests.helpers.fixtures import server_with, speaking
from tests.local.test_classifier import rows, stream

server = server_with()
client = speaking(Client)


def json_rows(columns):
    return [{name: value if name != "day" else value.isoformat() for name, value in x.items()} for x in rows(columns)]


def scores(client, name, x):
    return np.array(
        [result["scores"]["fraud"] for result in client.predict(name, [{"x": each} for each in x])["results"]]
    )


def test_it_decides_as_a_server_that_got_the_same_requests(client):
    columns, y = stream()
    x = json_rows(columns)
    client.create_model("twin", kernel={"type": "rbf"}, features={"type": "named"})
    client.learn("twin", [{"x": each, "y": str(label)} for each, label in zip(x, y, strict=True)])
    client.finish("twin")
    model = HingedClassifier().fit(rows(columns), y)
    fraud = model.decision_function(x)
    assert np.array_equal(scores(client, "twin", x), fraud)
    said = client.predict("twin", [{"x": each} for each in x], probabilities=True)["results"]
    assert [each["probabilities"]["fraud"] for each in said] == model.predict_proba(x)[:, 1].tolist()
    assert model.configuration_ == client.model("twin")["configuration"]


@pytest.mark.long
def test_it_goes_to_a_server_learns_there_and_comes_back_to_the_bit(client):
    columns, y = stream()
    x = json_rows(columns)
    model = HingedClassifier(columns={"note": "text"}).fit(x[:80], y[:80])
    client.upload("moved", model)
    assert np.array_equal(scores(client, "moved", x), model.decision_function(x))
    client.learn("moved", [{"x": each, "y": str(label)} for each, label in zip(x[80:], y[80:], strict=True)])
    model.partial_fit(x[80:], y[80:])
    for back in (load(client.export_model("moved")), HingedClassifier.load(client.export_model("moved"))):
        assert type(back) is HingedClassifier
        assert np.array_equal(back.decision_function(x), model.decision_function(x))
        assert np.array_equal(back.predict_proba(x), model.predict_proba(x))
        assert back.predict(x).tolist() == model.predict(x).tolist()


def test_a_model_of_a_data_frame_comes_back_and_takes_frames(client):
    columns, y = stream()
    frame = pd.DataFrame(rows(columns))
    client.upload("framed", HingedClassifier().fit(frame, y))
    back = HingedClassifier.load(client.export_model("framed"))
    assert back.predict(frame[:5]).tolist() == back.predict(rows(columns)[:5]).tolist()


@pytest.mark.long
@pytest.mark.parametrize("solver", [None, "lasvm", "ogd"])
def test_weights_are_the_weights_of_the_examples_of_a_server(client, solver):
    columns, y = stream()
    x = json_rows(columns)
    weights = np.random.default_rng(1).choice([0.25, 1.0, 3.0], len(y))
    name = f"weighted-{solver}"
    part = {} if solver is None else {"solver": solver}
    client.create_model(name, kernel={"type": "rbf"}, features={"type": "named"}, **part)
    pairs = zip(x, y, weights.tolist(), strict=True)
    client.learn(name, [{"x": each, "y": str(label), "weight": weight} for each, label, weight in pairs])
    model = HingedClassifier(solver=solver, finish=False).fit(rows(columns), y, sample_weight=weights)
    assert np.array_equal(scores(client, name, x), model.decision_function(x))
    without = HingedClassifier(solver=solver, finish=False).fit(rows(columns), y)
    assert not np.array_equal(without.decision_function(x), model.decision_function(x))
