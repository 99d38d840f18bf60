"""The page shows models learn: at once, live, for as long as it is open, and to everyone."""

import re
import threading
import time

import httpx
import pytest
from browsing import barriers
from learning import examples_of, heaps
from running import RunningServer, eventually

from hinged import Client
from hinged.service.edge.keys import create_key

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
PAINT_MS = 300
EVENTS = 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RunningServer(tmp_path_factory.mktemp("watching") / "data", heartbeat_s=1) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with Client(server.url) as opened:
        yield opened


def taught(client, name, n=60, **configuration):
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    client.learn(name, examples_of(heaps(n, ["ham", "spam"])))
    return name


def test_the_first_paint_is_there_before_one_waits(client, server, tab):
    taught(client, "paint")
    one = tab(server.url)
    times = []
    for _ in range(5):  # the machine may be busy: the best of some
        page = one.open("", "table.models")
        times.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        page.reload()
        if min(times) < PAINT_MS:
            break
    assert min(times) < PAINT_MS


def test_the_overview_follows_every_model_without_reloading(client, server, tab):
    taught(client, "first", 60)
    page = tab(server.url).open("", "text=first")
    row = page.locator("tr", has=page.get_by_role("link", name="first", exact=True))
    assert "60" in row.inner_text()
    client.learn("first", examples_of(heaps(40, ["ham", "spam"], seed=1), "more"))
    taught(client, "second", 10)
    row.get_by_text("100", exact=True).wait_for()
    page.get_by_role("link", name="second", exact=True).wait_for()
    client.delete_model("second")
    page.get_by_role("link", name="second", exact=True).wait_for(state="detached")


def test_a_models_curves_grow_while_it_learns_and_are_there_after_a_restart(tmp_path, tab):
    with RunningServer(tmp_path / "data", heartbeat_s=1) as server, Client(server.url) as client:
        taught(client, "m", 60)
        page = tab(server.url).open("models/m", ".chart canvas")
        page.get_by_text("live", exact=True).wait_for()
        for k in range(20):
            client.learn("m", examples_of(heaps(5, ["ham", "spam"], seed=k), f"live{k}-"))
        page.locator("dd", has_text=re.compile("^160$")).wait_for()
        client.finish("m")
        page.get_by_role("row", name=re.compile("finished")).wait_for()
        before = client.history("m")
        assert len(before["curve"]["examples"]) == 21
        server.kill()
        server.start()
        assert client.history("m")["curve"] == before["curve"]
        client.learn("m", examples_of(heaps(5, ["ham", "spam"]), "after"))
        page.locator("dd", has_text=re.compile("^165$")).wait_for()


def test_behind_each_chart_stands_the_same_as_a_table(client, server, tab):
    taught(client, "table")
    client.learn("table", [{"x": [0, 0], "y": "ham"}])
    page = tab(server.url).open("models/table", ".chart canvas")
    chart = page.get_by_role("region", name="Accuracy", exact=True)
    chart.get_by_text("The same as a table").click()
    curve = client.history("table")["curve"]
    rows = chart.locator("tbody tr")
    assert rows.count() == len(curve["examples"])
    newest = rows.first.inner_text().split("\t")
    assert newest[0] == "61"
    assert newest[1] == f"{100 * curve['accuracy'][-1]:.1f} %"


def test_a_challenger_is_drawn_beside_the_champion_and_promoted_by_a_button(client, server, tab):
    taught(client, "rivals")
    client.wait(client.challenge("rivals", "softer", C=0.1))
    client.learn("rivals", examples_of(heaps(20, ["ham", "spam"], seed=3), "more"))
    page = tab(server.url).open("models/rivals", ".chart canvas")
    page.get_by_role("region", name="Champion and challengers").locator("canvas").first.wait_for()
    page.get_by_role("button", name="Promote").click()
    eventually(lambda: client.model("rivals")["configuration"]["C"] == 0.1)
    page.get_by_role("row", name=re.compile("promoted")).wait_for()


def test_a_configuration_is_changed_and_what_is_none_is_told(client, server, tab):
    taught(client, "changed")
    page = tab(server.url).open("models/changed", ".chart canvas")
    page.get_by_role("button", name="Change C", exact=True).click()
    page.fill("dialog textarea", "-1")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    page.fill("dialog textarea", "5")
    page.get_by_role("dialog").get_by_role("button", name="Change", exact=True).click()
    page.get_by_role("dialog").wait_for(state="detached")
    eventually(lambda: client.model("changed")["configuration"]["C"] == 5)
    page.get_by_role("row", name=re.compile("swapped")).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_axe_finds_nothing_on_any_view(client, server, tab, scheme, width):
    name = f"axe-{scheme}-{width}"
    taught(client, name, 80)
    client.learn(name, [{"id": "odd", "x": [4.0, 0.0], "y": "spam"}, {"id": "odd2", "x": [0.0, 4.0], "y": "ham"}])
    client.wait(client.challenge(name, "softer", C=0.1))
    client.offer(name, [{"id": f"c{k}", "x": [k / 10, 1]} for k in range(20)])
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = one.open("", "table.models")
    assert barriers(page) == []
    page = one.open(f"models/{name}", ".chart canvas")
    for chart in page.get_by_text("The same as a table").all():
        chart.click()
    assert barriers(page) == []
    one.open("data", ".drop")
    assert barriers(page) == []
    one.open(f"models/{name}/suspects", ".suspect, .empty")
    page.wait_for_load_state("networkidle")
    assert barriers(page) == []
    one.label(name, "ann")
    page.keyboard.press("w")
    page.wait_for_selector(".neighbours")
    assert barriers(page) == []
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"


def test_at_200_percent_nothing_sticks_out(client, server, tab):
    name = taught(client, "zoomed")
    page = tab(server.url, viewport={"width": 640, "height": 400}, device_scale_factor=2).open(
        f"models/{name}", ".chart canvas"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_hundred_thousand_events_leave_an_open_page_small_and_smooth(tmp_path, tab):
    with RunningServer(tmp_path / "data", heartbeat_s=1) as server, Client(server.url) as client:
        client.create_model("busy", solver="perceptron", kernel={"type": "linear"}, features=FEATURES)
        taught = heaps(200, ["ham", "spam"])
        client.learn("busy", examples_of(taught))
        one = tab(server.url)
        page = one.open("models/busy", ".chart canvas")
        page.get_by_text("live", exact=True).wait_for()
        inspector = one.context.new_cdp_session(page)

        def heap():
            inspector.send("HeapProfiler.collectGarbage")
            return page.evaluate("performance.memory.usedJSHeapSize")

        before = heap()
        page.evaluate(
            """() => { window.frames_ = []; let last = performance.now();
                const tick = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(tick); };
                requestAnimationFrame(tick); }"""
        )
        told = threading.Thread(target=_events, args=(server.url, EVENTS))
        told.start()
        told.join()
        position = client.model("busy")["position"]
        assert position >= EVENTS
        page.wait_for_function("n => document.body.innerText.includes(n)", arg=f"{client.model('busy')['examples']:,}")
        frames = page.evaluate("frames_")
        slow = sum(frame > 250 for frame in frames) / len(frames)
        assert slow < 0.05, f"{slow:.1%} of {len(frames)} frames took longer than a quarter of a second"
        assert heap() - before < 30_000_000
        assert page.evaluate("document.querySelectorAll('*').length") < 3000


def _events(url, n):
    """Append so many events as quickly as the server takes them: leases given back are small ones."""
    with httpx.Client(base_url=url, timeout=300) as http:
        http.post("/models/busy/pool", json={"examples": [{"id": f"c{k}", "x": [k, 1.0]} for k in range(1000)]})
        left, begun = n, time.monotonic()
        while left > 0:
            asked = http.post("/models/busy/queries", json={"n": 1000, "annotator": "ann", "strategy": "random"})
            leases = [q["lease"] for q in asked.json()["queries"]]
            _release(url, leases)
            left -= len(leases) + 1
            http.post("/models/busy/learn", json={"examples": [{"x": [left, 1.0], "y": "ham"}]})
        print(f"{n} events in {time.monotonic() - begun:.0f} s")


def _release(url, leases):
    parts = [leases[k::8] for k in range(8)]

    def run(part):
        with httpx.Client(base_url=url, timeout=300) as http:
            for lease in part:
                http.post(f"/models/busy/queries/{lease}/release")

    threads = [threading.Thread(target=run, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_one_signs_in_with_a_key_and_sees_what_its_role_may(tmp_path, tab):
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
            page.wait_for_selector("input[name=key]")  # in memory alone
        assert shown == {
            "reader": ["Watch"],
            "annotator": ["Label"],
            "writer": ["Watch", "Label", "Suspects", "Data"],
            "admin": ["Watch", "Label", "Suspects", "Data"],
        }
        one = tab(server.url)
        page = one.open("models/m", "form")
        page.fill("input[name=key]", texts["reader"])
        page.check("input[name=keep]")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector(".chart canvas")
        page.get_by_text("live", exact=True).wait_for()  # by a ticket: no key stands in a URL
        assert page.get_by_role("button", name="Change C").count() == 0
        page.reload()
        page.wait_for_selector(".chart canvas")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_selector("input[name=key]")


def test_docs_work_without_any_other_host(server, tab):
    one = tab(server.url)
    page = one.page
    page.goto(f"{server.url}/docs")
    page.wait_for_selector(".opblock")
    page.locator(".opblock-summary").first.click()
    page.wait_for_selector(".opblock-body")
    assert page.locator(".opblock").count() > 40
