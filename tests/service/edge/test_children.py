"""The processes of a server: a process that ends, or cannot even start, is restarted until the server ends."""

import asyncio
import os
import shutil
import sys

import pytest

from hinged.service.edge import children
from hinged.service.edge.children import Children
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S
from tests.helpers.worker import until

ENDS = shutil.which("true")
"""A program that ends on its own."""


@pytest.fixture
def start():
    """Return a function that starts a process."""
    descriptor = os.open(os.devnull, os.O_RDONLY)

    def started(may_go_on):
        found = Children(Settings(), descriptor, lambda _: b"", may_go_on)
        found.start(1)
        return found

    yield started
    os.close(descriptor)


def test_a_process_that_cannot_be_started_is_retried(monkeypatch, caplog, tmp_path, start):
    ended = []

    async def watched():
        started = start(lambda number, code: ended.append((number, code)))
        await until(lambda: "process 1 cannot be started" in caplog.text)
        monkeypatch.setattr(sys, "executable", ENDS)
        await until(lambda: ended)
        await started.stop(PATIENCE_S)

    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    asyncio.run(watched())
    assert ended == [(1, 0)]


def test_a_stop_does_not_wait_for_a_planned_restart(monkeypatch, caplog, start):
    monkeypatch.setattr(sys, "executable", ENDS)
    monkeypatch.setattr(children, "RESTART_MAX_S", 10 * PATIENCE_S)
    monkeypatch.setattr(children, "RESTART_FIRST_S", 10 * PATIENCE_S)

    async def watched():
        started = start(lambda *_: True)
        await until(lambda: "process 1 ended with exit code 0" in caplog.text)
        async with asyncio.timeout(PATIENCE_S):
            await started.stop(PATIENCE_S)

    asyncio.run(watched())


@pytest.mark.parametrize("error", [OSError("processes"), RuntimeError("can't start new thread"), MemoryError()])
def test_a_process_is_retried_after_any_lack_of_the_system(monkeypatch, caplog, start, error):
    """Below Python 3.12, asyncio starts a thread for each process, after the process has begun."""
    real, failed, ended = asyncio.create_subprocess_exec, [], []

    async def once(*given, **more):
        begun = await real(*given, **more)
        if not failed:
            failed.append(begun)
            raise error
        return begun

    async def watched():
        started = start(lambda number, code: ended.append((number, code)))
        await until(lambda: ended)
        await started.stop(PATIENCE_S)

    monkeypatch.setattr(sys, "executable", ENDS)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", once)
    asyncio.run(watched())
    assert ended == [(1, 0)]
    assert "process 1 cannot be started" in caplog.text
