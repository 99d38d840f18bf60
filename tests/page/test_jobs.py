"""Thirteen jobs on the page take as many clicks and keys as docs/how-to/use-the-page.md says.

The test also prints (`-s`) how long a person would need for each job by the keystroke-level model of Card, Moran and
Newell, and how long the page itself takes.
"""

import re
import time
from collections import Counter

import pytest
from playwright.sync_api import expect

from hinged.service.edge.keys import create_key, read_keys
from tests.helpers.examples import examples_of, heaps
from tests.helpers.payments import BODY, COSTS, stream
from tests.helpers.server import ROOT, RunningServer, eventually
from tests.page.pictures import digits

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
TABLE = (ROOT / "docs/how-to/use-the-page.md").read_text()
# Seconds of the keystroke-level model: a key or button, pointing, thinking before an action, a hand between mouse and
# keyboard.
KEY_S, POINT_S, THINK_S, HOME_S = 0.28, 1.1, 1.35, 0.4
CELLS = re.compile(r"^\| (.+?) \| (\d+) \| (\d+) \|", re.MULTILINE)


class Hand:
    """A person at a page: acts and counts. A choice, a file and a click into a field are clicks; a paste is a key."""

    def __init__(self, one, client=None, labels=None, folder=None):
        self.tab, self.page, self.counts = one, one.page, Counter()
        self.client, self.labels, self.folder = client, labels, folder  # what the jobs need
        self.seconds, self.at_mouse, self.began = 0.0, True, time.perf_counter()
        self.page.on("dialog", lambda _: self.count(keys=1))  # the tab confirms each dialog

    def count(self, clicks=0, keys=0):
        """Count a click, or the keys of one thought."""
        self.counts.update(clicks=clicks, keys=keys)
        self.seconds += THINK_S + clicks * (POINT_S + KEY_S) + keys * KEY_S + HOME_S * (self.at_mouse != bool(clicks))
        self.at_mouse = bool(clicks)

    def told(self, job):
        """Print what a person needs for a job, and what the page took."""
        page = time.perf_counter() - self.began
        print(f"{job}: {self.seconds:.1f} s and {page:.1f} s of the page: {self.seconds + page:.0f} s")

    def click(self, locator):
        self.count(clicks=1)
        locator.click()

    def link(self, name):
        self.click(self.page.get_by_role("link", name=name))

    def button(self, name):
        self.click(self.page.get_by_role("button", name=name, exact=True).first)

    def fold(self, title):
        self.click(self.page.locator("details.fold:not([open]) > summary").filter(has_text=title))

    def choose(self, label, value):
        self.count(clicks=1)
        self.page.get_by_label(label, exact=True).select_option(value)

    def file(self, path):
        self.count(clicks=1)
        self.page.set_input_files("input[type=file]", path)

    def press(self, keys):
        self.count(keys=len(keys))
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, locator, text):
        if not locator.evaluate("field => field === document.activeElement"):
            self.click(locator)
        self.count(keys=len(text))
        locator.fill(text)

    def paste(self, locator, text):
        self.count(keys=1)
        locator.fill(text)


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


@pytest.fixture
def world(client, tmp_path):
    """Make the models and the files of the jobs; return the labels of the digits to label, and the folder."""
    rows = digits()
    client.create_model(
        "digits",
        kernel={"type": "rbf", "gamma": 0.05},
        C=10,
        features={"type": "dense", "dim": 64},
        show={"image": [8, 8]},
    )
    client.learn("digits", [{"x": x, "y": y} for x, y in rows[:200]])
    client.offer("digits", [{"id": f"d{k}", "x": x} for k, (x, _) in enumerate(rows[200:250])])
    taught(client, "mails")
    client.learn("mails", [{"id": "odd", "x": [4.0, 0.0], "y": "spam"}])
    taught(client, "pumps", 300)
    taught(client, "sensors", 600)
    client.learn(
        "sensors", examples_of([(x, "ham" if y == "spam" else "spam") for x, y in heaps(300, ["ham", "spam"])], "s")
    )
    client.create_model("payments", **BODY, costs=COSTS, capacity={"fraud": {"most": 1_000_000, "per": "1d"}})
    client.learn_rows("payments", *stream(400))
    client.decide("payments", [{"id": f"p{k}", "x": [1.7 + 0.1 * k, 0.1 * k]} for k in range(5)])
    taught(client, "torn", 40, labels={"overlap": 2, "explore": 0})
    client.offer("torn", [{"id": "c", "x": [2, 2]}])
    for annotator, label in (("ann", "ham"), ("bob", "spam")):
        (question,) = client.query("torn", n=1, annotator=annotator)["queries"]
        client.learn("torn", [{"id": "c", "y": label, "lease": question["lease"]}])
    lines = [f"{1 + k % 28}.5.2026,{k % 9},{'web' if k % 2 else 'shop'}" for k in range(120)]
    (tmp_path / "orders.csv").write_text(
        "day,amount,way,back\n" + "".join(f"{line},{'yes' if 'web' in line else 'no'}\n" for line in lines)
    )
    (tmp_path / "new.csv").write_text("day,amount,way\n" + "".join(f"{line}\n" for line in lines[:30]))
    return {f"d{k}": y for k, (_, y) in enumerate(rows[200:250])}, tmp_path


def set_c(hand, value, button):
    hand.fold("Settings")
    hand.button("Change C")
    hand.write(hand.page.locator("dialog input[name=value]"), value)
    hand.button(button)


def label_digits(hand):
    hand.link(re.compile("questions of digits"))
    hand.write(hand.page.locator("form.sign-in input"), "ann")
    hand.button("Begin labelling")
    hand.page.wait_for_selector(".question .picture")
    for _ in range(30):
        before = hand.tab.question()
        hand.press(str(hand.labels[before]))
        hand.tab.until("was => document.querySelector('.question p bdi.code')?.innerText !== was", before)
    eventually(lambda: hand.client.model("digits")["pool"]["answered"] == 30)


def bring_a_file(hand):
    hand.link("Choose a file")
    hand.file(hand.folder / "orders.csv")
    hand.button("Send the rows")
    hand.page.get_by_text("120 learned").wait_for()
    kinds = {column["name"]: column["kinds"] for column in hand.client.columns("orders")["columns"]}
    assert kinds == {"day": ["time"], "amount": ["number"], "way": ["category"]}


def mend_a_label(hand):
    hand.link(re.compile("mails contradicts 1 label"))
    hand.page.wait_for_selector(".suspect kbd")
    hand.press("c")
    eventually(lambda: hand.client.example("mails", "odd")["label"] == "ham")


def try_a_challenger(hand):
    hand.link(re.compile("^pumps$"))
    set_c(hand, "5", "Try it as a challenger")
    hand.page.get_by_role("group", name="Champion and challengers").wait_for()
    expect(hand.page.get_by_role("heading", name="Challengers", exact=True)).to_be_in_viewport()
    eventually(lambda: not hand.client.model("pumps")["jobs"])
    hand.button("Promote")
    eventually(lambda: hand.client.model("pumps")["configuration"]["C"] == 5)
    hand.page.get_by_role("button", name="Take back").wait_for()
    expect(hand.page.get_by_role("heading", name="Drift and events", exact=True)).to_be_in_viewport()
    hand.button("Take back")
    eventually(lambda: hand.client.model("pumps")["configuration"]["C"] == 1)


def change_c(hand):
    hand.link(re.compile("^pumps$"))
    set_c(hand, "3", "Change now")
    eventually(lambda: hand.client.model("pumps")["configuration"]["C"] == 3)


def predict_a_file(hand):
    hand.link("Choose a file")
    hand.file(hand.folder / "new.csv")
    hand.choose("Model", "orders")
    hand.button("Predict")
    hand.page.get_by_text("yes in 15 rows").wait_for()
    with hand.page.expect_download() as download:
        hand.button("Save as CSV")
    assert len(download.value.path().read_text().splitlines()) == 31


def react_to_a_drift(hand):
    hand.link(re.compile("sensors has a higher error rate"))
    hand.page.get_by_text("If the world has changed, try a half-life in a challenger.").wait_for()
    hand.page.get_by_role("row", name=re.compile("drift")).first.wait_for()
    hand.link("try a half-life")
    hand.write(hand.page.get_by_role("dialog").get_by_role("spinbutton", name="examples").first, "500")
    hand.button("Try it as a challenger")
    hand.page.get_by_role("group", name="Champion and challengers").wait_for()
    eventually(lambda: hand.client.shadows("sensors")["shadows"])


def set_costs(hand):
    hand.link(re.compile("^orders$"))
    hand.fold("Settings")
    hand.button("Change costs")
    dialog = hand.page.get_by_role("dialog")
    hand.write(dialog.get_by_role("group", name="true class yes").get_by_role("spinbutton"), "9")
    hand.write(dialog.get_by_role("spinbutton", name="ask"), "1")
    hand.button("Change")
    eventually(lambda: hand.client.model("orders", full=True)["configuration"]["costs"])
    hand.link("Predict or add a file")
    hand.file(hand.folder / "new.csv")
    hand.button("Decide")
    hand.page.get_by_text("yes in 15 rows").wait_for()
    with hand.page.expect_download() as download:
        hand.button("Save as CSV")
    assert "decision" in download.value.path().read_text().splitlines()[0]


def work_off_alerts(hand):
    hand.link(re.compile("^payments$"))
    hand.link("Work off 5 alerts")
    hand.page.get_by_role("group", name="Alerts").wait_for()
    for waiting in (4, 3, 2):
        hand.press("d" if waiting == 2 else "1")
        hand.page.get_by_text(f"{waiting} waiting.").wait_for()
    hand.press("u")
    hand.page.get_by_text("3 waiting.").wait_for()
    assert hand.client.model("payments")["alerts"]["waiting"] == 3


def set_a_threshold(hand):
    hand.link(re.compile("^pumps$"))
    hand.click(hand.page.get_by_role("link", name="Decide", exact=True))
    hand.page.get_by_label("from a probability of").fill("12")  # a drag
    hand.counts["clicks"] += 1
    hand.button("Use these costs")
    eventually(lambda: hand.client.model("pumps")["configuration"].get("costs"))


def settle_a_conflict(hand):
    hand.link("torn has 1 conflict")
    hand.write(hand.page.locator("form.sign-in input"), "eve")
    hand.button("Begin labelling")
    hand.click(hand.page.get_by_role("region", name="Conflicts").get_by_role("button", name="spam bob"))
    eventually(lambda: hand.client.example("torn", "c")["label"] == "spam")
    hand.page.locator(".question").get_by_text("c is settled").wait_for()
    hand.page.get_by_text("No question for you").wait_for()


def make_and_revoke_a_key(hand):
    hand.link("People")
    hand.write(hand.page.get_by_label("Name of the person or program"), "ann")
    hand.button("Make a key")
    hand.page.locator(".secret").wait_for()
    hand.button("Done")
    hand.button("Revoke the key of ann")
    hand.write(hand.page.get_by_role("dialog").get_by_role("textbox"), "ann")
    hand.click(hand.page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True))
    hand.page.get_by_role("row", name=re.compile("^ann")).wait_for(state="detached")


JOBS = {
    "label 30 digits": label_digits,
    "a CSV with strings and dates becomes a model": bring_a_file,
    "find and mend a label error": mend_a_label,
    "make, compare and promote a challenger, and take it back": try_a_challenger,
    "change C": change_c,
    "predictions for a file": predict_a_file,
    "react to a drift": react_to_a_drift,
    "set costs, and decide about a file": set_costs,
    "work off three alerts, and take one back": work_off_alerts,
    "set a threshold": set_a_threshold,
    "settle a conflict of two annotators": settle_a_conflict,
}
KEYS = "make and revoke a key"
SIGN_IN = "sign in, first with a wrong key"


@pytest.mark.long
def test_each_job_takes_as_many_clicks_and_keys_as_the_table_says(client, server, tab, tmp_path, world):
    counts = {}
    for job, do in JOBS.items():
        hand = Hand(tab(server.url), client, *world)
        hand.page.goto(server.url)
        do(hand)
        hand.told(job)
        counts[job] = hand.counts["clicks"], hand.counts["keys"]
    keys = tmp_path / "keys.json"
    right = create_key(keys, "me", "admin")
    with RunningServer(tmp_path / "guarded", keys_file=keys) as guarded:
        hand = Hand(tab(guarded.url))
        hand.page.goto(guarded.url)
        for key in ("hinged_wrong", right):
            hand.paste(hand.page.locator("input[name=key]"), key)
            hand.button("Sign in")
            if key != right:
                hand.page.get_by_text("Ask the person who sent you this address for a new key").wait_for()
        hand.page.get_by_role("link", name="Choose a file").wait_for()
        hand.page.locator("pre.code").first.wait_for()  # the page has loaded everything before the server ends
        hand.told(SIGN_IN)
        counts[SIGN_IN] = hand.counts["clicks"], hand.counts["keys"]
        hand = Hand(hand.tab)
        make_and_revoke_a_key(hand)
        hand.told(KEYS)
        assert {key.name for key in read_keys(keys)} == {"me"}
        counts[KEYS] = hand.counts["clicks"], hand.counts["keys"]
    assert {job: (int(clicks), int(keys)) for job, clicks, keys in CELLS.findall(TABLE)} == counts
