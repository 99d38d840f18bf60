"""The distribution's Chromium, and functions for the actions of the tests on the page."""

import re
import shutil
import time
from pathlib import Path

from tests.helpers.server import PATIENCE_S, missing

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 1000 * PATIENCE_S
QUIET = re.compile(r"Failed to load resource|net::ERR_")
"""Console messages about failed requests. Tests make requests fail on purpose, so these messages do not count as
errors."""


NAMES = "chromium-headless-shell", "chromium", "chromium-browser"
"""Chromium's executables, fastest first. The headless shell opens a page in a third of the time. No flag makes the full
browser as fast."""


def executable():
    """Return the path of Chromium. Without Chromium, skip the test; in CI the test fails."""
    found = (shutil.which(name) for name in NAMES)
    return next(filter(None, found), None) or missing(
        f"there is no chromium: install it (apt-get install {NAMES[0]}), then run the tests again"
    )


class Tab:
    """A page, with lists of its errors (`wrong`) and of the addresses that it requested (`requested`).

    The page has its own browser context, as in a separate browser, or shares the context of the tab `beside`.
    """

    def __init__(self, browser, url, beside=None, **context):
        self.context = beside.context if beside else browser.new_context(**context)
        self.alone = beside is None
        self.url = url
        self.wrong = []
        self.requested = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("dialog", lambda dialog: dialog.accept())
        # The document gets an event for each violation of the policy, even if the console shows no message.
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`))"
        )
        # A message for screen readers is soon replaced. Every message is recorded.
        self.page.add_init_script(
            "window.heard = [];"
            "document.addEventListener('DOMContentLoaded', () => {"
            "  const status = document.getElementById('status');"
            "  const note = () => heard.push(status.textContent);"
            "  if (status) new MutationObserver(note).observe(status, {childList: true});"
            "})"
        )

    def _said(self, message):
        if message.type in ("error", "warning") and not QUIET.search(message.text):
            self.wrong.append(f"{message.type}: {message.text}")

    def open(self, place="", wait=None):
        self.page.goto(f"{self.url}/ui#/{place}")
        if wait is not None:
            self.page.wait_for_selector(wait)
        return self.page

    def label(self, model, annotator):
        """Sign in as an annotator and begin to label."""
        page = self.open(f"models/{model}/label", "form.sign-in")
        page.fill("form.sign-in input", annotator)
        page.click("text=Begin")
        page.wait_for_selector(".question .x, .question .picture")
        return page

    def unfold(self, *titles):
        """Open the folds with these titles; without a title, open every fold."""
        closed = self.page.locator("details.fold:not([open])")
        for title in titles or closed.locator("> summary h2").all_inner_texts():
            fold = closed.filter(has=self.page.get_by_role("heading", name=title, exact=True))
            if fold.count():
                fold.locator("> summary").press("Enter")  # a click may miss it while the folds above it grow
                fold.wait_for(state="detached")
        return self.page

    def question(self):
        """Return the id of the question on the screen."""
        return self.page.locator(".question p bdi.code").inner_text()

    def until(self, true, arg=None):
        """Wait until a JavaScript function returns a true value; return that value.

        Python calls the function again and again, because the page's policy forbids code made from text.
        """
        end = time.monotonic() + PATIENCE_MS / 1000
        while not (found := self.page.evaluate(true, arg)):
            assert time.monotonic() < end, true
            self.page.wait_for_timeout(30)
        return found

    def hears(self, text):
        """Wait for a message to screen readers that contains `text`. Forget that message and all earlier messages."""
        self.until(
            "text => { const at = heard.findIndex((said) => said.includes(text));"
            " heard.splice(0, at + 1); return at >= 0; }",
            text,
        )

    def answer(self, key):
        """Press a key, wait for the next question or the end, and return the id of the answered question."""
        before = self.question()
        self.page.keyboard.press(key)
        self.until(
            "before => { const shown = document.querySelector('.question p bdi.code');"
            " return shown ? shown.innerText !== before : document.querySelector('.asked [role=status]') !== null; }",
            before,
        )
        return before

    def hold(self, pattern):
        """Hold the requests to addresses that match a pattern; return the list to which they are added."""
        held = []

        def hold(route):
            held.append(route)

        self.page.route(pattern, hold)
        return held

    def close(self):
        if self.alone:
            self.context.close()


def axe():
    """Return the source of axe-core, which finds barriers to accessibility."""
    import axe_playwright_python  # noqa: PLC0415

    return (next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js"))).read_text()


def barriers(page):
    """Return the faults that axe-core finds on a page, one line for each."""
    page.evaluate(axe())
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]
