"""The process that listens and starts the workers, and starts again what ends."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
import socket
import sys
from contextlib import ExitStack

from hinged.service.edge.accepting import listen, reserve
from hinged.service.edge.access import refuse_open_door
from hinged.service.edge.children import Child, Children
from hinged.service.edge.ending import FAILURE, REFUSED, TAKEN_OVER
from hinged.service.edge.keys import Keyring
from hinged.service.edge.logs import begin_logging
from hinged.service.edge.start import refuse_taken_address, tell_start
from hinged.service.errors import Invalid
from hinged.service.settings import Settings
from hinged.service.store.folders import check_division

log = logging.getLogger(__name__)

ENDING_S = 5.0
"""How much longer than they have to drain workers may take to end."""
SECRET_BYTES = 32  # of the key that signs tickets: as many as the digest has (HMAC-SHA256)
ALONE = "a worker answers for its models alone"


def supervise(settings: Settings) -> None:
    """Keep the workers running until SIGINT or SIGTERM.

    Invalid for settings that do not go with workers, if nobody can listen there, or if the data are divided otherwise.
    """
    check(settings)
    refuse_open_door(settings)
    refuse_taken_address(settings)
    if settings.store == "sqlite":
        check_division(settings.data_dir, settings.workers)
    begin_logging(settings)
    with listen(settings) as listening:
        chosen = settings.model_copy(update={"port": int(listening.getsockname()[1])})
        tell_start(chosen)
        code = asyncio.run(_Supervisor(chosen, listening).run())
    if code:
        sys.exit(code)


def check(settings: Settings) -> None:
    """Invalid for what does not go together with workers."""
    count = settings.workers
    if settings.readers:
        raise Invalid(f"HINGED_WORKERS: {ALONE} and has no readers, got {count} and HINGED_READERS={settings.readers}")
    if settings.node is not None:
        raise Invalid(f"HINGED_WORKERS: workers are no nodes that others reach, got {count} and HINGED_NODE")
    if not hasattr(socket, "SO_REUSEPORT"):
        raise Invalid(f"HINGED_WORKERS must be 0 on this system, which lets no two processes share a port, got {count}")
    if settings.keys_file is not None:
        Keyring(settings.keys_file)


class _Supervisor:
    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._code = 0

    async def run(self) -> int:
        """Keep them running until it is enough; the exit code."""
        loop, enough = asyncio.get_running_loop(), asyncio.Event()
        began: set[str] = set()

        def may_go_on(worker: Child, code: int) -> bool:
            if code == TAKEN_OVER:  # to be started again would take it back, and then the other one again
                enough.set()
                return False
            if code != REFUSED:
                began.add(worker.name)
            if worker.name in began:  # what keeps it from beginning now may pass, and the others serve
                return True
            self._code = FAILURE  # why it has said itself
            enough.set()
            return False

        # Away from the terminal, whose Ctrl-C is the supervisor's to pass on.
        children = Children(self._settings, [self._listening.fileno()], may_go_on, start_new_session=True)

        def stop(number: int) -> None:
            children.end(number)
            enough.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        with ExitStack() as stack:
            ports = [stack.enter_context(reserve()).getsockname()[1] for _ in range(self._settings.workers)]
            told = {"ports": ports, "secret": secrets.token_hex(SECRET_BYTES)}
            said = json.dumps(told).encode() + b"\n"
            for k in range(1, self._settings.workers + 1):
                arguments = (k, self._listening.fileno())
                children.start(Child(f"worker {k}", "hinged.service.workers", arguments, said))
            await enough.wait()
            self._listening.close()
            await children.stop(self._settings.shutdown_s + ENDING_S)
        return self._code
