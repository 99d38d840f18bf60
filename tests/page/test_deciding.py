"""The view of decisions: a threshold with a slider says what it would have meant, and sets the costs of a model."""

import re

import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.browser import barriers
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import RunningServer, eventually

pytestmark = pytest.mark.long


@pytest.fixture
def payments(client, request):
    """Return the name of a model without costs."""
    name = re.sub("[^a-z0-9]", "-", request.node.name)[-40:].strip("-")
    client.create_model(name, **BODY)
    client.learn_rows(name, *stream(600, share=0.2))
    return name


def cells(page, rule):
    """Return the figures of a rule: cost, decided, right, missed, and asked if the model asks."""
    table = page.get_by_role("group", name="Rules")
    row = table.get_by_role("row", name=re.compile(f"^{rule}"))
    return [float(text.replace(",", "")) for text in row.get_by_role("cell").all_inner_texts()]


def expected(found, rule, *, asks=False):
    """Return the figures of a rule over the remembered examples, as `cells` returns them."""
    parts = [rule["right"] + rule["false"], rule["right"], rule["missed"], *([rule["asked"]] if asks else [])]
    return [pytest.approx(rule["cost"], rel=1e-3), *(pytest.approx(found["examples"] * v, abs=0.51) for v in parts)]


def told(page):
    """Return the numbers of the sentence about the chosen threshold, without the time in it."""
    text = page.locator(".meant").inner_text()
    before, _, after = text.partition(", learned since ")
    return [float(number) for number in re.findall(r"[0-9]+(?:\.[0-9]+)?", before + after[after.index(" the model") :])]


def at(curve, threshold):
    place = curve["threshold"].index(threshold)
    return {name: values[place] for name, values in curve.items()}


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_the_slider_says_what_each_threshold_would_have_meant(client, server, tab, payments, width, scheme):
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = one.open(f"models/{payments}", ".chart canvas")
    page.get_by_role("link", name="Decide", exact=True).click()
    slider = page.get_by_label("from a probability of")
    assert slider.get_attribute("aria-valuetext") == "50 %, costs 1 : 1"
    found = client.thresholds(payments)
    for rule, name in (("present rule", "present"), ("always ok", "never"), ("always fraud", "always")):
        assert cells(page, rule) == expected(found, found["rules"][name])
    curve = found["curve"]
    best = curve["threshold"][curve["cost"].index(min(curve["cost"]))]
    assert cells(page, "best threshold") == expected(found, at(curve, best))
    slider.fill(str(found["curve"]["threshold"].index(0.1)))
    page.get_by_text("This threshold corresponds to costs 1 : 9: a missed fraud costs 9 times as much").wait_for()
    assert cells(page, "chosen threshold") == expected(found, at(found["curve"], 0.1))
    page.get_by_label("Class with the threshold").select_option("ok")
    page.get_by_text("a missed ok costs as much as a false one").wait_for()
    of_ok = client.thresholds(payments, label="ok")
    assert cells(page, "always ok") == expected(of_ok, of_ok["rules"]["always"])
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_dragged_threshold_is_told_in_words_with_its_cost_beside_the_present_rule(client, server, tab):
    limits = {"fraud": {"most": 40, "per": "1d"}}
    client.create_model("told", **BODY, costs=COSTS, capacity=limits)
    client.learn_rows("told", *stream(300, share=0.2))
    page = tab(server.url, viewport={"width": 320, "height": 800}).open("models/told/decide", ".meant")
    found = client.thresholds("told")
    n, present, chosen = found["examples"], found["rules"]["present"], at(found["curve"], 0.6)

    def meant(rule):
        parts = [rule["right"] + rule["false"], rule["right"], rule["missed"], rule["asked"], rule["cost"]]
        return [round(n), *(pytest.approx(n * part, rel=0.006, abs=0.51) for part in parts)]

    assert told(page) == meant(present)
    page.get_by_label("from a probability of").fill(str(found["curve"]["threshold"].index(0.6)))
    page.get_by_text("more than the present rule").wait_for()
    page.get_by_text("at the present costs,").wait_for()
    assert told(page) == [*meant(chosen), pytest.approx(n * (chosen["cost"] - present["cost"]), rel=0.006)]
    sentence = page.locator(".meant").inner_text()
    assert re.search(r"learned since [A-Z][a-z]{2} \d+, \d{4}, .* raised [\d,]+ alerts? of fraud", sentence)
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_words_call_equal_costs_equal(client, server, tab):
    client.create_model("equal", **BODY)
    client.learn_rows("equal", *stream(120, share=0.4))
    page = tab(server.url).open("models/equal/decide", ".meant")
    found = client.thresholds("equal")
    present = found["rules"]["present"]["cost"]
    curve = found["curve"]
    for place, cost in enumerate(curve["cost"]):
        page.get_by_label("from a probability of").fill(str(place))
        equal = cost == pytest.approx(present, rel=1e-9) and curve["threshold"][place] != found["threshold"]
        assert ("as much as the present rule" in page.locator(".meant").inner_text()) == equal


def test_costs_are_set_from_a_threshold_by_the_keyboard_alone(client, server, tab, payments):
    page = tab(server.url).open(f"models/{payments}/decide", ".chart canvas")
    slider = page.get_by_label("from a probability of")
    slider.focus()
    for key in ("Home", *["ArrowRight"] * 12):
        page.keyboard.press(key)
    assert slider.get_attribute("aria-valuetext") == "10 %, costs 1 : 9"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    costs = {"fraud": {"ok": 9.0}, "ok": {"fraud": 1.0}}
    eventually(lambda: client.model(payments)["configuration"].get("costs") == costs)
    page.get_by_text("This is the present threshold.").wait_for()
    assert page.evaluate("document.activeElement.id") == "threshold"
    found = client.thresholds(payments)
    assert cells(page, "present rule") == expected(found, found["rules"]["present"])
    assert page.get_by_role("button", name="Use these costs").is_disabled()


def test_other_costs_stay_when_a_threshold_sets_the_cost_of_a_missed_example(client, server, tab):
    client.create_model("asking", **BODY, costs=COSTS)
    client.learn_rows("asking", *stream(1500, share=0.2))
    page = tab(server.url).open("models/asking/decide", ".chart canvas")
    page.get_by_text("a missed fraud costs 50, a false one 10, a person's look 2").wait_for()
    found = client.thresholds("asking")
    assert cells(page, "present rule") == expected(found, found["rules"]["present"], asks=True)
    assert cells(page, "always ask")[0] == 2
    page.get_by_text("Around the threshold the model asks a person, whose look costs 2.").wait_for()
    page.get_by_label("from a probability of").fill(str(found["curve"]["threshold"].index(0.25)))
    assert cells(page, "chosen threshold") == expected(found, at(found["curve"], 0.25), asks=True)
    page.get_by_role("button", name="Use these costs").click()
    wanted = {"fraud": {"ok": 30}, "ok": {"fraud": 10}, "ask": 2}
    eventually(lambda: client.model("asking")["configuration"]["costs"] == wanted)


def test_only_an_admin_can_use_the_costs_of_a_threshold(tmp_path, tab):
    keys = tmp_path / "keys.json"
    texts = {role: create_key(keys, role, role) for role in ("annotator", "writer", "admin")}
    with RunningServer(tmp_path / "data", keys_file=keys) as server, Client(server.url, key=texts["admin"]) as client:
        client.create_model("m", **BODY)
        client.learn_rows("m", *stream(200))
        for role, key in texts.items():
            page = tab(server.url).open("models/m/decide", "form")
            page.fill("input[name=key]", key)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_text("This threshold corresponds to costs").wait_for()
            assert page.get_by_role("button", name="Use these costs").count() == (role == "admin")


def test_a_model_of_three_classes_shows_what_its_decisions_cost(client, server, tab):
    body = {**BODY, "features": {"type": "dense", "dim": 1}}
    client.create_model("three", **body, costs={"a": {"b": 5}, "ask": 1}, capacity={"ask": {"most": 7, "per": "1d"}})
    rows = [([float(k % 3)], "abc"[k % 3]) for k in range(120)]
    client.learn_rows("three", [x for x, _ in rows], [y for _, y in rows])
    page = tab(server.url).open("models/three/decide")
    decisions = client.model("three")["metrics"]["decisions"]
    table = page.get_by_role("group", name="Cost of an example by rule")
    for rule, cost in (("this model", decisions["cost"]), ("always b", decisions["always"]["b"]), ("always ask", 1)):
        told = table.get_by_role("row", name=re.compile(f"^{rule}")).get_by_role("cell").inner_text()
        assert float(told) == pytest.approx(cost, rel=1e-3, abs=1e-3)
    capacity = page.get_by_role("group", name="Capacity of each decision").get_by_role("row", name=re.compile("^ask"))
    assert capacity.get_by_role("cell").all_inner_texts()[:3] == ["7", "0", "0"]
    assert page.get_by_label("from a probability of").count() == 0
    assert barriers(page) == []


def test_costs_that_change_elsewhere_reach_the_view_and_a_refused_change_is_told(client, server, tab, payments):
    page = tab(server.url).open(f"models/{payments}/decide", ".chart canvas")
    page.get_by_label("from a probability of").fill("20")
    client.delete_model(payments)
    page.get_by_role("button", name="Use these costs").click()
    page.get_by_role("alert").first.wait_for()


def test_a_model_with_novelty_says_with_what_it_compares(client, server, tab):
    client.create_model("strange", **BODY, costs=COSTS, novelty={"level": 0.05})
    page = tab(server.url).open("models/strange/decide", "[aria-label=Novelty]")
    novelty = page.get_by_role("region", name="Novelty")
    novelty.get_by_text("The sample is not yet large enough: 0 x seen.").wait_for()
    client.learn_rows("strange", *stream(300))
    figures = client.model("strange")["novelty"]
    novelty.get_by_text(f"compared with a sample of {figures['compared']} x, of {figures['seen']} seen").wait_for()
    novelty.get_by_text("p-value is at most 0.05").wait_for()
    assert barriers(page) == []
