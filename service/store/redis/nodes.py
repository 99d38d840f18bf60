"""Connections to a Redis server or Redis Cluster, with a check that the servers are as durable as the store promises.

redis-py provides the protocol, the pools and the cluster's slots. Its retries are off: a write without an answer may
have been executed, and only the store can find out.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakSet

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as NotConnected
from redis.retry import Retry

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import OutcomeUnknown
from hinged.service.store.redis import scripts
from hinged.service.store.redis.rewriting import rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redis.connection import AbstractConnection

    from hinged.service.store.redis.rewriting import Noted
    from hinged.service.store.redis.scripts import Script

log = logging.getLogger(__name__)

OLDEST = (7, 0)  # oldest version of Redis that the store supports: its scripts declare flags
WAITS_FROM = (7, 2)
"""First version with WAITAOF, which waits until the writes of this connection are fsynced."""
ATTEMPTS = 3
"""Maximum number of attempts. A request is repeated if a node of a cluster refused the request, or if it could not be
sent, because the cluster may have changed."""
CONFIG = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy")
"""The settings of Redis on which durability depends."""


class NotDurableError(RedisError):
    """Raised when the server could lose acknowledged writes."""


class Nodes:
    """The servers at a URL. Methods may be called from several threads."""

    def __init__(self, url: str, *, durable: bool, timeout_s: float) -> None:
        self.promise = "may be lost by a crash of Redis or its machine: HINGED_DURABILITY=relaxed"
        self._durable = durable
        self._wait_ms = int(timeout_s * 800)  # shorter than the socket's timeout, so that the answer still arrives
        self._waits: WeakSet[AbstractConnection] = WeakSet()
        self._closed = False
        self._where, self._cluster, self._single = "Redis", None, None
        options: dict[str, Any] = {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "protocol": 2,
        }
        try:
            scheme, names, first = _parse(url)
            self._where = f"Redis at {names}"
            if scheme.endswith("+cluster"):
                others = [_node(name) for name in names.split(",")[1:]]
                self._cluster = RedisCluster.from_url(
                    first, startup_nodes=others, redis_connect_func=self._examine, **options
                )
            else:
                self._single = Redis.from_url(
                    url, redis_connect_func=self._greet, retry=Retry(NoBackoff(), 0), **options
                )
        except (RedisError, ValueError, TypeError) as error:
            raise StoreUnavailable(f"{self._where} cannot be used: {_reason(error)}") from error

    def call(self, script: Script, keys: Sequence[str], arguments: Sequence[Any], *, lasting: bool = False) -> Any:
        """Run `script` on the server that has `keys`, which share a slot; return its answer.

        lasting: wait until its writes are fsynced, if the store promises durability. Raise StoreUnavailable if the
        script did not run, OutcomeUnknown if it may have run.
        """
        for text in (("EVALSHA", script.sha), ("EVAL", script.text)):
            with suppress(NoScriptError):
                return self._exchange(keys[0], (*text, len(keys), *keys, *arguments), lasting=lasting)
        raise StoreUnavailable(f"{self._where} does not keep scripts")

    def ask(self, *command: Any) -> Any:
        """Return the answer to a `command` that only reads; the second word of the command is the key."""
        try:
            return self._exchange(command[1], command, lasting=False)
        except OutcomeUnknown as error:
            raise StoreUnavailable(error.message) from error

    def ask_all(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the answers to many commands that only read. They are sent together."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        client: Any = self._cluster or self._single  # redis-py has no types here
        together = client.pipeline(transaction=False)
        for command in commands:
            together.execute_command(*command)
        try:
            answers: list[Any] = together.execute()
        except (RedisError, OSError) as error:
            raise StoreUnavailable(f"{self._where} did not answer: {_reason(error)}") from error
        return answers

    def settle_division(self, namespace: str, wanted: int) -> int:
        """Return the number of processes that divide a namespace (docs/adr/0052); 0 if it is not divided.

        The first caller decides the number: a new namespace is divided into `wanted` parts. Each owner has a namespace
        below it.
        """
        keys = [f"{namespace}:{{-}}:{part}" for part in ("epoch", "workers")]
        _, division = self.call(scripts.DIVISION, keys, [wanted], lasting=True)
        return int(division)

    def rewrite(self, noted: Noted) -> list[str]:
        """Let every server that accepts writes rewrite its files; return a sentence about each part that was not
        rewritten.

        Raise StoreUnavailable if a server was unreachable or restarted meanwhile. A later call may succeed.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._cluster is None:
            assert self._single is not None  # noqa: S101  there is a server if there is no cluster
            return rewrite(self._single, self._where, noted)
        cluster: Any = self._cluster
        try:
            cluster.nodes_manager.initialize()
        except RedisError as error:
            raise StoreUnavailable(f"{self._where} does not say which servers it has: {_reason(error)}") from error
        masters = cluster.get_primaries()
        return [
            sentence
            for node in masters
            for sentence in rewrite(cluster.get_redis_connection(node), f"Redis at {node.name}", noted)
        ]

    def close(self) -> None:
        """Close the unused connections now, and each used connection when it is returned."""
        self._closed = True
        if self._cluster is not None:
            self._cluster.close()
        if self._single is not None:
            self._single.close()

    def _exchange(self, key: str, command: Sequence[Any], *, lasting: bool) -> Any:
        for attempt in range(ATTEMPTS):
            try:
                return self._exchange_once(key, command, lasting=lasting)
            except (MovedError, ClusterDownError, NotConnected) as error:
                # If one of these errors is raised, the server has done nothing. redis-py itself retries the other
                # errors of a node during a move.
                if self._cluster is None or attempt == ATTEMPTS - 1:
                    raise StoreUnavailable(f"{self._where} did not take it: {_reason(error)}") from error
                with suppress(RedisError):
                    self._cluster.nodes_manager.initialize()
        raise AssertionError

    def _exchange_once(self, key: str, command: Sequence[Any], *, lasting: bool) -> Any:
        """Send the command and read the answer, once. If an error means that nothing was done, raise NotConnected or
        the error itself.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        pool = self._client(key).connection_pool
        connection: Any = self._connect(pool)
        try:
            return self._converse(connection, command, wait=lasting and connection in self._waits)
        finally:
            pool.release(connection)

    def _converse(self, connection: Any, command: Sequence[Any], *, wait: bool) -> Any:
        commands = [command, ("WAITAOF", 1, 0, self._wait_ms)] if wait else [command]
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [_read(connection)]
            if wait and not isinstance(answers[0], BusyLoadingError):  # in that case redis-py has disconnected
                answers.append(_read(connection))
        except (RedisError, OSError) as error:
            connection.disconnect()
            raise OutcomeUnknown(
                f"{self._where} took a request and did not answer it; its outcome is unknown: {error}"
            ) from error
        self._check(answers[0], connection)
        if wait and not (isinstance(answers[1], list) and answers[1][0]):
            raise OutcomeUnknown(
                f"{self._where} has not written to disk within {self._wait_ms} ms; it may last or not: {answers[1]}"
            )
        return answers[0]

    def _check(self, answer: Any, connection: Any) -> None:
        """Raise the answer if it is an error. Raise OutcomeUnknown if a script failed halfway."""
        if not isinstance(answer, RedisError):
            return
        if isinstance(answer, NoScriptError | MovedError | ClusterDownError):
            raise answer
        # The server may no longer be the master, or may have another configuration. A new connection checks the server
        # again.
        connection.disconnect()
        failure = OutcomeUnknown if "script:" in str(answer) else StoreUnavailable
        raise failure(f"{self._where} did not take it: {answer}") from answer

    def _connect(self, pool: Any) -> Any:
        try:
            return pool.get_connection()
        except NotDurableError as error:
            raise StoreUnavailable(f"{self._where} cannot be used: {error}") from error
        except (RedisError, OSError) as error:
            raise NotConnected(str(error)) from error

    def _client(self, key: str) -> Redis:
        if self._cluster is None:
            assert self._single is not None  # noqa: S101  there is a server if there is no cluster
            return self._single
        try:
            cluster: Any = self._cluster  # redis-py has no types here
            client: Redis = cluster.get_redis_connection(cluster.get_node_from_key(key))
        except RedisError as error:
            raise NotConnected(str(error)) from error
        return client

    def _greet(self, connection: Any) -> None:
        connection.on_connect()
        self._examine(connection)

    def _examine(self, connection: Any) -> None:
        """Check, at every new connection, that the server is as durable as promised: its configuration may have
        changed.
        """
        version = _version(connection)
        if version is not None and version < OLDEST:
            raise NotDurableError(f"it is version {_dotted(version)}, the store needs {_dotted(OLDEST)} or newer")
        if not self._durable:
            return
        connection.send_command("CONFIG", "GET", *CONFIG)
        try:
            flat = [part.decode() for part in connection.read_response()]
        except ResponseError as error:
            raise NotDurableError(
                f"it does not show its configuration ({error}), so nothing can be promised: let the user run CONFIG "
                "GET, or set HINGED_DURABILITY=relaxed"
            ) from error
        config = dict(zip(flat[::2], flat[1::2], strict=True))
        waits = version is not None and version >= WAITS_FROM
        wanted = {
            "appendonly": ("yes",),
            "appendfsync": ("always", "everysec") if waits else ("always",),
            "no-appendfsync-on-rewrite": ("no",),
            "maxmemory-policy": ("noeviction",),
        }
        wrong = [
            f"{name} is {config.get(name)} and must be {' or '.join(allowed)}"
            for name, allowed in wanted.items()
            if config.get(name) not in allowed
        ]
        if wrong:
            raise NotDurableError(
                f"it could lose what it acknowledges: {'; '.join(wrong)}. Change its configuration, or set "
                "HINGED_DURABILITY=relaxed"
            )
        self.promise = f"is fsynced by Redis (appendfsync {config['appendfsync']}{', WAITAOF' if waits else ''})"
        if waits:
            self._waits.add(connection)
        else:
            self._waits.discard(connection)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response()
    except (ResponseError, BusyLoadingError) as error:
        return error


def _version(connection: Any) -> tuple[int, ...] | None:
    connection.send_command("INFO", "server")
    try:
        lines = connection.read_response().decode().splitlines()
    except ResponseError:  # this user may not run INFO
        return None
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return tuple(int(part) for part in found["redis_version"].split(".")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _reason(error: BaseException) -> str:
    """Return the innermost cause. redis-py hides the reason why no node of a cluster could be asked."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def _parse(url: str) -> tuple[str, str, str]:
    """Return (scheme, hosts, url): the hosts with ports but no password, and the URL of the first host as redis-py
    wants it.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix", "redis+cluster", "rediss+cluster"}:
        raise ValueError(
            "HINGED_STORE must begin with redis://, rediss://, unix://, redis+cluster:// or rediss+cluster://, "
            f"or be sqlite, got {parts.scheme or 'no such thing'}"
        )
    if parts.scheme != "unix" and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("in a user name or password of HINGED_STORE, / must be %2F, ? must be %3F, and # must be %23")
    user, at, names = parts.netloc.rpartition("@")
    first = parts._replace(
        scheme=parts.scheme.removesuffix("+cluster"), netloc=user + at + names.split(",", maxsplit=1)[0]
    )
    return parts.scheme, names or parts.path, first.geturl()


def _node(name: str) -> ClusterNode:
    host, _, port = name.rpartition(":") if ":" in name else (name, "", "6379")
    make: Any = ClusterNode
    node: ClusterNode = make(host, int(port))
    return node
