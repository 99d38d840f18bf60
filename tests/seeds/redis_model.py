"""A model of one Redis server: the commands that the store uses, and its Lua scripts in a Lua 5.1 as Redis has it.

Each command or script is a transaction. A transaction lasts once it is fsynced; a crash keeps the transactions before
some point and undoes the rest, as a truncated append-only file does. test_redis_model.py compares the model with a real
server.

fakeredis would do instead, but it takes 0.3 ms for a script, does not know a script's first line, and cannot be cut
back to what was fsynced.
"""

import re
from hashlib import sha1
from itertools import islice

from lupa import lua51

SHEBANG = re.compile(r"^#!lua[^\n]*")


class Refused(Exception):
    """An error reply."""


class Status(str):
    """A reply like OK."""

    __slots__ = ()


class Stream(dict):
    """A stream: the fields of each entry, by the first part of its id; the second part is 0. last: of the newest."""

    last = 0

    def copy(self):
        other = Stream(self)
        other.last = self.last
        return other


def _integer(text):
    return int(text.partition(b"-")[0])


def _score(text, *, least):
    if text in (b"-inf", b"+inf"):
        return float(text)
    return float(text[1:]) + (1e-9 if least else -1e-9) if text.startswith(b"(") else float(text)


def _number(value):
    return b"%d" % value if value == int(value) else b"%.17g" % value


class RedisModel:
    """The data, the scripts and the clock of a server.

    clock: returns the seconds since 1970. ran: called with the text of each script, its keys, its arguments and the
    answer.
    """

    def __init__(self, clock, ran=lambda *_: None):
        self.data = {}
        self.expires = {}
        self._clock = clock
        self._ran = ran
        self._undo = []  # of each transaction that is not fsynced: the former values of the keys
        self._former = None
        self._lua = lua51.LuaRuntime(encoding=None)
        self._lua.globals().redis = self._lua.table_from({b"call": self._call_from_lua})
        self._lua.execute(b"os, io, require, python = nil")
        self._parts = self._lua.execute(b"return function(reply) return reply.ok, #reply, unpack(reply) end")
        self._commands = {
            name.removeprefix("do_").upper().encode(): getattr(self, name)
            for name in dir(type(self))
            if name.startswith("do_")
        }
        self._known = {}  # the scripts that EVALSHA finds, by hash
        self._compiled = {}

    # -- as a server ----------------------------------------------------------------------------------------------

    def execute(self, *command):
        """Execute a command as one transaction; return the reply. Raise Refused for an error reply."""
        words = [word if type(word) is bytes else _bytes(word) for word in command]
        self._former = {}
        try:
            return self._run(*words)
        finally:
            if self._former:
                self._undo.append(self._former)

    def fsync(self):
        """Let everything until now last."""
        self._undo.clear()

    @property
    def unsynced(self):
        """Return the number of transactions that a crash may undo."""
        return len(self._undo)

    def crash(self, lost):
        """Lose the newest `lost` transactions that are not fsynced, and the scripts."""
        for _ in range(lost):
            for key, (value, expires) in self._undo.pop().items():
                self._put(key, value, expires)
        self._undo.clear()
        self._known.clear()

    def holds(self, text):
        """Return whether these bytes stand anywhere in the data."""
        return text in repr((self.data, [(s.last, s) for s in self.data.values() if isinstance(s, Stream)])).encode()

    # -- commands -------------------------------------------------------------------------------------------------

    def _run(self, name, *args):
        if name == b"EVAL":
            return self._evaluate(args[0], int(args[1]), args[2:])
        if name == b"EVALSHA":
            if args[0] not in self._known:
                raise Refused("NOSCRIPT No matching script. Please use EVAL.")
            return self._evaluate(self._known[args[0]], int(args[1]), args[2:])
        method = self._commands.get(name)
        if method is None:
            raise Refused(f"ERR unknown command '{name.decode()}'")
        return method(*args)

    def _evaluate(self, text, count, args):
        if text not in self._compiled:
            body = SHEBANG.sub("", text.decode())
            function = self._lua.execute(f"return function(KEYS, ARGV) {body}\nend".encode())
            self._compiled[text] = function, sha1(text, usedforsecurity=False).hexdigest().encode()
        function, sha = self._compiled[text]
        self._known[sha] = text
        keys, rest = args[:count], args[count:]
        answer = self._reply(function(self._lua.table_from(keys), self._lua.table_from(rest)))
        self._ran(text, keys, rest, answer)
        return answer

    def _call_from_lua(self, *args):
        words = [arg if type(arg) is bytes else _number(arg) for arg in args]
        return self._to_lua(self._run(*words))

    def _to_lua(self, reply):
        if reply is None:
            return False
        if type(reply) is list:
            return self._lua.table_from([self._to_lua(part) for part in reply])
        if type(reply) is Status:
            return self._lua.table_from({b"ok": reply.encode()})
        return reply

    def _reply(self, value):
        """Return what Redis makes of the result of a script."""
        if type(value) is bytes:
            return value
        if value is None or value is False:
            return None
        if isinstance(value, int | float):
            return int(value)
        status, _, *parts = self._parts(value)
        if status is not None:
            return Status(status.decode())
        ends = parts.index(None) if None in parts else len(parts)
        return [self._reply(part) for part in parts[:ends]]

    def _get(self, key, kind):
        if key in self.expires and self.expires[key] <= self._clock():
            self._put(key, None)
        found = self.data.get(key)
        if found is not None and type(found) is not kind:
            raise Refused("WRONGTYPE Operation against a key holding the wrong kind of value")
        return found

    def _change(self, key, kind):
        """Return the value of a key, for a change."""
        self._save(key)
        found = self._get(key, kind)
        if found is None:
            found = self.data[key] = kind()
        return found

    def _save(self, key):
        if key not in self._former:
            value = self.data.get(key)
            former = value.copy() if isinstance(value, dict | set) else value
            self._former[key] = former, self.expires.get(key)

    def _put(self, key, value, expires=None):
        self.data.pop(key, None)
        self.expires.pop(key, None)
        if value is not None:
            self.data[key] = value
            if expires is not None:
                self.expires[key] = expires

    def _drop_empty(self, key):
        if not self.data[key]:
            self._put(key, None)

    def do_ping(self):
        return Status("PONG")

    def do_time(self):
        micros = int(1e6 * self._clock())
        return [b"%d" % (micros // 1_000_000), b"%d" % (micros % 1_000_000)]

    def do_get(self, key):
        return self._get(key, bytes)

    def do_set(self, key, value, *options):
        if b"NX" in options and self._get(key, bytes) is not None:
            return None
        expires = None
        for name, unit in ((b"EX", 1), (b"PX", 1000)):
            if name in options:
                expires = self._clock() + int(options[options.index(name) + 1]) / unit
        self._save(key)
        self._put(key, value, expires)
        return Status("OK")

    def do_mset(self, *pairs):
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.do_set(key, value)
        return Status("OK")

    def do_exists(self, key):
        return int(key in self.data)

    def do_del(self, *keys):
        found = [key for key in keys if key in self.data]
        for key in found:
            self._save(key)
            self._put(key, None)
        return len(found)

    do_unlink = do_del

    def do_expire(self, key, seconds):
        if key not in self.data:
            return 0
        self._save(key)
        self.expires[key] = self._clock() + int(seconds)
        return 1

    def do_rename(self, key, other):
        if key not in self.data:
            raise Refused("ERR no such key")
        self._save(key)
        self._save(other)
        value = self.data[key]
        self._put(key, None)
        self._put(other, value)
        return Status("OK")

    def do_hset(self, key, *pairs):
        found = self._change(key, dict)
        before = len(found)
        found.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(found) - before

    def do_hget(self, key, field):
        return (self._get(key, dict) or {}).get(field)

    def do_hmget(self, key, *fields):
        found = self._get(key, dict) or {}
        return [found.get(field) for field in fields]

    def do_hexists(self, key, field):
        return int(field in (self._get(key, dict) or {}))

    def do_hdel(self, key, *fields):
        if self._get(key, dict) is None:
            return 0
        found = self._change(key, dict)
        gone = sum(found.pop(field, None) is not None for field in fields)
        self._drop_empty(key)
        return gone

    def do_hgetall(self, key):
        return [part for pair in (self._get(key, dict) or {}).items() for part in pair]

    def do_hkeys(self, key):
        return [*(self._get(key, dict) or {})]

    def do_hvals(self, key):
        return [*(self._get(key, dict) or {}).values()]

    def do_hscan(self, key, *_):
        return [b"0", self.do_hgetall(key)]

    def do_sadd(self, key, *members):
        found = self._change(key, set)
        before = len(found)
        found.update(members)
        return len(found) - before

    def do_srem(self, key, *members):
        if self._get(key, set) is None:
            return 0
        found = self._change(key, set)
        before = len(found)
        found.difference_update(members)
        gone = before - len(found)
        self._drop_empty(key)
        return gone

    def do_sismember(self, key, member):
        return int(member in (self._get(key, set) or ()))

    def do_smembers(self, key):
        return sorted(self._get(key, set) or ())

    def do_zadd(self, key, score, member):
        found = self._change(key, Scores)
        new = member not in found
        found[member] = float(score)
        return int(new)

    def _by_score(self, key, least, most):
        least, most = _score(least, least=True), _score(most, least=False)
        found = self._get(key, Scores) or {}
        return sorted((m for m, score in found.items() if least <= score <= most), key=lambda m: (found[m], m))

    def do_zrangebyscore(self, key, least, most):
        return self._by_score(key, least, most)

    def do_zrevrange(self, key, first, last, _):
        found = self._get(key, Scores) or {}
        names = sorted(found, key=lambda m: (found[m], m), reverse=True)[int(first) : int(last) + 1]
        return [part for name in names for part in (name, _number(found[name]))]

    def do_zremrangebyscore(self, key, least, most):
        gone = self._by_score(key, least, most)
        if gone:
            found = self._change(key, Scores)
            for member in gone:
                del found[member]
            self._drop_empty(key)
        return len(gone)

    def do_xadd(self, key, at, *fields):
        found = self._change(key, Stream)
        if _integer(at) <= found.last:
            raise Refused("ERR The ID specified in XADD is equal or smaller than the target stream top item")
        found.last = _integer(at)
        found[found.last] = [*fields]
        return b"%d-0" % found.last

    def do_xrange(self, key, first, last, _, count):
        least, most = _integer(first), float("inf") if last == b"+" else _integer(last)
        found = self._get(key, Stream) or {}
        least, most = max(least, next(iter(found), 0)), min(most, next(reversed(found), 0))
        within = islice((at for at in range(least, most + 1) if at in found), int(count))
        return [[b"%d-0" % at, [*found[at]]] for at in within]

    def do_xtrim(self, key, _, least):
        if self._get(key, Stream) is None:
            return 0
        found = self._change(key, Stream)
        gone = [at for at in found if at < _integer(least)]
        for at in gone:
            del found[at]
        return len(gone)

    def do_bgrewriteaof(self):
        return Status("Background append only file rewriting started")


class Scores(dict):
    """A sorted set: the score of each member."""

    def copy(self):
        return Scores(self)


def _bytes(word):
    return bytes(word) if isinstance(word, memoryview | bytearray) else str(word).encode()
