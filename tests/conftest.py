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
settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """Run the files with long tests first, so that no long file starts when the other files are nearly done."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def pytest_sessionstart(session):
    """Share the turns of tests (turns.py) with the other processes, if there are any."""
    if hasattr(session.config, "workerinput"):
        turns.begin(session.config._tmp_path_factory.getbasetemp().parent)


def pytest_sessionfinish():
    """Close the files of the turns."""
    turns.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Wait for the test's turn."""
    with turns.together():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an async test in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
