"""Make Redis rewrite its files. Until then the files contain data that was removed from Redis's memory.

The append-only file is a list of commands; an RDB file contains the data at the time of writing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from hinged.service.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from redis import Redis

    Noted = Callable[[str, str], AbstractContextManager[None]]
    """A function that wraps the rewriting of a server, given the server's name and its `run_id`."""

POLL_S = 0.05  # seconds between two checks of a server's progress
REWRITE_S = 3600.0
"""Maximum seconds that a server may take for each file."""
BUSY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def rewrite(server: Redis, name: str, noted: Noted) -> list[str]:
    """Let `server` rewrite its files and wait for the end; return a sentence about each part that it did not rewrite.

    The sentences say what the server refuses or fails to do. Raise StoreUnavailable if the server is unreachable or was
    restarted, because a restarted server reports success for work that it never did.
    """
    try:
        return _rewrite(server, name, noted)
    except ResponseError as error:
        return [f"{name} does not say which files it keeps; they may hold what was removed: {error}."]
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"{name} went away while it was to rewrite its files: {error}") from error


def _rewrite(server: Redis, name: str, noted: Noted) -> list[str]:
    found = _info(server, "server", "persistence", "replication")
    run, told = _Run(server, name, found["run_id"]), []
    with noted(name, run.id):
        if found.get("aof_enabled"):
            told += run.have_done("did not rewrite its append-only file", "BGREWRITEAOF", "aof_last_bgrewrite")
        saves = _saves(server)
        if saves or found.get("rdb_saves") or found.get("rdb_last_bgsave_time_sec", -1) >= 0:
            told += run.have_done("did not rewrite its RDB file", "BGSAVE", "rdb_last_bgsave")
        elif saves is None:
            told.append(f"{name} does not show its configuration: if it keeps an RDB file, that was not rewritten.")
    replicas = found.get("connected_slaves", 0)
    if replicas:
        told.append(f"{name} has replicas ({replicas}), whose own files were not rewritten.")
    return told


@dataclass(frozen=True, slots=True)
class _Run:
    """A server from one start to its next start."""

    server: Redis
    name: str
    id: str

    def have_done(self, failure: str, command: str, outcome: str) -> list[str]:
        """Run a `command` that works in the background, and wait for its end. Return a sentence if it failed."""
        end = time.monotonic() + REWRITE_S
        try:
            self._wait(end)
            while not self._began(command):
                self._wait(end)
            status = self._wait(end).get(f"{outcome}_status")
        except (ResponseError, TimeoutError) as error:
            return [f"{self.name} {failure}: {error}."]
        return [] if status == "ok" else [f"{self.name} {failure}: see its log."]

    def _began(self, command: str) -> bool:
        client: Any = self.server  # redis-py has no types here
        try:
            client.execute_command(command)
        except ResponseError as error:
            # Redis also starts such work on its own, and does only one such task at a time.
            if "in progress" in str(error) or "process is active" in str(error):
                return False
            raise
        return True

    def _wait(self, end: float) -> dict[str, Any]:
        """Wait until the server writes no file in the background; return the server's answer to INFO."""
        while True:
            found = _info(self.server, "server", "persistence")
            if found["run_id"] != self.id:
                raise StoreUnavailable(f"{self.name} was restarted before it had rewritten its files")
            if not any(found.get(field) for field in BUSY):
                return found
            if time.monotonic() > end:
                raise TimeoutError("it takes too long")
            time.sleep(POLL_S)


def _saves(server: Redis) -> bool | None:
    """Return whether the server writes RDB files on its own; None if it does not say."""
    try:
        found: Any = server.config_get("save")
    except ResponseError:
        return None
    return bool(found.get("save"))


def _info(server: Redis, *sections: str) -> dict[str, Any]:
    found: Any = server.info(*sections)
    return dict(found)
