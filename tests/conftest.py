"""Where the servers of the tests come from, and in which order the tests run."""

import asyncio
import inspect
import os

import pytest
from hypothesis import settings

from tests.helpers import server, zygote

if hasattr(os, "pidfd_open"):  # Linux
    server.forked = zygote.start

# The machine may be busy: how long an example takes says nothing of what it tests.
settings.register_profile("tests", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # of tests that say no number themselves
settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """The longest files first, so that none begins when the others are nearly done."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Hold each test to its marker: `make quick` leaves out what starts servers."""
    server.unmarked = item.get_closest_marker("server") is None
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test may be async."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
