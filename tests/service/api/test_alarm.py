"""Alarms through a real server: figures, history, events, Prometheus, changes, a kill, and forgetting."""

import numpy as np
import pytest

from hinged import Client
from tests.helpers.http_client import Asking, example, refusal
from tests.helpers.server import RunningServer
from tests.service.api.test_events import events, followed

ALARM = {"level": 0.01}
BODY = {"solver": "lasvm", "kernel": {"type": "rbf", "gamma": 1}, "features": {"type": "dense", "dim": 2}, "C": 1}


def turned(n, turn, prefix="e"):
    """Return examples whose labels change places at example `turn`."""
    return [{**example([k % 2, 0.01 * (k % 50)], "ab"[(k + (k >= turn)) % 2]), "id": f"{prefix}{k}"} for k in range(n)]


def test_an_alarm_is_an_event_a_mark_a_flag_and_a_metric(ask):
    model = ask.new_model(**BODY, alarm=ALARM)
    told = turned(600, 500)
    with followed(ask.url, f"{model.path}/events") as stream:
        model.learn(*told[:500])
        figures = model.figures()["metrics"]["alarm"]
        assert (figures["level"], figures["flagged"], figures["last_at"], figures["count"]) == (0.01, False, None, 0)
        assert (figures["examples"], figures["errors"] <= 1) == (499, True)
        assert -2 < figures["value"] < 0
        model.learn(*told[500:])
        kinds = []
        while "alarm" not in kinds:
            kinds += [event["event"] for event in events(stream, 1)]
        assert kinds[kinds.index("alarm") - 1] in {"learned", "drift"}
    figures = model.figures()["metrics"]["alarm"]
    assert figures["flagged"]
    assert 500 < figures["last_at"] < 540
    history = ask("GET", f"{model.path}/history").json()
    assert [mark["kind"] for mark in history["marks"]].count("alarm") == 1
    assert max(history["alarm"]["value"]) >= 2.0
    assert history["alarm"]["examples"][-1] <= 600
    text = ask("GET", "/metrics").text
    assert f'hinged_alarms_total{{about="errors",model="{model.name}"}} {figures["count"]}.0' in text
    assert f'hinged_alarm_log10{{about="errors",model="{model.name}"}}' in text


def test_a_model_without_an_alarm_shows_none(ask):
    model = ask.new_model(**BODY)
    model.learn(*turned(100, 50))
    assert "alarm" not in model.figures()["metrics"]
    assert "alarm" not in ask("GET", f"{model.path}/history").json()
    assert f'hinged_alarm_log10{{about="errors",model="{model.name}"}}' not in ask("GET", "/metrics").text


def test_an_alarm_comes_changes_and_goes_by_patch(ask):
    model = ask.new_model(**BODY)
    model.learn(*turned(100, 100))
    with Client(ask.url) as client:
        assert "certificate" in client.change_model(model.name, alarm=ALARM)  # in place
        assert client.model(model.name)["metrics"]["alarm"]["examples"] == 0
        model.learn(*turned(50, 100, "more"))
        assert client.model(model.name)["metrics"]["alarm"]["examples"] == 50
        client.wait(client.change_model(model.name, C=2))  # another part changes: the alarm goes on
        assert client.model(model.name)["metrics"]["alarm"]["examples"] == 50
        client.change_model(model.name, alarm={"level": 0.1})
        assert client.model(model.name)["metrics"]["alarm"]["examples"] == 0
        client.change_model(model.name, alarm=None)
        assert "alarm" not in client.model(model.name)["metrics"]


@pytest.mark.parametrize(
    ("alarm", "said"),
    [
        (0.01, 'alarm must be an object with one part, such as {"level": 0.01}, got 0.01'),
        ({}, "alarm must be an object with one part"),
        ({"level": 0.1, "error": 1}, "alarm must be an object with one part"),
        ({"level": 0}, "level must be a probability from 1e-06 to 0.5, got 0"),
        ({"level": True}, "level must be a probability from 1e-06 to 0.5, got true"),
        ({"level": "low"}, 'level must be a probability from 1e-06 to 0.5, got "low"'),
    ],
)
def test_invalid_alarms_are_refused(ask, alarm, said):
    answer = ask("PUT", "/models/refused", json={**BODY, "alarm": alarm})
    assert said in refusal(answer, 422, "invalid")["message"]


def test_an_alarm_survives_a_kill_and_forgetting_leaves_its_counts(tmp_path):
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **BODY, alarm=ALARM)
            client.learn("m", turned(600, 500))
            figures = client.model("m")["metrics"]["alarm"]
            assert figures["count"] == 1
        with Asking(server.url) as ask:
            path = ask("GET", "/models/m/history").json()["alarm"]
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert client.model("m")["metrics"]["alarm"] == figures
        with Asking(server.url) as ask:
            assert ask("GET", "/models/m/history").json()["alarm"] == path
        client.wait(client.forget("m", "e10"))
        assert client.model("m")["metrics"]["alarm"] == figures


WATCHING = {"novelty": True, "alarm": ALARM}
KINDS = {"dense": {"type": "dense", "dim": 2, "scale": "auto", "warmup": 60}, "named": {"type": "named", "warmup": 60}}


def readings(kind, n, middle, prefix, seed=0):
    """Return x with ids, of a number around `middle` and another value."""
    random = np.random.default_rng(seed)
    pairs = zip(random.normal(middle, 1, n).tolist(), random.integers(0, 2, n).tolist(), strict=True)
    xs = [{"heat": heat, "valve": "ab"[valve]} if kind == "named" else [heat, valve] for heat, valve in pairs]
    return [{"id": f"{prefix}{k}", "x": x} for k, x in enumerate(xs)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["predict", "offer"])
def test_a_model_that_never_gets_a_label_has_p_values_and_an_alarm_about_inputs(ask, kind, way):
    body = {"features": KINDS[kind], **WATCHING, "labels": {"pending_durable": True}}
    model = ask.new_model(**body)
    usual, changed = readings(kind, 700, 0, "u"), readings(kind, 60, 4, "c", 1)
    with Client(ask.url) as client, followed(ask.url, f"{model.path}/events") as stream:
        tell = getattr(client, way)
        for begin in range(0, 700, 50):
            tell(model.name, usual[begin : begin + 50])
        before = client.model(model.name)["novelty"]
        assert (before["seen"], before["alarm"]["count"], before["alarm"]["lacking"]) == (700, 0, 0)
        p_values = [one["novelty"] for one in client.predict(model.name, [{"x": changed[0]["x"]}])["results"]]
        assert p_values[0] <= 0.02
        for begin in range(0, 60, 20):
            tell(model.name, changed[begin : begin + 20])
        kinds = []
        while "input_alarm" not in kinds:
            kinds += [event["event"] for event in events(stream, 1)]
        alarm = client.model(model.name)["novelty"]["alarm"]
        assert (alarm["count"], alarm["flagged"]) == (1, True)
        assert 700 < alarm["last_at"] < 730
        history = client.history(model.name)
        assert [mark["kind"] for mark in history["marks"]] == ["input_alarm"]
        assert max(history["input_alarm"]["value"]) >= 2.0
        (glance,) = (one for one in client.overview()["models"] if one["model"] == model.name)
        assert (glance["input_alarmed"], glance["alarmed"]) == (True, False)
        # The model is trained again, from its sample, and goes on.
        client.wait(client.change_model(model.name, kernel={"type": "linear"}))
        after = client.model(model.name)["novelty"]
        assert (after["seen"], after["compared"]) == (760, 512)
        assert (after["alarm"]["value"], after["alarm"]["lacking"]) == (alarm["value"], 128)
    assert f'hinged_alarms_total{{about="inputs",model="{model.name}"}} 1.0' in ask("GET", "/metrics").text


def test_an_alarm_about_inputs_survives_a_kill_and_a_rollback_and_forgets_bytes(tmp_path):
    secret = [123456.78125, -98765.4375]
    needles = [value.tobytes() for value in np.array(secret, np.float32)] + [b"123456.78", b"the-secret"]
    body = {**BODY, **WATCHING, "labels": {"pending_durable": True}}
    told = readings("dense", 400, 0, "u")
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.create_model("m", **body)
            client.predict("m", told[:100])
            client.offer("m", [{"id": "the-secret", "x": secret}])
            client.learn("m", [{**one, "y": "ab"[one["x"][0] > 0]} for one in told[100:300]])
            position = client.model("m")["position"]
            client.predict("m", told[300:])
            figures, path = client.model("m")["novelty"], client.history("m")["input_alarm"]
            assert figures["alarm"]["examples"] == 401 - 128
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        assert client.model("m")["novelty"] == figures
        assert client.history("m")["input_alarm"] == path
        client.rollback("m", position)
        assert client.model("m")["novelty"]["alarm"]["examples"] == 301 - 128
        client.predict("m", told[300:])
        assert client.model("m")["novelty"] == figures
        client.wait(client.forget("m", "the-secret"))
        alarm = client.model("m")["novelty"]["alarm"]
        assert (alarm["value"], alarm["lacking"]) == (figures["alarm"]["value"], 128)
        exported = client.export_model("m")
        assert not any(needle in exported for needle in needles)
        client.import_model("copy", exported)
        for name in ("m", "copy"):
            client.predict(name, readings("dense", 200, 1, "v", 2))
        assert client.model("copy")["novelty"] == client.model("m")["novelty"]
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(needle in content for needle in needles), file
