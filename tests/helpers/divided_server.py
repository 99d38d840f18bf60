"""Tell the processes of one server apart, and let a chosen process accept a connection."""

import os
import signal
import socket
from contextlib import contextmanager, suppress
from pathlib import Path

from hinged.service.peers.ring import owner_of
from tests.helpers.http_client import Asking, example
from tests.helpers.server import PATIENCE_S, eventually, is_taken, wait_for_children

MODULE = "hinged.service"


def processes_of(server):
    """The pid of each process of a server by its number, once all of them run."""
    count = int(server.env["HINGED_PROCESSES"])
    found = {}

    def all_there():
        found.clear()
        for pid in wait_for_children(server.process.pid, count):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            name = Path(f"/proc/{pid}/comm").read_text().split()
            if MODULE in words:
                found[int(words[words.index(MODULE) + 1])] = pid
            elif name[0] == "process":  # the name that zygote.py gives it
                found[int(name[1])] = pid
        return len(found) == count

    eventually(all_there)
    return found


def names_of(number, count, most):
    """At most `most` names of models that this process owns."""
    names = (f"m{k}" for k in range(1000))
    return [name for name in names if owner_of(name, count) == number][:most]


ONE, TWO = (names_of(number, 2, 40) for number in (1, 2))
"""Names of models that the first process of two owns, and names that the second owns."""
LEARNED = [example([k / 10, k % 3], "ab"[k % 2], f"x{k}") for k in range(20)]


@contextmanager
def standing_still(*pids):
    """Stop these processes (SIGSTOP) while the block runs."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # it was killed meanwhile
                os.kill(pid, signal.SIGCONT)


def without(server, number):
    """Stop all processes but one, so that this process accepts the next connection."""
    return standing_still(*(pid for k, pid in processes_of(server).items() if k != number))


@contextmanager
def taken_by(server, number):
    """A connection that the process of this number has accepted, kept open for all requests."""
    with Asking(server.url) as ask:
        with without(server, number):
            assert ask("GET", "/healthz").status_code == 200
        yield ask


def line_taken_by(server, number):
    """A socket that the process of this number has accepted, and on which nothing was sent yet."""
    with without(server, number):
        line = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        eventually(lambda: is_taken(line))
    return line
