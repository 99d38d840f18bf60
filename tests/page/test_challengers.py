"""The page shows challengers at once and in a fixed place, and accepts only names that the server accepts."""

import itertools
import re

import pytest

from tests.helpers.examples import examples_of, heaps
from tests.helpers.payments import BODY, stream
from tests.helpers.server import eventually

pytestmark = pytest.mark.long

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
NUMBERS = itertools.count()


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    if n:
        client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


def challenge(one, name, value="5"):
    """Make a challenger in the dialog. The dialog stays open if the name is invalid."""
    page = one.unfold("Settings")
    page.get_by_role("button", name="Change C", exact=True).click()
    page.fill("dialog input[name=value]", value)
    page.fill("dialog input[name=rival]", name)
    page.get_by_role("dialog").get_by_role("button", name="Try it as a challenger").click()


def headings(page):
    return [heading.split("\n")[0] for heading in page.locator("h1, h2").all_inner_texts()]


@pytest.mark.parametrize("n", [0, 60])
def test_a_new_challenger_is_shown_before_it_learns_and_after_a_reload(client, server, tab, n):
    model = taught(client, f"rivals-{n}", n)
    one = tab(server.url)
    page = one.open(f"models/{model}", ".standing")
    challenge(one, "softer", "0.1")
    table = page.get_by_role("group", name="Champion and challengers")
    table.get_by_role("row", name=re.compile("^softer")).wait_for()
    page.reload()
    table.get_by_role("row", name=re.compile("^softer")).wait_for()
    if n:
        chart = page.get_by_role("region", name="Champion and challengers", exact=True)
        chart.locator("canvas").wait_for()
        curve = client.history(model)["shadows"]["softer"]
        figures = client.shadows(model)["shadows"]["softer"]
        assert curve["examples"][-1] == figures["examples"] == n
        assert curve["accuracy"][-1] == figures["metrics"]["accuracy_window"]


def test_the_chart_has_the_whole_curve_of_a_challenger_made_while_the_page_is_open(client, server, tab):
    model = taught(client, "whole-curve", 0)
    for k in range(6):
        client.learn(model, examples_of(heaps(50, ["ham", "spam"], seed=k), f"e{k}-"))
    one = tab(server.url)
    page = one.open(f"models/{model}", ".chart canvas")
    page.get_by_text("300 examples learned").wait_for()
    challenge(one, "softer", "0.1")
    chart = page.get_by_role("region", name="Champion and challengers", exact=True)
    chart.get_by_text("Show as a table").click()
    rows = chart.locator("tbody tr")
    rows.first.wait_for()
    eventually(lambda: not client.model(model)["jobs"])
    curve = client.history(model)["shadows"]["softer"]
    expected = {str(n): f"{100 * v:.1f} %" for n, v in zip(curve["examples"], curve["accuracy"], strict=True) if v}
    assert len(expected) > 3
    drawn = (row.split("\t") for row in rows.all_inner_texts())
    assert {n: rival.strip() for n, _, rival in drawn if n in expected} == expected


def test_cards_keep_their_order_while_jobs_and_challengers_come_and_go(client, server, tab):
    """The card of a job is between the figures and the charts until the job ends."""
    model = taught(client, "ordered", 300)
    one = tab(server.url)
    page = one.open(f"models/{model}", ".chart canvas")
    before = headings(page)
    assert before[0] == model
    challenge(one, "rival")
    page.get_by_role("group", name="Champion and challengers").wait_for()
    eventually(lambda: not client.model(model)["jobs"])
    for k in range(3):
        client.wait(client.change_model(model, C=10.0 + k))
        client.learn(model, examples_of(heaps(5, ["ham", "spam"], seed=k), f"more{k}-"))
    client.wait(client.challenge(model, "other", C=3.0))
    page.get_by_role("row", name=re.compile("^other")).wait_for()
    page.wait_for_function("() => ![...document.querySelectorAll('h2')].some((h) => h.innerText === 'Jobs')")
    live = headings(page)
    page.reload()
    page.wait_for_selector(".chart canvas")
    page.get_by_role("row", name=re.compile("^other")).wait_for()
    assert live == headings(page)
    assert [heading for heading in live if "challengers" not in heading.lower()] == before


def test_a_new_challenger_is_no_swap_but_a_changed_model_is(client, server, tab):
    model = taught(client, "unswapped")
    client.wait(client.challenge(model, "softer", C=0.1))
    assert client.history(model)["marks"] == []
    one = tab(server.url)
    one.open(f"models/{model}", ".chart canvas")
    page = one.unfold("Drift and events")
    page.get_by_text("No events yet.").wait_for()
    client.wait(client.change_model(model, C=3.0))
    assert [mark["kind"] for mark in client.history(model)["marks"]] == ["swapped"]
    page.get_by_role("row", name=re.compile("^retrained")).wait_for()


@pytest.mark.parametrize("wrong", ["two words", "-a", "a/b", "ä"])
def test_an_invalid_name_is_refused_in_its_field(client, server, tab, tmp_path, wrong):
    model = taught(client, f"named-{next(NUMBERS)}")
    one = tab(server.url)
    page = one.open(f"models/{model}", ".chart canvas")
    challenge(one, wrong)
    assert page.locator("dialog input[name=rival]").evaluate("field => field.validity.patternMismatch")
    page.fill("dialog input[name=rival]", "A.good-name_1")
    assert page.locator("dialog input[name=rival]").evaluate("field => field.validity.valid")
    page.keyboard.press("Escape")
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "".join(f"{k},{k % 7},{'xy'[k % 2]}\n" for k in range(30)))
    one.open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    asked = []
    page.on("request", lambda request: asked.append(request.method))
    page.get_by_label("Name", exact=True).fill(wrong)
    page.get_by_role("button", name="Send the rows").click()
    assert page.get_by_label("Name", exact=True).evaluate("field => field.validity.patternMismatch")
    assert "PUT" not in asked


def test_the_page_tells_how_a_challenger_did_on_the_same_examples(client, server, tab):
    model = taught(client, "compared", 200)
    client.wait(client.challenge(model, "blind", kernel={"type": "rbf", "gamma": 1e-9}))
    found = client.shadows(model)["shadows"]["blind"]["compared"]
    assert found["interval"][1] < 0
    page = tab(server.url).open(f"models/{model}", ".standing")
    said = page.get_by_text(re.compile("On the same")).inner_text()
    shown = [f"{100 * found[who]:.1f} %" for who in ("challenger", "champion")]
    low, high = (f"\u2212{-100 * end:.1f}" for end in found["interval"])
    assert said == (
        f"blind: On the same {found['examples']} examples the challenger was right in {shown[0]}, the champion in "
        f"{shown[1]}. The challenger is worse: {low} to {high} points (95 % interval)."
    )


def test_with_costs_a_challenger_is_judged_by_what_its_decisions_cost(client, server, tab):
    client.create_model("judged", **BODY, costs={"fraud": {"ok": 50}, "ok": {"fraud": 10}, "ask": 2})
    client.learn_rows("judged", *stream(400, share=0.2))
    client.wait(client.challenge("judged", "blind", kernel={"type": "rbf", "gamma": 1e-9}))
    found = client.shadows("judged")["shadows"]["blind"]["compared"]
    assert found["figure"] == "cost"
    assert found["challenger"] > found["champion"]
    page = tab(server.url).open("models/judged", ".standing")
    said = page.get_by_text(re.compile("On the same")).inner_text()
    mine, other, low, high = map(float, re.findall(r"-?\d+\.?\d*", said.replace("\u2212", "-"))[1:5])
    assert [mine, other, low, high] == pytest.approx(
        [found["challenger"], found["champion"], *found["interval"]], rel=1e-2
    )
    assert "The challenger is worse" in said
    assert "saved per example" in said


def test_the_goal_of_a_race_decides_by_which_figure_a_challenger_is_judged(client):
    client.create_model("goal", solver="auto", goal="balanced", kernel={"type": "rbf"}, features=FEATURES)
    client.learn("goal", examples_of(heaps(60, ["ham", "spam"])))
    client.wait(client.challenge("goal", "other", seed=7))
    assert client.shadows("goal")["shadows"]["other"]["compared"]["figure"] == "balanced_accuracy"


def test_after_a_drift_the_page_names_the_challenger_that_already_learns(client, server, tab):
    model = taught(client, "drifting", 600)
    turned = [(x, "ham" if y == "spam" else "spam") for x, y in heaps(300, ["ham", "spam"])]
    client.learn(model, examples_of(turned, "s"))
    one = tab(server.url)
    page = one.open(f"models/{model}/watch/happened", ".standing")
    page.get_by_role("link", name="try a half-life").click()
    dialog = page.get_by_role("dialog", name="Change half life")
    dialog.get_by_role("spinbutton", name="examples after which").fill("100")
    dialog.get_by_role("button", name="Try it as a challenger").click()
    page.get_by_role("group", name="Champion and challengers").wait_for()
    page.get_by_text("already learns beside the model: compare, and promote the better. If labels are wrong").wait_for()
    assert page.get_by_role("link", name="try a half-life").count() == 0
