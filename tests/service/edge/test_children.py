"""Child processes: a child that ends, or cannot even start, is restarted until the end."""

import asyncio
import sys

from hinged.service.edge import children
from hinged.service.edge.children import Child, Children
from hinged.service.settings import Settings
from tests.helpers.server import PATIENCE_S
from tests.helpers.worker import until

SHORT = Child("short", "hinged.version", ())  # ends by itself


def test_a_child_that_cannot_be_started_is_retried(monkeypatch, caplog, tmp_path):
    ended = []

    async def watched():
        started = Children(Settings(), [], lambda child, code: ended.append((child.name, code)))
        started.start(SHORT)
        await until(lambda: "short cannot be started" in caplog.text)
        monkeypatch.undo()
        await until(lambda: ended)
        await started.stop(PATIENCE_S)

    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    asyncio.run(watched())
    assert ended == [("short", 0)]


def test_a_stop_does_not_wait_for_a_planned_restart(monkeypatch, caplog):
    monkeypatch.setattr(children, "RESTART_MAX_S", 10 * PATIENCE_S)
    monkeypatch.setattr(children, "RESTART_FIRST_S", 10 * PATIENCE_S)

    async def watched():
        started = Children(Settings(), [])
        started.start(SHORT)
        await until(lambda: "short ended with exit code 0" in caplog.text)
        async with asyncio.timeout(PATIENCE_S):
            await started.stop(PATIENCE_S)

    asyncio.run(watched())
