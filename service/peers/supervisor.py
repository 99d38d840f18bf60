"""The supervisor opens the port, starts the processes, and restarts processes that end."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import signal
import socket
import sys
import tempfile

from hinged.service.edge.accepting import listen
from hinged.service.edge.access import refuse_open_door
from hinged.service.edge.children import Children
from hinged.service.edge.ending import FAILURE, REFUSED, TAKEN_OVER
from hinged.service.edge.keys import Keyring
from hinged.service.edge.logs import begin_logging
from hinged.service.edge.start import refuse_taken_address, tell_start
from hinged.service.engine.receipts.sealing import signing_key
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.service.store.choice import settle_division

log = logging.getLogger(__name__)

ENDING_S = 5.0
"""Seconds that processes may take to end after their time to drain."""
SECRET_BYTES = 32  # length of the key that signs tickets: the length of an HMAC-SHA256 digest


def supervise(settings: Settings) -> None:
    """Keep the processes running until SIGINT or SIGTERM. They divide a new store.

    Raise Invalid for contradictory settings, an address on which the server cannot listen, or a store with more owners
    than processes.
    """
    check(settings)
    refuse_open_door(settings)
    refuse_taken_address(settings)
    division = settle_division(settings, settings.processes) if settings.node is None else settings.processes
    begin_logging(settings)
    with listen(settings) as listening:
        followers = min(settings.followers, settings.processes - 1)
        chosen = settings.model_copy(update={"port": int(listening.getsockname()[1]), "followers": followers})
        tell_start(chosen)
        if division != settings.processes:
            log.info("the store is %s, and stays so", f"divided by {division}" if division else "not divided")
        code = asyncio.run(_supervise(chosen, division, listening))
    if code:
        sys.exit(code)


def check(settings: Settings) -> None:
    """Raise Invalid for settings that contradict several processes."""
    count = settings.processes
    if settings.node is not None and settings.followers:
        raise Invalid(f"HINGED_FOLLOWERS: nodes do not follow models, got {settings.followers} and HINGED_NODE")
    if not hasattr(socket, "send_fds"):
        raise Invalid(
            f"HINGED_PROCESSES must be 1 on this system, where no process can give a connection to another, got {count}"
        )
    if settings.keys_file is not None:
        Keyring(settings.keys_file)
    signing_key(settings.receipt_key)


async def _supervise(settings: Settings, division: int, listening: socket.socket) -> int:
    """Keep the processes running until a signal or a fatal error; return the exit code."""
    loop, enough, refused = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    began: set[int] = set()
    folder = tempfile.mkdtemp(prefix="hinged-")  # only the user who runs the server may open the folder
    shared = {"folder": folder, "secret": secrets.token_hex(SECRET_BYTES), "division": division}

    def told(number: int) -> bytes:
        return json.dumps({**shared, "again": number in began}).encode() + b"\n"

    def may_go_on(number: int, code: int) -> bool:
        if code == TAKEN_OVER:  # otherwise two servers would take the store from each other again and again
            enough.set()
            return False
        if code != REFUSED:
            began.add(number)
        if number in began:  # the cause may pass, and meanwhile the other processes answer requests
            return True
        refused.set()  # the process has logged the reason
        enough.set()
        return False

    children = Children(settings, listening.fileno(), told, may_go_on)

    def stop(signal_: int) -> None:
        children.end(signal_)
        enough.set()

    for signal_ in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_, stop, signal_)
    try:
        for number in range(1, settings.processes + 1):
            children.start(number)
        await enough.wait()
        listening.close()
        await children.stop(settings.shutdown_s + ENDING_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return FAILURE if refused.is_set() else 0
