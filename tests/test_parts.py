"""What speaks with other programs stands beside the core, which does not know of it."""

import re

import pytest

from tests.helpers.server import ROOT

PARTS = {
    "service/api/inference": r"/v2\b|inference protocol|api\.inference",
    "service/api/labelstudio": r"label ?studio",
}
LISTED = {"service/api/__init__.py"}
"""The list of what a server serves."""
SETTINGS = {"service/settings.py"}
"""An operator sets parts as the rest."""


@pytest.mark.parametrize("part", PARTS)
def test_nothing_but_the_list_of_routes_and_the_settings_names_a_part(part):
    told = re.compile(PARTS[part], re.IGNORECASE)
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "service").rglob("*.py")
        if told.search(path.read_text()) and (ROOT / part) not in path.parents
    }
    assert naming <= LISTED | SETTINGS
