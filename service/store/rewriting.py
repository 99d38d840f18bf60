"""Redis's own files, written anew: until then they hold what was removed from its memory.

The append-only file is a list of commands, and an RDB file shows how it was when it was made.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

if TYPE_CHECKING:
    from redis import Redis

POLL_S = 0.05
REWRITE_S = 3600.0
"""What a server gets for each file."""
BUSY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def rewrite(server: Redis, name: str) -> list[str]:
    """Let `server` write its files anew and wait for the end: what it did not, a sentence each."""
    told = []
    try:
        persistence, replication = _info(server, "persistence"), _info(server, "replication")
    except RedisError as error:
        return [f"{name} does not say which files it keeps, they may hold what was removed: {error}."]
    if persistence.get("aof_enabled"):
        told += _have_done(server, f"{name} did not rewrite its append-only file", "BGREWRITEAOF", "aof_last_bgrewrite")
    saves = _saves(server)
    if saves or persistence.get("rdb_saves") or persistence.get("rdb_last_bgsave_time_sec", -1) >= 0:
        told += _have_done(server, f"{name} did not write its RDB file anew", "BGSAVE", "rdb_last_bgsave")
    elif saves is None:
        told.append(f"{name} does not show its configuration: if it keeps an RDB file, that was not written anew.")
    replicas = replication.get("connected_slaves", 0)
    if replicas:
        told.append(f"{name} has replicas ({replicas}), whose own files were not written anew.")
    return told


def _have_done(server: Redis, failure: str, command: str, outcome: str) -> list[str]:
    """Run a `command` that goes on in the background, to its end."""
    end = time.monotonic() + REWRITE_S
    try:
        _wait(server, end)
        while not _began(server, command):
            _wait(server, end)
        status = _wait(server, end).get(f"{outcome}_status")
    except (RedisError, TimeoutError) as error:
        return [f"{failure}: {error}."]
    return [] if status == "ok" else [f"{failure}: see its log."]


def _began(server: Redis, command: str) -> bool:
    client: Any = server  # redis-py has no types here
    try:
        client.execute_command(command)
    except ResponseError as error:
        # Redis begins such work by itself, too, and does one at a time.
        if "in progress" in str(error) or "process is active" in str(error):
            return False
        raise
    return True


def _wait(server: Redis, end: float) -> dict[str, Any]:
    """Wait until nothing is written in the background; how that ended."""
    while True:
        persistence = _info(server, "persistence")
        if not any(persistence.get(field) for field in BUSY):
            return persistence
        if time.monotonic() > end:
            raise TimeoutError("it takes too long")
        time.sleep(POLL_S)


def _saves(server: Redis) -> bool | None:
    """Whether the server writes RDB files by itself; None if it does not say."""
    try:
        found: Any = server.config_get("save")
    except RedisError:
        return None
    return bool(found.get("save"))


def _info(server: Redis, section: str) -> dict[str, Any]:
    found: Any = server.info(section)
    return dict(found)
