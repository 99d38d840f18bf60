"""Dates with the day or the month first: the page and the command line read every file alike."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hinged.readers import TableColumns, open_source
from hinged.readers.dates import CHOICES, DAY_FIRST, MONTH_FIRST, ORDERS, iso
from tests.helpers.browser import barriers
from tests.helpers.command import hinged

FORMS = {DAY_FIRST: "%d{0}%m{0}%Y", MONTH_FIRST: "%m{0}%d{0}%Y"}
DATES = st.dates(dt.date(1000, 1, 1), dt.date(9999, 12, 31))
FILES = {
    "a day above 12": "when;y\n31.12.2025;u\n1.2.2026;v\n",
    "a month first": "when;y\n12/31/2025;u\n1/2/2026;v\n",
    "both orders fit": "when;y\n01.02.2026;u\n03-04-2026;v\n",
    "one column decides for another": "born;when;y\n1.2.2026;13.1.2026;u\n2.3.2026;;v\n",
    "columns contradict each other": "born;when;y\n1/13/2026;13/1/2026;u\n2/3/2026;NA;v\n",
    "times": "when;y\n31.12.2025 7:30;u\n1.2.2026, 17:30:15,5;v\n2.2.2026T00:00Z;u\n3.2.2026 00:00+02:00;v\n",
    "one text is no date": "when;y\n31.12.2025;u\n1.2.2026;v\nsoon;u\n",
    "no such day": "when;y\n31.11.2025;u\n1.2.2026;v\n",
    "a leap day": "when;y\n29.2.2024;u\n29.2.2000;v\n",
    "no leap day": "when;y\n29.2.1900;u\n1.2.2026;v\n",
    "years of two digits": "when;y\n31.12.25;u\n1.2.26;v\n",
    "dates in ISO 8601": "when;y\n2025-12-31;u\n2026-02-01;v\n",
    "mixed separators": "when;y\n31.12/2025;u\n1.2.2026;v\n",
    "decimal commas beside dates": "when;a;y\n31.12.2025;1,5;u\n1.2.2026;2;v\n",
    "JSON": '{"when": "31.12.2025", "y": "u"}\n{"when": null, "y": "v"}\n{"when": "1.2.2026", "y": "u"}\n',
    "JSON with numbers": '{"when": "31.12.2025", "y": "u"}\n{"when": 7, "y": "v"}\n',
}  # fmt: skip

READ = """async ([text, name, dates]) => {
  const { guess, open, readAs, recordOf } = await import("./ui/read.js");
  const source = await open(new File([text], name)), rows = [];
  for await (const [, row] of source.rows()) rows.push(row);
  const names = source.names ?? [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const roles = guess(names, rows, source).map((c) => ({ ...c, use: c.name === "y" ? "label" : "feature" }));
  const features = readAs(roles, source, { dates }).filter((c) => c.use === "feature");
  return rows.map((row) => recordOf(row, features));
}"""


@pytest.fixture(scope="module")
def page(browser, server):
    opened = browser.new_page()
    opened.goto(f"{server.url}/ui")
    yield opened
    opened.close()


def by_command(folder, title, dates):
    path = folder / name_of(title)
    path.write_text(FILES[title])
    return open_source(path, choice=TableColumns("y", named=True, dates=dates))


def name_of(title):
    return "rows.jsonl" if title.startswith("JSON") else "rows.csv"


@pytest.mark.parametrize("dates", [None, *CHOICES])
@pytest.mark.parametrize("title", FILES)
def test_the_page_reads_a_file_as_the_command_line_does(page, tmp_path, title, dates):
    rows = [example.x for example in by_command(tmp_path, title, dates)]
    assert page.evaluate(READ, [FILES[title], name_of(title), dates]) == rows


@pytest.mark.parametrize(
    ("title", "dates", "rows", "note"),
    [
        ("a day above 12", None, ["2025-12-31", "2026-02-01"], "read as dates with the day first"),
        ("a day above 12", DAY_FIRST, ["2025-12-31", "2026-02-01"], None),
        ("a day above 12", MONTH_FIRST, ["31.12.2025", "1.2.2026"], None),
        ("a day above 12", "text", ["31.12.2025", "1.2.2026"], None),
        ("a month first", None, ["2025-12-31", "2026-01-02"], "read as dates with the month first"),
        ("both orders fit", None, ["01.02.2026", "03-04-2026"], "--dates day-first or --dates month-first says"),
        ("both orders fit", DAY_FIRST, ["2026-02-01", "2026-04-03"], None),
        ("both orders fit", MONTH_FIRST, ["2026-01-02", "2026-03-04"], None),
        ("one column decides for another", None, ["2026-01-13", None], "columns 'born', 'when' read as dates"),
        ("columns contradict each other", None, ["13/1/2026", None], "read as texts, not as dates"),
        ("columns contradict each other", DAY_FIRST, ["2026-01-13", None], None),
        (
            "times", None,
            ["2025-12-31T07:30", "2026-02-01T17:30:15,5", "2026-02-02T00:00Z", "2026-02-03T00:00+02:00"], "day first",
        ),
        ("one text is no date", DAY_FIRST, ["31.12.2025", "1.2.2026", "soon"], None),
    ],
)  # fmt: skip
def test_a_file_decides_or_the_option_does(tmp_path, title, dates, rows, note):
    source = by_command(tmp_path, title, dates)
    assert [example.x.get("when") for example in source] == rows
    assert [note in each for each in source.notes] == ([True] if note else [])


@given(date=DATES, separator=st.sampled_from("./-"), order=st.sampled_from(ORDERS))
def test_a_written_date_is_read_in_its_order(date, separator, order):
    assert iso(date.strftime(FORMS[order].format(separator)), order) == date.isoformat()


def test_the_page_reads_each_date_as_the_command_line_does(page):
    """Test all pairs of a first and a second number in years with and without a leap day."""
    texts = [f"{a}.{b}.{year}" for a in range(33) for b in range(33) for year in (1600, 1900, 2023, 2024)]
    for order in ORDERS:
        found = page.evaluate(
            """async ([texts, order]) => {
              const { iso } = await import("./ui/dates.js");
              return texts.map((text) => iso(text, order));
            }""",
            [texts, order],
        )
        assert found == [iso(text, order) for text in texts]


@pytest.mark.long
@pytest.mark.parametrize(("choice", "learned"), [(DAY_FIRST, "2026-05-01"), (MONTH_FIRST, "2026-01-05")])
def test_the_choice_on_the_page_and_the_option_of_replay_teach_the_same(client, server, tab, tmp_path, choice, learned):
    path = tmp_path / "orders.csv"
    path.write_text("id,when,state\n" + "".join(f"o{k},0{1 + k % 9}.05.2026,{'ab'[k % 2]}\n" for k in range(60)))
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.get_by_text('Dates such as 01.05.2026 in "when" are texts. Choose which part is the day.').wait_for()
    assert page.get_by_label("Dates", exact=True).input_value() == "text"
    page.get_by_label("Dates", exact=True).select_option(choice)
    page.get_by_text(f'in "when" are read with the {choice.replace("-", " ")}').wait_for()
    assert barriers(page) == []
    page.get_by_label("Name", exact=True).fill(f"page-{choice}")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("60 learned").wait_for()
    options = ("--label", "state", "--id", "id", "--dates", choice, "--model", f"replay-{choice}", "--url", server.url)
    hinged("replay", path, *options)
    for k in range(60):
        by_page, by_replay = (client.example(f"{who}-{choice}", f"o{k}")["x"] for who in ("page", "replay"))
        assert by_page == by_replay
    assert client.example(f"page-{choice}", "o0")["x"] == {"when": learned}
    (column,) = client.columns(f"page-{choice}")["columns"]
    assert column["kinds"] == ["time"]


@pytest.mark.long
def test_predictions_and_questions_take_the_option_too(client, server, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("when\n01.05.2026\n02.05.2026\n")
    client.create_model("dated", kernel={"type": "rbf"}, C=1, features={"type": "named", "warmup": 20})
    rows = [{"x": {"when": f"2026-0{1 + k % 9}-1{k % 9}"}, "y": k % 9 > 4} for k in range(60)]
    client.learn("dated", rows)
    hinged("offer", "dated", path, "--dates", "day-first", "--url", server.url)
    candidates = client.candidates("dated")["candidates"]
    found = sorted(client.example("dated", each["id"])["x"]["when"] for each in candidates)
    assert found == ["2026-05-01", "2026-05-02"]
    said = {
        choice: hinged("predict", "dated", path, "--csv", "--dates", choice, "--url", server.url).stdout
        for choice in CHOICES
    }
    assert said["text"] != said["day-first"] != said["month-first"]


def test_decimals_can_be_chosen_on_the_page(server, tab, tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price;y\n" + "".join(f"{k},5;{'ab'[k % 2]}\n" for k in range(20)))
    page = tab(server.url).open("data", ".drop")
    page.set_input_files("input[type=file]", path)
    page.get_by_text('Numbers with a decimal comma in "price" are read as numbers').wait_for()
    page.get_by_label("Decimals", exact=True).select_option(".")
    page.get_by_text('Numbers with a decimal comma in "price" are texts').wait_for()
    page.get_by_label("Decimals", exact=True).select_option(",")
    page.get_by_text('Numbers with a decimal comma in "price" are read as numbers').wait_for()
