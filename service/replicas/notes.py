"""What the server and its readers tell each other, a JSON object a line over a Unix socket.

The server: {"models": {name: [birth, position], or null where it is gone}}, all of them first, then what has changed.
A reader, each half second: {"requests": [[method, route, status, seconds], ...], "served": {name: predictions},
"lag": {name: events}}.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hinged.service.engine.positions import LogPosition, Positions

log = logging.getLogger(__name__)

LINE_BYTES_MAX = 2**26
REPORT_S = 0.5


class NoteTaker:
    """The server's side: tells readers of the models, and hears what they did."""

    def __init__(self, path: Path, positions: Positions, heard: Callable[[int, dict[str, Any]], None]) -> None:
        """heard: told the number of a reader, and what it reports; an empty report when it is gone."""
        self._path = path
        self._positions = positions
        self._heard = heard
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for readers."""
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LINE_BYTES_MAX)

    async def stop(self) -> None:
        """Let all of them go."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._number += 1
        number = self._number
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio calls this as one
        self._tasks.add(task)
        changed, woken = set(self._positions.newest), asyncio.Event()

        def listen(name: str) -> None:
            changed.add(name)
            woken.set()

        self._positions.listeners.add(listen)
        hearing = asyncio.create_task(self._hear(number, reader))
        hearing.add_done_callback(lambda _: woken.set())  # the reader is gone
        try:
            woken.set()
            while not hearing.done():
                await woken.wait()
                woken.clear()
                told = {name: self._positions.newest.get(name) for name in changed}
                changed.clear()
                writer.write(json.dumps({"models": told}).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            hearing.cancel()
            self._positions.listeners.discard(listen)
            self._tasks.discard(task)
            self._heard(number, {})
            writer.close()

    async def _hear(self, number: int, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                self._heard(number, json.loads(line))


async def follow_notes(
    path: Path, note: Callable[[str, LogPosition | None], None], report: Callable[[], dict[str, Any]]
) -> None:
    """A reader's side, until the server is gone. note: told each model that has moved; report: what is to be told."""
    reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX)

    async def tell() -> None:
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(REPORT_S)
                writer.write(json.dumps(report()).encode() + b"\n")
                await writer.drain()

    telling = asyncio.create_task(tell())
    try:
        with suppress(ConnectionError):
            while line := await reader.readline():
                for name, place in json.loads(line)["models"].items():
                    note(name, None if place is None else LogPosition(*place))
    finally:
        telling.cancel()
        writer.close()
