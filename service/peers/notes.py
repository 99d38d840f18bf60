"""How far the models of a process are, told to those that follow them: a JSON object a line over a Unix socket.

{name: [birth, position], or null where the model is gone}: first all models that are loaded, then those that have
changed. Nobody writes to a model that is not loaded, so what is known of it stays true.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hinged.service.engine.positions import LogPosition, Positions

LINE_BYTES_MAX = 2**26
"""Longest line: some 60 bytes a model, so a million of them. A follower of more models would be told nothing."""


class Notes:
    """The side of the process that owns the models."""

    def __init__(self, path: Path, positions: Positions) -> None:
        self._path = path
        self._positions = positions
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for followers."""
        self._path.unlink(missing_ok=True)  # of a process that was killed
        self._server = await asyncio.start_unix_server(self._tell, self._path)

    async def stop(self) -> None:
        """Let all of them go."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio calls this as one
        self._tasks.add(task)
        changed, woken = set(self._positions.newest), asyncio.Event()

        def listen(name: str) -> None:
            changed.add(name)
            woken.set()

        self._positions.listeners.add(listen)
        gone = asyncio.create_task(reader.read())  # it says nothing, and then that it has ended
        gone.add_done_callback(lambda _: woken.set())
        try:
            woken.set()
            while not gone.done():
                told = {name: self._positions.newest.get(name) for name in changed}
                changed.clear()
                woken.clear()
                writer.write(json.dumps(told).encode() + b"\n")
                await writer.drain()
                await woken.wait()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            gone.cancel()
            self._positions.listeners.discard(listen)
            self._tasks.discard(task)
            writer.close()


async def follow_notes(reader: asyncio.StreamReader, note: Callable[[str, LogPosition | None], None]) -> None:
    """The follower's side, until the owner is gone. note: told each model that has moved."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            for name, place in json.loads(line).items():
                note(name, None if place is None else LogPosition(*place))
