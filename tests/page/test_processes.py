"""The page works the same with several server processes: keys, tickets and event streams work in every process."""

import pytest

from hinged import Client
from hinged.service.edge.keys import create_key
from tests.helpers.divided_server import ONE, TWO
from tests.helpers.examples import examples_of, heaps
from tests.helpers.server import RunningServer

NAMES = [ONE[0], TWO[0]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("divided")
    key = create_key(folder / "keys.json", "ann", "admin")
    with (
        RunningServer(folder / "data", processes=2, keys_file=folder / "keys.json") as server,
        Client(server.url, key=key) as client,
    ):
        yield server, client, key


@pytest.mark.long
def test_the_page_shows_and_follows_all_models_whichever_process_owns_them(guarded, tab):
    server, client, key = guarded
    for name in NAMES:
        client.create_model(name, kernel={"type": "rbf", "gamma": 1.0}, C=1, features={"type": "dense", "dim": 2})
        client.learn(name, examples_of(heaps(60, ["ham", "spam"])))
    page = tab(server.url).open("", "form")
    page.fill("input[name=key]", key)
    page.get_by_role("button", name="Sign in").click()
    for name in NAMES:
        row = page.locator("tr", has=page.get_by_role("link", name=name, exact=True))
        row.get_by_text("60", exact=True).first.wait_for()
        client.learn(name, examples_of(heaps(40, ["ham", "spam"], seed=1), "more"))
        row.get_by_text("100", exact=True).first.wait_for()
    for name in NAMES:
        page.get_by_role("link", name=name, exact=True).click()
        page.get_by_role("heading", name=name).first.wait_for()
        page.get_by_text("100", exact=True).first.wait_for()
        client.learn(name, examples_of(heaps(11, ["ham", "spam"], seed=2), "live"))
        page.get_by_text("111", exact=True).first.wait_for()  # through the event stream, which a ticket opened
        page.go_back()
