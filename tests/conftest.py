"""Fork the tests' servers from a ready process, and run the longest files first."""

import asyncio
import inspect
import os

import pytest
from hypothesis import settings

from tests.helpers import server, zygote

if hasattr(os, "pidfd_open"):  # Linux
    server.forked = zygote.start

# No deadline per Hypothesis example: on a busy machine a slow example is no failure.
settings.register_profile("tests", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # for tests that set no number
settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """Run the longest files first, so that no long file starts when the rest is nearly done."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Make a test fail that starts a server without the marker `server`: `make quick` would run it."""
    server.unmarked = item.get_closest_marker("server") is None
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is async in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
