import pytest

from hinged import Client
from tests.helpers.browser import ARGUMENTS, Tab, executable
from tests.helpers.fixtures import server_with, speaking


# Module scope, not session: Playwright's event loop on this thread keeps other tests from having a loop of their own.
@pytest.fixture(scope="module")
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
    """Open tabs on a server. After the test, no tab may have logged an error or loaded anything from another host."""
    opened = []

    def tab(url, **context):
        opened.append(Tab(browser, url, **context))
        return opened[-1]

    yield tab
    for one in opened:
        one.close()
        assert one.wrong == []
        assert all(address.startswith((one.url, "data:", "blob:")) for address in one.requested)
