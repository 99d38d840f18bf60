import pytest

from hinged import Client
from tests.helpers.browser import ARGUMENTS, Tab, executable
from tests.helpers.fixtures import server_with, speaking


@pytest.fixture(scope="module")  # no longer: its event loop on this thread keeps others from having one
def browser():
    path = executable()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield opened
        opened.close()


server = server_with()
client = speaking(Client)


@pytest.fixture
def tab(browser):
    """Open a tab on a server. At the end nothing may have gone wrong in any, and nothing have come from elsewhere."""
    opened = []

    def tab(url, **context):
        opened.append(Tab(browser, url, **context))
        return opened[-1]

    yield tab
    for one in opened:
        one.close()
        assert one.wrong == []
        assert all(address.startswith((one.url, "data:", "blob:")) for address in one.requested)
