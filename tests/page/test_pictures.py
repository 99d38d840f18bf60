"""The pictures of the documents: each view of the page, in the light mode, in the dark mode and on a phone."""

import pytest

from tests.helpers.browser import barriers
from tests.helpers.server import ROOT
from tests.page import pictures

PICTURES = ROOT / "docs" / "pictures"
VIEWS = [f"view-{view.__name__.replace('_', '-')}.png" for view in pictures.VIEWS]


@pytest.mark.long
def test_each_view_is_pictured_fits_its_screen_and_has_no_barrier(tmp_path):
    pytest.importorskip("PIL")
    found = []

    def look(page):
        found.extend(barriers(page))
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            found.append(f"too wide: {page.url}")

    pictures.main(tmp_path, look)
    assert found == []
    assert {path.name for path in tmp_path.iterdir()} == {*VIEWS, "page-accuracy.png"}


def test_the_documents_show_each_view_in_pictures_that_are_small():
    shown = (ROOT / "docs/reference/views.md").read_text()
    for name in VIEWS:
        assert f"(../pictures/{name})" in shown
    sizes = [path.stat().st_size for path in PICTURES.glob("*.png")]
    assert len(sizes) == len(VIEWS) + 1
    assert sum(sizes) < 1_500_000
    assert max(sizes) < 100_000
