"""Challengers on the page: seen from the first moment, in their place, under names that the server takes."""

import itertools
import re

import pytest

from tests.helpers.examples import examples_of, heaps
from tests.helpers.server import eventually

pytestmark = pytest.mark.server

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
NUMBERS = itertools.count()


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    if n:
        client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


def challenge(page, name, value="5"):
    """By the dialog, which a name that is none does not leave."""
    page.get_by_role("button", name="Change C", exact=True).click()
    page.fill("dialog textarea", value)
    page.fill("dialog input[name=rival]", name)
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()


def headings(page):
    return [heading.split("\n")[0] for heading in page.locator("h1, h2").all_inner_texts()]


@pytest.mark.parametrize("n", [0, 60])
def test_a_challenger_that_has_learned_nothing_since_is_shown_at_once_and_after_a_reload(client, server, tab, n):
    model = taught(client, f"rivals-{n}", n)
    page = tab(server.url).open(f"models/{model}", "dl.facts")
    challenge(page, "softer", "0.1")
    table = page.get_by_role("group", name="Champion and challengers")
    table.get_by_role("row", name=re.compile("^softer")).wait_for()
    page.reload()
    table.get_by_role("row", name=re.compile("^softer")).wait_for()


def test_what_comes_and_goes_leaves_every_card_in_its_place(client, server, tab):
    """A job is shown between the figures and the charts for as long as it goes on."""
    model = taught(client, "ordered", 300)
    page = tab(server.url).open(f"models/{model}", ".chart canvas")
    before = headings(page)
    assert before[0] == model
    challenge(page, "rival")
    page.get_by_role("group", name="Champion and challengers").wait_for()
    eventually(lambda: not client.model(model)["jobs"])
    for k in range(3):
        client.wait(client.change_model(model, C=10.0 + k))
        client.learn(model, examples_of(heaps(5, ["ham", "spam"], seed=k), f"more{k}-"))
    client.wait(client.challenge(model, "other", C=3.0))
    page.get_by_role("row", name=re.compile("^other")).wait_for()
    page.wait_for_function("() => ![...document.querySelectorAll('h2')].some((h) => h.innerText === 'Under way')")
    live = headings(page)
    page.reload()
    page.wait_for_selector(".chart canvas")
    page.get_by_role("row", name=re.compile("^other")).wait_for()
    assert live == headings(page)
    assert [heading for heading in live if "challengers" not in heading] == before


def test_making_a_challenger_swaps_nothing_and_changing_the_model_does(client, server, tab):
    model = taught(client, "unswapped")
    client.wait(client.challenge(model, "softer", C=0.1))
    assert client.history(model)["marks"] == []
    page = tab(server.url).open(f"models/{model}", ".chart canvas")
    page.get_by_text("No drift, no finishing step, no change.").wait_for()
    client.wait(client.change_model(model, C=3.0))
    assert [mark["kind"] for mark in client.history(model)["marks"]] == ["swapped"]
    page.get_by_role("row", name=re.compile("swapped")).wait_for()


@pytest.mark.parametrize("wrong", ["two words", "-a", "a/b", "ä"])
def test_a_name_that_is_none_is_refused_where_it_is_typed(client, server, tab, tmp_path, wrong):
    model = taught(client, f"named-{next(NUMBERS)}")
    one = tab(server.url)
    page = one.open(f"models/{model}", ".chart canvas")
    challenge(page, wrong)
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
    page.get_by_label("named").fill(wrong)
    page.get_by_role("button", name="Send the rows").click()
    assert page.get_by_label("named").evaluate("field => field.validity.patternMismatch")
    assert "PUT" not in asked
