"""Fixtures that a module or a folder makes of its own: a server with some settings, and who speaks with it."""

import pytest

from tests.helpers.server import RunningServer


def server_with(scope="module", **settings):
    """A server, started for all tests of a module."""

    @pytest.fixture(scope=scope)
    def server(tmp_path_factory):
        with RunningServer(tmp_path_factory.mktemp("server") / "data", **settings) as running:
            yield running

    return server


def speaking(kind, to="server", scope="module"):
    """An Asking or a Client of a server, which is the fixture of that name."""

    @pytest.fixture(scope=scope)
    def speaker(request):
        with kind(request.getfixturevalue(to).url) as opened:
            yield opened

    return speaker
