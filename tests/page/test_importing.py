"""Suspects and imported files on the page. Hostile strings in the data must do nothing."""

import csv
import itertools
import json
import re

import pytest
from playwright.sync_api import expect

from hinged import Client
from tests.helpers.browser import barriers
from tests.helpers.command import hinged
from tests.helpers.examples import examples_of, heaps
from tests.helpers.payments import BODY, stream
from tests.helpers.server import RunningServer, eventually

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
NUMBERS = itertools.count()
CHARS = 1000  # length of the longest string that the server accepts
HOSTILE = (
    "<script>document.title = 'owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
    "\u202egnirts sdrawkcab", "'\"`${1}{{7*7}}", "javascript:document.title='owned'",
)  # fmt: skip


def doubtful(client):
    name = f"m{next(NUMBERS)}"
    client.create_model(name, kernel=KERNEL, C=1, features=FEATURES)
    client.learn(name, examples_of(heaps(60, ["ham", "spam"])))
    client.learn(name, [{"id": f"odd{k}", "x": [4.0 + k / 50, 0.1 * k], "y": "spam"} for k in range(3)])
    assert {s["id"] for s in client.suspects(name)["suspects"]} == {"odd0", "odd1", "odd2"}
    return name


@pytest.mark.long
def test_a_suspect_that_was_kept_corrected_or_forgotten_is_not_shown_again(client, server, tab):
    model = doubtful(client)
    page = tab(server.url).open(f"models/{model}/suspects", ".suspect")
    page.get_by_role("article", name="odd0").get_by_role("button", name=re.compile("Keep")).click()
    page.get_by_role("article", name="odd0").wait_for(state="detached")
    page.get_by_role("article", name="odd1").get_by_role("button", name="Change to ham").click()
    page.get_by_role("article", name="odd1").wait_for(state="detached")
    page.get_by_role("article", name="odd2").get_by_role("button", name="Forget example").click()
    page.get_by_text("No label looks wrong").wait_for()
    eventually(lambda: not client.model(model)["jobs"])
    assert client.example(model, "odd0")["label"] == "spam"
    assert client.example(model, "odd1")["label"] == "ham"
    assert client.suspects(model)["suspects"] == []


def test_a_kept_label_stays_kept_after_a_restart(tmp_path):
    with RunningServer(tmp_path / "data") as server, Client(server.url) as client:
        model = doubtful(client)
        answer = client.correct(model, "odd0", "spam")
        assert "job" not in answer
        position = client.model(model)["position"]
        client.correct(model, "odd0", "spam")  # again: nothing happens
        assert client.model(model)["position"] == position
        server.kill()
        server.start()
        assert {s["id"] for s in client.suspects(model)["suspects"]} == {"odd1", "odd2"}
        client.wait(client.correct(model, "odd0", "ham"))
        assert client.example(model, "odd0")["label"] == "ham"


@pytest.mark.long
def test_suspects_have_keys_and_a_correction_is_undone(client, server, tab):
    model = doubtful(client)
    one = tab(server.url)
    page = one.open(f"models/{model}/suspects", ".suspect")
    main = page.get_by_role("main")
    active = page.locator(".suspect[aria-current]")

    def other_than(*names):
        """Return the active suspect, once it has none of these names. Each correction may change the order."""
        at = [""]

        def found():
            at[0] = (active.get_attribute("aria-label") or "").removeprefix("Suspect ") if active.count() else ""
            return at[0] and at[0] not in names

        eventually(found)
        return at[0]

    first = other_than()
    page.keyboard.press("c")
    main.get_by_text(f"{first} gets the label ham").wait_for()
    other_than(first)
    eventually(lambda: client.example(model, first)["label"] == "ham")
    page.keyboard.press("u")
    one.hears(f"{first} has the label spam again")
    eventually(lambda: other_than() == first)
    eventually(lambda: client.example(model, first)["label"] == "spam")
    assert barriers(page) == []
    page.keyboard.press("n")
    second = other_than(first)
    page.keyboard.press("k")
    main.get_by_text(f"{second} keeps the label spam").wait_for()
    third = other_than(first, second)
    page.keyboard.press("p")
    eventually(lambda: other_than() == first)
    page.keyboard.press("o")
    page.keyboard.type("ku")  # in the field, the keys are letters
    page.keyboard.press("Enter")
    main.get_by_text(f"{first} gets the label ku").wait_for()
    eventually(lambda: not client.model(model)["jobs"])
    assert [client.example(model, k)["label"] for k in (first, second, third)] == ["ku", "spam", "spam"]
    page.get_by_role("article", name=third).get_by_role("button", name="Forget example").click()
    page.get_by_text("No label looks wrong").wait_for()
    assert page.get_by_role("button", name="Undo").count() == 0  # nothing brings back what was forgotten
    page.keyboard.press("u")
    page.keyboard.press("c")
    eventually(lambda: client.suspects(model)["suspects"] == [])


@pytest.mark.parametrize("touch", [True, False])
def test_keys_are_shown_only_where_there_may_be_a_keyboard(client, server, tab, touch):
    model = doubtful(client)
    client.offer(model, [{"id": "c", "x": [1, 1]}])
    one = tab(server.url, has_touch=touch, is_mobile=touch, viewport={"width": 400, "height": 800})
    page = one.open(f"models/{model}/suspects", ".suspect")
    assert page.get_by_text("Keys: next").is_visible() is not touch
    page = one.label(model, "ann")
    assert page.locator(".question kbd").first.is_visible() is not touch


def test_forget_is_quieter_than_each_other_button_of_a_suspect(client, server, tab):
    page = tab(server.url).open(f"models/{doubtful(client)}/suspects", ".suspect")
    buttons = page.get_by_role("article", name="odd0").get_by_role("button")
    looks = buttons.evaluate_all(
        "all => all.map((b) => [b.innerText, getComputedStyle(b).borderColor, getComputedStyle(b).color])"
    )
    (*others, forget) = looks
    assert forget[0] == "Forget example"
    assert len({tuple(look[1:]) for look in others}) == 1  # the page prefers no answer
    soft = page.locator("p.soft").first.evaluate("p => getComputedStyle(p).color")
    assert forget[1:] == ["rgba(0, 0, 0, 0)", soft]


@pytest.fixture
def table(tmp_path):
    """Returns the path of a CSV of 450 rows. It has a header, quotes, empty labels, a short row and a repeated id."""
    path = tmp_path / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "length", "note", "kind"])
        for k in range(450):
            kind = "" if k % 90 == 0 else "rose" if k % 2 else "lily"
            writer.writerow([f"f{k}", 2.5 if k % 2 else 1.0, 'red, "dark"\nand more' if k % 3 else "blue", kind])
        writer.writerow(["short"])
        writer.writerow(["f1", "9", "other", "rose"])
    return path


@pytest.mark.long
def test_a_table_becomes_a_model_in_the_background_and_a_second_import_adds_nothing(client, server, tab, table):
    one = tab(server.url)
    page = one.open("data", ".drop")
    page.set_input_files("input[type=file]", table)
    page.wait_for_selector(".preview")
    assert page.get_by_label("Role of column id", exact=True).input_value() == "id"
    assert page.get_by_label("Role of column kind", exact=True).input_value() == "label"
    assert page.get_by_label("Role of column length", exact=True).input_value() == "feature"
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("445 learned, 5 to the pool").wait_for()
    page.get_by_text("2 refused").wait_for()
    page.get_by_text("Show the refused rows").click()
    refused = page.get_by_role("group", name="Refused rows").inner_text()
    assert "expected 4 cells, got 1" in refused
    assert "was learned with another x or y" in refused
    figures = client.model("flowers")
    assert (figures["examples"], figures["pool"]["size"]) == (445, 5)
    assert figures["configuration"]["features"]["type"] == "named"
    assert client.example("flowers", "f1")["x"] == {"length": 2.5, "note": 'red, "dark"\nand more'}
    page.set_input_files("input[type=file]", table)
    page.wait_for_selector(".preview")
    page.get_by_label("Model", exact=True).select_option("flowers")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("450 already there").wait_for()
    assert client.model("flowers")["examples"] == 445


def test_a_click_on_a_narrow_phone_says_that_the_guessed_label_is_none(client, server, tab, tmp_path):
    path = tmp_path / "unlabelled.csv"
    path.write_text("size,country\n" + "".join(f"{k},{'de' if k % 3 else 'fr'}\n" for k in range(30)))
    page = tab(server.url, viewport={"width": 320, "height": 700}).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.get_by_text("The label is country: de, fr.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    assert barriers(page) == []
    page.get_by_role("button", name="It is no label").click()
    page.get_by_role("button", name="Send the rows to the pool").click()
    page.get_by_role("link", name="Label 30 questions").wait_for()
    assert client.model("unlabelled")["examples"] == 0


def test_without_a_label_all_rows_go_to_the_pool_and_columns_are_left_out(client, server, tab, tmp_path):
    path = tmp_path / "plain.jsonl"
    path.write_text("".join(json.dumps({"a": k, "b": f"t{k % 3}", "secret": "s"}) + "\n" for k in range(30)) + "no\n")
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    page.get_by_label("Role of column b", exact=True).select_option("feature")
    page.get_by_label("Role of column secret", exact=True).select_option("leave")
    page.get_by_text("No column is the label").wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("30 to the pool").wait_for()
    page.get_by_role("list", name="Next steps").get_by_role("link").first.get_by_text("Label 30 questions").wait_for()
    page.get_by_text("1 refused").wait_for()
    candidates = client.candidates("plain", n=5)
    assert candidates["size"] == 30
    assert client.example("plain", candidates["candidates"][0]["id"])["x"] == {"a": 0.0, "b": "t0"}


@pytest.mark.long
def test_a_libsvm_file_becomes_a_sparse_model_and_predictions_come_back_as_a_csv(client, server, tab, tmp_path):
    path = tmp_path / "sparse.libsvm"
    path.write_text("".join(f"{'+1' if k % 2 else '-1'} {1 + k % 2}:1 {3 + k % 5}:0.5 # {k}\n" for k in range(60)))
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("60 learned").wait_for()
    figures = client.model("sparse")
    features = figures["configuration"]["features"]
    assert (features["type"], features["dim"], features["scale"]) == ("sparse", 8, "auto")
    assert figures["classes"] == [-1, 1]  # a browser that takes them for keys of an object would turn them round
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    page.get_by_label("Model", exact=True).select_option("sparse")
    page.get_by_role("button", name="Predict").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    chances = [f"probability of {label}" for label in figures["classes"]]
    assert [*rows[0]] == ["label", "features", "prediction", "probability", *chances, "outside"]
    assert rows[0]["features"] == "1:1 3:0.5"
    assert [int(row["prediction"]) for row in rows] == [int(row["label"]) for row in rows]
    assert [row["prediction"] for row in rows] == ["1" if k % 2 else "-1" for k in range(60)]
    assert [row["outside"] for row in rows] == [""] * 60


WHAT_FLEW = [("the kite and the crow flew high up", "bird"), ("a jet with two engines took off", "plane")]


@pytest.mark.long
def test_a_column_of_sentences_becomes_a_model_of_texts(client, server, tab, tmp_path):
    path = tmp_path / "flights.csv"
    rows = [(f"t{k}", f"{WHAT_FLEW[k % 2][0]} on day {k}", WHAT_FLEW[k % 2][1]) for k in range(60)]
    path.write_text("id,said,what\n" + "".join(",".join(row) + "\n" for row in rows))
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    assert page.get_by_label("Role of column said", exact=True).input_value() == "text"
    assert page.get_by_label("Role of column what", exact=True).input_value() == "label"
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("60 learned").wait_for()
    configuration = client.model("flights")["configuration"]
    assert (configuration["features"]["type"], configuration["kernel"]["type"]) == ("text", "linear")
    assert client.example("flights", "t7")["x"] == rows[7][1]
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    page.get_by_label("Model", exact=True).select_option("flights")
    page.locator("button:enabled", has_text="Predict").wait_for()  # the model has told which columns it knows
    page.get_by_label("Role of column id", exact=True).select_option("feature")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("flights takes one column of text; 2 columns are chosen").wait_for()
    page.get_by_label("Role of column id", exact=True).select_option("id")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("60 predictions").wait_for()


def test_texts_beside_other_columns_are_named_features(client, server, tab, tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text(
        "".join(
            json.dumps({"age": k, "note": f"{WHAT_FLEW[k % 2][0]} on day {k}", "more": f"and then came number {k}"})
            + "\n"
            for k in range(40)
        )
    )
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    assert page.get_by_label("Role of column age", exact=True).locator("option").all_inner_texts() == [
        "feature", "category", "label", "id", "leave out",
    ]  # fmt: skip
    page.get_by_label("Role of column more", exact=True).select_option("feature")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("40 to the pool").wait_for()
    features = client.model("notes")["configuration"]["features"]
    assert (features["type"], features["columns"]) == ("named", {"note": {"type": "text"}})


@pytest.mark.long
def test_a_stopped_upload_resumes_where_it_stopped(client, server, tab, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a,b,label\n" + "".join(f"{k},{k % 7},{'x' if k % 2 else 'y'}\n" for k in range(1000)))
    page = tab(server.url).open("data", ".drop")
    asked = []

    def hold_the_third(route):
        asked.append(route)
        if len(asked) != 3:
            route.continue_()

    page.route("**/learn", hold_the_third)
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    page.get_by_role("button", name="Send the rows").click()
    eventually(lambda: page.wait_for_timeout(20) or len(asked) == 3)
    page.get_by_role("button", name="Stop").click()
    asked[2].continue_()
    page.get_by_role("button", name="Resume").wait_for()
    assert client.model("long")["examples"] == 300
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("1,000 learned").wait_for()
    assert client.model("long")["examples"] == 1000


@pytest.mark.long
def test_hostile_strings_are_shown_as_text(client, server, tab):
    model = f"m{next(NUMBERS)}"
    features, show = {"type": "named", "warmup": 0}, {"origins": ["https://ok.example"]}
    client.create_model(model, kernel={"type": "rbf", "gamma": 1.0}, features=features, show=show)
    links = {"good": "https://ok.example/a", "bad": "https://evil.example/a", "worse": "javascript:alert(1)"}
    # The server accepts no ids with direction marks.
    ids = [text.replace("\u202e", "") for text in HOSTILE]
    for k, text in enumerate(HOSTILE):
        client.learn(model, [{"id": f"{ids[k]}-{k}", "x": {text: text, "n": k}, "y": text}])
    client.offer(model, [{"id": ids[k], "x": {text: text, "n": 1.5, **links}} for k, text in enumerate(HOSTILE)])
    one = tab(server.url)
    page = one.open("", "table.models")
    one.open(f"models/{model}", ".chart canvas")
    one.unfold()
    page.wait_for_selector("table.confusion")
    page.wait_for_selector("pre")
    one.label(model, HOSTILE[0])
    seen = []
    for k in range(len(HOSTILE)):
        seen.append(page.locator(".question").inner_text())
        assert page.locator(".question a").count() == 1
        assert page.locator(".question a").get_attribute("href") == links["good"]
        assert page.locator(".question img, .question script").count() == 0
        page.keyboard.press("w")
        page.wait_for_selector("section[aria-label='Why this question'] .neighbours")
        page.keyboard.press(str(k + 1))
        one.until("was => document.querySelector('.question').innerText !== was", seen[-1])
    for text in HOSTILE:
        assert any(text in shown for shown in seen), text
    one.open(f"models/{model}/suspects", ".suspect, .empty")
    assert page.title() == f"{model}: hinged"


@pytest.mark.long
def test_long_strings_and_hundreds_of_numbers_do_not_overflow(client, server, tab, tmp_path):
    model = f"m{next(NUMBERS)}"
    client.create_model(model, kernel={"type": "rbf", "gamma": 1.0}, features={"type": "dense", "dim": 400})
    client.learn(model, [{"x": [k / 400] * 400, "y": "<b>" * 80 + str(k)} for k in range(2)])
    client.offer(model, [{"id": "i" * 256, "x": [0.5] * 400}])
    texts = f"m{next(NUMBERS)}"
    client.create_model(texts, kernel={"type": "rbf", "gamma": 1.0}, features={"type": "named", "warmup": 0})
    client.learn(texts, [{"x": {"text": "no"}, "y": "\u202eyes"}])
    client.offer(texts, [{"id": "t", "x": {"text": "<i>x" * (CHARS // 4)}}])
    one = tab(server.url, viewport={"width": 400, "height": 700})
    page = one.label(model, "a" * 200)
    page.get_by_text("200 more features").wait_for()
    assert page.locator(".answers b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page = tab(server.url, viewport={"width": 400, "height": 700}).label(texts, "ann")
    assert len(page.locator(".x.text").first.inner_text()) == CHARS
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    path = tmp_path / "cells.jsonl"
    path.write_text(json.dumps({"<b>name</b>": "<script>" + "x" * 10_000, "y": "a"}) + "\n")
    page.goto(f"{server.url}/ui#/data")
    page.set_input_files("input[type=file]", path)
    page.get_by_text("<script>x").wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("1 refused").wait_for()  # the server refuses a string of this length
    page.get_by_text("Show the refused rows").click()
    assert "1000" in page.get_by_role("group", name="Refused rows").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def brought(tab, server, path):
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    return page


@pytest.mark.long
def test_a_model_made_from_a_file_has_the_servers_default_configuration(client, server, tab, table, tmp_path):
    client.create_model("silent", kernel={"type": "rbf"}, features={"type": "named"})
    page = brought(tab, server, table)
    page.get_by_label("Name", exact=True).fill("by-the-page")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("445 learned, 5 to the pool").wait_for()
    made, silent = (client.model(name)["configuration"] for name in ("by-the-page", "silent"))
    assert made["solver"] == "auto"
    assert made | {"features": None} == silent | {"features": None}
    notes = "y,note\n" + "".join(f"{'ab'[k % 2]},so it is with us on day {k}\n" for k in range(40))
    for name, text in {"x.libsvm": "1 1:2\n-1 2:1\n" * 20, "notes.csv": notes}.items():
        (tmp_path / name).write_text(text)
        page = brought(tab, server, tmp_path / name)
        page.get_by_label("Name", exact=True).fill(f"by-{name}")
        page.get_by_role("button", name="Send the rows").click()
        page.get_by_text("40 learned").wait_for()
        assert client.model(f"by-{name}")["configuration"]["solver"] == "auto"


@pytest.mark.long
def test_the_preview_shows_the_type_of_each_column_and_the_upload_shows_the_servers_warnings(
    client, server, tab, tmp_path
):
    """Import days and times in every form that the server knows, together with columns of other texts."""
    forms = ["{0}", "{0}T07:30", "{0} 07:30:15", "{0}T07:30:15.25Z", "{0} 07:30+02:00", "{0}t07:30:15,5-0330"]
    path = tmp_path / "all.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["when", "day", "written", "price", "sum", "account", "kind"])
        for k in range(120):
            day = f"2026-{1 + k % 12:02}-{1 + k % 28:02}"
            when = forms[k % 6].format(day)
            price, total, account = f"{k},{k % 10}", f"1.{100 + k},5", f"customer no. {k}"
            writer.writerow([when, day, f"{1 + k % 28}.5.2026", price, total, account, "ab"[k % 2]])
    page = brought(tab, server, path)
    heads = page.locator(".preview thead th").all_inner_texts()
    assert [" ".join(head.split()) for head in heads] == [
        "when time", "day time", "written time", "price text", "sum text", "account text", "kind text",
    ]  # fmt: skip
    for name in ("price", "sum"):
        page.get_by_text(f'Numbers with a decimal comma in "{name}" are texts').wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("120 learned").wait_for()
    features = client.model("all")["features"]
    assert {field["name"] for field in features["fields"] if field.get("time")} == {"when", "day", "written"}
    assert len(features["warnings"]) >= 2
    warnings = page.get_by_role("list", name="Warnings")
    for warning in features["warnings"]:
        warnings.get_by_text(warning).wait_for()
    page.goto(f"{server.url}/ui#/models/all")
    for warning in features["warnings"]:
        page.get_by_text(warning).wait_for()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "rows.parquet",
            None,
            'it is Parquet, which the page does not read. In a terminal "hinged replay rows.parquet',
        ),
        ("rows.csv", None, "it is Parquet"),  # whatever the name of the file
        ("rows.arrow", b"ARROW1\0\0" + bytes(100), "it is Arrow"),
        ("rows.xlsx", b"PK\x03\x04" + bytes(100), "it is a ZIP archive or a spreadsheet"),
        ("rows.csv.gz", b"\x1f\x8b\x08" + bytes(100), "it is compressed with gzip"),
        ("rows.csv", "a,b\n1,2\n".encode("utf-16"), "it is not UTF-8 text; the page reads CSV, JSONL and LIBSVM"),
        ("rows.csv", bytes(range(256)) * 10, "it is not UTF-8 text"),
    ],
)
def test_a_binary_file_is_refused_with_the_command_that_reads_it(server, tab, tmp_path, name, content, says):
    path = tmp_path / name
    if content is None:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = pytest.importorskip("pyarrow").table({"a": [1.0, 2.0], "y": ["p", "q"]})
        parquet.write_table(table, path)
    else:
        path.write_bytes(content)
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.get_by_role("alert").filter(has_text=f"{name} cannot be read: {says}").wait_for()
    assert page.get_by_role("button", name="Send the rows").count() == 0


@pytest.mark.long
def test_predictions_name_columns_outside_of_what_was_learned(server, tab, tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("a,b,label\n" + "".join(f"{k % 10},{'uv'[k % 2]},{'xy'[k % 2]}\n" for k in range(60)))
    page = brought(tab, server, path)
    page.get_by_text("The label is label: x, y.").wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("60 learned").wait_for()
    path = tmp_path / "strange.csv"
    path.write_text("a,b\n3,u\n900,u\n3,w\n800,w\n")
    page = brought(tab, server, path)
    page.get_by_label("Role of column b", exact=True).select_option("feature")
    page.get_by_label("Model", exact=True).select_option("known")
    page.get_by_role("button", name="Predict").click()
    page.get_by_text("Outside of what the model has learned: a in 2 rows, b in 2 rows.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [row["outside"] for row in rows] == ["", "a", "b", "a, b"]


def predicted(page, model, button="Predict"):
    """Send the file in the preview to a model for predictions; return the saved file."""
    page.get_by_label("Model", exact=True).select_option(model)
    page.get_by_role("button", name=button).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    return download.value.path().read_bytes().decode()


@pytest.fixture(scope="module")
def spoken(client):
    """Return the name of a model that has costs and a promise, and has learned enough labels for both."""
    client.create_model(
        "spoken", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 20},
        promise={"error": 0.1}, costs={"x": {"y": 9}, "ask": 0.2},
    )  # fmt: skip
    client.learn("spoken", [{"x": {"a": (7 * k) % 100}, "y": "x" if (7 * k) % 100 < 50 else "y"} for k in range(300)])
    return "spoken"


def test_a_file_of_predictions_has_the_columns_and_rows_of_the_users_file(client, server, tab, tmp_path, spoken):
    path = tmp_path / "mine.csv"
    kept = [["7", "007", 'said; "so"\nthere', ""], ["93", "1e2", "", "x"], ["49", "", "äß", "old"]]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([["a", "code", "note", "prediction"], *kept, ["short"]])
    page = brought(tab, server, path)
    for name in ("code", "note", "prediction"):
        page.get_by_label(f"Role of column {name}", exact=True).select_option("leave")
    page.get_by_label("Role of column a", exact=True).select_option("feature")
    found = predicted(page, spoken)
    head, *rows = csv.reader(found.splitlines(keepends=True), delimiter=";")
    chances = ["probability of x", "probability of y"]
    assert head == ["a", "code", "note", "prediction", "prediction 2", "probability", *chances, "set", "outside"]
    results = client.predict(spoken, [{"x": {"a": float(row[0])}} for row in kept])["results"]
    assert [row[:4] for row in rows] == kept
    assert [row[4] for row in rows] == [result["prediction"] for result in results]
    assert [float(row[5]) for row in rows] == [result["probability"] for result in results]
    assert [json.loads(row[8]) for row in rows] == [result["set"] for result in results]


@pytest.fixture(scope="module")
def numbered(client, spoken):
    """Return the name of a model with costs and a promise, whose classes look like numbers: it learned 7 before 2."""
    features, costs = client.model(spoken)["configuration"]["features"], {"2": {"7": 9}, "ask": 0.2}
    client.create_model("numbered", C=1, features=features, promise={"error": 0.1}, costs=costs)
    labels = [7, 2, "007"]
    client.learn("numbered", [{"x": {"a": k}, "y": labels[k // 34]} for k in [*range(0, 100, 7)] * 20])
    return "numbered"


def table_of(text):
    """Return the cells of a CSV file. Numbers are read, because programs write them in different ways."""

    def cell(text):
        try:
            return float(text)
        except ValueError:
            return text

    return [[cell(text) for text in row] for row in csv.reader(text.splitlines(), delimiter=";")]


@pytest.mark.parametrize(("way", "option"), [("Predict", []), ("Decide", ["--decide"])])
def test_the_command_line_writes_the_same_file_as_the_page(server, tab, tmp_path, numbered, way, option):
    path = tmp_path / "both.csv"
    values = (2, 48, 50.5, 51, 98, 900)
    path.write_text("key;a;prediction\n" + "".join(f'k{a};{a};"said ""so"""\n' for a in values))
    page = brought(tab, server, path)
    page.get_by_label("Role of column key", exact=True).select_option("id")
    page.get_by_label("Role of column prediction", exact=True).select_option("leave")
    shown = table_of(predicted(page, numbered, way))
    roles = ["--id", "key", "--drop", "prediction"]
    said = hinged("predict", numbered, path, *roles, "--csv", "--batch", 2, *option, "--url", server.url).stdout
    assert table_of(said) == shown
    head, *rows = shown
    assert head[:3] == ["key", "a", "prediction"]
    chances = [f"probability of {name}" for name in ("7", "2", '"007"')]
    assert [name for name in head if name.startswith("probability of")] == chances
    assert len(rows) == len(values)
    assert {"set", "rank" if option else "prediction 2"} <= {*head}


def test_a_row_that_the_server_refuses_keeps_its_place_in_the_file_of_predictions(server, tab, tmp_path, spoken):
    path = tmp_path / "mine.jsonl"
    rows = [{"a": 1}, {"a": "s" * (CHARS + 1)}, {"a": 99, "more": [1, None]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = brought(tab, server, path)
    page.get_by_label("Role of column more", exact=True).select_option("leave")
    found = list(csv.DictReader(predicted(page, spoken).splitlines()))
    assert [row["prediction"] for row in found] == ["x", "", "y"]
    assert [(row["a"], row["more"]) for row in found] == [("1", ""), ("s" * (CHARS + 1), ""), ("99", "[1,null]")]


def test_rows_are_sent_only_after_the_model_has_told_which_columns_are_its_features(client, server, tab, tmp_path):
    path = tmp_path / "ways.csv"
    path.write_text("amount,way\n" + "".join(f"{k % 9},{'web' if k % 2 else 'shop'}\n" for k in range(30)))
    client.create_model("ways", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 20})
    client.learn("ways", [{"x": {"amount": k % 9, "way": ("shop", "web")[k % 2]}, "y": k % 2} for k in range(60)])
    held = []
    page = brought(tab, server, path)
    page.route("**/models/ways", lambda route: held.append(route))  # noqa: PLW0108 (Playwright takes no builtin)
    page.get_by_label("Model", exact=True).select_option("ways")
    button, role = page.get_by_role("button", name="Predict", exact=True), page.get_by_label("Role of column way")
    eventually(lambda: page.wait_for_timeout(20) or held)
    expect(button).to_be_disabled()
    expect(role).to_be_disabled()
    held[0].continue_()
    page.unroute("**/models/ways")
    expect(role).to_have_value("feature")
    role.select_option("leave")
    page.get_by_label("Model", exact=True).select_option("")  # the choice stays, and the guess is made again
    expect(role).to_have_value("leave")
    role.select_option("label")
    page.get_by_label("Model", exact=True).select_option("ways")
    expect(button).to_be_enabled()
    expect(role).to_have_value("label")
    role.select_option("feature")
    button.click()
    page.get_by_text("0 in 15 rows, 1 in 15 rows").wait_for()


def test_the_name_of_a_model_that_is_there_makes_no_new_model(client, server, tab, tmp_path, spoken):
    path = tmp_path / f"{spoken}.csv"
    path.write_text("a,label\n" + "".join(f"{k},{'x' if k % 2 else 'y'}\n" for k in range(30)))
    before = client.model(spoken)["examples"]
    page = brought(tab, server, path)
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text(f"There is already a model {spoken}.").wait_for()
    page.get_by_label("Name", exact=True).fill("spoken-again")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("30 learned").wait_for()
    assert client.model(spoken)["examples"] == before


def test_decisions_come_back_as_a_file_and_questions_go_to_the_pool(client, server, tab, tmp_path, spoken):
    path = tmp_path / "due.csv"
    path.write_text("key,a\n" + "".join(f"k{a},{a}\n" for a in (2, 50, 98)))
    page = brought(tab, server, path)
    assert page.get_by_role("button", name="Decide").count() == 0
    page.get_by_label("Role of column key", exact=True).select_option("id")
    rows = list(csv.DictReader(predicted(page, spoken, "Decide").splitlines()))
    chances = ["probability of x", "probability of y"]
    assert [*rows[0]] == [
        "key", "a", "decision", "probability", *chances, "cost", "reason", "gain", "rank", "question", "set",
    ]  # fmt: skip
    answers = client.decide(spoken, [{"id": row["key"], "x": {"a": float(row["a"])}} for row in rows])["results"]
    assert [row["decision"] for row in rows] == [answer["decision"] for answer in answers]
    assert [row["reason"] for row in rows] == [answer["reason"] for answer in answers]
    asked = {answer["question"] for answer in answers if "question" in answer}
    assert asked
    gains = [answer.get("gain") for answer in answers]
    assert [row["gain"] and float(row["gain"]) for row in rows] == ["" if gain is None else gain for gain in gains]
    page.get_by_text(f"{len(asked)} of 3 rows").wait_for()
    assert {candidate["id"] for candidate in client.candidates(spoken)["candidates"]} == asked


@pytest.mark.long
@pytest.mark.parametrize("form", ["dense", "named"])
def test_examples_as_programs_send_them_are_learned_from_json_lines(client, server, tab, tmp_path, form):
    xs = [[k % 7, k % 2, 0.5] if form == "dense" else {"a": k % 7, "b": "uv"[k % 2]} for k in range(60)]
    lines = [json.dumps({"id": f"e{k}", "x": x, "y": "xy"[k % 2]}) + "\n" for k, x in enumerate(xs)]
    path = tmp_path / f"lines-{form}.jsonl"
    path.write_text("".join(lines))
    page = brought(tab, server, path)
    page.get_by_text("The label is y: x, y.").wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("60 learned").wait_for()
    assert client.model(f"lines-{form}")["configuration"]["features"]["type"] == form
    assert client.example(f"lines-{form}", "e3")["x"] == xs[3]
    client.learn(f"lines-{form}", {"id": "more", "x": xs[0], "y": "x"})  # programs send the same form
    path.write_text(json.dumps({"x": "a" * (CHARS + 1), "y": "x"}) + "\n")
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Name", exact=True).fill(f"refused-{form}")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("nothing sent, 1 refused (row 1: ").wait_for()


def test_the_rows_that_are_worth_a_look_are_ranked_over_the_whole_file(client, server, tab, tmp_path):
    """The capacity leaves few alerts of a file that comes at once; the ranks do not depend on it."""
    capacity = {"fraud": {"most": 5, "per": "1h"}}
    client.create_model("ranked", **BODY, costs={"fraud": {"ok": 50}, "ok": {"fraud": 10}}, capacity=capacity)
    client.learn_rows("ranked", *stream(600, share=0.2))
    path = tmp_path / "due.csv"
    X, _ = stream(250, seed=3, share=0.2)
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in X.tolist()))
    page = brought(tab, server, path)
    rows = list(csv.DictReader(predicted(page, "ranked", "Decide").splitlines()))
    best = sorted((row for row in rows if row["gain"]), key=lambda row: -float(row["gain"]))
    assert len(best) > 20 > sum(row["decision"] == "fraud" for row in rows)
    assert [int(row["rank"]) for row in best] == [*range(1, len(best) + 1)]
    page.get_by_text(f"{len(best)} of 250 rows are worth a look.").wait_for()
    alerts = client.model("ranked")["alerts"]["waiting"]
    page.get_by_role("link", name=f"Work off {alerts} alert").wait_for()
    assert float(best[0]["probability of fraud"]) > float(best[-1]["probability of fraud"])


def test_rows_of_which_no_person_must_see_any_are_ranked_by_the_expected_cost(client, server, tab, tmp_path):
    client.create_model("unranked", **BODY, costs={"fraud": {"ok": 50}})
    client.learn_rows("unranked", *stream(300, share=0.2))
    path = tmp_path / "due.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in stream(40, seed=3)[0].tolist()))
    page = brought(tab, server, path)
    page.get_by_label("Model", exact=True).select_option("unranked")
    page.get_by_text("No column is the label. Decide about the rows").wait_for()
    rows = list(csv.DictReader(predicted(page, "unranked", "Decide").splitlines()))
    ranked = sorted(rows, key=lambda row: -float(row["cost"]))
    assert [int(row["rank"]) for row in ranked] == [*range(1, 41)]
    assert {row["gain"] for row in rows} == {""}
    said = hinged("predict", "unranked", path, "--csv", "--decide", "--url", server.url).stdout
    assert [row["rank"] for row in csv.DictReader(said.splitlines())] == [row["rank"] for row in rows]
    page.get_by_text("No row needs a person's look. Sort the saved file by rank").get_by_role(
        "link", name="capacity"
    ).click()
    page.get_by_role("dialog", name="Change capacity").wait_for()


def test_a_refused_question_is_no_reason_to_refuse_another_row(client, server, tab, tmp_path, spoken):
    path = tmp_path / "again.csv"
    path.write_text("key,a\nr2,2\nr50,50\nr98,98\n")
    client.offer(spoken, [{"id": "r50", "x": {"a": 1.0}}])
    page = brought(tab, server, path)
    page.get_by_label("Role of column key", exact=True).select_option("id")
    rows = list(csv.DictReader(predicted(page, spoken, "Decide").splitlines()))
    assert [row["decision"] for row in rows] == ["x", "", "y"]
    page.get_by_text("1 refused").wait_for()
