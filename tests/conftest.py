"""Fork the tests' servers from a prepared process, run the longest files first, and let tests take turns."""

import asyncio
import inspect
import os

import pytest
from hypothesis import settings

from tests.helpers import server, turns, zygote

if hasattr(os, "pidfd_open"):  # Linux
    server.forked = zygote.start

# Hypothesis examples have no deadline, because on a busy machine a slow example is not a failure.
settings.register_profile("tests", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # for tests that do not set max_examples
settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """Run the longest files first, so that no long file starts when the other files are nearly done."""
    items.sort(key=lambda item: item.get_closest_marker("longest") is None)


def pytest_sessionstart(session):
    """Share the turns of tests (turns.py) with the other processes, if there are any."""
    if hasattr(session.config, "workerinput"):
        turns.begin(session.config._tmp_path_factory.getbasetemp().parent)


def pytest_sessionfinish():
    """Close the files of the turns."""
    turns.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Wait for the test's turn. Make a test without the marker `server` fail if it starts a server, because `make
    quick` runs such a test.
    """
    server.unmarked = item.get_closest_marker("server") is None
    with turns.together():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an async test in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
