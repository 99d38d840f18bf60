"""Settings, conflicts and files are handled on the page without a line of JSON."""

import re
import signal
import threading
from contextlib import contextmanager

import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.browser import barriers
from tests.helpers.examples import examples_of, heaps
from tests.helpers.payments import stream
from tests.helpers.server import RunningServer, eventually

pytestmark = pytest.mark.long

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}


def change(page, name):
    """Open the dialog of a setting and return it."""
    page.get_by_role("button", name=f"Change {name}", exact=True).click()
    return page.get_by_role("dialog")


def test_each_kind_of_setting_has_a_field_that_fits(client, server, tab):
    client.create_model("set", kernel=KERNEL, C=1, features=FEATURES)
    client.learn("set", examples_of(heaps(60, ["ham", "spam"])))
    one = tab(server.url)
    one.open("models/set", ".standing")
    page = one.unfold("Settings")

    def saved(name, value):
        page.get_by_role("dialog").wait_for(state="detached")
        eventually(lambda: client.model("set", full=True)["configuration"][name] == value)
        page.get_by_role("row", name=name.replace("_", " ")).first.wait_for()

    dialog = change(page, "costs")
    dialog.get_by_role("group", name="true class ham").get_by_role("spinbutton").fill("50")
    dialog.get_by_role("spinbutton", name="ask").fill("2")
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("costs", {"ham": {"spam": 50}, "ask": 2})
    dialog = change(page, "capacity")
    limit = dialog.get_by_role("group", name="ask")
    limit.get_by_role("spinbutton", name="most").fill("40")
    limit.get_by_role("textbox", name="per").fill("1d")
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("capacity", {"ask": {"most": 40, "per": "1d"}})
    dialog = change(page, "capacity")
    limit = dialog.get_by_role("group", name="ask")
    limit.get_by_role("spinbutton", name="most").fill("")
    limit.get_by_role("textbox", name="per").fill("")
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("capacity", None)
    dialog = change(page, "promise")
    dialog.get_by_role("spinbutton", name="error").fill("0.1")
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("promise", {"error": 0.1})
    dialog = change(page, "promise")
    dialog.get_by_role("spinbutton", name="error").fill("")
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("promise", None)
    dialog = change(page, "watch")
    dialog.get_by_role("textbox").fill("ham\nspam")
    client.learn("set", examples_of(heaps(5, ["ham", "spam"], seed=1), "more"))
    page.get_by_text("65 examples learned").wait_for()  # the view was refreshed beside the dialog
    dialog.get_by_role("button", name="Change", exact=True).click()
    saved("watch", ["ham", "spam"])
    dialog = change(page, "labels")
    dialog.get_by_role("spinbutton", name="overlap").fill("2")
    dialog.get_by_role("button", name="Change", exact=True).click()
    eventually(lambda: client.model("set", full=True)["configuration"]["labels"]["overlap"] == 2)
    page.get_by_role("dialog").wait_for(state="detached")
    dialog = change(page, "kernel")
    dialog.get_by_role("combobox").select_option("linear")
    dialog.get_by_role("button", name="Try it as a challenger").click()
    eventually(lambda: "other-kernel" in client.shadows("set")["shadows"])
    page.get_by_text("kernel linear instead of rbf, gamma").wait_for()
    assert client.shadows("set")["shadows"]["other-kernel"]["configuration"]["kernel"] == {"type": "linear"}
    assert client.model("set")["configuration"]["kernel"] == KERNEL
    assert one.wrong == []


def test_rows_without_a_label_are_predicted_first_and_known_features_are_no_label(client, server, tab, tmp_path):
    rows = [f"0{k % 9 + 1}.05.2025,{k % 7},{'web' if k % 2 else 'shop'}" for k in range(60)]
    told, asked = tmp_path / "told.csv", tmp_path / "asked.csv"
    told.write_text("day,n,way,back\n" + "".join(f"{row},{'yes' if 'web' in row else 'no'}\n" for row in rows))
    asked.write_text("day,n,way\n" + "".join(f"{row}\n" for row in rows[:20]))
    one = tab(server.url)
    page = one.open("data", "input[type=file]")
    page.set_input_files("input[type=file]", told)
    page.get_by_text('Dates such as 01.05.2025 in "day" are texts').wait_for()
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("always guessing").wait_for()
    page.get_by_role("link", name="See what it learned").wait_for()
    page.set_input_files("input[type=file]", asked)
    page.get_by_label("Model", exact=True).select_option("told")
    page.get_by_role("button", name="Send the rows to the pool").wait_for()
    assert page.locator("form button.main").inner_text() == "Predict"
    assert page.get_by_label("Role of column way", exact=True).input_value() == "feature"
    page.locator("form button.main").click()
    page.get_by_text("20 predictions").wait_for()
    assert client.model("told")["pool"]["size"] == 0


def disputed(ask, model):
    """Make a model with a candidate on which ann and bob disagree. ask: a client's method that sends a question."""
    ask.create_model(model, kernel=KERNEL, C=1, features=FEATURES, labels={"overlap": 2, "explore": 0})
    ask.learn(model, examples_of(heaps(20, ["ham", "spam"])))
    ask.offer(model, [{"id": "c", "x": [2, 2]}])
    for annotator, label in (("ann", "ham"), ("bob", "spam")):
        (question,) = ask.query(model, n=1, annotator=annotator)["queries"]
        assert "disputed" not in question
        ask.learn(model, [{"id": "c", "y": label, "lease": question["lease"]}])
    assert ask.model(model)["pool"]["conflicts"] == 1
    ask.offer(model, [{"id": f"d{k}", "x": [k, 2]} for k in range(4)])


def test_a_writer_settles_a_conflict_of_two_annotators_which_is_no_question(client, server, tab):
    disputed(client, "torn")
    one = tab(server.url)
    page = one.label("torn", "eve")
    conflicts = page.get_by_role("region", name="Conflicts")
    conflicts.get_by_role("button", name="spam bob").wait_for()
    asked = {one.answer("1") for _ in range(4)}
    assert asked == {"d0", "d1", "d2", "d3"}
    page.get_by_text("Only conflicts of annotators are left").wait_for()
    conflicts.get_by_role("button", name="spam bob").click()
    conflicts.wait_for(state="detached")
    assert page.evaluate("document.activeElement.id") == "main"
    page.get_by_text("The pool is empty").or_(page.get_by_text("Other annotators have")).wait_for()
    assert client.example("torn", "c")["label"] == "spam"
    assert client.model("torn")["pool"]["conflicts"] == 0
    assert one.wrong == []


def answered(client, model, n, **labels):
    """Let annotators answer n candidates, all of an annotator with the same label."""
    client.offer(model, [{"id": f"more{k}", "x": [k / 100, 1]} for k in range(n)])
    for annotator, label in labels.items():
        given = []
        for question in client.query(model, n=n + 5, annotator=annotator)["queries"]:
            if question["id"].startswith("more"):
                given.append({"id": question["id"], "y": label, "lease": question["lease"]})
            else:
                client.release(model, question["lease"])
        client.learn(model, given)


@pytest.mark.long
def test_a_conflict_whose_answers_are_old_can_be_settled(client, server, tab):
    disputed(client, "old")
    answered(client, "old", 260, fay="ham", gus="ham")
    assert "c" not in {each["id"] for each in client.answers("old", n=500)["answers"]}
    page = tab(server.url).label("old", "eve")
    conflicts = page.get_by_role("region", name="Conflicts")
    conflicts.get_by_role("button", name="spam").click(timeout=30_000)
    conflicts.wait_for(state="detached")
    assert client.example("old", "c")["label"] == "spam"


@pytest.mark.long
def test_of_many_conflicts_a_writer_holds_some_and_a_reload_shows_the_same_question(client, server, tab):
    disputed(client, "many")
    answered(client, "many", 100, fay="ham", gus="spam")
    assert client.model("many")["pool"]["conflicts"] == 101
    one = tab(server.url)
    page = one.label("many", "eve")
    page.wait_for_timeout(3000)
    before, leased = one.question(), client.model("many")["pool"]["leased"]
    page.reload()
    page.wait_for_selector(".question .x")
    page.wait_for_timeout(1000)
    assert (one.question(), client.model("many")["pool"]["leased"]) == (before, leased)
    assert leased < 60


def test_the_question_of_an_annotator_says_that_others_disagree(tmp_path, tab):
    keys = tmp_path / "keys.json"
    key = create_key(keys, "eve", "annotator")
    with RunningServer(tmp_path / "data", keys_file=keys) as server:
        with Client(server.url, key=create_key(keys, "me", "admin")) as admin:
            disputed(admin, "torn")
        one = tab(server.url)
        page = one.open("", "input[name=key]")
        page.fill("input[name=key]", key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="5 questions of torn").click()
        page.get_by_text("Annotators disagree about this example").wait_for()
        assert one.answer("1") == "c"  # candidates with labels come first
        page.get_by_text("Annotators disagree about this example").wait_for(state="detached")


def test_a_link_to_a_setting_opens_its_form_and_the_address_opens_it_again(client, server, tab):
    client.create_model("linked", kernel=KERNEL, C=1, features=FEATURES)
    client.learn("linked", examples_of(heaps(60, ["ham", "spam"])))
    page = tab(server.url).open("models/linked/decide", ".chart canvas")
    for name in ("capacities", "Costs"):
        page.get_by_role("link", name=name, exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("heading", name=re.compile("capacity|costs")).wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        page.wait_for_url(lambda url: url.endswith("#/models/linked/watch/settings"))  # going back takes a moment
        page.get_by_role("link", name="Decide", exact=True).click()
    page.get_by_role("link", name="Costs", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change costs")
    dialog.wait_for()
    assert page.evaluate("document.activeElement.type") == "number"  # the first field, not the button that closes
    page.reload()
    dialog.get_by_role("group", name="true class ham").get_by_role("spinbutton").fill("50")
    dialog.get_by_role("button", name="Change", exact=True).click()
    eventually(lambda: client.model("linked")["configuration"].get("costs") == {"ham": {"spam": 50}})
    dialog.wait_for(state="detached")


def test_a_view_that_a_link_opens_gets_the_focus(client, server, tab):
    client.create_model("focused", kernel=KERNEL, C=1, features=FEATURES)
    client.learn("focused", examples_of(heaps(60, ["ham", "spam"])))
    one = tab(server.url)
    page = one.open("", "table.models")
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    for link in ("focused", "Decide"):
        page.get_by_role("link", name=link, exact=True).first.press("Enter")
        one.until("() => document.activeElement.id === 'main'")
    page.get_by_role("link", name="Label", exact=True).press("Enter")
    one.until("() => document.activeElement.closest('form.sign-in') !== null")
    page.keyboard.type("ann")
    assert page.locator("form.sign-in input").input_value() == "ann"
    page.get_by_role("link", name="Watch", exact=True).press("Enter")
    one.until("() => document.activeElement.id === 'main'")
    page.get_by_role("link", name="Label", exact=True).press("Enter")
    one.until("() => document.activeElement.closest('form.sign-in') !== null")


def test_suspects_of_a_model_whose_figures_are_known_take_one_request(client, server, tab):
    client.create_model("asked", kernel=KERNEL, C=1, features=FEATURES)
    client.learn("asked", examples_of(heaps(60, ["ham", "spam"])))
    page = tab(server.url).open("", "table.models")
    asked, found = page.evaluate(
        """async (figures) => {
          const { suspectsOf } = await import("./ui/standing.js");
          const asked = [], real = fetch;
          window.fetch = (url, ...more) => { asked.push(url.pathname); return real(url, ...more); };
          const found = await suspectsOf("asked", figures);
          window.fetch = real;
          return [asked.filter((to) => to.startsWith("/models/asked")), found];
        }""",
        client.model("asked"),
    )
    assert asked == ["/models/asked/suspects"]
    assert found == len(client.suspects("asked", n=100)["suspects"])


def test_a_half_filled_part_is_refused_in_the_words_of_its_fields(client, server, tab):
    client.create_model("half", kernel=KERNEL, C=1, features=FEATURES, costs={"ham": {"spam": 5}, "ask": 1})
    client.learn("half", examples_of(heaps(20, ["ham", "spam"])))
    before = client.model("half")["configuration"]
    page = tab(server.url).open("models/half/watch/settings/capacity", "dialog")
    limit = page.get_by_role("dialog").get_by_role("group", name="ask")
    limit.get_by_role("spinbutton", name="most").fill("40")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    per = limit.get_by_role("textbox", name="per")
    assert per.evaluate("field => field === document.activeElement && field.validity.valueMissing")
    per.fill("soon")
    page.keyboard.press("Enter")
    alert = page.get_by_role("dialog").get_by_role("alert")
    alert.get_by_text(re.compile('^capacity: "ask": per must be a whole number of "s", "m", "h" or "d"')).wait_for()
    page.keyboard.press("Escape")
    for part, field, value, said in (
        ("half life", "step", "5", "half_life: Input should have either examples or seconds"),
        ("costs", "spam", "", "costs must name the costs of at least one true class"),
    ):
        dialog = change(page, part)
        dialog.get_by_role("spinbutton", name=field).first.fill(value)
        dialog.get_by_role("button", name=re.compile("^Change( now)?$")).click()
        alert.wait_for()
        assert alert.inner_text().strip() == said
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
    dialog = change(page, "novelty")
    dialog.get_by_role("textbox").fill("often")
    dialog.get_by_role("button", name="Change", exact=True).click()
    alert.get_by_text('or an object with a level from 0.002 to 0.5, got "often"').wait_for()
    assert client.model("half")["configuration"] == before


@contextmanager
def slowed(process):
    """Let a process run for a tenth of the time, so that a job takes seconds on any machine."""
    ended = threading.Event()

    def hold():
        while not ended.wait(0.02):
            process.send_signal(signal.SIGSTOP)
            ended.wait(0.18)
            process.send_signal(signal.SIGCONT)

    holding = threading.Thread(target=hold)
    holding.start()
    try:
        yield
    finally:
        ended.set()
        holding.join()


def test_a_change_says_what_it_costs_and_its_job_how_much_time_is_left(client, server, tab):
    client.create_model("costly", kernel=KERNEL, C=1, features=FEATURES, points_max=2000)
    for seed in range(60):
        client.learn_rows("costly", *stream(500, seed))
    one = tab(server.url, viewport={"width": 320, "height": 800})
    page = one.open("models/costly/watch/settings/C", "dialog")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("learns the model's 30,000 examples from the log").wait_for()
    memory = client.model("costly")["memory_bytes"] / 2**20
    dialog.get_by_text(f"about as much memory as the model ({memory:.1f} MiB)").wait_for()
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dialog.get_by_role("spinbutton").fill("50")
    jobs = page.get_by_role("region", name="Jobs")
    with slowed(server.process):
        dialog.get_by_role("button", name="Change now").click()
        jobs.get_by_text(re.compile("Retraining with the new settings: .* seconds? left at this pace")).wait_for()
    assert barriers(page) == []
    jobs.wait_for(state="detached")
    assert client.model("costly")["configuration"]["C"] == 50


@pytest.mark.parametrize(
    ("name", "usual"), [("C", "0.1 to 100"), ("half life", "250 to 10,000"), ("window", "1,000 to 50,000")]
)
def test_the_form_of_a_setting_says_which_values_are_usual(client, server, tab, name, usual):
    model = f"usual-{name.replace(' ', '-')}"
    client.create_model(model, kernel=KERNEL, C=1, features=FEATURES)
    page = tab(server.url).open(f"models/{model}/watch/settings/{name.replace(' ', '_')}", "dialog")
    page.get_by_role("dialog").get_by_text(f"usual: {usual}").first.wait_for()
