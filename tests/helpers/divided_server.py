"""A server whose models are divided among workers, seen from inside: who is which, and who took a connection."""

import os
import signal
import socket
from contextlib import contextmanager, suppress
from pathlib import Path

from hinged.service.cluster.siblings import owner_of
from tests.helpers.http_client import Asking, example
from tests.helpers.server import PATIENCE_S, eventually, is_taken, wait_for_children

MODULE = "hinged.service.workers"


def workers_of(server):
    """The processes of a server's workers, by their numbers, once all run."""
    count = int(server.env["HINGED_WORKERS"])
    found = {}

    def all_there():
        found.clear()
        for pid in wait_for_children(server.process.pid, count):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            name = Path(f"/proc/{pid}/comm").read_text().split()
            if MODULE in words:
                found[int(words[words.index(MODULE) + 1])] = pid
            elif name[0] == "worker":  # as zygote.py calls it
                found[int(name[1])] = pid
        return len(found) == count

    eventually(all_there)
    return found


def names_of(number, count, most):
    """So many names of models that a worker has."""
    names = (f"m{k}" for k in range(1000))
    return [name for name in names if owner_of(name, count) == number][:most]


ONE, TWO = (names_of(number, 2, 40) for number in (1, 2))
"""Names of models of either of two workers."""
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
    """While all workers but this one do nothing: connections are its to take."""
    return standing_still(*(pid for k, pid in workers_of(server).items() if k != number))


@contextmanager
def taken_by(server, number):
    """A connection that the worker of this number took, kept for all that is asked over it."""
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


def own_port(pid, public):
    """The port at which a worker is reached by the others."""
    listening = {}
    for row in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = row.split()
        if fields[3] == "0A":
            listening[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    held = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    (port,) = {port for inode, port in listening.items() if inode in held} - {public}
    return port
