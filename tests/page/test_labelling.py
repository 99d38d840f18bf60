"""Labelling in a browser: no question is shown twice, no answer is lost or doubled, and every answer can be changed."""

import itertools
import threading

import pytest

from hinged import Client
from tests.helpers.browser import barriers
from tests.helpers.examples import examples_of, heaps
from tests.helpers.server import RunningServer, eventually

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
NUMBERS = itertools.count()


def pool(client, n=80, name=None, **configuration):
    """Create a model that has learned two clusters, with n candidates between the clusters; return its name."""
    name = name or f"m{next(NUMBERS)}"
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    # The first class is ham: key 1.
    client.learn(name, [{"id": "ham", "x": [4, 0], "y": "ham"}, *examples_of(heaps(19, ["ham", "spam"]))])
    client.offer(name, [{"id": f"c{k}", "x": [k / 20, 4 - k / 20]} for k in range(n)])
    return name


@pytest.fixture
def ann(client, server, tab):
    """Return (model, tab, page). The annotator ann sees the first question of a new pool."""
    model, one = pool(client), tab(server.url)
    return model, one, one.label(model, "ann")


def answers(client, model):
    """Return the label of each answered example, by id. Assert that no id was answered twice."""
    found = client.answers(model, n=1000)["answers"]
    assert len({a["id"] for a in found}) == len(found)
    return {a["id"]: a["label"] for a in found}


def sent(one):
    """Wait until a tab has sent all its answers."""
    one.until(
        "() => Object.keys(sessionStorage).filter((k) => k.startsWith('hinged-answers-'))"
        ".every((k) => sessionStorage[k] === '[]')"
    )


@pytest.mark.long
def test_an_admin_writes_a_guide_that_annotators_read_beside_each_question(client, ann):
    model, one, page = ann
    page.get_by_role("button", name="Write a guide").click()
    page.get_by_label("What annotators read").fill("1. spam sells\n2. <b>ham</b> does not")
    page.get_by_label("What annotators read").press("1")  # in the field, this key answers no question
    page.get_by_role("button", name="Save").click()
    page.get_by_role("region", name="Guide").get_by_text("<b>ham</b> does not").wait_for()
    assert client.model(model)["configuration"]["labels"]["guide"] == "1. spam sells\n2. <b>ham</b> does not1"
    assert answers(client, model) == {}
    one.answer("1")
    assert page.get_by_role("region", name="Guide").is_visible()
    assert barriers(page) == []
    page.get_by_role("button", name="Edit the guide").click()
    page.get_by_label("What annotators read").fill("")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Write a guide").wait_for()
    assert "guide" not in client.model(model)["configuration"].get("labels", {})


def test_a_line_of_the_guide_describes_a_label_on_its_button(client, server, tab):
    guide = f"Read the whole mail.\nspam: sells something\n1: the integer\nham:raw: not smoked\nlong: {'word ' * 500}"
    model = pool(client, labels={"guide": guide}, classes=["ham", "ham:raw", "spam", 1, "1", "long"])
    page = tab(server.url, viewport={"width": 320, "height": 800}).label(model, "ann")
    buttons = page.get_by_role("group", name="Answers").get_by_role("button")
    found = {each.locator("bdi").first.inner_text(): each.locator("small").all_inner_texts() for each in buttons.all()}
    long = found.pop("long")[0]
    assert found == {
        "ham": [], "ham:raw": ["not smoked"], "spam": ["sells something"], "1": ["the integer"], '"1"': []
    }  # fmt: skip
    assert long.startswith("word word")
    assert buttons.filter(has_text="long").bounding_box()["height"] < 120  # the whole line stands in the guide
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Edit the guide").click()
    page.get_by_role("dialog").get_by_text("ham: what it is").wait_for()


def test_the_name_of_a_long_text_is_no_heading_that_skips_a_level(client, server, tab):
    client.create_model("long-text", kernel={"type": "linear"}, C=1, features={"type": "named"})
    text = "a text that is long enough to stand above the table of the other features of x"
    client.learn("long-text", [{"x": {"subject": "s", "text": text, "n": 1.0}, "y": y} for y in ("ham", "spam")])
    client.offer("long-text", [{"id": "c", "x": {"subject": "t", "text": text, "n": 2.0}}])
    page = tab(server.url).label("long-text", "ann")
    page.get_by_role("group", name="text").wait_for()
    names = page.evaluate("[...document.querySelectorAll('main :is(h1, h2, h3, h4)')].map((it) => it.tagName)")
    assert all(int(after[1]) <= int(before[1]) + 1 for before, after in itertools.pairwise(names)), names


@pytest.mark.long
def test_two_annotators_label_thirty_each_with_keys_and_no_question_is_shown_twice(client, server, tab):
    model = pool(client)
    tabs = {name: tab(server.url) for name in ("ann", "bob")}
    for name, one in tabs.items():
        one.label(model, name)
    shown = {name: [] for name in tabs}
    for k in range(30):
        for name, one in tabs.items():
            shown[name].append(one.answer("1" if k % 2 else "2"))
    for one in tabs.values():
        sent(one)
    every = shown["ann"] + shown["bob"]
    assert len(set(every)) == len(every) == 60
    given = answers(client, model)
    for ids in shown.values():
        assert [given[i] for i in ids] == ["spam" if k % 2 == 0 else "ham" for k in range(30)]
    assert client.model(model)["examples"] == 20 + 60
    assert {name: t["labelled"] for name, t in client.answers(model)["annotators"].items()} == {"ann": 30, "bob": 30}


@pytest.mark.long
def test_tabs_and_browsers_of_one_annotator_never_get_the_same_question(client, server, tab):
    model = pool(client)
    first = tab(server.url)
    tabs = [first, tab(server.url, beside=first), tab(server.url)]
    for one in tabs:
        one.label(model, "ann")
    shown = [one.answer("1" if k % 2 else "2") for k in range(10) for one in tabs]
    for one in tabs:
        sent(one)
    shown += [one.question() for one in tabs]
    assert len(set(shown)) == len(shown) == 33
    assert client.model(model)["examples"] == 20 + 30
    assert client.answers(model)["annotators"]["ann"]["labelled"] == 30


@pytest.mark.long
def test_a_reloaded_page_keeps_its_questions_and_a_copied_tab_gets_different_questions(client, ann):
    model, one, page = ann
    one.answer("1")
    sent(one)
    eventually(lambda: len(client.queries(model)["leased"]) == 3)
    asked, leased = one.question(), client.queries(model)["leased"]
    page.reload()
    page.wait_for_selector(".question .x")
    assert one.question() == asked
    assert {q["id"] for q in client.queries(model)["leased"]} == {q["id"] for q in leased}
    # Leaving shortened the leases to seconds; the reloaded page has renewed them.
    eventually(lambda: all(q["expires_at"] > leased[0]["expires_at"] for q in client.queries(model)["leased"]))
    with page.expect_popup() as opened:
        page.evaluate("() => { open(location.href); }")  # with a copy of the tab's storage
    opened.value.wait_for_selector(".question .x")
    assert opened.value.locator(".question p bdi.code").inner_text() not in {q["id"] for q in leased}
    opened.value.close()


@pytest.mark.long
def test_two_questions_are_fetched_ahead_and_given_back_when_the_page_is_left(client, ann):
    model, one, _ = ann
    eventually(lambda: client.queries(model)["pool"]["leased"] == 3)
    one.open("", "table.models")
    eventually(lambda: client.queries(model)["pool"]["leased"] == 0)
    one.open(f"models/{model}/label", ".question .x")
    eventually(lambda: client.queries(model)["pool"]["leased"] == 3)
    one.page.close()  # closes the tab
    eventually(lambda: client.queries(model)["pool"]["leased"] == 0)


@pytest.mark.long
def test_the_page_shows_the_effect_of_the_answers(client, server, tab):
    model = pool(client, labels={"explore": 1})
    one = tab(server.url)
    page = one.label(model, "ann")
    one.until("() => document.querySelector('.effect .changed').innerText.includes('in the pool')")
    for _ in range(22):
        one.answer("2")
    page.get_by_text("predictions in the pool.").wait_for()
    page.get_by_text("The accuracy on random questions is between").wait_for()
    estimate = client.model(model)["metrics"]["estimate"]
    page.get_by_text(f"{estimate['examples']} questions").wait_for()


def test_skipped_and_postponed_questions(client, server, tab):
    model = pool(client, 4)
    one = tab(server.url)
    page = one.label(model, "ann")
    one.until("() => !document.querySelector('.actions button:nth-child(3)').disabled")
    unsure = one.answer("d")
    mine = one.answer("s")
    nobodys = one.answer("x")
    assert len({unsure, mine, nobodys}) == 3
    remaining = {one.answer("1"), one.question()}
    assert unsure in remaining
    page.keyboard.press("1")
    page.get_by_text("No question for you").wait_for()
    sent(one)
    assert set(answers(client, model)) == remaining
    assert [q["id"] for q in client.query(model, annotator="bob", n=5)["queries"]] == [mine]


def test_the_result_of_an_earlier_answer_does_not_hide_the_message_of_a_later_action(client, ann):
    model, one, page = ann
    held = []

    def hold(route):
        """Hold the answer until the test lets it continue."""
        held.append(route)

    page.route("**/learn", hold)
    answered, passed = one.answer("1"), one.answer("s")
    one.until("() => document.querySelectorAll('.question .x').length === 1")
    page.keyboard.press("u")
    one.hears("the skip is undone")
    held[0].continue_()
    page.unroute("**/learn")
    sent(one)
    one.until("() => document.querySelector('.effect .changed') !== null")
    assert "the skip is undone" in page.locator(".question > p.said").inner_text()
    assert one.answer("2") == passed
    sent(one)
    one.hears("the model predicted")
    assert answers(client, model) == {answered: "ham", passed: "spam"}


@pytest.mark.long
@pytest.mark.parametrize("key", ["s", "x"])
def test_an_undone_skip_brings_its_question_back(client, ann, key):
    model, one, page = ann
    answered, passed = one.answer("1"), one.answer(key)
    page.keyboard.press("u")
    one.until("id => document.querySelector('.question p bdi.code').innerText === id", passed)
    one.hears("the skip is undone")
    assert one.answer("2") == passed
    sent(one)
    assert answers(client, model) == {answered: "ham", passed: "spam"}
    assert client.answers(model)["annotators"]["ann"]["skipped"] == 0
    passed = one.answer(key)
    eventually(lambda: client.answers(model)["annotators"]["ann"]["skipped"] == 1)
    page.get_by_role("button", name="Undo").click()
    one.until("id => document.querySelector('.question p bdi.code').innerText === id", passed)
    eventually(lambda: client.answers(model)["annotators"]["ann"]["skipped"] == 0)
    page.keyboard.press("u")  # undoes the answer that was given before the skip
    page.get_by_text("You answered spam").first.wait_for()


def test_a_skip_stays_if_another_annotator_has_the_question_by_now(client, server, tab):
    model = pool(client, 1)
    one = tab(server.url)
    page = one.label(model, "ann")
    page.keyboard.press("s")
    page.get_by_text("No question for you").wait_for()
    eventually(lambda: len(client.query(model, annotator="bob")["queries"]) == 1)
    page.keyboard.press("u")
    one.hears("skipped for all")
    page.get_by_text("No question for you").wait_for()


@pytest.mark.long
def test_undo_goes_back_one_answer_at_a_time_and_each_answer_can_be_changed(client, ann):
    model, one, page = ann
    first, second = one.answer("1"), one.answer("1")
    sent(one)
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    assert one.question() == second
    page.keyboard.press("2")
    one.hears("Changed to spam")
    assert answers(client, model) == {first: "ham", second: "spam"}
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    assert one.question() == second
    page.keyboard.press("Escape")
    page.locator(".question.again").wait_for(state="detached")
    page.get_by_role("button", name=first).first.click()  # in the list of answers
    page.locator(".question.again").wait_for()
    assert one.question() == first
    page.keyboard.press("2")
    eventually(lambda: answers(client, model) == {first: "spam", second: "spam"})
    eventually(lambda: not client.model(model)["jobs"])
    assert client.example(model, first)["label"] == client.example(model, second)["label"] == "spam"
    page.get_by_role("button", name=f"Forget {first}").click()
    eventually(lambda: first not in answers(client, model))


@pytest.mark.long
def test_a_slowly_fetched_answer_does_not_replace_an_answer_chosen_after_it(client, ann):
    model, one, page = ann
    first, second = one.answer("1"), one.answer("1")
    sent(one)
    held = one.hold(f"**/examples/{first}")
    page.get_by_role("button", name=f"ham {first}").click()
    eventually(lambda: page.wait_for_timeout(20) or held)
    page.get_by_role("button", name=f"ham {second}").click()
    page.locator(".question.again").wait_for()
    with page.expect_response(f"**/examples/{first}"):
        held[0].continue_()
    page.wait_for_timeout(200)  # the page would show the first answer within this time
    assert one.question() == second
    page.keyboard.press("2")
    one.hears("Changed to spam")
    assert answers(client, model) == {first: "ham", second: "spam"}


@pytest.mark.long
def test_labelling_goes_on_while_a_changed_answer_retrains_the_model(client, server, tab):
    model = pool(client, solver="lasvm")
    client.learn(model, examples_of(heaps(2000, ["ham", "spam"], seed=1), "more"))
    one = tab(server.url)
    page = one.label(model, "ann")
    changed = one.answer("1")
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    page.keyboard.press("2")
    page.locator(".question.again").wait_for(state="detached")  # at once, before the model is retrained
    page.get_by_text("Retraining with a corrected label").wait_for()
    shown = [one.answer("1") for _ in range(3)]
    one.hears("The model is retrained")
    sent(one)
    assert answers(client, model) == {changed: "spam"} | dict.fromkeys(shown, "ham")
    assert client.example(model, changed)["label"] == "spam"


@pytest.mark.long
def test_a_retraining_that_the_server_no_longer_knows_ends_on_the_page(client, server, tab):
    model = pool(client, solver="lasvm")
    one = tab(server.url)
    page = one.label(model, "ann")
    one.answer("1")
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    held = one.hold("**/jobs/*")
    page.keyboard.press("2")
    eventually(lambda: page.wait_for_timeout(20) or held)
    client.delete_model(model)
    held[0].continue_()
    page.unroute("**/jobs/*")
    page.get_by_role("region", name="Question").get_by_text("Retraining failed: ").wait_for()
    page.get_by_role("region", name="Retraining").wait_for(state="detached")


@pytest.mark.long
def test_a_vote_can_be_changed_before_the_model_learns_the_labels(client, server, tab):
    model = pool(client, 1, labels={"overlap": 2, "tie_breakers": 0, "explore": 0})
    one = tab(server.url)
    page = one.label(model, "ann")
    page.keyboard.press("1")
    one.hears("label 1 of 2")
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    page.keyboard.press("2")
    one.hears("Changed to spam")
    (query,) = client.query(model, annotator="bob")["queries"]
    (result,) = client.learn(model, [{"id": "c0", "y": "ham", "lease": query["lease"]}])["results"]
    assert result["votes"] == [{"label": "spam", "count": 1}, {"label": "ham", "count": 1}]
    assert client.example(model, "c0")["label"] == "spam"  # of two different labels, the first counts
    figures = client.answers(model)["annotators"]
    assert [(figures[name]["compared"], figures[name]["agreed"]) for name in ("ann", "bob")] == [(1, 1), (1, 0)]
    page.get_by_text("All annotators").click()
    page.get_by_role("group", name="Agreement by pair").get_by_role("row", name="ann, bob 1 0 % 0.00").wait_for()


@pytest.mark.long
def test_a_question_is_shown_only_together_with_its_answers(client, server, tab):
    model = pool(client)
    one = tab(server.url)
    held = one.hold(f"**/models/{model}")  # the request for the figures, which name the classes
    one.page.goto(f"{server.url}/ui#/models/{model}/label")
    one.page.fill("form.sign-in input", "ann")
    with one.page.expect_response("**/queries"):
        one.page.click("text=Begin")
    eventually(lambda: one.page.get_by_text("Loading").is_visible())
    one.page.keyboard.press("1")  # before any question is visible
    assert one.page.locator(".question .x, .answers input").count() == 0
    for route in held:
        route.continue_()
    one.page.wait_for_selector(".question .x")
    assert one.page.locator(".answers button").first.inner_text().startswith("ham")
    asked = one.answer("1")
    sent(one)
    assert answers(client, model) == {asked: "ham"}


@pytest.mark.long
def test_keys_do_nothing_in_a_field_and_can_be_changed_but_never_clash(client, ann):
    model, one, page = ann
    asked = one.question()
    page.focus("#goal")
    page.keyboard.press("1")
    page.keyboard.press("s")
    assert one.question() == asked
    page.locator("h1").first.evaluate("h => document.activeElement.blur()")
    page.keyboard.press("?")
    field = page.get_by_label("key for ham")
    field.press("s")
    page.get_by_text("s is already used for: Skip for me.").wait_for()
    field.press("h")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert one.answer("h") == asked
    sent(one)
    assert answers(client, model) == {asked: "ham"}
    page.reload()
    page.wait_for_selector(".question .x")
    assert page.locator(".answers button", has_text="ham").locator("kbd").inner_text() == "h"


def test_a_key_pressed_right_after_a_dialog_opens_does_not_act_on_the_page_behind_it(client, server, tab):
    one = tab(server.url)
    page = one.label(pool(client), "ann")
    asked = one.question()
    page.evaluate(
        """async () => {
            const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
            press("?");
            for (let turn = 0; turn < 9; turn++) await Promise.resolve(); // before the next frame
            press("s");
        }"""
    )
    page.wait_for_selector("dialog[open]")
    assert one.question() == asked


def test_a_new_label_can_be_typed(client, ann):
    model, one, page = ann
    asked = one.question()
    page.keyboard.press("n")
    page.wait_for_selector("input[name=label]:focus")
    page.keyboard.type("eggs")
    page.keyboard.press("Enter")
    sent(one)
    assert answers(client, model) == {asked: "eggs"}
    assert page.locator(".answers button", has_text="eggs").locator("kbd").inner_text() == "3"


@pytest.mark.long
def test_the_first_label_is_typed_without_a_click(client, server, tab):
    client.create_model("first", kernel={"type": "rbf", "gamma": 1.0}, C=1, features={"type": "dense", "dim": 2})
    client.offer("first", [{"id": f"c{k}", "x": [k, 1]} for k in range(3)])
    one = tab(server.url)
    page = one.label("first", "ann")
    one.until("document.activeElement.name === 'label'")
    page.keyboard.type("ham\n")
    eventually(lambda: client.model("first")["classes"] == ["ham"])
    page.locator(".answers kbd", has_text="1").wait_for()
    one.answer("1")
    eventually(lambda: client.model("first")["pool"]["answered"] == 2)


@pytest.mark.long
def test_labels_are_added_before_the_first_answer_and_an_empty_pool_leads_to_a_file(client, server, tab):
    client.create_model("added", kernel=KERNEL, C=1, features=FEATURES)
    one = tab(server.url)
    page = one.open("models/added/label", "form.sign-in")
    page.fill("form.sign-in input", "ann")
    page.click("text=Begin")
    page.get_by_role("link", name="Bring examples to label").click()
    page.wait_for_selector(".drop")
    client.offer("added", [{"id": f"c{k}", "x": [k, 1]} for k in range(5)])
    page = one.open("models/added/label", ".question .x")
    page.get_by_text("Nothing is labelled yet.").wait_for()
    for label in ("ham", "spam"):
        page.locator(".answers input").fill(label)
        page.get_by_role("button", name="Only add it").click()
        one.until("document.activeElement.name === 'label' && document.activeElement.value === ''")
    assert client.model("added")["classes"] == []
    assert page.locator(".answers kbd").all_inner_texts() == ["1", "2"]
    page.locator(".answers").get_by_role("button", name="spam").click()
    asked = one.answer("1")
    sent(one)
    assert answers(client, "added")[asked] == "ham"
    assert client.model("added")["classes"] == ["spam", "ham"]
    with page.expect_response("**/models/added"):  # the page now knows the order of the model
        one.answer("2")
    page.wait_for_timeout(200)
    buttons = page.locator(".answers button:has(kbd)")
    assert [text.split()[0] for text in buttons.all_inner_texts()[:2]] == ["ham", "spam"]  # no button moves
    assert barriers(page) == []
    page.reload()
    page.wait_for_selector(".question .x")
    assert [text.split()[0] for text in buttons.all_inner_texts()[:2]] == ["spam", "ham"]


@pytest.mark.long
def test_the_history_shows_pictures(client, server, tab):
    client.create_model("seen", kernel=KERNEL, C=1, features={"type": "dense", "dim": 4}, show={"image": [2, 2]})
    client.learn("seen", [{"x": [0, 0, 1, 1], "y": "a"}, {"x": [1, 1, 0, 0], "y": "b"}])
    client.offer("seen", [{"id": f"c{k}", "x": [0, 1, 1, k / 9]} for k in range(5)])
    one = tab(server.url)
    page = one.label("seen", "ann")
    for _ in range(2):
        one.answer("a")
    pictures = page.locator(".given-list canvas.picture")
    eventually(lambda: page.wait_for_timeout(20) or pictures.count() == 2)
    page.reload()
    eventually(lambda: page.wait_for_timeout(20) or pictures.count() == 2)  # the page asks for x


def test_a_lost_connection_neither_loses_nor_doubles_an_answer(client, ann):
    model, one, page = ann
    shown = [one.answer("1")]
    sent(one)
    one.context.set_offline(True)
    shown.append(one.answer("1"))
    shown.append(one.answer("2"))
    page.get_by_text("will be sent when the server is back").wait_for()
    page.get_by_role("alert").wait_for()
    last = one.question()
    page.keyboard.press("1")  # no question follows, because none can be fetched
    one.context.set_offline(False)
    sent(one)
    page.get_by_role("alert").wait_for(state="detached")
    assert answers(client, model) == {shown[0]: "ham", shown[1]: "ham", shown[2]: "spam", last: "ham"}
    assert client.model(model)["examples"] == 24
    one.until("() => document.querySelector('.question p bdi.code') !== null")
    assert one.question() not in {*shown, last}


@pytest.mark.long
def test_waiting_answers_survive_a_reload(client, ann):
    model, one, page = ann
    page.route("**/learn", lambda route: route.abort())
    first = one.answer("2")
    page.get_by_text("will be sent when the server is back").wait_for()
    page.unroute("**/learn")
    page.reload()
    page.wait_for_selector(".question .x")
    sent(one)
    assert answers(client, model) == {first: "spam"}


def test_an_answer_is_learned_once_though_its_acknowledgement_is_lost(client, ann):
    model, one, page = ann
    lost = []

    def lose(route):
        if not lost:
            lost.append(route.fetch().status)  # the server has the answer, the page does not know
            route.abort()
        else:
            route.continue_()

    page.route("**/learn", lose)
    first = one.answer("1")
    sent(one)
    assert lost == [200]
    assert answers(client, model) == {first: "ham"}
    assert client.model(model)["examples"] == 21


@pytest.mark.long
def test_no_answer_is_lost_when_the_server_is_killed(tmp_path, tab):
    with RunningServer(tmp_path / "data") as server, Client(server.url, tries_max=20) as client:
        model = pool(client, name="killed")
        one = tab(server.url)
        one.label(model, "ann")
        shown = []
        for k in range(24):
            if k % 8 == 3:
                server.kill()
                threading.Timer(0.3, server.start, kwargs={"wait": False}).start()
            shown.append(one.answer("1" if k % 3 else "2"))
        sent(one)
        server.wait_until_ready()
        assert len(set(shown)) == 24
        assert answers(client, model) == {given: "spam" if k % 3 == 0 else "ham" for k, given in enumerate(shown)}
        assert client.model(model)["examples"] == 44


@pytest.mark.long
def test_a_candidates_show_is_displayed_instead_of_its_x(client, server, tab):
    model = f"m{next(NUMBERS)}"
    client.create_model(model, kernel=KERNEL, C=1, features=FEATURES, show={"origins": ["https://ok.example"]})
    client.learn(model, [{"x": [4, 0], "y": "ham"}, {"x": [0, 4], "y": "spam"}])
    shows = [
        "<b>as text</b>", {"picture": "https://ok.example/1", "note": "<i>a note</i>"}, ["one", 2], "https://ok.example/2",
    ]  # fmt: skip
    client.offer(model, [{"id": f"c{k}", "x": [2.125, 2.0], "show": show} for k, show in enumerate(shows)])
    one = tab(server.url)
    page = one.label(model, "ann")
    seen = ""
    for _ in shows:
        text = page.locator(".question").inner_text()
        links = page.locator(".question a").evaluate_all("links => links.map((a) => a.href)")
        seen += " ".join([text, *links])
        assert "2.125" not in text
        one.answer("1")
    for told in ("<b>as text</b>", "https://ok.example/1", "<i>a note</i>", "one", "https://ok.example/2"):
        assert told in seen


def test_a_text_is_shown_as_text(client, server, tab):
    model = f"m{next(NUMBERS)}"
    client.create_model(model, kernel={"type": "linear"}, features={"type": "text"})
    client.learn(model, [{"x": "no", "y": "ham"}])
    client.offer(model, [{"id": "t", "x": "Is <i>this</i> spam?"}])
    assert tab(server.url).label(model, "ann").locator(".x.text").inner_text() == "Is <i>this</i> spam?"


@pytest.mark.long
def test_answers_are_counted_before_the_servers_figures_arrive(client, ann):
    model, one, page = ann
    counted = page.get_by_role("region", name="Effect of your answers")
    counted.get_by_text("0 answered, 0 by you in this visit").wait_for()
    page.route("**/pool?*", lambda route: route.abort())  # the page reads the figures together with the pool
    for k in range(1, 24):
        one.answer("1" if k % 2 else "2")
        counted.get_by_text(f"{k} answered, {k} by you in this visit").wait_for()
    page.unroute("**/pool?*")
    sent(one)
    page.keyboard.press("u")  # a changed answer does not count again
    page.locator(".question.again").wait_for()
    counted.get_by_text("23 answered, 23 by you in this visit").wait_for()
    page.keyboard.press("1")
    counted.get_by_text("23 answered, 23 by you in this visit").wait_for()
    client.learn(model, [lease_of(client, model, "bob") | {"y": "ham"}])
    one.answer("2")
    counted.get_by_text("25 answered, 24 by you in this visit").wait_for()


def lease_of(client, model, annotator):
    """Lease a question to an annotator; return its id and lease."""
    (query,) = client.query(model, n=1, annotator=annotator)["queries"]
    return {name: query[name] for name in ("id", "lease")}


@pytest.mark.long
def test_with_several_labels_per_question_labels_and_questions_are_counted_apart(client, server, tab):
    model = pool(client, 4, labels={"overlap": 2, "tie_breakers": 1, "explore": 0})
    for _ in range(4):
        client.learn(model, [lease_of(client, model, "bob") | {"y": "ham"}])
    one = tab(server.url)
    page = one.label(model, "ann")
    for key in "112":
        one.answer(key)
    page.keyboard.press("2")
    page.get_by_text("2 questions with all their labels; 4 labels by you in this visit").wait_for()
    page.get_by_text("All annotators").click()
    for name in ("ann", "bob"):
        row = page.get_by_role("group", name="Annotators").get_by_role("row", name=name)
        row.get_by_role("cell").nth(2).filter(has_text="50 %").wait_for()  # agreement
    both = page.get_by_role("group", name="Agreement by pair").get_by_role("row", name="ann, bob")
    assert both.get_by_role("cell").all_inner_texts()[:2] == ["4", "50 %"]
    # Two of the four candidates have different labels, and wait for a tie-breaker. No sentence may contradict this.
    assert client.answers(model)["disagreement"] == 0
    assert page.get_by_text("disagree").count() == 0


@pytest.mark.long
def test_the_keys_of_undeclared_classes_are_the_same_for_everybody(client, server, tab):
    """A typed label has a key at once, which does not move while somebody labels; later the model's order counts."""
    client.create_model("shared-keys", kernel=KERNEL, C=1, features=FEATURES, labels={"overlap": 3, "explore": 0})
    client.offer("shared-keys", [{"id": f"q{k}", "x": [k, k % 3]} for k in range(6)])
    tabs = {name: tab(server.url) for name in ("ann", "bob")}
    for (name, one), label in zip(tabs.items(), ("cat", "dog"), strict=True):
        page = one.open("models/shared-keys/label", "form.sign-in")
        page.fill("form.sign-in input", name)
        page.click("text=Begin")
        page.wait_for_selector(".question .x")
        page.fill(".answers input", label)
        page.keyboard.press("Enter")
        page.locator(".said").get_by_text("of 3: the model learns").wait_for()
        button = page.locator(".answers").get_by_role("button", name=label)
        assert button.locator("kbd").inner_text() == "1"
    client.learn("shared-keys", [{"id": "l1", "x": [9, 9], "y": "dog"}, {"id": "l2", "x": [8, 9], "y": "cat"}])
    eventually(lambda: client.model("shared-keys")["classes"] == ["dog", "cat"])
    tabs["ann"].answer("1")
    assert {a["label"] for a in client.answers("shared-keys", annotator="ann")["answers"]} == {"cat"}
    for name, one in tabs.items():
        one.page.reload()
        one.page.wait_for_selector(".question .x")
        keys = one.page.locator(".answers kbd").all_inner_texts()[:2]
        words = [text.split("\n")[0] for text in one.page.locator(".answers button").all_inner_texts()[:2]]
        assert dict(zip((word.split()[0] for word in words), keys, strict=True)) == {"dog": "1", "cat": "2"}, name
