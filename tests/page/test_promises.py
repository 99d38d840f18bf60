"""The page shows what a model has promised, what came of the promise, and the sets of labels."""

import re

import numpy as np
import pytest

from tests.helpers.browser import barriers


@pytest.fixture(scope="module")
def promised(client):
    """Return the name of a model that has promised a rate for each class, and has learned enough labels."""
    features = {"type": "named", "warmup": 20}
    promise = {"error": {"fraud": 0.1, "ok": 0.05}}
    client.create_model("promised", kernel={"type": "rbf"}, C=1, features=features, promise=promise)
    rng = np.random.default_rng(0)
    a, noise = rng.normal(size=600), rng.normal(size=600)
    rows = zip(a.tolist(), (a + 0.5 * noise > 0).tolist(), strict=True)
    client.learn("promised", [{"x": {"a": value}, "y": "fraud" if fraud else "ok"} for value, fraud in rows])
    assert client.model("promised")["metrics"]["promise"]["lacking"] == 0
    return "promised"


def share(value):
    return f"{100 * value:.1f} %"


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_the_view_of_decisions_shows_coverage_beside_the_promise(client, server, tab, promised, width, scheme):
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = one.open(f"models/{promised}/decide", ".chart canvas")
    table = page.get_by_role("group", name="Coverage of the promise")
    figures = client.model(promised)["metrics"]["promise"]
    assert "promised" not in figures
    for name, row in {"all": figures, **figures["classes"]}.items():
        cells = table.get_by_role("row", name=re.compile(f"^{name}")).get_by_role("cell").all_inner_texts()
        window = row["window"]
        assert cells[0] == (share(row["promised"]) if "promised" in row else "\u2013")
        assert cells[1].startswith(share(window["coverage"]))
        assert cells[2] == share(row["all"]["coverage"])
        assert float(cells[3]) == pytest.approx(window["size"], rel=1e-3)
        assert cells[4] == str(window["examples"])
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_before_enough_labels_the_page_says_how_many_must_still_come(client, server, tab):
    client.create_model("early", kernel={"type": "rbf"}, features={"type": "dense", "dim": 1}, promise={"error": 0.02})
    one = tab(server.url)
    page = one.open("models/early", ".plot")
    lacking = client.model("early")["metrics"]["promise"]["lacking"]
    page.get_by_text(f"{lacking} more labels must come until everything is promised").wait_for()
    one.open("models/early/decide", "section table")
    assert page.get_by_role("row", name=re.compile("^all")).get_by_role("cell").first.inner_text() == "98.0 %"


def test_a_model_without_a_promise_has_no_card_of_it(client, server, tab):
    client.create_model("silent", kernel={"type": "rbf"}, features={"type": "dense", "dim": 1})
    page = tab(server.url).open("models/silent/decide")
    page.get_by_text("Decisions begin when the model knows two classes.").wait_for()
    assert page.get_by_role("heading", name="Promise").count() == 0


@pytest.mark.long
def test_the_reason_for_a_question_has_the_set_of_labels(client, server, tab, promised):
    xs = [{"a": k / 50} for k in range(-50, 51)]
    sets = [result["set"] for result in client.predict(promised, [{"x": x} for x in xs])["results"]]
    x = next(x for x, labels in zip(xs, sets, strict=True) if len(labels) == 2)
    client.offer(promised, [{"id": "c", "x": x}])
    page = tab(server.url).label(promised, "ann")
    page.keyboard.press("w")
    why = page.get_by_role("region", name="Why this question")
    why.get_by_text(f"With the promise, the label is among: {', '.join(sets[xs.index(x)])}.").wait_for()
    assert barriers(page) == []
