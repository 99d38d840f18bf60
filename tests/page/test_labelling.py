"""Labelling in a browser: no question twice, no answer lost or doubled, every answer can be taken back."""

import itertools
import threading

import pytest

from hinged import Client
from tests.helpers.examples import examples_of, heaps
from tests.helpers.server import RunningServer, eventually

pytestmark = [pytest.mark.server, pytest.mark.longest]

KERNEL = {"type": "rbf", "gamma": 1.0}
FEATURES = {"type": "dense", "dim": 2}
NUMBERS = itertools.count()


def pool(client, n=80, name=None, **configuration):
    """A model that knows two heaps, and so many candidates between them."""
    name = name or f"m{next(NUMBERS)}"
    client.create_model(name, **{"kernel": KERNEL, "C": 1, "features": FEATURES, **configuration})
    # The first class is ham: key 1.
    client.learn(name, [{"id": "ham", "x": [4, 0], "y": "ham"}, *examples_of(heaps(19, ["ham", "spam"]))])
    client.offer(name, [{"id": f"c{k}", "x": [k / 20, 4 - k / 20]} for k in range(n)])
    return name


@pytest.fixture
def ann(client, server, tab):
    """Ann before the first question of a new pool: its model, her tab, and the page in it."""
    model, one = pool(client), tab(server.url)
    return model, one, one.label(model, "ann")


def answers(client, model):
    """What each annotator gave, by id; the log's own examples tell that no answer was learned twice."""
    found = client.answers(model, n=1000)["answers"]
    assert len({a["id"] for a in found}) == len(found)
    return {a["id"]: a["label"] for a in found}


def sent(one):
    """Wait until no answer of a tab is on its way."""
    one.until(
        "() => Object.keys(sessionStorage).filter((k) => k.startsWith('hinged-answers-'))"
        ".every((k) => sessionStorage[k] === '[]')"
    )


def test_two_label_thirty_each_by_keys_and_no_question_is_shown_twice(client, server, tab):
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


def test_tabs_and_browsers_of_one_annotator_are_never_asked_the_same(client, server, tab):
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


def test_a_page_that_is_loaded_anew_has_its_questions_at_once_and_a_copy_of_the_tab_has_others(client, ann):
    model, one, page = ann
    one.answer("1")
    sent(one)
    eventually(lambda: len(client.queries(model)["leased"]) == 3)
    asked, leased = one.question(), client.queries(model)["leased"]
    page.reload()
    page.wait_for_selector(".question .x")
    assert one.question() == asked
    assert {q["id"] for q in client.queries(model)["leased"]} == {q["id"] for q in leased}
    # They were to end within seconds; the page has them for as long again as before.
    eventually(lambda: all(q["expires_at"] > leased[0]["expires_at"] for q in client.queries(model)["leased"]))
    with page.expect_popup() as opened:
        page.evaluate("() => { open(location.href); }")  # with a copy of the tab's storage
    opened.value.wait_for_selector(".question .x")
    assert opened.value.locator(".question p bdi.code").inner_text() not in {q["id"] for q in leased}
    opened.value.close()


def test_two_questions_wait_behind_the_one_on_the_screen_and_go_back_on_leaving(client, ann):
    model, one, _ = ann
    eventually(lambda: client.queries(model)["pool"]["leased"] == 3)
    one.open("", "table.models")
    eventually(lambda: client.queries(model)["pool"]["leased"] == 0)
    one.open(f"models/{model}/label", ".question .x")
    eventually(lambda: client.queries(model)["pool"]["leased"] == 3)
    one.page.close()  # the tab
    eventually(lambda: client.queries(model)["pool"]["leased"] == 0)


def test_what_an_answer_did_is_said(client, server, tab):
    model = pool(client, labels={"explore": 1})
    one = tab(server.url)
    page = one.label(model, "ann")
    one.until("() => document.querySelector('.effect .changed').innerText.includes('in the pool')")
    for _ in range(22):
        one.answer("2")
    page.get_by_text("predictions of the pool.").wait_for()
    page.get_by_text("On questions drawn at random it is right").wait_for()
    random = client.model(model)["metrics"]["sources"]["random"]
    page.get_by_text(f"{random['newest_half']['examples']} questions").wait_for()


def test_skipping_and_not_being_sure(client, server, tab):
    model = pool(client, 4)
    one = tab(server.url)
    page = one.label(model, "ann")
    one.until("() => !document.querySelector('.others button:nth-child(3)').disabled")
    unsure = one.answer("d")
    mine = one.answer("s")
    nobodys = one.answer("x")
    assert len({unsure, mine, nobodys}) == 3
    remaining = {one.answer("1"), one.question()}
    assert unsure in remaining
    page.keyboard.press("1")
    page.get_by_text("Nothing to ask").wait_for()
    sent(one)
    assert set(answers(client, model)) == remaining
    assert [q["id"] for q in client.query(model, annotator="bob", n=5)["queries"]] == [mine]


def test_what_comes_of_an_earlier_answer_hides_nothing_that_is_said_of_a_later_act(client, ann):
    model, one, page = ann
    held = []

    def hold(route):
        """The answer is on its way for as long as the test wants."""
        held.append(route)

    page.route("**/learn", hold)
    answered, passed = one.answer("1"), one.answer("s")
    one.until("() => document.querySelectorAll('.question .x').length === 1")
    page.keyboard.press("u")
    one.hears("the skip is taken back")
    held[0].continue_()
    page.unroute("**/learn")
    sent(one)
    one.until("() => document.querySelector('.effect .changed') !== null")
    assert "the skip is taken back" in page.locator(".question > p.soft").inner_text()
    assert one.answer("2") == passed
    sent(one)
    one.hears("the model had said")
    assert answers(client, model) == {answered: "ham", passed: "spam"}


@pytest.mark.parametrize("key", ["s", "x"])
def test_a_skip_is_undone_and_its_question_is_there_again(client, ann, key):
    model, one, page = ann
    answered, passed = one.answer("1"), one.answer(key)
    page.keyboard.press("u")
    one.until("id => document.querySelector('.question p bdi.code').innerText === id", passed)
    one.hears("the skip is taken back")
    assert one.answer("2") == passed
    sent(one)
    assert answers(client, model) == {answered: "ham", passed: "spam"}
    assert client.answers(model)["annotators"]["ann"]["skipped"] == 0
    passed = one.answer(key)
    eventually(lambda: client.answers(model)["annotators"]["ann"]["skipped"] == 1)
    page.get_by_role("button", name="Undo").click()
    one.until("id => document.querySelector('.question p bdi.code').innerText === id", passed)
    eventually(lambda: client.answers(model)["annotators"]["ann"]["skipped"] == 0)
    page.keyboard.press("u")  # what came before the skip: an answer
    page.get_by_text("You gave spam").first.wait_for()


def test_a_skip_that_is_anothers_turn_by_now_stays_and_the_page_says_so(client, server, tab):
    model = pool(client, 1)
    one = tab(server.url)
    page = one.label(model, "ann")
    page.keyboard.press("s")
    page.get_by_text("Nothing to ask").wait_for()
    eventually(lambda: len(client.query(model, annotator="bob")["queries"]) == 1)
    page.keyboard.press("u")
    one.hears("leased to other annotators")
    page.get_by_text("Nothing to ask").wait_for()


def test_undo_goes_back_answer_by_answer_and_each_can_be_changed(client, ann):
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
    page.get_by_role("button", name=first).first.click()  # in the list of my answers
    page.locator(".question.again").wait_for()
    assert one.question() == first
    page.keyboard.press("2")
    eventually(lambda: answers(client, model) == {first: "spam", second: "spam"})
    eventually(lambda: not client.model(model)["jobs"])
    assert client.example(model, first)["label"] == client.example(model, second)["label"] == "spam"
    page.get_by_role("button", name=f"Forget {first}").click()
    eventually(lambda: first not in answers(client, model))


def test_an_answer_that_is_fetched_to_be_changed_takes_the_place_of_none_that_was_chosen_after_it(client, ann):
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
    page.wait_for_timeout(200)  # in which the page could show it
    assert one.question() == second
    page.keyboard.press("2")
    one.hears("Changed to spam")
    assert answers(client, model) == {first: "ham", second: "spam"}


def test_while_a_changed_answer_is_taught_one_goes_on_labelling(client, server, tab):
    model = pool(client, solver="lasvm")
    client.learn(model, examples_of(heaps(2000, ["ham", "spam"], seed=1), "more"))
    one = tab(server.url)
    page = one.label(model, "ann")
    changed = one.answer("1")
    page.keyboard.press("u")
    page.locator(".question.again").wait_for()
    page.keyboard.press("2")
    page.locator(".question.again").wait_for(state="detached")  # at once, whatever the model does
    page.get_by_text("The model is being taught anew with your change").wait_for()
    shown = [one.answer("1") for _ in range(3)]
    one.hears("The model is taught anew")
    sent(one)
    assert answers(client, model) == {changed: "spam"} | dict.fromkeys(shown, "ham")
    assert client.example(model, changed)["label"] == "spam"


def test_with_two_labels_for_each_question_a_vote_is_changed_before_it_is_learned(client, server, tab):
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
    assert client.example(model, "c0")["label"] == "spam"  # of two that differ the first
    figures = client.answers(model)["annotators"]
    assert [(figures[name]["compared"], figures[name]["agreed"]) for name in ("ann", "bob")] == [(1, 1), (1, 0)]
    page.get_by_text("Everyone's figures").click()
    page.get_by_role("group", name="Agreement of each two").get_by_role("row", name="ann, bob 1 0 % 0.00").wait_for()


def test_a_question_is_there_with_its_answers_and_not_before_them(client, server, tab):
    model = pool(client)
    one = tab(server.url)
    held = one.hold(f"**/models/{model}")  # the figures, which name the classes
    one.page.goto(f"{server.url}/ui#/models/{model}/label")
    one.page.fill("form.sign-in input", "ann")
    with one.page.expect_response("**/queries"):
        one.page.click("text=Begin")
    eventually(lambda: one.page.get_by_text("One moment").is_visible())
    one.page.keyboard.press("1")  # for nothing that could be seen
    assert one.page.locator(".question .x, .answers input").count() == 0
    for route in held:
        route.continue_()
    one.page.wait_for_selector(".question .x")
    assert one.page.locator(".answers button").first.inner_text().startswith("ham")
    asked = one.answer("1")
    sent(one)
    assert answers(client, model) == {asked: "ham"}


def test_keys_are_dead_in_a_field_and_can_be_changed_but_never_clash(client, ann):
    model, one, page = ann
    asked = one.question()
    page.focus("#goal")
    page.keyboard.press("1")
    page.keyboard.press("s")
    assert one.question() == asked
    page.locator("h1").first.evaluate("h => document.activeElement.blur()")
    page.keyboard.press("?")
    field = page.get_by_label("key of ham")
    field.press("s")
    page.get_by_text("s is taken: Skip for me.").wait_for()
    field.press("h")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert one.answer("h") == asked
    sent(one)
    assert answers(client, model) == {asked: "ham"}
    page.reload()
    page.wait_for_selector(".question .x")
    assert page.locator(".answers button", has_text="ham").locator("kbd").inner_text() == "h"


def test_a_key_right_behind_the_one_that_opens_a_dialog_is_not_for_the_page_behind_it(client, server, tab):
    one = tab(server.url)
    page = one.label(pool(client), "ann")
    asked = one.question()
    page.evaluate(
        """async () => {
            const press = (key) => dispatchEvent(new KeyboardEvent("keydown", { key }));
            press("?");
            for (let turn = 0; turn < 9; turn++) await Promise.resolve(); // before the next picture is drawn
            press("s");
        }"""
    )
    page.wait_for_selector("dialog[open]")
    assert one.question() == asked


def test_a_label_that_was_not_there_before_is_typed(client, ann):
    model, one, page = ann
    asked = one.question()
    page.keyboard.press("n")
    page.wait_for_selector("input[name=label]:focus")
    page.keyboard.type("eggs")
    page.keyboard.press("Enter")
    sent(one)
    assert answers(client, model) == {asked: "eggs"}
    assert page.locator(".answers button", has_text="eggs").locator("kbd").inner_text() == "3"


def test_a_lost_connection_loses_no_answer_and_doubles_none(client, ann):
    model, one, page = ann
    shown = [one.answer("1")]
    sent(one)
    one.context.set_offline(True)
    shown.append(one.answer("1"))
    shown.append(one.answer("2"))
    page.get_by_text("will be sent when it is back").wait_for()
    page.get_by_role("alert").wait_for()
    last = one.question()
    page.keyboard.press("1")  # nothing is fetched meanwhile: no question follows
    one.context.set_offline(False)
    sent(one)
    page.get_by_role("alert").wait_for(state="detached")
    assert answers(client, model) == {shown[0]: "ham", shown[1]: "ham", shown[2]: "spam", last: "ham"}
    assert client.model(model)["examples"] == 24
    one.until("() => document.querySelector('.question p bdi.code') !== null")
    assert one.question() not in {*shown, last}


def test_answers_that_wait_survive_a_page_that_is_loaded_anew(client, ann):
    model, one, page = ann
    page.route("**/learn", lambda route: route.abort())
    first = one.answer("2")
    page.get_by_text("will be sent when it is back").wait_for()
    page.unroute("**/learn")
    page.reload()
    page.wait_for_selector(".question .x")
    sent(one)
    assert answers(client, model) == {first: "spam"}


def test_an_answer_whose_acknowledgement_is_lost_is_learned_once(client, ann):
    model, one, page = ann
    lost = []

    def lose(route):
        if not lost:
            lost.append(route.fetch().status)  # the server has it, the page does not hear so
            route.abort()
        else:
            route.continue_()

    page.route("**/learn", lose)
    first = one.answer("1")
    sent(one)
    assert lost == [200]
    assert answers(client, model) == {first: "ham"}
    assert client.model(model)["examples"] == 21


def test_the_server_is_killed_while_somebody_labels(tmp_path, tab):
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


def test_what_a_candidate_is_shown_as_takes_the_place_of_its_x(client, server, tab):
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


def test_what_was_answered_is_counted_at_once_though_the_servers_figures_come_later(client, ann):
    model, one, page = ann
    counted = page.get_by_role("region", name="What your answers did")
    counted.get_by_text("0 answered, 0 by you now").wait_for()
    page.route("**/pool?*", lambda route: route.abort())  # with which the figures are read
    for k in range(1, 24):
        one.answer("1" if k % 2 else "2")
        counted.get_by_text(f"{k} answered, {k} by you now").wait_for()
    page.unroute("**/pool?*")
    sent(one)
    page.keyboard.press("u")  # to change an answer is no answer more
    page.locator(".question.again").wait_for()
    counted.get_by_text("23 answered, 23 by you now").wait_for()
    page.keyboard.press("1")
    counted.get_by_text("23 answered, 23 by you now").wait_for()
    client.learn(model, [lease_of(client, model, "bob") | {"y": "ham"}])
    one.answer("2")
    counted.get_by_text("25 answered, 24 by you now").wait_for()


def lease_of(client, model, annotator):
    """The id and the lease of a question."""
    (query,) = client.query(model, n=1, annotator=annotator)["queries"]
    return {name: query[name] for name in ("id", "lease")}


def test_of_several_labels_the_page_tells_labels_and_questions_apart_and_no_conflict_is_agreement(client, server, tab):
    model = pool(client, 4, labels={"overlap": 2, "tie_breakers": 1, "explore": 0})
    for _ in range(4):
        client.learn(model, [lease_of(client, model, "bob") | {"y": "ham"}])
    one = tab(server.url)
    page = one.label(model, "ann")
    for key in "112":
        one.answer(key)
    page.keyboard.press("2")
    page.get_by_text("2 questions with all their labels; 4 labels by you now").wait_for()
    page.get_by_text("Everyone's figures").click()
    for name in ("ann", "bob"):
        row = page.get_by_role("group", name="Annotators").get_by_role("row", name=name)
        row.get_by_role("cell", name="50 %").wait_for()
    both = page.get_by_role("group", name="Agreement of each two").get_by_role("row", name="ann, bob")
    assert both.get_by_role("cell").all_inner_texts()[:2] == ["4", "50 %"]
