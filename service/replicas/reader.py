"""The process of a reader, from its start to the server's end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from uvicorn import Config

from hinged.service.edge.accepting import Accepting
from hinged.service.edge.allocator import settle
from hinged.service.edge.serving import make_server
from hinged.service.edge.start import begin_process
from hinged.service.edge.streams import Streams
from hinged.service.replicas.front import Front
from hinged.service.replicas.handing import Lent
from hinged.service.replicas.notes import follow_notes
from hinged.service.replicas.replica import Replicas
from hinged.service.settings import Settings
from hinged.service.store.choice import open_store

log = logging.getLogger(__name__)

THREADS = 8
NOTES, CONNECTIONS = "notes", "connections"
"""Names of the server's sockets in the folder that it shares with its readers."""


def main() -> None:
    """Serve until SIGTERM, or until the server is gone."""
    folder, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    settings = Settings()
    begin_process(settings)
    with asyncio.Runner(loop_factory=Config(app="").get_loop_factory()) as runner:  # uvloop, where it is there
        runner.run(_serve(settings, folder, socket.socket(fileno=descriptor)))


async def _serve(settings: Settings, folder: Path, listening: socket.socket) -> None:
    store = open_store(settings, reading=True)
    threads = ThreadPoolExecutor(THREADS, "replicas")
    replicas = Replicas(store, settings, threads)
    front = Front(replicas, settings)
    server = make_server(front, Streams(settings.streams_max), settings, Lent, path=folder / CONNECTIONS)

    def report() -> dict[str, Any]:
        requests = [front.requests.popleft() for _ in range(len(front.requests))]
        return {"requests": requests, "served": replicas.served(), "lag": replicas.lags()}

    async def follow() -> None:
        with suppress(OSError):
            await follow_notes(folder / NOTES, replicas.note, report)
        log.info("the server is gone, and its reader ends")
        signal.raise_signal(signal.SIGTERM)

    following = asyncio.create_task(follow())
    accepting = Accepting(listening)
    accepting.start(server)
    server.before_shutdown = accepting.stop
    settle()
    log.info("a reader answers predictions, process %d", os.getpid())
    with suppress(KeyboardInterrupt):
        await server.serve(sockets=[])  # it takes connections by itself
    following.cancel()
    await replicas.stop()
    threads.shutdown(cancel_futures=True)
    store.close()
