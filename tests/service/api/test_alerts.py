"""Alerts: decisions for a class with a capacity, listed until they are acknowledged, labelled or forgotten."""

import pytest

from hinged import Client
from tests.helpers.http_client import refusal
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer

LIMIT = {"fraud": {"most": 1_000_000, "per": "366d"}}


def told(n, seed, prefix="p"):
    return [{"id": f"{prefix}{k}", "x": x} for k, x in enumerate(stream(n, seed=seed, share=0.2)[0].tolist())]


def alerting(client, name, **parts):
    """Create a model that has learned 500 payments and has decided about 200. Return the alerts' results."""
    client.create_model(name, **BODY, costs=COSTS, capacity=LIMIT, **parts)
    client.learn_rows(name, *stream(500, share=0.1))
    results = client.decide(name, told(200, 2), probabilities=["fraud"])["results"]
    assert all(("alert" in one) == (one["decision"] == "fraud") for one in results)
    return [one for one in results if "alert" in one]


@pytest.fixture(scope="module")
def model(ask):
    with Client(ask.url) as client:
        return alerting(client, "alerting")


def pages(client, name, **wanted):
    found, cursor = [], None
    while True:
        page = client.alerts(name, cursor=cursor, **wanted)
        found += page["alerts"]
        cursor = page["next"]
        if cursor is None:
            return found


def test_alerts_are_listed_newest_or_best_first_in_pages(ask, model):
    with Client(ask.url) as client:
        whole = client.alerts("alerting")
        assert whole["waiting"] == len(model) == client.model("alerting")["alerts"]["waiting"]
        newest = [one["id"] for one in model][::-1]
        assert [alert["id"] for alert in whole["alerts"]] == newest
        assert whole["next"] is None
        for n in (1, 3, 1_000):
            assert [alert["id"] for alert in pages(client, "alerting", n=n)] == newest
            best = pages(client, "alerting", n=n, order="best")
            assert {alert["id"] for alert in best} == set(newest)
            assert len(best) == len(newest)
            gains = [alert["gain"] for alert in best]
            assert gains == sorted(gains, reverse=True)
    results = {one["id"]: one for one in model}
    for alert in best:
        result = results[alert["id"]]
        assert (alert["decision"], alert["reason"]) == ("fraud", "cost")
        assert (alert["cost"], alert["probability"]) == (result["cost"], result["probability"])
        through = 50 * result["probability"]  # what it costs to let the payment through
        assert alert["gain"] == result["gain"] == pytest.approx(min(through, 2) - result["cost"])


def test_each_decision_that_a_person_should_see_has_its_gain_even_if_it_was_refused(ask):
    with Client(ask.url) as client:
        results = {}
        for name, capacity in (("many", LIMIT), ("few", {"fraud": {"most": 1, "per": "366d"}})):
            client.create_model(name, **BODY, costs=COSTS, capacity=capacity)
            client.learn_rows(name, *stream(500, share=0.1))
            results[name] = client.decide(name, told(200, 2))["results"]
    many, few = results.values()
    assert [one.get("gain") for one in few] == [one.get("gain") for one in many]
    assert all(("gain" in one) == (one["decision"] in ("fraud", "ask")) for one in many)
    taken = [sum("alert" in one for one in found) for found in (few, many)]
    assert taken[0] <= 1 < taken[1]


def test_an_alert_leaves_when_it_is_acknowledged_labelled_or_forgotten(ask):
    with Client(ask.url) as client:
        ids = [one["alert"] for one in alerting(client, "leaving")]
        first, second, third = ids[:3]
        answer = client.acknowledge("leaving", [first, first, "unknown"])
        assert (answer["acknowledged"], answer["waiting"]) == (1, len(ids) - 1)
        assert client.acknowledge("leaving", first)["position"] == answer["position"]  # nothing is written again
        heard = []
        for event in client.events("leaving", after=0):
            heard += [(event["kind"], event["alerts"])] if "alerts" in event else []
            if event["position"] == answer["position"]:
                break
        assert heard == [("alerted", len(ids)), ("acknowledged", 1)]
        before = {alert["id"]: alert for alert in client.alerts("leaving")["alerts"]}
        again = client.acknowledge("leaving", [first, "unknown", second], reopen=True)
        assert (again["acknowledged"], again["waiting"]) == (1, len(ids))
        assert client.acknowledge("leaving", first, reopen=True)["position"] == again["position"]
        listed = {alert["id"]: alert for alert in client.alerts("leaving")["alerts"]}
        assert (set(listed), {given: listed[given] for given in before}) == (set(ids), before)
        client.acknowledge("leaving", first)
        client.learn("leaving", {"id": second, "y": "fraud"})
        client.wait(client.forget("leaving", third))
        assert {alert["id"] for alert in client.alerts("leaving")["alerts"]} == set(ids[3:])


def test_a_repeated_alert_is_not_counted_again(ask):
    with Client(ask.url) as client:
        ids = {one["alert"] for one in alerting(client, "repeated")}
        before = client.model("repeated")
        again = client.decide("repeated", told(200, 2))["results"]
        after = client.model("repeated")
        assert {one["alert"] for one in again if "alert" in one} == ids
        assert (after["capacity"], after["alerts"]) == (before["capacity"], before["alerts"])
        unnamed = client.decide("repeated", [{"x": one["x"]} for one in told(200, 2)])["results"]
        alerts = [one["alert"] for one in unnamed if "alert" in one]
        assert len(set(alerts)) == len(ids)
        assert client.alerts("repeated")["waiting"] == 2 * len(ids)
        client.learn("repeated", {"id": alerts[0], "y": "fraud"})  # its x waits under the id of the alert


def test_the_x_of_an_alert_is_shown_while_its_prediction_waits(ask):
    with Client(ask.url) as client:
        alert = alerting(client, "seen", labels={"pending_durable": True})[0]["alert"]
        x = next(one["x"] for one in told(200, 2) if one["id"] == alert)
        shown = client.example("seen", alert)
        assert (shown["x"], shown["label"]) == (pytest.approx(x), None)
        client.learn("seen", {"id": alert, "y": "ok"})
        assert client.example("seen", alert)["label"] == "ok"


def test_only_the_newest_thousand_alerts_wait(ask):
    with Client(ask.url) as client:
        alerting(client, "many")
        results = client.decide("many", [{"id": f"m{k}", "x": [3, 0]} for k in range(1_200)])["results"]
        assert {one["decision"] for one in results} == {"fraud"}
        answer = client.alerts("many", n=1_000)
        assert (answer["waiting"], len(answer["alerts"])) == (1_000, 1_000)
        assert [alert["id"] for alert in answer["alerts"]] == [f"m{k}" for k in range(1_199, 199, -1)]


@pytest.mark.parametrize("query", ["n=0", "n=1001", "order=oldest", "cursor=x", "cursor=1/x", "unknown=1"])
@pytest.mark.usefixtures("model")
def test_an_invalid_query_is_refused(ask, query):
    refusal(ask("GET", f"/models/alerting/alerts?order=best&{query}"), 422, "invalid")


@pytest.mark.parametrize("cursor", ["x/1", "nan/1", "inf/1", "/1"])
@pytest.mark.usefixtures("model")
def test_both_orders_refuse_a_cursor_without_a_gain(ask, cursor):
    for order in ("best", "newest"):
        refusal(ask("GET", f"/models/alerting/alerts?order={order}&cursor={cursor}"), 422, "invalid")


def test_an_id_with_two_x_in_a_request_is_refused(ask):
    with Client(ask.url) as client:
        alerting(client, "twofold")
        before = client.model("twofold")
        for other in ([2.5, 0], [-3, 0]):  # an alert, and a question
            twice = [{"id": "new", "x": [3, 0]}, {"x": [0, 0]}, {"id": "new", "x": other}]
            answer = ask("POST", "/models/twofold/decide", json={"examples": twice})
            assert refusal(answer, 409, "conflict")["details"] == {"index": 2, "id": "new"}
        after = client.model("twofold")
        assert [after[part] for part in ("alerts", "capacity", "pool")] == [
            before[part] for part in ("alerts", "capacity", "pool")
        ]


def test_a_labelled_example_raises_no_further_alert(ask):
    with Client(ask.url) as client:
        given = alerting(client, "labelled")[0]["alert"]
        client.learn("labelled", {"id": given, "y": "fraud"})
        before = client.model("labelled")
        again = [one for one in told(200, 2) if one["id"] == given]
        assert client.decide("labelled", again)["results"][0]["decision"] == "fraud"
        after = client.model("labelled")
        assert (after["alerts"], after["capacity"]) == (before["alerts"], before["capacity"])


@pytest.mark.parametrize(
    "body", [{}, {"ids": []}, {"ids": "p1"}, {"ids": [1]}, {"ids": ["a"], "who": "b"}, {"ids": ["a"], "reopen": 1}]
)
@pytest.mark.usefixtures("model")
def test_an_invalid_acknowledgement_is_refused(ask, body):
    refusal(ask("POST", "/models/alerting/alerts/acknowledge", json=body), 422, "invalid")


def test_alerts_survive_a_kill_and_no_byte_of_a_forgotten_alert_stays(tmp_path):
    marked = [{"id": f"to-be-forgotten-{k}", "x": [3, 0]} for k in range(3)]
    waiting, acknowledged, _ = [one["id"] for one in marked]
    with RunningServer(tmp_path / "data") as server:
        with Client(server.url) as client:
            alerting(client, "m", labels={"pending_max": 0})
            results = client.decide("m", marked)["results"]
            assert [one["alert"] for one in results] == [one["id"] for one in marked]
            whole = client.alerts("m")
        server.kill()
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        client.wait_until_ready()
        again = client.alerts("m")
        assert again == whole
        client.acknowledge("m", [again["alerts"][-1]["id"], acknowledged])
        for given in (waiting, acknowledged):
            client.wait(client.forget("m", given))
        assert marked[2]["id"] in {alert["id"] for alert in client.alerts("m")["alerts"]}
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert [one["id"].encode() in stored for one in marked] == [False, False, True]
