"""The page shows what the server made of each column, as the route tells it."""

import pytest

from tests.helpers.browser import barriers


@pytest.fixture(scope="module")
def shops(client):
    client.create_model("shops", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 60})
    rows = [
        {"x": {"shop": "abc"[k % 3], "amount": k % 7, "<b>member</b>": k % 2 == 0, "receipt": f"r{k}"}, "y": k % 3 == 0}
        for k in range(90)
    ]
    client.learn("shops", rows)
    return "shops"


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_columns_are_listed_with_kinds_values_and_effects(client, server, tab, shops, width, scheme):
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    one.open(f"models/{shops}", ".chart canvas")
    page = one.unfold("Columns")
    table = page.get_by_role("group", name="Columns")

    def row_of(name):
        return table.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))

    row_of("shop").wait_for()
    told = {column["name"]: column for column in client.columns(shops)["columns"]}
    assert set(told) == {"shop", "amount", "<b>member</b>", "receipt"}
    for name, column in told.items():
        cells = row_of(name).get_by_role("cell").all_inner_texts()
        assert cells[2] == f"{100 * column['effect']:.1f} %"
        assert all(str(each["value"]).lower() in cells[1] for each in column["frequent"])
    assert "3 values" in row_of("shop").inner_text()
    assert "left out" in row_of("receipt").inner_text()
    effects = [float(text.removesuffix(" %")) for text in table.locator("tbody td:last-child").all_inner_texts()]
    assert effects == sorted(effects, reverse=True)
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_sparse_columns_have_no_names(client, server, tab):
    client.create_model("words", kernel={"type": "linear"}, features={"type": "sparse", "dim": 5})
    one = tab(server.url)
    one.open("models/words", ".plot")
    one.unfold("Columns").get_by_text("The columns of this model have no names").wait_for()
