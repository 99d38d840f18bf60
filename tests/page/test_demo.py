"""Test `hinged demo`: the page shows a chart that moves, and there are pictures to label."""

import re
import sys

import pytest

from tests.helpers.server import free_port
from tests.helpers.terminal import Terminal


@pytest.mark.long
def test_the_stream_of_digits_starts_when_the_page_opens_and_leaves_digits_to_label(tmp_path, tab):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    demo = Terminal([sys.executable, "-m", "hinged", "demo", "--port", str(port), "--data-dir", str(tmp_path / "data")])
    with demo:
        demo.expect(f"watch it learn: {url}/ui#/models/demo-digits")
        demo.expect("open it now")
        one = tab(url)
        page = one.open("models/demo-digits", ".chart canvas")
        examples = [0]
        while len(examples) < 4 and examples[-1] < 1347:  # the chart moves
            read = "n => { const now = document.querySelector('.learned').innerText; return now !== n && now; }"
            examples.append(int(one.until(read, f"{examples[-1]:,}").replace(",", "")))
        assert examples == sorted(examples)
        assert examples[1] < 1347, "the stream started before anybody opened the page"
        page.get_by_text("1,347", exact=True).first.wait_for()
        demo.expect("knows 3, 8 and 9 badly")
        page = one.open("models/demo-labels", ".chart canvas")
        assert page.locator(".learned").inner_text() == "400"
        page = one.label("demo-labels", "ann")
        assert page.locator(".question canvas.picture").count() == 1
        assert page.locator(".answers button").count() == 11  # ten digits and "Another label"
        answered = one.answer("7")  # a label of one character is its own key
        page.get_by_role("button", name=re.compile(f"7 {answered}")).wait_for()
        one.open("models/demo-labels", ".chart canvas")
        page.get_by_text("431", exact=True).first.wait_for()  # the answer, and thirty more digits of the stream
        demo.send("\x03")
        demo.expect("server stopped")
        assert demo.wait() == 0
