"""A server of several processes, seen from inside: which is which, and which took a connection."""

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
    """The processes of a server, by their numbers, once all run."""
    count = int(server.env["HINGED_PROCESSES"])
    found = {}

    def all_there():
        found.clear()
        for pid in wait_for_children(server.process.pid, count):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            name = Path(f"/proc/{pid}/comm").read_text().split()
            if MODULE in words:
                found[int(words[words.index(MODULE) + 1])] = pid
            elif name[0] == "process":  # as zygote.py calls it
                found[int(name[1])] = pid
        return len(found) == count

    eventually(all_there)
    return found


def names_of(number, count, most):
    """So many names of models that a process owns."""
    names = (f"m{k}" for k in range(1000))
    return [name for name in names if owner_of(name, count) == number][:most]


ONE, TWO = (names_of(number, 2, 40) for number in (1, 2))
"""Names of models of either of two processes."""
LEARNED = [example([k / 10, k % 3], "ab"[k % 2], f"x{k}") for k in range(20)]


@contextmanager
def standing_still(*pids):
    """While these processes do nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # who was killed meanwhile
                os.kill(pid, signal.SIGCONT)


def without(server, number):
    """While all processes but this one do nothing: connections are its to take."""
    return standing_still(*(pid for k, pid in processes_of(server).items() if k != number))


@contextmanager
def taken_by(server, number):
    """A connection that the process of this number took, kept for all that is asked over it."""
    with Asking(server.url) as ask:
        with without(server, number):
            assert ask("GET", "/healthz").status_code == 200
        yield ask


def line_taken_by(server, number):
    """The same as a socket on which nothing was sent yet."""
    with without(server, number):
        line = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        eventually(lambda: is_taken(line))
    return line
