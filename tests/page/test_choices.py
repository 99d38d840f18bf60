"""How a file is read can be seen and changed on the page: separator, missing texts, refused rows."""

import json

import pytest

from hinged.readers import open_source
from hinged.readers.bad_rows import SkippedRows
from hinged.readers.table import TableColumns
from tests.helpers.browser import barriers
from tests.helpers.server import eventually

pytestmark = pytest.mark.long


def chosen(tab, server, path):
    one = tab(server.url)
    page = one.open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    return page


def heads(page):
    return page.locator(".preview thead th bdi").all_inner_texts()


def test_the_separator_is_shown_and_can_be_changed(server, tab, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b|c;y\n" + "".join(f"{k};{k}|2;{'uv'[k % 2]}\n" for k in range(20)))
    page = chosen(tab, server, path)
    separator = page.get_by_label("Separator")
    assert (heads(page), separator.input_value()) == (["a", "b|c", "y"], ";")
    page.get_by_text("The label is y:").wait_for()
    separator.select_option("|")
    eventually(lambda: heads(page) == ["a;b", "c;y"])
    assert separator.input_value() == "|"
    separator.select_option(",")
    eventually(lambda: heads(page) == ["a;b|c;y"])
    separator.select_option(";")
    eventually(lambda: heads(page) == ["a", "b|c", "y"])
    assert barriers(page) == []


def test_the_texts_that_count_as_missing_can_be_changed_and_roles_stay(client, server, tab, tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("a,b,y\n" + "".join(f"{'?' if k % 4 == 0 else k},{k % 5},{'uv'[k % 2]}\n" for k in range(40)))
    page = chosen(tab, server, path)
    kind = page.locator(".preview thead th").first
    assert "text" in kind.inner_text()
    page.get_by_label("Role of column b").select_option("leave")
    page.get_by_label("Texts that count as missing").fill("NA, ?")
    page.get_by_label("Texts that count as missing").press("Tab")
    eventually(lambda: "number" in kind.inner_text())
    assert page.get_by_label("Role of column b").input_value() == "leave"
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("40 learned").wait_for()
    rows = client.examples("gaps", n=100, x=True)["examples"]
    expected = open_source(path, choice=TableColumns("y", drop=("b",), named=True, missing=frozenset(["", "NA", "?"])))
    assert [row["x"] for row in rows] == [row.x for row in expected]


def ragged(folder, name):
    """Return a file whose rows 101 and 160 are too short."""
    path = folder / f"{name}.csv"
    lines = [f"{k % 7},{k % 5},{'uv'[k % 2]}" for k in range(200)]
    lines[100] = lines[159] = "1,2"
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    return path


def test_refused_rows_go_into_a_file_like_that_of_the_commands(server, tab, tmp_path):
    path = ragged(tmp_path, "aside")
    page = chosen(tab, server, path)
    page.get_by_text("2 rows of the first 200 cannot be read. Row 102: expected 3 cells, got 2.").wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("198 learned").wait_for()
    page.get_by_text("2 refused").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the refused rows").click()
    assert download.value.suggested_filename == "aside-refused.jsonl"
    found = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    with (tmp_path / "bad.jsonl").open("w+") as file:
        list(open_source(path, choice=TableColumns("y", named=True), bad_rows=SkippedRows(file)))
        file.seek(0)
        bad = [json.loads(line) for line in file]
    assert [row["row"] for row in found] == [row["row"] for row in bad] == [["1", "2"]] * 2
    assert [row["number"] for row in found] == [row["line"] for row in bad] == [102, 161]


def test_a_refused_row_stops_the_upload_if_the_user_says_so(client, server, tab, tmp_path):
    path = ragged(tmp_path, "stopped")
    page = chosen(tab, server, path)
    page.get_by_label("Refused rows").select_option("stop")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("row 102: expected 3 cells, got 2. Mend the file").wait_for()
    assert client.model("stopped")["examples"] == 100
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("198 learned").wait_for()
    page.get_by_text("2 refused").wait_for()
    assert client.model("stopped")["examples"] == 198
