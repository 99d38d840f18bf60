"""The page draws how close a model came to an alarm, about errors and about inputs."""

import math
import random

import pytest

from tests.helpers.browser import barriers

ROWS = 60  # of the table of a chart, at most


@pytest.fixture(scope="module")
def alarmed(client):
    """Return the name of a model whose errors became more frequent."""
    rng = random.Random(0)
    client.create_model(
        "alarmed", kernel={"type": "rbf"}, C=1, features={"type": "dense", "dim": 2}, alarm={"level": 0.1}
    )
    for noise in [0.0] * 10 + [0.5] * 6:
        rows = [[rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(40)]
        client.learn("alarmed", [{"x": x, "y": int((x[0] > 0) != (rng.random() < noise))} for x in rows])
    assert client.model("alarmed")["metrics"]["alarm"]["count"]
    return "alarmed"


@pytest.mark.long
@pytest.mark.parametrize("over_time", [False, True])
def test_the_path_to_an_alarm_is_drawn_beside_the_value_of_an_alarm(client, server, tab, alarmed, over_time):
    one = tab(server.url, viewport={"width": 1280, "height": 1600})
    one.open(f"models/{alarmed}", ".chart canvas")
    page = one.unfold("Drift and events")
    if over_time:
        page.get_by_label("Plot over time").check()
    chart = page.get_by_role("region", name="How close to an alarm", exact=True)
    chart.locator("canvas").wait_for()
    chart.get_by_text("Show as a table").click()
    chart.locator("tbody tr").first.wait_for()
    rows = [row.split("\t") for row in chart.locator("tbody tr").all_inner_texts()]
    path = client.history(alarmed)["alarm"]
    newest = dict(zip(path["examples"], path["value"], strict=True))
    assert len(rows) > 5
    assert all(float(row[2]) == pytest.approx(-math.log10(0.1), abs=1e-3) for row in rows)
    assert max(path["value"]) >= -math.log10(0.1)
    for (at, value, _), number in zip(rows, path["examples"][::-1][:: -(-len(path["examples"]) // ROWS)], strict=True):
        assert float(value) == pytest.approx(newest[number], rel=2e-3, abs=2e-3)
        assert over_time or int(at.replace(",", "")) == number
    assert barriers(page) == []


@pytest.mark.long
def test_a_model_without_an_alarm_has_no_such_chart(client, server, tab):
    client.create_model("calm", kernel={"type": "rbf"}, C=1, features={"type": "dense", "dim": 1})
    client.learn("calm", [{"x": [float(k % 2)], "y": k % 2} for k in range(40)])
    one = tab(server.url, viewport={"width": 1280, "height": 1600})
    one.open("models/calm", ".chart canvas")
    page = one.unfold("Drift and events")
    page.get_by_role("region", name="Accuracy by source", exact=True).wait_for()
    assert page.get_by_role("region", name="How close to an alarm", exact=True).count() == 0


@pytest.mark.long
def test_a_model_without_labels_shows_its_x_and_the_alarm_about_its_inputs(client, server, tab):
    rng = random.Random(1)
    features, alarm = {"type": "dense", "dim": 1, "scale": "auto", "warmup": 50}, {"level": 0.01}
    client.create_model("unlabelled", features=features, novelty=True, alarm=alarm, labels={"pending_durable": True})
    for k in range(10):
        client.predict("unlabelled", [{"id": f"{k}-{r}", "x": [rng.gauss(6 * (k == 9), 1)]} for r in range(40)])
    one = tab(server.url, viewport={"width": 1280, "height": 1600})
    one.open("models/unlabelled", ".standing")
    page = one.page
    last_at = client.model("unlabelled")["novelty"]["alarm"]["last_at"]
    page.get_by_text("400 x seen, and no label learned yet").wait_for()
    page.get_by_text(f"alarm at x number {last_at}: the inputs have changed").wait_for()
    page.get_by_role("link", name="See what happened").click()
    page.get_by_text("The inputs are no longer like those before.").wait_for()
    chart = page.get_by_role("region", name="How close to an alarm about inputs", exact=True)
    chart.get_by_text("Show as a table").click()
    assert chart.locator("thead").inner_text().startswith("x seen")
    values = [float(row.split("\t")[1]) for row in chart.locator("tbody tr").all_inner_texts()]
    assert max(values) >= 2
    assert page.get_by_role("row", name="other inputs (alarm)").count() == 1
    assert barriers(page) == []
    one.open("", ".card")
    page.get_by_text("unlabelled gets other inputs than before (alarm)").wait_for()
