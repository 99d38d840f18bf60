"""The core's files do not mention the parts that connect the core to other programs."""

import re

import pytest

from tests.helpers.server import ROOT

PARTS = {
    "service/api/inference": r"/v2\b|inference protocol|api\.inference",
    "service/api/labelstudio": r"label ?studio",
}
LISTED = {"service/api/__init__.py"}
"""The file that lists the routes of a server."""
SETTINGS = {"service/settings.py"}
"""The file with all settings, including the settings of the parts."""


@pytest.mark.parametrize("part", PARTS)
def test_only_the_list_of_routes_and_the_settings_name_a_part(part):
    name = re.compile(PARTS[part], re.IGNORECASE)
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "service").rglob("*.py")
        if name.search(path.read_text()) and (ROOT / part) not in path.parents
    }
    assert naming <= LISTED | SETTINGS
