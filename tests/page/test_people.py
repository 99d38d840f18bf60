"""An admin makes and revokes keys on the page."""

import re

import pytest

from hinged import Client, HingedError
from hinged.service.edge.keys import create_key, read_keys, revoke_key
from tests.helpers.browser import barriers
from tests.helpers.examples import examples_of, heaps
from tests.helpers.server import RunningServer, eventually

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Return a server with keys, its key file, and the text of each key."""
    folder = tmp_path_factory.mktemp("people")
    path = folder / "keys.json"
    texts = {role: create_key(path, role, role) for role in ("reader", "annotator", "writer", "admin")}
    texts["bound"] = create_key(path, "bound", "admin", ("fraud-*",))
    with RunningServer(folder / "data", keys_file=path) as server:
        yield server, path, texts


def signed_in(one, key, place="people"):
    page = one.open(place, "form")
    page.fill("input[name=key]", key)
    page.keyboard.press("Enter")
    page.wait_for_selector("header.top")
    return page


def named(path):
    return {key.name for key in read_keys(path)}


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_an_admin_makes_a_key_which_is_shown_once_and_works(guarded, tab, width, scheme):
    server, path, texts = guarded
    one = tab(server.url, color_scheme=scheme, viewport={"width": width, "height": 800})
    one.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page = signed_in(one, texts["admin"], "")
    page.get_by_role("link", name="People").click()
    name = f"ann-{width}"
    page.get_by_label("Name of the person or program").fill(name)
    page.get_by_role("combobox", name="Role").select_option("writer")
    page.get_by_text("May send examples to learn").wait_for()
    page.get_by_label("Models").fill("fraud-*, spam")
    page.get_by_role("button", name="Make a key").click()
    text = page.locator(".secret").inner_text()
    with Client(server.url, key=text) as ann:
        assert ann.key() == {"name": name, "role": "writer", "models": ["fraud-*", "spam"]}
    one.hears(f"The key of {name} is made")
    assert page.evaluate("document.activeElement.innerText") == "Copy"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == text
    row = page.get_by_role("row", name=re.compile(f"^{name}"))
    assert row.get_by_role("cell").all_inner_texts()[:2] == ["writer", "fraud-*, spam"]
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Done").click()
    assert text not in page.content()
    assert page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])") == "[{},{}]"
    assert all(text not in address and texts["admin"] not in address for address in one.requested)
    assert name in named(path)


def test_a_key_is_revoked_by_the_keyboard_alone_and_only_after_its_name_was_typed(guarded, tab):
    server, path, texts = guarded
    text = create_key(path, "leaving", "reader")
    one = tab(server.url)
    page = signed_in(one, texts["admin"])
    button = page.get_by_role("button", name="Revoke the key of leaving")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Revoke the key of leaving?")
    dialog.wait_for()
    assert barriers(page) == []
    page.keyboard.press("Enter")
    page.keyboard.type("leavin")
    page.keyboard.press("Enter")
    assert dialog.get_by_role("button", name="Revoke").is_disabled()
    assert "leaving" in named(path)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert "leaving" in named(path)
    button.focus()
    page.keyboard.press("Enter")
    dialog.wait_for()
    page.keyboard.type("leaving")
    page.keyboard.press("Enter")
    one.hears("The key of leaving is revoked")
    assert "leaving" not in named(path)
    with Client(server.url, key=text) as gone, pytest.raises(HingedError, match="not known, or was revoked"):
        gone.key()
    page.get_by_role("row", name=re.compile("^leaving")).wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "People"


def test_a_revoked_key_ends_the_view_and_a_new_key_sends_the_answers_that_waited(guarded, tab):
    server, path, texts = guarded
    with Client(server.url, key=texts["admin"]) as client:
        client.create_model("kept", kernel={"type": "rbf", "gamma": 1.0}, features={"type": "dense", "dim": 2})
        client.learn("kept", examples_of(heaps(20, ["ham", "spam"])))
        client.offer("kept", [{"id": f"c{k}", "x": [k, 1]} for k in range(6)])
        page = signed_in(tab(server.url), create_key(path, "temp", "annotator"), "models/kept/label")
        page.get_by_role("region", name="Question").locator("table").wait_for()
        revoke_key(path, "temp")
        page.keyboard.press("1")
        page.get_by_text("the server does not know your key any more").wait_for()
        assert page.locator("header.top").count() == 0
        assert client.model("kept")["pool"]["answered"] == 0
        page.fill("input[name=key]", create_key(path, "temp", "annotator"))
        page.keyboard.press("Enter")
        eventually(lambda: client.model("kept")["pool"]["answered"] == 1)


def test_an_admin_sees_every_key_and_what_each_role_may_do_but_cannot_revoke_the_own_key(guarded, tab):
    server, path, texts = guarded
    page = signed_in(tab(server.url), texts["admin"])
    rows = page.get_by_role("group", name="Keys").get_by_role("rowheader")
    eventually(lambda: set(rows.all_inner_texts()) == named(path))
    own = page.get_by_role("row", name=re.compile("^admin"))
    assert own.get_by_text("your key").count() == 1
    assert own.get_by_role("button").count() == 0
    with Client(server.url, key=texts["admin"]) as client:
        for may in client.keys()["roles"].values():
            page.get_by_text(may.replace("`", "")).first.wait_for()
    assert not any(digest.sha256 in page.content() for digest in read_keys(path))


@pytest.mark.parametrize("who", ["reader", "annotator", "writer", "bound"])
def test_other_keys_see_no_keys(guarded, tab, who):
    server, _, texts = guarded
    page = signed_in(tab(server.url), texts[who], "")
    assert page.get_by_role("link", name="People").count() == 0
    page.goto(f"{server.url}/ui#/people")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("group", name="Keys").count() == 0


def test_a_name_that_is_taken_or_invalid_is_refused_with_a_reason(guarded, tab):
    server, path, texts = guarded
    page = signed_in(tab(server.url), texts["admin"])
    before = path.read_bytes()
    field = page.get_by_label("Name of the person or program")
    field.fill("reader")
    page.get_by_role("button", name="Make a key").click()
    page.get_by_role("alert").get_by_text("there is a key named 'reader' already").wait_for()
    field.fill("two words")
    page.get_by_role("button", name="Make a key").click()
    assert page.evaluate("document.querySelector('form.make').checkValidity()") is False
    assert path.read_bytes() == before


def test_a_server_without_keys_says_how_to_make_the_first(server, tab):
    page = tab(server.url).open("", "header.top")
    page.get_by_role("link", name="People").click()
    page.get_by_text("This server has no keys").wait_for()
    page.get_by_text("hinged keys create me --role admin").wait_for()
    assert barriers(page) == []
