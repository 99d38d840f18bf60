"""The alarm through a real server: figures, history, event, Prometheus, changes, a kill, and forgetting."""

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
    assert f'hinged_alarms_total{{model="{model.name}"}} {figures["count"]}.0' in text
    assert f'hinged_alarm_log10{{model="{model.name}"}}' in text


def test_a_model_without_an_alarm_shows_none(ask):
    model = ask.new_model(**BODY)
    model.learn(*turned(100, 50))
    assert "alarm" not in model.figures()["metrics"]
    assert "alarm" not in ask("GET", f"{model.path}/history").json()
    assert f'hinged_alarm_log10{{model="{model.name}"}}' not in ask("GET", "/metrics").text


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
