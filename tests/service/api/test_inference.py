"""The Open Inference Protocol on a real server, used by the client of another project and by plain requests."""

import numpy as np
import pytest
import tritonclient.http as triton

from hinged.service.edge.keys import create_key
from tests.helpers import payments
from tests.helpers.http_client import BASE, Asking, bearer, example
from tests.helpers.server import RunningServer

NEVER_ASKS = {truth: costs for truth, costs in payments.COSTS.items() if truth != "ask"}
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [0.1, 0.9, 0.9, 0.1]}]}


@pytest.fixture(scope="module")
def model(ask):
    model = ask.new_model("tensors")
    model.learn(example([0, 1], "up"), example([1, 0], "down"), example([0.5, 0.5], "side"))
    return model


@pytest.fixture(scope="module")
def client(ask):
    client = triton.InferenceServerClient(ask.url.removeprefix("http://"))
    yield client
    client.close()


def failed(answer, status):
    """Return the error in the shape of the protocol."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert isinstance(answer.json()["error"], str)
    return answer.json()["error"]


def tensor(x, datatype, binary, name="x"):
    found = triton.InferInput(name, list(x.shape), datatype)
    found.set_data_from_numpy(x, binary_data=binary)
    return found


# -- another project's client


def test_a_client_of_the_protocol_finds_the_server_and_the_model_ready(client, model):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(model.name)
    assert client.is_model_ready(model.name, "1")
    assert not client.is_model_ready(model.name, "2")
    assert not client.is_model_ready("absent")
    assert client.get_server_metadata()["name"] == "hinged"
    metadata = client.get_model_metadata(model.name)
    assert metadata["versions"] == ["1"]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert client.get_model_metadata(model.name, "1") == metadata


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
@pytest.mark.parametrize(
    ("datatype", "dtype"), [("FP32", np.float32), ("FP64", np.float64), ("INT64", np.int64), ("UINT8", np.uint8)]
)
def test_a_client_of_the_protocol_gets_the_predictions_of_predict(
    client, model, binary_in, binary_out, datatype, dtype
):
    x = np.array([[0, 1], [1, 0], [3, 2]], dtype)
    wanted = [triton.InferRequestedOutput(name, binary_data=binary_out) for name in ("scores", "prediction", "classes")]
    answer = client.infer(model.name, [tensor(x, datatype, binary_in)], outputs=wanted, request_id="r7")
    expected = model.predict(*x.tolist())
    assert answer.get_response()["id"] == "r7"
    assert [output["name"] for output in answer.get_response()["outputs"]] == ["scores", "prediction", "classes"]
    names = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy("classes")]
    assert names == ["up", "down", "side"]
    found = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy("prediction")]
    assert found == [result["prediction"] for result in expected]
    np.testing.assert_array_equal(answer.as_numpy("scores"), [[r["scores"][n] for n in names] for r in expected])


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("ask_costs", [{}, {"ask": 2}])
def test_a_client_of_the_protocol_gets_the_decisions_of_decide_without_questions(ask, client, binary, ask_costs):
    decided = ask.new_model(**payments.BODY, costs=NEVER_ASKS | ask_costs)
    X, labels = payments.stream(400)
    decided.learn(*[{"x": x, "y": y} for x, y in zip(X.tolist(), labels, strict=True)])
    x = X[:50].astype(np.float32)
    wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("decision", "cost", "reason")]
    answer = client.infer(decided.name, [tensor(x, "FP32", binary=True)], outputs=wanted)
    assert decided.figures()["pool"]["size"] == 0
    body = {"examples": [{"x": row} for row in x.tolist()]}
    expected = decided.ask("POST", f"{decided.path}/decide", json=body).json()["results"]
    for name in ("decision", "reason"):
        found = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy(name)]
        assert found == [result[name] for result in expected]
    np.testing.assert_array_equal(answer.as_numpy("cost"), [result["cost"] for result in expected])
    assert ("ask" in {result["decision"] for result in expected}) == bool(ask_costs)
    told = [output["name"] for output in client.get_model_metadata(decided.name)["outputs"]]
    assert told[-3:] == ["decision", "cost", "reason"]
    usual = client.infer(decided.name, [tensor(x, "FP32", binary=True)]).get_response()["outputs"]
    assert [output["name"] for output in usual] == ["prediction", "scores", "classes", "outside"]


def test_a_model_without_costs_has_no_decisions(ask, model):
    answer = ask("POST", f"/v2{model.path}/infer", json=BODY | {"outputs": [{"name": "decision"}]})
    assert "outputs must be among prediction, scores, classes, outside, got 'decision'" in failed(answer, 400)


def test_by_default_all_outputs_come_as_bytes_to_a_client_that_takes_them(client, model):
    x = np.array([[0.25, 0.75]], np.float32)
    answer = client.infer(model.name, [tensor(x, "FP32", binary=True)])
    assert answer.as_numpy("scores").shape == (1, 3)
    assert answer.as_numpy("prediction").tolist() == [model.predict([0.25, 0.75])[0]["prediction"].encode()]


def test_an_error_reaches_the_client_in_the_protocols_form(client, model):
    with pytest.raises(triton.InferenceServerException, match="expected 2 features, got 3"):
        client.infer(model.name, [tensor(np.zeros((1, 3), np.float32), "FP32", binary=True)])
    with pytest.raises(triton.InferenceServerException, match="there is no model 'absent'"):
        client.get_model_metadata("absent")


def test_named_features_have_a_tensor_per_name(ask, client):
    named = ask.new_model("named-tensors", features={"type": "named", "warmup": 4})
    records = [{"age": 30 + k, "job": "ab"[k % 2], "member": k % 2 == 0} for k in range(8)]
    named.learn(*[{"x": record, "y": record["job"]} for record in records])
    metadata = client.get_model_metadata(named.name)
    assert {i["name"]: i["datatype"] for i in metadata["inputs"]} == {"age": "FP64", "job": "BYTES", "member": "BOOL"}
    columns = [
        tensor(np.array([31, 40]), "INT64", binary=True, name="age"),
        tensor(np.array(["a", "b"], object), "BYTES", binary=True, name="job"),
        tensor(np.array([True, False]), "BOOL", binary=True, name="member"),
    ]
    answer = client.infer(named.name, columns)
    expected = named.predict({"age": 31, "job": "a", "member": True}, {"age": 40, "job": "b", "member": False})
    names = [text.decode() for text in answer.as_numpy("classes")]
    np.testing.assert_array_equal(answer.as_numpy("scores"), [[r["scores"][n] for n in names] for r in expected])


# -- by hand


def test_an_answer_in_json_has_the_shape_that_the_protocol_gives_it(ask, model):
    answer = ask("POST", f"/v2{model.path}/infer", json=BODY | {"id": "one"}).json()
    assert list(answer) == ["model_name", "model_version", "id", "parameters", "outputs"]
    assert (answer["model_name"], answer["model_version"], answer["id"]) == (model.name, "1", "one")
    prediction, scores, classes, outside = answer["outputs"]
    assert prediction == {"name": "prediction", "datatype": "BYTES", "shape": [2], "data": ["up", "down"]}
    assert classes == {"name": "classes", "datatype": "BYTES", "shape": [3], "data": ["up", "down", "side"]}
    assert outside == {"name": "outside", "datatype": "BYTES", "shape": [2], "data": ["[]", "[]"]}
    assert (scores["name"], scores["datatype"], scores["shape"], len(scores["data"])) == ("scores", "FP64", [2, 3], 6)


def test_data_may_be_nested_like_the_shape(ask, model):
    nested = {"inputs": [BODY["inputs"][0] | {"data": [[0.1, 0.9], [0.9, 0.1]]}]}
    path = f"/v2{model.path}/versions/1/infer"
    assert ask("POST", path, json=nested).json() == ask("POST", path, json=BODY).json()


LONG = np.random.default_rng(3).normal(size=(2000, 2)).round(6)


def test_long_data_may_be_nested_like_the_shape(ask, model):
    flat, nested = (
        {"inputs": [BODY["inputs"][0] | {"shape": [2000, 2], "data": data.tolist()}]} for data in (LONG.ravel(), LONG)
    )
    path = f"/v2{model.path}/infer"
    answer = ask("POST", path, json=nested)
    assert answer.status_code == 200, answer.text
    assert answer.json() == ask("POST", path, json=flat).json()


@pytest.mark.parametrize(
    ("at", "row", "message"),
    [
        (1500, [0.1], "nesting"),
        (1500, [0.1, 0.2, 0.3], "nesting"),
        (1500, [], "inputs[0].data: the elements must be lists"),
        (1500, 0.5, "inputs[0].data: the elements must be lists"),
        (0, 0.5, "elements"),
        (1500, [0.1, [0.2]], "valid number"),
        (1500, [0.1, "0.2"], "valid number"),
    ],
)
def test_long_data_with_one_wrong_row_is_refused(ask, model, at, row, message):
    data = LONG.tolist()
    data[at] = row
    body = {"inputs": [BODY["inputs"][0] | {"shape": [2000, 2], "data": data}]}
    assert message in failed(ask("POST", f"/v2{model.path}/infer", json=body), 400)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"data": [0.1, 0.9, 0.9]}, "elements"),
        ({"data": [[0.1], [0.9, 0.9, 0.1]]}, "nesting"),
        ({"data": ["0.1", "0.9", "0.9", "0.1"]}, "valid number"),
        ({"data": [True, True, True, True]}, "valid number"),
        ({"data": [1e39, 0, 0, 0]}, "x[0]"),
        ({"datatype": "INT8", "data": [300, 0, 0, 0]}, "INT8"),
        ({"datatype": "INT8", "data": [0.5, 0, 0, 0]}, "valid integer"),
        ({"datatype": "BYTES", "data": ["a", "b", "c", "d"]}, "one tensor"),
        ({"datatype": "BOOL", "data": [True, True, True, True]}, "one tensor"),
        ({"datatype": "FP128"}, "datatype"),
        ({"shape": [4]}, "one tensor"),
        ({"shape": [-1, 2]}, "shape"),
        ({"shape": [0, 2], "data": []}, "rows"),
        ({"shape": []}, "shape"),
        ({"name": "y"}, "one tensor"),
        ({"parameters": {"binary_data_size": 8}}, "binary_data_size"),
        ({"parameters": {"binary_data_size": 0}}, "bytes"),
    ],
)
def test_an_invalid_tensor_is_refused(ask, model, changes, word):
    error = failed(ask("POST", f"/v2{model.path}/infer", json={"inputs": [BODY["inputs"][0] | changes]}), 400)
    assert word in error


def test_bytes_behind_the_json_must_have_the_declared_sizes(ask, model):
    text = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}]}'
    path = f"/v2{model.path}/infer"
    for tail, length, status in (
        (bytes(8), len(text), 200),
        (bytes(9), len(text), 400),
        (bytes(7), len(text), 400),
        (bytes(8), len(text) + 9, 400),
        (bytes(8), "x", 400),
        (bytes(8), "9" * 5000, 400),
        (bytes(8), -1, 400),
    ):
        headers = {"Inference-Header-Content-Length": str(length)}
        answer = ask("POST", path, content=text + tail, headers=headers)
        assert answer.status_code == status, answer.text


def test_a_model_is_ready_once_it_has_learned_an_example(ask):
    fresh = ask.new_model()
    assert "learned nothing" in failed(ask("GET", f"/v2{fresh.path}/ready"), 400)
    assert "learned nothing" in failed(ask("POST", f"/v2{fresh.path}/infer", json=BODY), 400)
    fresh.learn(example([0, 1], "up"))
    assert ask("GET", f"/v2{fresh.path}/ready").json() == {"name": fresh.name, "ready": True}
    assert ask("POST", f"/v2{fresh.path}/infer", json=BODY).json()["outputs"][0]["data"] == ["up", "up"]


def test_labels_that_are_not_strings_are_named_as_in_scores(ask):
    model = ask.new_model()
    model.learn(example([0, 1], 1), example([1, 0], "1"), example([1, 1], True))
    outputs = ask("POST", f"/v2{model.path}/infer", json=BODY).json()["outputs"]
    assert outputs[2]["data"] == ["1", '"1"', "true"]


def test_every_error_below_v2_has_the_shape_of_the_protocol(ask, model):
    failed(ask("GET", "/v2/nothing"), 404)
    failed(ask("DELETE", "/v2"), 405)
    failed(ask("GET", f"/v2{model.path}/versions/2"), 404)
    failed(ask("GET", "/v2/models/-"), 400)
    failed(ask("POST", f"/v2{model.path}/infer", content=b"{"), 400)
    failed(ask("POST", f"/v2{model.path}/infer", json=BODY, headers={"content-type": "text/plain"}), 415)
    failed(ask("POST", f"/v2{model.path}/infer", json=BODY, headers={"origin": "https://evil.example"}), 403)
    failed(ask("GET", "/v2", headers={"host": "evil.example"}), 400)


def test_with_keys_health_is_open_and_the_rest_needs_a_reader(tmp_path):
    path = tmp_path / "keys.json"
    admin, reader = create_key(path, "admin", "admin"), create_key(path, "reader", "reader", ("m",))
    with RunningServer(tmp_path / "data", keys_file=path) as server, Asking(server.url) as ask:
        assert ask("PUT", "/models/m", json=BASE, headers=bearer(admin)).status_code == 201
        for open_to_all in ("/v2", "/v2/health/live", "/v2/health/ready"):
            assert ask("GET", open_to_all).status_code == 200
        own = bearer(reader)
        for name, status in (("m", 200), ("n", 403)):
            failed(ask("GET", f"/v2/models/{name}"), 401)
            assert ask("GET", f"/v2/models/{name}", headers=own).status_code == status
        failed(ask("POST", "/v2/models/m/infer", json=BODY), 401)
