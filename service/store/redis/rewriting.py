"""Redis's own files, written anew: until then they hold what was removed from its memory.

The append-only file is a list of commands, and an RDB file shows how it was when it was made.
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
    """Around all that a server does: its name, and what it calls this run of it."""

POLL_S = 0.05
REWRITE_S = 3600.0
"""What a server gets for each file."""
BUSY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def rewrite(server: Redis, name: str, noted: Noted) -> list[str]:
    """Let `server` write its files anew and wait for the end: what it did not, a sentence each.

    That is what it refuses or fails to do. StoreUnavailable if it is away or not the same as before: a server that was
    started anew says of what it never did that all is well.
    """
    try:
        return _rewrite(server, name, noted)
    except ResponseError as error:
        return [f"{name} does not say which files it keeps, they may hold what was removed: {error}."]
    except (RedisError, OSError) as error:
        raise StoreUnavailable(f"{name} went away while it was to write its files anew: {error}") from error


def _rewrite(server: Redis, name: str, noted: Noted) -> list[str]:
    found = _info(server, "server", "persistence", "replication")
    run, told = _Run(server, name, found["run_id"]), []
    with noted(name, run.id):
        if found.get("aof_enabled"):
            told += run.have_done("did not rewrite its append-only file", "BGREWRITEAOF", "aof_last_bgrewrite")
        saves = _saves(server)
        if saves or found.get("rdb_saves") or found.get("rdb_last_bgsave_time_sec", -1) >= 0:
            told += run.have_done("did not write its RDB file anew", "BGSAVE", "rdb_last_bgsave")
        elif saves is None:
            told.append(f"{name} does not show its configuration: if it keeps an RDB file, that was not written anew.")
    replicas = found.get("connected_slaves", 0)
    if replicas:
        told.append(f"{name} has replicas ({replicas}), whose own files were not written anew.")
    return told


@dataclass(frozen=True, slots=True)
class _Run:
    """A server between a start and the next."""

    server: Redis
    name: str
    id: str

    def have_done(self, failure: str, command: str, outcome: str) -> list[str]:
        """Run a `command` that goes on in the background, to its end."""
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
            # Redis begins such work by itself, too, and does one at a time.
            if "in progress" in str(error) or "process is active" in str(error):
                return False
            raise
        return True

    def _wait(self, end: float) -> dict[str, Any]:
        """Wait until nothing is written in the background; how that ended."""
        while True:
            found = _info(self.server, "server", "persistence")
            if found["run_id"] != self.id:
                raise StoreUnavailable(f"{self.name} was started again before it had written its files anew")
            if not any(found.get(field) for field in BUSY):
                return found
            if time.monotonic() > end:
                raise TimeoutError("it takes too long")
            time.sleep(POLL_S)


def _saves(server: Redis) -> bool | None:
    """Whether the server writes RDB files by itself; None if it does not say."""
    try:
        found: Any = server.config_get("save")
    except ResponseError:
        return None
    return bool(found.get("save"))


def _info(server: Redis, *sections: str) -> dict[str, Any]:
    found: Any = server.info(*sections)
    return dict(found)
