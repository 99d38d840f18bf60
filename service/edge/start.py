"""What is looked at and told before the server starts: the address, the environment, what will be served to whom."""

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
from hinged.service.edge.allocator import share_heaps
from hinged.service.edge.keys import read_keys
from hinged.service.edge.logs import begin_logging
from hinged.service.edge.serving import allow_many_connections
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.version import __version__

log = logging.getLogger(__name__)

COLLECTED = 5_000
"""Objects that come before the collector looks at the youngest, by default 700. A request of a hundred examples holds
more than that until it is answered, and is looked at for nothing, under Python's lock."""
COLLECTED_YOUNG = 3
"""Times after which those that were left are looked at again, by default 10: at 15,000 objects all wait for 5 ms."""
SWITCH_S = 0.0002
"""How long a thread that runs Python may keep the event loop waiting, by default 5 ms. A prediction waits some
three times. With less, what changes hands more often costs as much as is gained."""

PROCESS_ENDS_S = 10.0
"""How long a process of a server that was killed may take to notice that."""

PREFIX = "HINGED_"
OF_OTHERS = ("HINGED_URL", "HINGED_KEY", "HINGED_CI")
"""Names that the client and the tests read."""


def refuse_taken_address(settings: Settings) -> None:
    """Invalid if nobody can listen there: another does, it is no address of this machine, or none may.

    A server that was killed may have left a process that was just starting, and listens until it notices; so one of
    several processes waits a while.
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
                if os.name == "posix":  # as the server does: what lingers of a former one is in nobody's way
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
                probe.listen(1)
        except OSError as error:
            return error
    return None


def cannot_listen(settings: Settings, error: OSError) -> Invalid:
    """What is said where a server cannot have its address."""
    reason = f"cannot listen on {_address(settings.host, settings.port)}: {(error.strerror or str(error)).lower()}"
    return Invalid(f"{reason}. Another port: --port or HINGED_PORT, 0 takes a free one")


def begin_process(settings: Settings, number: int | None = None) -> None:
    """What each process that answers requests begins with, before it has threads. number: its own among several."""
    begin_logging(settings, number)
    share_heaps()
    allow_many_connections()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(COLLECTED, COLLECTED_YOUNG)


def unknown_names(environment: Iterable[str]) -> list[str]:
    """A sentence for each variable that looks like a setting and is none."""
    known = [name.upper() for name in Settings.model_fields]
    found = []
    for name in sorted(environment):
        own = name.upper().removeprefix(PREFIX)
        if not name.upper().startswith(PREFIX) or own in known or name in OF_OTHERS:
            continue
        if own in vars(limits):
            found.append(f"{name} is a constant now, {getattr(limits, own)}, and no setting")
            continue
        close = get_close_matches(own, known, n=1)
        found.append(f"{name} is no setting" + (f", did you mean {PREFIX}{close[0]}?" if close else ""))
    return found


def tell_start(settings: Settings) -> None:
    """Log what starts: version, address, store, and who may do what; and names in the environment that mean nothing."""
    if settings.keys_file is not None:
        access = f"{len(read_keys(settings.keys_file))} keys in {settings.keys_file}"
    else:
        access = "no keys, everyone who reaches it may do everything"
    store = _store(settings) + (f", {settings.processes} processes" if settings.processes > 1 else "")
    log.info("hinged %s on %s, store %s, %s", __version__, _address(settings.host, settings.port), store, access)
    if settings.readers or settings.workers:
        log.warning(
            "HINGED_%s is a former name, and goes with the next version: set HINGED_PROCESSES=%d HINGED_FOLLOWERS=%d",
            "READERS" if settings.readers else "WORKERS", settings.processes, settings.followers,
        )  # fmt: skip
    for sentence in unknown_names(os.environ):
        log.warning("%s", sentence)


def _store(settings: Settings) -> str:
    """The store without a password."""
    if settings.store == "sqlite":
        return f"sqlite in {settings.data_dir}"
    parts = urlsplit(settings.store)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
