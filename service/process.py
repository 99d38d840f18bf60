"""One process of a server with several processes. It answers requests until SIGTERM, or until its supervisor ends."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hinged.service.app import create_app, run, stop_fenced
from hinged.service.cluster.node import as_node
from hinged.service.cluster.processes import NodeProcess
from hinged.service.edge.accepting import Accepting, listen_beside
from hinged.service.edge.ending import REFUSED, TAKEN_OVER
from hinged.service.edge.serving import make_server
from hinged.service.edge.start import begin_process
from hinged.service.errors import ServiceError, StoreUnavailable
from hinged.service.peers.handing import Taking
from hinged.service.peers.ring import Ring
from hinged.service.peers.siblings import Siblings
from hinged.service.settings import Settings
from hinged.service.store.base import Store
from hinged.service.store.choice import open_part, open_store
from hinged.service.store.division import name_of
from hinged.service.store.nothing import Nothing

log = logging.getLogger(__name__)

OTHERS_TAKE_S = 10.0
"""Seconds for which a restarted process leaves new connections to the other processes while it loads. The other
processes may be able to predict for it. With a larger value, a server whose processes all ended at once answers no
request for that time, not even a probe."""
AGAIN_S = 0.1  # seconds between attempts to open a store that another process still has open


def main() -> None:
    """Answer requests until SIGTERM, or until the supervisor ends."""
    number, descriptor = int(sys.argv[1]), int(sys.argv[2])
    said = sys.stdin.buffer.readline()
    if not said:  # the supervisor has already ended
        return
    settings = Settings()
    try:
        begin_process(settings, number)
        _serve(settings, number, socket.socket(fileno=descriptor), json.loads(said))
    except ServiceError as error:
        log.error("it cannot begin: %s", error.message)  # noqa: TRY400  a sentence for the person who set the settings
        sys.exit(REFUSED)


def _serve(settings: Settings, number: int, listening: socket.socket, told: dict[str, Any]) -> None:
    """Answer requests on the shared port.

    told: the folder of all sockets, the secret that signs tickets, the division of the store, and whether the process
    was restarted. A restarted process leaves all connections to the other processes while it loads its models.
    """
    division: int = told["division"]
    folder = Path(told["folder"])
    if settings.node is not None:
        settings = as_node(settings.model_copy(update={"node": f"{settings.node}#{number}"}))
    ring = Ring(number, settings.processes, max(1, division), settings.followers)
    taken_over = threading.Event()

    def fenced(message: str) -> None:
        taken_over.set()
        stop_fenced(message)

    company: Siblings
    if settings.node is not None:
        store = open_store(settings, fenced)
        company = NodeProcess(number, settings.processes, folder)
        what = f"is a node, {settings.node}"
    else:
        store = _opened(settings, number, division, fenced) if ring.owns else Nothing()
        reading = partial(open_part, settings, division=division, reading=True)
        company = Siblings(ring, folder, bytes.fromhex(told["secret"]), reading)
        what = f"owns store {name_of(number, division)}" if division else "owns the store"
    app = create_app(settings, lambda: store, company)
    server = make_server(
        app, app.state.streams, settings, company.connection, shortcut=app.shortcut, leads=company.leads
    )
    public, beside = Accepting(listening), Accepting(listen_beside(company.sockets.requests))
    taking = Taking(company.sockets.connections)

    def begin() -> None:
        for accepting in (beside, taking) if told["again"] else (public, beside, taking):
            accepting.start(server)
        if told["again"]:
            asyncio.get_running_loop().call_later(OTHERS_TAKE_S, public.start, server)

    def end() -> None:
        for accepting in (public, beside, taking):
            accepting.stop()

    server.after_startup, server.before_shutdown = begin, end
    if told["again"]:
        company.when_loaded = partial(public.start, server)
    log.info("process %d %s", os.getpid(), what if ring.owns else "owns no models")
    run(server, [])
    if taken_over.is_set():
        sys.exit(TAKEN_OVER)


def _opened(settings: Settings, number: int, division: int, on_fenced: Callable[[str], None]) -> Store:
    """Open the store. Wait for an earlier owner to end: the supervisor may have been killed while the owner drains."""
    end = time.monotonic() + settings.shutdown_s
    while True:
        try:
            return open_part(settings, number, division, on_fenced)
        except StoreUnavailable:
            if time.monotonic() >= end:
                raise
            time.sleep(AGAIN_S)
