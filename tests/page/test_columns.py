"""The page shows what the server made of each column, as the route tells it."""

import csv

import pytest

from tests.helpers.browser import barriers
from tests.helpers.server import eventually


@pytest.fixture(scope="module")
def shops(client):
    client.create_model("shops", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 60})
    rows = [
        {"x": {"shop": "abc"[k % 3], "amount": k % 7, "<b>member</b>": k % 2 == 0, "receipt": f"r{k}"}, "y": k % 3 == 0}
        for k in range(90)
    ]
    for k in (3, 50):
        rows[k]["x"]["rare"] = "yes"
    rows += [
        {"x": {"shop": "b", "amount": k % 5, "<b>member</b>": False, "receipt": f"t{k}"}, "y": k % 3 == 0}
        for k in range(9)
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
    assert set(told) == {"shop", "amount", "<b>member</b>", "receipt", "rare"}
    for name, column in told.items():
        cells = row_of(name).get_by_role("cell").all_inner_texts()
        assert cells[2] == ("\u2013" if column["missing"] is None else f"{100 * column['missing']:.0f} %")
        assert cells[3] == f"{100 * column['effect']:.1f} %"
        assert all(str(each["value"]).lower() in cells[1] for each in column["frequent"])
    assert "3 values" in row_of("shop").inner_text()
    assert "left out" in row_of("receipt").inner_text()
    advice = page.get_by_role("list", name="Columns to leave out").get_by_role("listitem").all_inner_texts()
    assert sorted(advice) == [
        f"Leave rare out of a new model: missing in {100 * told['rare']['missing']:.0f} % of the examples.",
        "Leave receipt out of a new model: nearly all its values differ.",
    ]
    effects = [float(text.removesuffix(" %")) for text in table.locator("tbody td:last-child").all_inner_texts()]
    assert effects == sorted(effects, reverse=True)
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_sparse_columns_have_no_names(client, server, tab):
    client.create_model("words", kernel={"type": "linear"}, features={"type": "sparse", "dim": 5})
    one = tab(server.url)
    one.open("models/words", ".plot")
    one.unfold("Columns").get_by_text("The columns of this model have no names").wait_for()


@pytest.fixture
def parcels(tmp_path):
    """Return a file whose columns are useful or not: numbers, postcodes, names, and gaps."""
    path = tmp_path / "parcels.csv"
    rows = [f"{k % 4},{80000 + k % 5},name {k},{'x' if k == 3 else ''},{'ab'[k % 2]}" for k in range(120)]
    path.write_text("weight,postcode,receiver,note,state\n" + "\n".join(rows) + "\n")
    return path


def preview_of(tab, server, path):
    page = tab(server.url, viewport={"width": 400, "height": 800}).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    roles = page.locator(".preview select")
    return page, lambda: {
        box.get_attribute("aria-label").removeprefix("Role of column "): box.input_value() for box in roles.all()
    }


@pytest.mark.long
def test_a_column_that_was_left_out_comes_back_and_a_column_in_use_is_left_out(client, server, tab, parcels):
    page, roles = preview_of(tab, server, parcels)
    guessed = {"weight": "feature", "postcode": "feature", "receiver": "leave", "note": "leave", "state": "label"}
    assert roles() == guessed
    advice = page.get_by_role("list", name="Columns to leave out")
    assert advice.get_by_role("listitem").all_inner_texts() == [
        '"receiver" has another text in nearly every row, so it is left out. Use receiver It is the id',
        '"note" is missing in 99 % of the rows, so it is left out. Use note',
    ]
    assert barriers(page) == []
    page.get_by_role("button", name="Use receiver").click()
    page.get_by_role("button", name="Use note").click()
    page.get_by_role("button", name="Leave out note").click()
    page.get_by_label("Role of column postcode", exact=True).select_option("category")
    page.get_by_label("Role of column weight", exact=True).select_option("leave")
    assert roles() == guessed | {"receiver": "category", "postcode": "category", "weight": "leave"}
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("120 learned").wait_for()
    (first,) = client.examples("parcels", n=1)["examples"]
    assert client.example("parcels", first["id"])["x"] == {"postcode": "80000", "receiver": "name 0"}
    kinds = {column["name"]: column["kinds"] for column in client.columns("parcels")["columns"]}
    assert kinds == {"postcode": ["category"], "receiver": ["category"]}


def test_a_column_whose_texts_all_differ_becomes_the_id_with_a_click(client, server, tab, parcels):
    page, roles = preview_of(tab, server, parcels)
    page.get_by_label("Name", exact=True).fill("named")
    page.get_by_role("button", name="It is the id").click()
    assert roles()["receiver"] == "id"
    assert page.get_by_role("button", name="It is the id").count() == 0
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("120 learned").wait_for()
    assert "name 0" in {example["id"] for example in client.every_example("named")}


def test_a_column_that_a_model_knows_is_not_left_out(client, server, tab, parcels):
    columns = {"receiver": {"type": "category"}}
    client.create_model(
        "knowing", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 9, "columns": columns}
    )
    client.learn("knowing", [{"x": {"receiver": f"name {k % 2}", "weight": k}, "y": k % 2} for k in range(20)])
    page, roles = preview_of(tab, server, parcels)
    page.get_by_label("Model", exact=True).select_option("knowing")
    page.get_by_role("button", name="Leave out receiver").wait_for()
    assert roles()["receiver"] == "feature"


@pytest.mark.parametrize("form", ["text", "named"])
def test_texts_that_a_model_has_learned_are_predicted_even_if_they_all_differ(client, server, tab, tmp_path, form):
    """A model of texts alone takes the column of texts, and no other."""
    said = [f"{('cheap offer', 'good meal')[k % 2]} {k}" for k in range(140)]
    columns = {"columns": {"words": {"type": "text"}}} if form == "named" else {}
    name = f"texts-{form}"
    client.create_model(name, kernel={"type": "linear"}, C=1, features={"type": form, "warmup": 20, **columns})
    xs = [{"n": k % 9, "words": text} if form == "named" else text for k, text in enumerate(said)]
    client.learn(name, [{"x": x, "y": "ab"[k % 2]} for k, x in enumerate(xs[:80])])
    path = tmp_path / "more.csv"
    path.write_text("n,words\n" + "".join(f"{k % 9},{text}\n" for k, text in enumerate(said[80:], 80)))
    page, roles = preview_of(tab, server, path)
    assert roles() == {"n": "feature", "words": "leave"}
    page.get_by_label("Model", exact=True).select_option(name)
    used = {"n": "feature", "words": "feature"} if form == "named" else {"n": "leave", "words": "text"}
    eventually(lambda: page.wait_for_timeout(20) or roles() == used)
    page.get_by_role("button", name="Predict").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    results = client.predict(name, [{"x": x} for x in xs[80:]])["results"]
    assert [row["prediction"] for row in rows] == [result["prediction"] for result in results]


@pytest.mark.long
def test_nothing_warns_of_columns_that_the_chosen_model_never_used(client, server, tab, parcels):
    client.create_model("parcels-known", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 20})
    client.learn(
        "parcels-known", [{"x": {"weight": k % 4, "postcode": 80000 + k % 5}, "y": "ab"[k % 2]} for k in range(60)]
    )
    page, _ = preview_of(tab, server, parcels)
    left = page.get_by_role("list", name="Columns to leave out")
    left.get_by_text("receiver").first.wait_for()
    page.get_by_label("Model", exact=True).select_option("parcels-known")
    left.wait_for(state="detached")
    assert page.get_by_label("Role of column receiver").input_value() == "leave"
    page.get_by_text("The model does not use receiver, note.").wait_for()
    page.get_by_role("button", name="receiver is the id").click()
    page.get_by_text("The model does not use note.").wait_for()
    page.get_by_label("Model", exact=True).select_option("")
    left.get_by_text("note").first.wait_for()


@pytest.mark.long
def test_the_page_says_that_it_knows_only_the_first_columns(client, server, tab, tmp_path):
    client.create_model("broad", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 20})
    client.learn("broad", [{"x": {f"c{i}": (k + i) % 7 for i in range(130)}, "y": "ab"[k % 2]} for k in range(30)])
    one = tab(server.url)
    one.open("models/broad", ".chart canvas")
    one.unfold("Columns").get_by_text("These are the first 100 of 130 columns.").wait_for()
    path = tmp_path / "broad.csv"
    path.write_text("c1,way\n1,a\n2,b\n3,a\n4,b\n")
    page, _ = preview_of(tab, server, path)
    page.get_by_label("Model", exact=True).select_option("broad")
    page.get_by_text("broad has 130 columns. The page knows the first 100: check the roles").wait_for()
