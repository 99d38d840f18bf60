"""Make fixtures for a module or a folder: a server with some settings, and a client of it."""

import pytest

from tests.helpers.server import RunningServer


def server_with(scope="module", **settings):
    """A fixture: a server with these settings for all tests of a module."""

    @pytest.fixture(scope=scope)
    def server(tmp_path_factory):
        with RunningServer(tmp_path_factory.mktemp("server") / "data", **settings) as running:
            yield running

    return server


def speaking(kind, to="server", scope="module"):
    """A fixture: a client (Asking or Client) of the server that is the fixture `to`."""

    @pytest.fixture(scope=scope)
    def speaker(request):
        with kind(request.getfixturevalue(to).url) as opened:
            yield opened

    return speaker
