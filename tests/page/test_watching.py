"""The page shows models while they learn: fast, live, accessible, and limited to what a key's role may see."""

import itertools
import re
import time

import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers import turns
from tests.helpers.browser import barriers
from tests.helpers.examples import examples_of, heaps
from tests.helpers.fixtures import server_with
from tests.helpers.server import PATIENCE_S, RunningServer, eventually

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
PAINT_MS = 300  # maximum milliseconds until the first contentful paint
EVENTS = 100_000
EXAMPLES = 30_000
EVENTS_MIN = 100  # minimum number of events for EXAMPLES examples: a micro-batch is one event
FRAME = 2  # examples in each frame of the stream
# Width and colour scheme. Two pairs are enough, because colours do not depend on the width.
BOTH = [(400, "dark"), (1280, "light")]
FRAME_MS = 1000  # maximum 90th percentile of the time between two frames; a page that hangs takes longer
HEAP_MAX = 20_000_000  # maximum bytes by which the page's heap may grow


server = server_with(limits={"heartbeat_s": 1})


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


def best(measured, enough):
    """Measure up to five times, until a result is below `enough`; return the lowest result. From the second time on, no
    other test runs.
    """
    found = [measured()]
    while min(found) >= enough and len(found) < 5:
        with turns.alone():
            found.append(measured())
    return min(found)


@pytest.mark.long
def test_the_first_paint_is_fast(client, server, tab):
    taught(client, "paint")
    one = tab(server.url)

    def painted():
        page = one.open("", "table.models")
        at = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.reload()
        return at

    assert best(painted, PAINT_MS) < PAINT_MS


@pytest.mark.long
def test_the_overview_follows_every_model_without_reloading(client, server, tab):
    taught(client, "first", 60)
    page = tab(server.url).open("", "text=first")
    row = page.locator("tr", has=page.get_by_role("link", name="first", exact=True))
    assert "60" in row.inner_text()
    client.learn("first", examples_of(heaps(40, ["ham", "spam"], seed=1), "more"))
    taught(client, "second", 10)
    row.get_by_text("100", exact=True).first.wait_for()
    page.get_by_role("link", name="second", exact=True).wait_for()
    client.delete_model("second")
    page.get_by_role("link", name="second", exact=True).wait_for(state="detached")


@pytest.mark.long
def test_a_models_curves_grow_while_it_learns_and_are_there_after_a_restart(tmp_path, tab):
    with RunningServer(tmp_path / "data", limits={"heartbeat_s": 1}) as server, Client(server.url) as client:
        taught(client, "m", 60)
        one = tab(server.url)
        page = one.open("models/m", ".chart canvas")
        page.get_by_text("live", exact=True).wait_for()
        for k in range(20):
            client.learn("m", examples_of(heaps(5, ["ham", "spam"], seed=k), f"live{k}-"))
        page.locator(".learned", has_text=re.compile("^160$")).wait_for()
        client.finish("m")
        one.unfold("Drift and events")
        page.get_by_role("row", name=re.compile("^finishing step")).wait_for()
        before = client.history("m")
        assert before["curve"]["examples"][-1] == 160
        server.kill()
        server.start()
        assert client.history("m")["curve"] == before["curve"]
        client.learn("m", examples_of(heaps(5, ["ham", "spam"]), "after"))
        page.locator(".learned", has_text=re.compile("^165$")).wait_for()


def test_behind_each_chart_stands_the_same_as_a_table(client, server, tab):
    taught(client, "table")
    client.learn("table", [{"x": [0, 0], "y": "ham"}])
    page = tab(server.url).open("models/table", ".chart canvas")
    chart = page.get_by_role("region", name="Accuracy", exact=True)
    chart.get_by_text("Show as a table").click()
    curve = client.history("table")["curve"]
    rows = chart.locator("tbody tr")
    rows.first.wait_for()  # the table is drawn when it is opened
    assert rows.count() == len(curve["examples"])
    newest = rows.first.inner_text().split("\t")
    assert newest[0] == "61"
    assert newest[1] == f"{100 * curve['accuracy'][-1]:.1f} %"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "parts", "judged"),
    [
        ("raced", {}, "accuracy"),
        ("cheap", {"goal": "cost", "costs": {"spam": {"ham": 9}}}, "cost avoided"),
        ("rare", {}, "accuracy, and ranks of rare classes"),
    ],
)
def test_a_race_shows_its_arms_its_leader_and_what_it_follows(client, server, tab, name, parts, judged):
    client.create_model(name, kernel={"type": "rbf"}, features=FEATURES, **parts)
    examples = examples_of(heaps(60, ["ham", "spam"]))
    if name == "rare":
        examples += [e for e in examples_of(heaps(1500, ["ham", "spam"]), "more") if e["y"] == "ham"]
    client.learn(name, examples)
    one = tab(server.url, viewport={"width": 390, "height": 800})
    one.open(f"models/{name}", ".chart canvas")
    page = one.unfold("Machine")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "something overflows"
    table = page.get_by_role("group", name="Arms of the race").locator("table")
    arms = client.model(name)["arms"]
    assert f"{judged} (fading)" in table.locator("thead").inner_text()
    assert table.locator("tbody tr").count() == len(arms)
    leads = table.get_by_role("row").filter(has_text="leads")
    assert leads.count() == 1
    assert "none" in leads.inner_text()


@pytest.mark.long
def test_a_challenger_is_drawn_beside_the_champion_and_can_be_promoted(client, server, tab):
    taught(client, "rivals")
    client.wait(client.challenge("rivals", "softer", C=0.1))
    client.learn("rivals", examples_of(heaps(20, ["ham", "spam"], seed=3), "more"))
    one = tab(server.url)
    page = one.open("models/rivals", ".chart canvas")
    page.get_by_role("region", name="Champion and challengers").locator("canvas").first.wait_for()
    page.get_by_role("button", name="Promote").click()
    eventually(lambda: client.model("rivals")["configuration"]["C"] == 0.1)
    one.unfold("Drift and events")
    page.get_by_role("row", name=re.compile("promoted")).wait_for()


@pytest.mark.long
def test_a_configuration_can_be_changed_and_an_invalid_value_shows_an_error(client, server, tab):
    taught(client, "changed")
    one = tab(server.url)
    one.open("models/changed", ".chart canvas")
    page = one.unfold("Settings", "Drift and events")
    page.get_by_role("button", name="Change C", exact=True).click()
    page.fill("dialog input[name=value]", "-1")
    page.get_by_role("dialog").get_by_role("button", name="Change now").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    page.fill("dialog input[name=value]", "5")
    page.get_by_role("dialog").get_by_role("button", name="Change now").click()
    page.get_by_role("dialog").wait_for(state="detached")
    eventually(lambda: client.model("changed")["configuration"]["C"] == 5)
    page.get_by_role("row", name=re.compile("^retrained")).wait_for()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), BOTH)
def test_axe_finds_nothing_on_any_view(client, server, tab, tmp_path, scheme, width):
    name = f"axe-{scheme}-{width}"
    taught(client, name, 80)
    client.learn(name, [{"id": "odd", "x": [4.0, 0.0], "y": "spam"}, {"id": "odd2", "x": [0.0, 4.0], "y": "ham"}])
    client.wait(client.challenge(name, "softer", C=0.1))
    client.offer(name, [{"id": f"c{k}", "x": [k / 10, 1]} for k in range(20)])
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = one.page

    def look():
        assert barriers(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "something overflows"

    one.open("", "table.models")
    look()
    page.get_by_role("region", name="Needs attention").wait_for()
    one.unfold("Send by code")
    page.locator("pre").wait_for()
    look()
    one.open(f"models/{name}", ".chart canvas")
    page.locator(".standing", has_text="contradicts").wait_for()
    look()
    one.unfold()
    page.locator("pre").wait_for()
    for chart in page.get_by_text("Show as a table").all():
        chart.click()
    look()
    page.get_by_role("button", name="Change C", exact=True).click()
    page.fill("dialog input[name=value]", "-1")
    page.get_by_role("dialog").get_by_role("button", name="Change now").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    look()
    page.keyboard.press("Escape")
    one.open(f"models/{name}/suspects", ".suspect, .empty")
    page.wait_for_load_state("networkidle")
    look()
    one.open(f"models/{name}-absent", "p.problem")
    look()
    one.open(f"models/{name}/label", "form.sign-in")
    look()
    one.label(name, "ann")
    look()
    page.keyboard.press("w")
    page.wait_for_selector(".neighbours")
    look()
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    look()
    page.keyboard.press("Escape")
    one.answer("1")
    page.get_by_text("All annotators").click()
    page.keyboard.press("n")
    page.wait_for_selector("input[name=label]:focus")
    look()
    page.locator("h1").first.evaluate("h => document.activeElement.blur()")
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    look()
    one.open("data", ".drop")
    look()
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "".join(f"{k},{k % 7},{'xy'[k % 2]}\n" for k in range(30)) + "1\n")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector(".preview")
    look()
    page.get_by_label("Name", exact=True).fill(f"{name}-rows")
    page.get_by_role("button", name="Send the rows").click()
    page.get_by_text("Show the refused rows").click()
    look()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), BOTH)
def test_axe_finds_nothing_on_the_sign_in_form(tmp_path, tab, scheme, width):
    keys = tmp_path / "keys.json"
    key = create_key(keys, "ann", "annotator")
    with RunningServer(tmp_path / "data", keys_file=keys) as server:
        page = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800}).open("", "form")
        assert barriers(page) == []
        page.fill("input[name=key]", "hinged_wrong")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").wait_for()
        assert barriers(page) == []
        page.fill("input[name=key]", key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("There is no model yet").wait_for()
        assert barriers(page) == []


@pytest.mark.long
def test_the_keyboard_alone_leads_from_the_overview_to_an_answer_and_its_forgetting(client, server, tab):
    taught(client, "keyed")
    client.offer("keyed", [{"id": f"c{k}", "x": [k / 10, 1]} for k in range(5)])
    one = tab(server.url)
    page = one.open("", "table.models")

    def tab_to(role, name):
        wanted = page.get_by_role(role, name=name)
        wanted.first.wait_for()
        for _ in range(60):
            page.keyboard.press("Tab")
            if wanted.evaluate_all("found => found.includes(document.activeElement)"):
                return
        raise AssertionError(f"Tab does not reach {role} {name}")

    tab_to("link", "keyed")
    page.keyboard.press("Enter")
    page.wait_for_selector(".chart canvas")
    tab_to("link", "Label")
    page.keyboard.press("Enter")
    tab_to("textbox", "Your name")
    page.keyboard.type("ann")
    page.keyboard.press("Enter")
    page.wait_for_selector(".question .x")
    given = one.question()
    tab_to("button", "ham")
    page.keyboard.press("Space")
    eventually(lambda: [a["id"] for a in client.answers("keyed")["answers"]] == [given])
    tab_to("button", f"Forget {given}")
    page.keyboard.press("Enter")
    eventually(lambda: client.answers("keyed")["answers"] == [])


@pytest.mark.long
def test_at_200_percent_nothing_overflows(client, server, tab):
    name = taught(client, "zoomed")
    one = tab(server.url, viewport={"width": 640, "height": 400}, device_scale_factor=2)
    page = one.open(f"models/{name}", ".chart canvas")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    one.unfold()
    page.locator("pre").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    one.open("", "table.models")
    one.unfold()
    page.locator("pre").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


class Watched:
    """An open page, with the times between its frames and the growth of its heap."""

    def __init__(self, one):
        self.one, self.page = one, one.page
        self.page.evaluate(
            """() => { self.frames_ = []; let last = performance.now();
                const tick = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(tick); };
                requestAnimationFrame(tick); }"""
        )
        self.inspector = one.context.new_cdp_session(self.page)
        self.before, self.begun = self._heap(), time.monotonic()

    def _heap(self):
        self.inspector.send("HeapProfiler.collectGarbage")
        return self.page.evaluate("performance.memory.usedJSHeapSize")

    def judge(self):
        """Return the 90th percentile of the frame times in ms. Assert the limits of requests, heap and elements."""
        requests = sum("/history" in address for address in self.one.requested)
        most = 20 + 5 * (time.monotonic() - self.begun)
        assert requests < most, "the page asks for the history more than five times a second"
        frames = sorted(self.page.evaluate("frames_"))
        assert self._heap() - self.before < HEAP_MAX
        assert self.page.evaluate("document.querySelectorAll('*').length") < 3000
        return frames[len(frames) * 9 // 10]


def pass_by(client, one, name):
    """Stream examples while a page is open. Return its 90th percentile of frame times."""
    client.create_model(name, solver="bsgd", budget=50, kernel=KERNEL, features=FEATURES)
    page = one.open(f"models/{name}", ".standing")
    page.get_by_text("live", exact=True).wait_for()
    watched = Watched(one)
    # Small frames, so that the server sends many events.
    with client.stream(name) as learning:
        for k in range(0, EXAMPLES, FRAME):
            sent = learning.learn(
                [{"id": f"s{j}", "x": [j % 7, j % 5], "y": "ham" if j % 2 else "spam"} for j in range(k, k + FRAME)]
            )
            if k % (EXAMPLES // (2 * EVENTS_MIN)) == 0:  # a busy server must not learn everything in a few events
                sent.result(PATIENCE_S)
    one.until("n => document.querySelector('.learned').innerText === n", f"{EXAMPLES:,}")
    assert client.model(name)["position"] > EVENTS_MIN
    page.get_by_text("live", exact=True).wait_for()
    return watched.judge()


@pytest.mark.long
def test_a_page_stays_small_and_fast_while_thirty_thousand_examples_stream_in(client, server, tab):
    names = (f"passing{k}" for k in itertools.count())
    assert best(lambda: pass_by(client, tab(server.url), next(names)), FRAME_MS) < FRAME_MS


def come_at_once(client, one, name):
    """Send events to an open page faster than a disk could log them. Return its 90th percentile of frame times."""
    taught(client, name)
    told = [f'event: learned\ndata: {{"position":{k},"kind":"learned"}}\nid: {k}\n\n' for k in range(EVENTS)]
    page, streams = one.page, []

    def stream(route):
        """Answer the first stream from the test; let the server answer later streams."""
        streams.append(route)
        if len(streams) == 1:
            route.fulfill(content_type="text/event-stream", body="".join(told))
        else:
            route.continue_()

    page.route("**/events?*", stream)
    one.open(f"models/{name}", ".chart canvas")
    watched = Watched(one)
    one.until("() => document.body.innerText.includes('live')")
    while len(streams) < 2:
        page.wait_for_timeout(20)  # lets Playwright call `stream`
    client.learn(name, [{"x": [0, 0], "y": "ham"}])  # through the server's own stream
    one.until("n => document.querySelector('.learned').innerText === n", "61")
    page.get_by_text("live", exact=True).wait_for()
    return watched.judge()


@pytest.mark.long
def test_a_page_stays_small_and_fast_when_a_hundred_thousand_events_come_at_once(client, server, tab):
    names = (f"busy{k}" for k in itertools.count())
    assert best(lambda: come_at_once(client, tab(server.url), next(names)), FRAME_MS) < FRAME_MS


@pytest.mark.long
def test_a_key_signs_in_and_the_page_shows_what_its_role_may_see(tmp_path, tab):
    keys = tmp_path / "keys.json"
    texts = {role: create_key(keys, role, role) for role in ("reader", "annotator", "writer", "admin")}
    with RunningServer(tmp_path / "data", keys_file=keys) as server, Client(server.url, key=texts["admin"]) as client:
        taught(client, "m")
        client.offer("m", [{"id": "c", "x": [1, 1]}])
        shown = {}
        for role, key in texts.items():
            one = tab(server.url)
            page = one.open("models/m", "form")
            page.fill("input[name=key]", "hinged_wrong")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("alert").wait_for()
            page.fill("input[name=key]", key)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_selector("header.top")
            shown[role] = page.locator(".tabs a").all_inner_texts()
            assert all(key not in address for address in one.requested)
            assert page.evaluate("sessionStorage.length + localStorage.length") == 0
            page.reload()
            page.wait_for_selector("input[name=key]")  # the key was only in memory
        assert shown == {
            "reader": ["Watch", "Decide"],
            "annotator": ["Label", "Decide"],
            "writer": ["Watch", "Label", "Decide", "Suspects", "Data"],
            "admin": ["Watch", "Label", "Decide", "Suspects", "Data"],
        }
        one = tab(server.url)
        page = one.open("models/m", "form")
        page.fill("input[name=key]", texts["reader"])
        page.check("input[name=keep]")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector(".chart canvas")
        page.get_by_text("live", exact=True).wait_for()  # through a ticket: no URL contains the key
        one.unfold("Settings")
        page.get_by_role("row", name="lasvm").or_(page.get_by_role("row", name="kernel")).first.wait_for()
        assert page.get_by_role("button", name="Change C").count() == 0
        page.reload()
        page.wait_for_selector(".chart canvas")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_selector("input[name=key]")


@pytest.mark.long
def test_an_annotators_key_may_forget_only_answers_under_its_own_name(tmp_path, tab):
    keys = tmp_path / "keys.json"
    me, ann = create_key(keys, "me", "admin"), create_key(keys, "ann", "annotator")
    with RunningServer(tmp_path / "data", keys_file=keys) as server, Client(server.url, key=me) as client:
        taught(client, "m")
        client.offer("m", [{"id": f"c{k}", "x": [k, 1]} for k in range(9)])
        one = tab(server.url)
        page = one.open("models/m/label", "form")
        page.fill("input[name=key]", ann)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector(".question .x")  # the annotator has the name of the key
        given, other = one.answer("1"), one.answer("2")
        page.get_by_role("button", name=f"Forget {given}").click()
        page.get_by_role("button", name=f"Forget {given}").wait_for(state="detached")
        assert [a["id"] for a in client.answers("m")["answers"]] == [other]
        page.get_by_role("button", name="Change annotator").click()
        page.fill("form.sign-in input", "bob")
        page.click("text=Begin")
        page.wait_for_selector(".question .x")
        bobs = one.answer("1")
        page.get_by_role("button", name=f"spam {bobs}").or_(page.get_by_role("button", name=f"ham {bobs}")).wait_for()
        assert page.get_by_role("button", name=f"Forget {bobs}").count() == 0
        page.get_by_text("Only a writer can forget answers under another name").wait_for()


@pytest.mark.long
def test_the_docs_page_loads_nothing_from_another_host(server, tab):
    one = tab(server.url)
    page = one.page
    page.goto(f"{server.url}/docs")
    page.wait_for_selector(".opblock")
    page.locator(".opblock-summary").first.click()
    page.wait_for_selector(".opblock-body")
    assert page.locator(".opblock").count() > 40


@pytest.mark.long
@pytest.mark.parametrize("view", ["", "/label", "/decide", "/suspects", "/data"])
def test_a_narrow_phone_shows_each_view_without_a_shift(client, server, tab, view):
    if "narrow" not in {each["model"] for each in client.models()}:
        client.create_model("narrow")
        client.learn("narrow", [{"x": {"a" * 60: k, "b": "c" * 200}, "y": "d" * (1 + k % 2 * 200)} for k in range(60)])
        client.offer("narrow", [{"id": "e" * 256, "x": {"a" * 60: 0}}])
    page = tab(server.url, viewport={"width": 320, "height": 600}).open(f"models/narrow{view}", "h1")
    page.wait_for_timeout(1000)
    assert page.evaluate("document.documentElement.scrollWidth") == 320
