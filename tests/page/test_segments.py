"""The page shows the figures of each segment as the server has them."""

import numpy as np
import pytest

from tests.helpers.browser import barriers

COSTS = {"fraud": {"ok": 20}, "ok": {"fraud": 1}}


@pytest.fixture(scope="module")
def shops(client):
    random = np.random.default_rng(0)
    features = {"type": "named", "warmup": 20}
    client.create_model("segmented", features=features, costs=COSTS, segments=["<b>country</b>", "device"])
    amounts = random.normal(size=400).round(3).tolist()
    labels = ["fraud" if a > 1 else "ok" for a in amounts]
    xs = [{"amount": a, "<b>country</b>": f"c{k % 60}" if k > 200 else "DE"} for k, a in enumerate(amounts)]
    client.learn("segmented", [{"x": x, "y": y} for x, y in zip(xs, labels, strict=True)])
    return "segmented"


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_each_value_has_a_row_with_its_figures(client, server, tab, shops, width, scheme):
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    one.open(f"models/{shops}", ".chart canvas")
    page = one.unfold("Segments")
    table = page.get_by_role("group", name="Segments by <b>country</b>")
    table.locator("tbody tr").first.wait_for()
    told = client.model(shops)["metrics"]["segments"]["<b>country</b>"]
    rows = table.locator("tbody tr")
    assert rows.count() == 51
    for k, each in ((0, told["values"][0]), (49, told["values"][49]), (50, told["other"])):
        cells = rows.nth(k).get_by_role("cell").all_inner_texts()
        assert int(cells[0]) == each["examples"]
        assert float(cells[1].removesuffix(" %")) == pytest.approx(100 * each["accuracy"], abs=0.06)
        assert float(cells[2]) == pytest.approx(each["cost"], rel=0.01)
        precision = each["classes"]["fraud"]["precision"]
        assert cells[3] == "\u2013" if precision is None else cells[3] == f"{100 * precision:.1f} %"
    assert rows.nth(0).get_by_role("rowheader").inner_text() == "DE"
    assert rows.nth(50).get_by_role("rowheader").inner_text() == f"{told['other']['values']} other values"
    assert page.get_by_role("group", name="Segments by device").get_by_text("no value").is_visible()
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_without_segments_has_no_such_part(client, server, tab):
    client.create_model("unsegmented", features={"type": "dense", "dim": 2})
    page = tab(server.url).open("models/unsegmented", ".plot")
    assert page.locator("summary", has_text="By class").count() == 1
    assert page.locator("summary", has_text="Segments").count() == 0
