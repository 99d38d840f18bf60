"""Stands for redis-py's client: connections over the simulated network to a RedisModel, which may crash or stand still.

The store's own code (nodes.py) decides what each failure means. A request may be lost before or after it was executed,
and it may be executed after its sender has given up.
"""

from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

from tests.seeds.redis_model import RedisModel, Refused
from tests.seeds.world import PLACE, Event

NAME = "redis"
FSYNC_S = 0.002  # mean duration of an fsync
CONFIG = (
    b"appendonly", b"yes", b"appendfsync", b"everysec", b"no-appendfsync-on-rewrite", b"no",
    b"maxmemory-policy", b"noeviction",
)  # fmt: skip


class RedisServer:
    """The simulated server. run: which start of the server this is. up: whether it accepts connections."""

    def __init__(self, world, network, ran=lambda *_: None):
        self.world, self.network = world, network
        self.model = RedisModel(world.wall_s, lambda *told: ran(self._sender, *told))
        self._sender = None  # the place whose commands are executed
        self.run = 1
        self.up = True

    def crash(self):
        """Stop; lose some of the newest transactions that are not fsynced."""
        self.model.crash(self.world.rng.randint(0, self.model.unsynced))
        self.up, self.run = False, self.run + 1

    def serve(self, sender, run, commands, answer):
        """Execute commands that arrive; `answer` is called with the replies, or with None if the connection is broken.

        An fsync takes time, and the server may crash meanwhile.
        """
        if not self.up or run != self.run:
            answer(None)
            return
        replies = self.replies(sender, commands)
        if len(replies) == len(commands):
            answer(replies)
            return

        def synced():
            if run != self.run:
                answer(None)
                return
            self.model.fsync()
            answer([*replies, [1, 0]])

        self.world.loop.call_later(self.world.rng.expovariate(1.0 / FSYNC_S), synced)

    def replies(self, sender, commands):
        """Execute commands, except for the wait for an fsync; return their replies."""
        self._sender = sender
        return [self._reply(command) for command in commands if command[0] != "WAITAOF"]

    def _reply(self, command):
        words = [str(word).upper() for word in command[:2]]
        if words == ["INFO", "SERVER"]:
            return b"redis_version:7.4.0\r\n"
        if words[0] == "CONFIG":
            return [*CONFIG]
        try:
            return self.model.execute(*command)
        except Refused as error:
            said = str(error)
            return NoScriptError(said) if said.startswith("NOSCRIPT") else ResponseError(said)


class Connection:
    """A connection of a node to the server."""

    def __init__(self, server, timeout_s):
        self._server, self._timeout_s = server, timeout_s
        self._run = None
        self._replies = []

    def connect(self, greet):
        if self._run is None:
            self._run = self._server.run
            try:
                greet(self)
            except BaseException:
                self.disconnect()
                raise

    def disconnect(self):
        self._run = None
        self._replies = []

    def on_connect(self):
        """Say hello."""
        if self._exchange([("PING",)]) is None:
            raise NotConnected("Connection refused")

    def pack_commands(self, commands):
        return commands

    def send_command(self, *command):
        self.send_packed_command([command])

    def send_packed_command(self, commands):
        replies = self._exchange(commands)
        self._replies = [NotConnected("Connection closed by server")] if replies is None else replies

    def read_response(self):
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _exchange(self, commands):
        """Send commands and wait for the replies. Raise NoAnswer if they do not come in time."""
        server, world, network = self._server, self._server.world, self._server.network
        here, run, event, found = PLACE.get(), self._run, Event(world), []

        def answer(replies):
            network.send(NAME, here.name, None, came, replies)

        def came(replies):
            found.append(replies)
            event.set()

        if world.on_loop():  # the event loop does not wait in simulated time
            if not server.up or (here.name, NAME) in network.cuts or (NAME, here.name) in network.cuts:
                raise NoAnswer("Timeout reading from socket")
            server.model.fsync()
            return server.replies(here, commands)
        network.send(here.name, NAME, None, server.serve, here, run, commands, answer)
        event.wait(self._timeout_s)
        if not found:
            raise NoAnswer("Timeout reading from socket")
        return found[0]


class Pool:
    """The connections of a client."""

    def __init__(self, make, greet):
        self._make, self._greet, self._idle = make, greet, []

    def get_connection(self):
        connection = self._idle.pop() if self._idle else self._make()
        try:
            connection.connect(self._greet)
        except BaseException:
            self._idle.append(connection)
            raise
        return connection

    def release(self, connection):
        self._idle.append(connection)


class Client:
    """redis.Redis, as far as the store uses it."""

    def __init__(self, server, greet, timeout_s):
        self._server = server
        self.connection_pool = Pool(lambda: Connection(server, timeout_s), greet)

    def execute_command(self, *command):
        return self._together([command])[0]

    def pipeline(self, transaction):
        assert not transaction
        return Pipeline(self._together)

    def _together(self, commands):
        connection = self.connection_pool.get_connection()
        try:
            connection.send_packed_command(commands)
            return [connection.read_response() for _ in commands]
        except Exception:
            connection.disconnect()
            raise
        finally:
            self.connection_pool.release(connection)

    def info(self, *_):
        """Report a server that rewrites its files at once."""
        self.execute_command("PING")
        server = {"run_id": str(self._server.run), "aof_enabled": 1, "aof_last_bgrewrite_status": "ok"}
        return {**server, "rdb_saves": 0, "rdb_last_bgsave_time_sec": -1, "connected_slaves": 0}

    def config_get(self, _):
        return {"save": ""}

    def close(self):
        """Do nothing: no connection is real."""


class Pipeline(list):
    """Commands that are sent together."""

    def __init__(self, together):
        super().__init__()
        self._together = together

    def execute_command(self, *command):
        self.append(command)

    def execute(self):
        return self._together([*self])


def clients(server):
    """Return what stands for redis.Redis in the store."""

    class Redis(Client):
        @classmethod
        def from_url(cls, _, *, redis_connect_func, socket_timeout, **_options):
            return cls(server, redis_connect_func, socket_timeout)

    return Redis
