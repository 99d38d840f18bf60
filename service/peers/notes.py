"""Notes report the positions of a process's models to followers, as one JSON object per line over a Unix socket.

An object maps a name to [birth, position], or to null if the model is gone. The first object contains all loaded
models. Each later object contains the models that have changed. Models that are not loaded do not change, and are not
reported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hinged.service.engine.positions import LogPosition, Positions

LINE_BYTES_MAX = 2**26
"""Maximum bytes of a line: a million models of about 60 bytes each. With more models, a follower would get no notes."""


class Notes:
    """The owner's side: sends notes to followers."""

    def __init__(self, path: Path, positions: Positions) -> None:
        self._path = path
        self._positions = positions
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for followers."""
        self._path.unlink(missing_ok=True)  # a killed process may have left it
        self._server = await asyncio.start_unix_server(self._tell, self._path)

    async def stop(self) -> None:
        """Disconnect all followers."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio calls this in a task
        self._tasks.add(task)
        changed, woken = set(self._positions.newest), asyncio.Event()

        def listen(name: str) -> None:
            changed.add(name)
            woken.set()

        self._positions.listeners.add(listen)
        gone = asyncio.create_task(reader.read())  # the follower sends nothing until it disconnects
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
    """Read notes until the owner is gone. Followers call this. note: called with each model that has changed."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            for name, place in json.loads(line).items():
                note(name, None if place is None else LogPosition(*place))
