"""Which tests need what: markers, so that `make quick` can leave out what takes minutes. And their servers' start."""

import os
import re

from hypothesis import settings

from tests.helpers import server, zygote

if hasattr(os, "pidfd_open"):  # Linux
    server.forked = zygote.start

# The machine may be busy: how long an example takes says nothing of what it tests.
settings.register_profile("tests", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # of tests that say no number themselves
settings.load_profile("tests")

STARTING = {"RunningServer", "RedisServer", "RedisCluster", "Terminal", "Nodes"}
"""A module that imports one of these starts processes."""
STARTS = re.compile(rf"^from \w+ import .*\b({'|'.join(STARTING)})\b", re.MULTILINE)
STARTED = {"server", "real", "redis_server", "cluster", "guarded", "nodes", "built", "bare", "with_kernels"}
"""A test that takes one of these fixtures does."""
COMPILING = {"test_bits.py", "test_warm.py"}
LONGEST = {
    "test_openapi.py", "test_warm.py", "test_bits.py", "test_every_solver.py", "test_install.py", "test_workers.py",
    "test_docs_examples.py", "test_redis_faults.py", "test_faults.py", "test_watching.py", "test_labelling.py",
    "test_restart.py", "test_readers.py", "test_redaction.py", "test_histories.py", "test_recall.py",
}  # fmt: skip
"""Files that take a process twenty seconds and more: first, so that none begins when the others are nearly done."""


def pytest_ignore_collect(collection_path, config):
    """Import no module whose tests are left out as a whole: that takes longer than many tests."""
    left_out = set() if " or " in config.option.markexpr else set(config.option.markexpr.split(" and "))
    if not collection_path.match("test_*.py"):
        return None
    faults = "not faults" in left_out and "faults" in collection_path.parts
    return True if faults or ("not server" in left_out and STARTS.search(collection_path.read_text())) else None


def pytest_collection_modifyitems(items):
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker("faults")
        starting = STARTING & vars(item.module).keys() or STARTED & set(item.fixturenames)
        if starting or "redis" in item.name or "upgrades" in item.path.parts:
            item.add_marker("server")
        if "browser" in item.fixturenames:
            item.add_marker("browser")
        if item.path.name in COMPILING:
            item.add_marker("compiles")
    items.sort(key=lambda item: item.path.name not in LONGEST)
