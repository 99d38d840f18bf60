"""Checks and log lines before the server starts: the address, the environment, the store and the keys."""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Iterable
from difflib import get_close_matches
from urllib.parse import urlsplit

from hinged.service import limits
from hinged.service.data.features.embeddings.named import read_folders
from hinged.service.edge.allocator import share_heaps
from hinged.service.edge.keys import read_keys
from hinged.service.edge.logs import begin_logging
from hinged.service.edge.serving import allow_many_connections
from hinged.service.errors import Invalid, NoThread
from hinged.service.settings import Settings
from hinged.version import __version__

log = logging.getLogger(__name__)

COLLECTED = 5_000
"""Number of new objects after which the collector scans the youngest objects; Python's default is 700. A request of a
hundred examples keeps more objects than that until it is answered. So a scan under Python's lock would find no object
to free."""
COLLECTED_YOUNG = 3
"""Number of scans of the youngest objects before the middle generation is scanned; default 10. With 15,000 objects such
a scan takes 5 ms."""
SWITCH_S = 0.0002
"""Seconds that a Python thread may keep the event loop waiting; default 0.005. A prediction waits about three times.
With a smaller value, threads switch more often, which costs as much time as it gains."""

PROCESS_ENDS_S = 10.0
"""Seconds that a process may take to notice that its server was killed."""

PREFIX = "HINGED_"
OF_OTHERS = ("HINGED_URL", "HINGED_KEY", "HINGED_CI")
"""Variables that the client and the tests read."""


def refuse_taken_address(settings: Settings) -> None:
    """Raise Invalid if the server cannot listen on its address.

    The address may be in use, may not belong to this machine, or may not be allowed. A killed server may have left a
    process that was just starting. That process listens until it notices that its server is gone. So a server of
    several processes waits for a while.
    """
    end = time.monotonic() + (PROCESS_ENDS_S if settings.processes > 1 else 0.0)
    while (error := _taken(settings)) is not None:
        if error.errno != errno.EADDRINUSE or time.monotonic() >= end:
            raise cannot_listen(settings, error) from None
        time.sleep(0.05)


def _taken(settings: Settings) -> OSError | None:
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Invalid(f"HINGED_HOST: {host!r} is no address of this machine: {error.strerror}") from None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                if os.name == "posix":  # as the server does: lingering connections of an earlier server do not matter
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen(1)
        except OSError as error:
            return error
    return None


def cannot_listen(settings: Settings, error: OSError) -> Invalid:
    """Return the error of a server that cannot listen on its address."""
    reason = f"cannot listen on {_address(settings.host, settings.port)}: {(error.strerror or str(error)).lower()}"
    return Invalid(f"{reason}. Another port: --port or HINGED_PORT, 0 takes a free one")


def begin_process(settings: Settings, number: int | None = None) -> None:
    """Prepare a process that answers requests, before it starts threads. Raise NoThread if the system starts none, and
    Invalid if an embedding of HINGED_EMBEDDINGS cannot be read.

    number: the process's number, if there are several processes.
    """
    begin_logging(settings, number)
    try:
        read_folders()
    except ValueError as error:
        raise Invalid(str(error)) from None
    try:
        share_heaps()
    except RuntimeError:
        raise NoThread from None
    allow_many_connections()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(COLLECTED, COLLECTED_YOUNG)


def unknown_names(environment: Iterable[str]) -> list[str]:
    """Return a sentence for each variable that looks like a setting but is unknown."""
    known = [name.upper() for name in Settings.model_fields]
    found = []
    for name in sorted(environment):
        own = name.upper().removeprefix(PREFIX)
        if not name.upper().startswith(PREFIX) or own in known or name in OF_OTHERS:
            continue
        if own in vars(limits):
            found.append(f"{name} is a constant now, {getattr(limits, own)}, and no longer a setting")
            continue
        close = get_close_matches(own, known, n=1)
        found.append(f"{name} is not a setting" + (f", did you mean {PREFIX}{close[0]}?" if close else ""))
    return found


def tell_start(settings: Settings) -> None:
    """Log the starting server's version, address, store and access rules, and unknown names in the environment."""
    if settings.keys_file is not None:
        access = f"{len(read_keys(settings.keys_file))} keys in {settings.keys_file}"
    else:
        access = "no keys, everyone who reaches it may do everything"
    store = _store(settings) + (f", {settings.processes} processes" if settings.processes > 1 else "")
    log.info("hinged %s on %s, store %s, %s", __version__, _address(settings.host, settings.port), store, access)
    for sentence in unknown_names(os.environ):
        log.warning("%s", sentence)


def _store(settings: Settings) -> str:
    """Return the store's address without a password."""
    if settings.store == "sqlite":
        return f"sqlite in {settings.data_dir}"
    parts = urlsplit(settings.store)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
