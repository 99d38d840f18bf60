"""The process of a worker, from its start to the supervisor's end."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from hinged.service.app import create_app, run, stop_fenced
from hinged.service.cluster.relay import Relaying
from hinged.service.cluster.siblings import Place
from hinged.service.edge.accepting import LOOPBACK, Accepting, reserve
from hinged.service.edge.ending import REFUSED, TAKEN_OVER
from hinged.service.edge.serving import make_server
from hinged.service.edge.start import begin_process
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.service.store.choice import open_part
from hinged.service.store.folders import name_of

log = logging.getLogger(__name__)

AGAIN_S = 0.1  # seconds until a store that another process still holds is asked again


def main() -> None:
    """Serve until SIGTERM, or until the supervisor is gone."""
    number, descriptor = int(sys.argv[1]), int(sys.argv[2])
    said = sys.stdin.buffer.readline()
    if not said:  # the supervisor is gone already
        return
    settings = Settings()
    begin_process(settings, number)
    try:
        _serve(settings, number, socket.socket(fileno=descriptor), json.loads(said))
    except ServiceError as error:
        log.error("it cannot begin: %s", error.message)  # noqa: TRY400  a sentence for whoever gave the settings
        sys.exit(REFUSED)


def _serve(settings: Settings, number: int, listening: socket.socket, told: dict[str, Any]) -> None:
    """told: the ports of all workers, and the secret that they share."""
    addresses = tuple(f"http://{LOOPBACK}:{port}" for port in told["ports"])
    place = Place(number, addresses, bytes.fromhex(told["secret"]))
    chosen = settings.model_copy(
        update={"allowed_hosts": (*settings.allowed_hosts, LOOPBACK)}  # of the others, when they pass something on
    )
    taken_over = threading.Event()

    def fenced(message: str) -> None:
        taken_over.set()
        stop_fenced(message)

    store = _opened(settings, number, fenced)
    app = create_app(chosen, lambda: store, place=place)
    server = make_server(app, app.state.streams, chosen, Relaying, shortcut=app.shortcut)
    accepting = Accepting(listening)
    server.after_startup = lambda: accepting.start(server)
    server.before_shutdown = accepting.stop
    log.info("store %s, process %d", name_of(number, settings.workers), os.getpid())
    run(server, [reserve(told["ports"][number - 1])])
    if taken_over.is_set():
        sys.exit(TAKEN_OVER)


def _opened(settings: Settings, number: int, on_fenced: Callable[[str], None]) -> Store:
    """The store, once the worker that had it has ended: the supervisor may have been killed while it drains."""
    end = time.monotonic() + settings.shutdown_s
    while True:
        try:
            return open_part(settings, number, on_fenced)
        except StoreUnavailable:
            if time.monotonic() >= end:
                raise
            time.sleep(AGAIN_S)
