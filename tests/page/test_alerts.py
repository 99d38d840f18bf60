"""The page lists the alerts of a model, and people work them off there."""

import re

import pytest

from tests.helpers.browser import barriers
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import eventually

pytestmark = pytest.mark.long

CAPACITY = {"fraud": {"most": 1_000_000, "per": "1d"}}  # so much that the time of the day does not matter


@pytest.fixture
def alarmed(client, request):
    """Return the name of a model with five alerts."""
    name = re.sub("[^a-z0-9]", "-", request.node.name)
    client.create_model(name, **BODY, costs=COSTS, capacity=CAPACITY)
    X, y = stream(400)
    client.learn_rows(name, X, y)
    client.decide(name, [{"id": f"p{k}", "x": [1.7 + 0.1 * k, 0.1 * k]} for k in range(5)])
    assert client.model(name)["alerts"]["waiting"] == 5
    return name


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_the_view_of_decisions_lists_the_alerts(client, server, tab, alarmed, width, scheme):
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = one.open(f"models/{alarmed}", ".chart canvas")
    page.get_by_role("link", name="Work off 5 alerts").click()
    table = page.get_by_role("group", name="Alerts")
    for order in ("best", "newest"):
        page.get_by_label("Order").select_option(order)
        expected = client.alerts(alarmed, order=order)["alerts"]
        eventually(lambda: table.locator("tr[tabindex] > th").all_inner_texts() == [a["id"] for a in expected])  # noqa: B023
    cells = table.get_by_role("row", name=re.compile(rf"^{expected[0]['id']}\b")).get_by_role("cell")
    assert cells.nth(0).inner_text() == "fraud"
    assert cells.nth(1).inner_text() == f"{100 * expected[0]['probability']:.1f} %"
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_alerts_are_worked_off_with_and_without_a_label(client, server, tab, alarmed):
    page = tab(server.url).open(f"models/{alarmed}/decide", ".chart canvas")
    first, second = (alert["id"] for alert in client.alerts(alarmed, n=2, order="best")["alerts"])
    shown = page.locator("tr[aria-current=true] + tr .x")  # x is in the row below
    shown.get_by_text("1.7").or_(shown.get_by_text("2.1")).first.wait_for()
    learned = client.model(alarmed)["examples"]
    page.get_by_role("button", name=f"{first} was fraud", exact=True).click()
    eventually(lambda: client.model(alarmed)["alerts"]["waiting"] == 4)
    assert client.example(alarmed, first)["label"] == "fraud"
    page.get_by_role("button", name="No, it was ok", exact=True).click()
    page.get_by_text(f"{first} was ok.").wait_for()
    eventually(lambda: client.example(alarmed, first)["label"] == "ok")
    page.get_by_role("button", name=f"{second} is done", exact=True).click()
    eventually(lambda: client.model(alarmed)["alerts"]["waiting"] == 3)
    assert client.model(alarmed)["examples"] == learned + 1
    page.get_by_text("3 waiting.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("4 waiting.").wait_for()
    page.get_by_role("button", name=f"{second} is done", exact=True).click()
    page.get_by_text("3 waiting.").wait_for()
    page.keyboard.press("u")
    page.get_by_text("4 waiting.").wait_for()
    assert second in {alert["id"] for alert in client.alerts(alarmed)["alerts"]}


def test_alerts_are_worked_off_by_keys(client, server, tab, alarmed):
    page = tab(server.url).open(f"models/{alarmed}/decide", ".chart canvas")
    first, second, third = (alert["id"] for alert in client.alerts(alarmed, n=3, order="best")["alerts"])
    active = page.locator("tr[aria-current=true]")
    active.get_by_text(first).wait_for()
    page.keyboard.press("n")
    active.get_by_text(second).wait_for()
    page.keyboard.press("d")
    active.get_by_text(third).wait_for()
    page.keyboard.press("p")
    number = 1 + client.model(alarmed)["classes"].index("fraud")
    page.keyboard.press(str(number))
    eventually(lambda: client.model(alarmed)["alerts"]["waiting"] == 3)
    assert client.example(alarmed, first)["label"] == "fraud"
    assert {alert["id"] for alert in client.alerts(alarmed)["alerts"]}.isdisjoint({first, second})


def test_a_model_without_alerts_has_no_card_of_them(client, server, tab):
    client.create_model("calm", **BODY, costs=COSTS)
    page = tab(server.url).open("models/calm/decide")
    page.get_by_text("No decision to judge yet").wait_for()
    assert page.get_by_text("Alerts", exact=True).count() == 0
