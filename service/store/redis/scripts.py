"""The atomic steps of the Redis store: Lua scripts, each all or nothing.

Redis runs a script alone and logs its effects as one transaction, but undoes nothing if the script stops halfway. So a
script checks first and writes afterwards, and no argument can make a write fail.

The scripts of a model get the same keys, all in one slot, and the same first two arguments:

KEYS  fence, meta, log, ids, snapshots
ARGV  epoch of the calling server; the model's expected `born`, or '' for any

    fence           string  The highest epoch that has written here. It is kept a day longer than the model, so that
                            fenced servers stay fenced.
    meta            hash    born: unique among all models of this name. owner: address of the server that claimed the
                            model; absent if one server has the whole store. end: end of the log. trimmed: position up
                            to which the log is trimmed. void: appends of this epoch with at most this number are given
                            up and refused. clean: position up to which the log was trimmed when its current copy was
                            begun. rebuilding: "name position", which says how far log:NAME is copied. from: position at
                            which the copy begins.
    log             stream  The event at position n has the id n-0.
    log:NAME        stream  A copy that will replace the log. A stream keeps the bytes of a deleted entry and inserts
                            entries only at its end. So removing an event means copying the other events.
    ids             hash    Maps the id of an example to the position of its newest event.
    snapshots       hash    Maps a position to "name parts size digest". While a snapshot is written, maps
                            "pending:name" to its position.
    snapshots:NAME  hash    Maps the number of a part to the chunk.

The scripts return a list: a word, then its values. `ok`; `fenced`: a newer server has written; `gone`: no such model.

When memory has run out (`maxmemory`), Redis refuses every script that writes, except scripts with `allow-oom`: these
free memory, or write the few bytes that must come before memory can be freed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

Steps = Callable[..., tuple[str, list[Any]]]
"""Runs a script, with arguments, on one model as its writer; returns the answered word and the values. May raise
NoModel or Fenced.

`lasting`: the call returns once the writes are fsynced."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the hash by which Redis knows it."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


KEYS_OF_A_MODEL = """#!lua
local fence, meta, log, ids, snapshots = unpack(KEYS)
local epoch, born = ARGV[1], ARGV[2]
local function drop(field, record)
    local name = string.match(field, '^pending:(.*)') or string.match(record, '^%S+')
    redis.call('UNLINK', snapshots .. ':' .. name)
    redis.call('HDEL', snapshots, field)
end
local function each_snapshot(visit)
    local found = redis.call('HGETALL', snapshots)
    for i = 1, #found, 2 do visit(found[i], found[i + 1]) end
end

local function drop_rebuilt()
    local name = string.match(redis.call('HGET', meta, 'rebuilding') or '', '^%S+')
    if name then
        redis.call('UNLINK', log .. ':' .. name)
        redis.call('HDEL', meta, 'rebuilding', 'from')
    end
end
local held = redis.call('GET', fence)
local lives = redis.call('HGET', meta, 'born')
"""

_NAMES = (
    KEYS_OF_A_MODEL
    + """
if held and tonumber(held) > tonumber(epoch) then return {'fenced', held} end
"""
)

FREEING = _NAMES.replace("#!lua", "#!lua flags=allow-oom", 1)

ALIVE = """
if not lives or (born ~= '' and lives ~= born) then return {'gone'} end
if held ~= epoch then
    redis.call('SET', fence, epoch)
    redis.call('HSET', meta, 'void', 0)
end
"""

# ARGV: number of this append, position after which the events come, count of events; for each event its kind, payload,
# checksum, count of ids, and ids.
_APPEND = """
local at = tonumber(ARGV[4])
local last, void = unpack(redis.call('HMGET', meta, 'end', 'void'))
if tonumber(ARGV[3]) <= tonumber(void) then return {'void'} end
if tonumber(last) ~= at then return {'taken', last} end
local i = 6

for _ = 1, tonumber(ARGV[5]) do
    at = at + 1
    local position = string.format('%d', at)
    redis.call('XADD', log, position .. '-0', 'kind', ARGV[i], 'payload', ARGV[i + 1], 'checksum', ARGV[i + 2])
    local stop = i + 3 + tonumber(ARGV[i + 3])

    -- Lua passes a few thousand arguments at once and no more.
    for from = i + 4, stop, 1000 do
        local found = {}
        for j = from, math.min(from + 999, stop) do
            found[#found + 1] = ARGV[j]
            found[#found + 1] = position
        end

        redis.call('HSET', ids, unpack(found))
    end
    i = stop + 1
end
redis.call('HSET', meta, 'end', at)
return {'ok', at}
"""

APPEND = Script(_NAMES + ALIVE + _APPEND)

# ARGV: as in _APPEND, then the owner, or '' if no server owns the model.
CREATE = Script(
    _NAMES
    + """
if lives then return {'exists'} end
redis.call('SET', fence, epoch)
redis.call('HSET', meta, 'born', born, 'end', 0, 'trimmed', 0, 'void', tonumber(ARGV[3]) - 1)
if ARGV[#ARGV] ~= '' then redis.call('HSET', meta, 'owner', ARGV[#ARGV]) end
"""
    + _APPEND
)

# ARGV: appends with at most this number are given up. The script always writes, because a wait until its write is
# durable also waits for all earlier writes.
GIVE_UP = Script(FREEING + ALIVE + "redis.call('HSET', meta, 'void', ARGV[3]) return {'ok'}")

DELETE = Script(
    FREEING
    + ALIVE
    + """
each_snapshot(drop)
drop_rebuilt()
redis.call('UNLINK', meta, log, ids, snapshots)
redis.call('EXPIRE', fence, 86400)
return {'ok'}
"""
)

# A new writer begins: remove everything that the previous writer left unfinished.
BEGIN = """
redis.call('HSET', meta, 'void', 0)
drop_rebuilt()
each_snapshot(function(field, record)
    if string.sub(field, 1, 8) == 'pending:' then drop(field, record) end
end)
"""

# A server that has the whole store takes over every model when it starts.
TAKE_OVER = Script(
    FREEING
    + """
if not lives then
    redis.call('SET', fence, epoch, 'EX', 86400)
    return {'gone'}
end
redis.call('SET', fence, epoch)
redis.call('HDEL', meta, 'owner')
"""
    + BEGIN
    + "return {'ok'}"
)

# ARGV: name of the new snapshot, its position, names of the snapshots being written. Returns `short` and the end of the
# log if the log does not reach the position.
BEGIN_SNAPSHOT = Script(
    _NAMES
    + ALIVE
    + """
local last = redis.call('HGET', meta, 'end')
if tonumber(last) < tonumber(ARGV[4]) then return {'short', last} end
local spared = {}
for i = 5, #ARGV do spared['pending:' .. ARGV[i]] = true end
each_snapshot(function(field, record)
    if string.sub(field, 1, 8) == 'pending:' and not spared[field] then drop(field, record) end
end)
redis.call('HSET', snapshots, 'pending:' .. ARGV[3], ARGV[4])
return {'ok'}
"""
)

# ARGV: name, part, chunk.
ADD_CHUNK = Script(
    _NAMES
    + ALIVE
    + """
if redis.call('HEXISTS', snapshots, 'pending:' .. ARGV[3]) == 0 then return {'dropped'} end
redis.call('HSET', snapshots .. ':' .. ARGV[3], ARGV[4], ARGV[5])
return {'ok'}
"""
)

# ARGV: name, record, number of snapshots to keep.
COMPLETE_SNAPSHOT = Script(
    _NAMES
    + ALIVE
    + """
local position = redis.call('HGET', snapshots, 'pending:' .. ARGV[3])
if not position then return {'dropped'} end
local replaced = redis.call('HGET', snapshots, position)
if replaced then drop(position, replaced) end
redis.call('HDEL', snapshots, 'pending:' .. ARGV[3])
redis.call('HSET', snapshots, position, ARGV[4])
local complete = {}
each_snapshot(function(field, record)
    if tonumber(field) then complete[#complete + 1] = {field, record} end
end)

table.sort(complete, function(a, b) return tonumber(a[1]) > tonumber(b[1]) end)
for i = tonumber(ARGV[5]) + 1, #complete do drop(unpack(complete[i])) end
return {'ok'}
"""
)

_DROP_BEFORE = """
local function drop_before(position)
    each_snapshot(function(field, record)
        if (tonumber(field) or tonumber(record)) < position then drop(field, record) end
    end)
end
"""

# ARGV: position up to which events are removed, maximum number of events. Returns whether there is more, and the
# position used.
TRIM = Script(
    FREEING
    + ALIVE
    + _DROP_BEFORE
    + """
local last, trimmed = unpack(redis.call('HMGET', meta, 'end', 'trimmed'))
local through = math.min(tonumber(ARGV[3]), tonumber(last))
trimmed = tonumber(trimmed)
drop_before(through)
local to = math.min(through, trimmed + tonumber(ARGV[4]))

if to > trimmed then
    redis.call('XTRIM', log, 'MINID', string.format('%d-0', to + 1))
    redis.call('HSET', meta, 'trimmed', to)
end
return {'ok', to < through and 1 or 0, through}
"""
)

# ARGV: position up to which ids are removed, cursor at which to continue. Returns the next cursor, 0 at the end.
TRIM_IDS = Script(
    FREEING
    + ALIVE
    + """
local on, found = unpack(redis.call('HSCAN', ids, ARGV[4], 'COUNT', 1000))
for i = 1, #found, 2 do
    if tonumber(found[i + 1]) <= tonumber(ARGV[3]) then redis.call('HDEL', ids, found[i]) end
end
return {'ok', on}
"""
)

# ARGV: position up to which to redact, name of the new stream. Returns the position from which to copy, and the end.
# Snapshots are dropped first, which may free the memory that the copy needs.
BEGIN_REBUILDING = Script(
    FREEING
    + ALIVE
    + _DROP_BEFORE
    + """
local last, trimmed = unpack(redis.call('HMGET', meta, 'end', 'trimmed'))
if tonumber(last) < tonumber(ARGV[3]) then return {'short', last} end
drop_before(tonumber(ARGV[3]))
drop_rebuilt()
redis.call('HSET', meta, 'rebuilding', ARGV[4] .. ' ' .. trimmed, 'from', trimmed)
return {'ok', trimmed, last}
"""
)

# Removes ids. ARGV: position up to which ids are removed; the ids are the arguments `first` to `final`.
_FORGET = """
local function forget(first, final)
    for i = first, final do
        local position = redis.call('HGET', ids, ARGV[i])
        if position and tonumber(position) <= tonumber(ARGV[3]) then redis.call('HDEL', ids, ARGV[i]) end
    end
end
"""

FORGET_IDS = Script(FREEING + ALIVE + _FORGET + "forget(4, #ARGV) return {'ok'}")

# Copies events to the new stream. ARGV after the first: name of the stream; position that the stream has reached;
# position up to which to copy, or '' for the end; maximum bytes; maximum number of events; count of replaced events;
# for each its position, kind, payload, checksum.
_COPY = """
local name, at, bytes, most = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[8])
-- An answer may have been lost, another rebuilding begun, a failover have forgotten a step.
if redis.call('HGET', meta, 'rebuilding') ~= name .. ' ' .. ARGV[5] then return {'overtaken'} end
local rebuilt, last = log .. ':' .. name, tonumber(redis.call('HGET', meta, 'end'))
local to, replaced, behind = tonumber(ARGV[6]) or last, {}, 10 + 4 * tonumber(ARGV[9])
for i = 10, behind - 1, 4 do replaced[ARGV[i] .. '-0'] = i end

while at < to and bytes > 0 and most > 0 do
    local entry = redis.call('XRANGE', log, string.format('%d-0', at + 1), string.format('%d-0', to), 'COUNT', 1)[1]
    if not entry then
        at = to
        break
    end

    local fields, other = entry[2], replaced[entry[1]]
    if other then fields = {'kind', ARGV[other + 1], 'payload', ARGV[other + 2], 'checksum', ARGV[other + 3]} end
    redis.call('XADD', rebuilt, entry[1], unpack(fields))

    for _, part in ipairs(fields) do bytes = bytes - #part end
    most = most - 1
    at = tonumber(string.match(entry[1], '^%d+'))
end
redis.call('HSET', meta, 'rebuilding', name .. ' ' .. string.format('%d', at))
"""

# ARGV: anything, then as in _COPY. Returns the position that the new stream has reached.
COPY = Script(_NAMES + ALIVE + _COPY + "return {'ok', at, 0}")

# ARGV: position up to which to redact, then as in _COPY, then ids. Copies the remaining events. When all events are
# copied, removes the ids and replaces the log by the new stream. Returns the position that the copy has reached, and
# whether the copy is complete.
FINISH_REBUILDING = Script(
    _NAMES
    + ALIVE
    + _FORGET
    + _COPY
    + """
if at < last then return {'ok', at, 0} end
local trimmed, from = unpack(redis.call('HMGET', meta, 'trimmed', 'from'))
redis.call('XTRIM', rebuilt, 'MINID', string.format('%d-0', tonumber(trimmed) + 1))
forget(behind, #ARGV)
redis.call('UNLINK', log)

if redis.call('EXISTS', rebuilt) == 1 then redis.call('RENAME', rebuilt, log) end
redis.call('HDEL', meta, 'rebuilding', 'from')
redis.call('HSET', meta, 'clean', from)
return {'ok', at, 1}
"""
)

# ARGV: name of the new stream. Gives up the rebuilding that writes this stream.
END_REBUILDING = Script(
    FREEING
    + ALIVE
    + """
if string.match(redis.call('HGET', meta, 'rebuilding') or '', '^%S+') == ARGV[3] then drop_rebuilt() end
return {'ok'}
"""
)

# The next two scripts only read. ARGV: born; for READ first and last position, maximum bytes, maximum number of events;
# for FIND ids.
READ = Script(
    """#!lua flags=no-writes
if redis.call('HGET', KEYS[2], 'born') ~= ARGV[1] then return {'gone'} end
local at, to, bytes, events = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local found, size = {}, 0

while at <= to and size < bytes and #found < events do
    local entry = redis.call('XRANGE', KEYS[3], string.format('%d-0', at), '+', 'COUNT', 1)[1]
    if not entry then break end
    found[#found + 1] = entry

    for _, part in ipairs(entry[2]) do size = size + #part end
    at = tonumber(string.match(entry[1], '^%d+')) + 1
end
return {'ok', found}
"""
)

FIND = Script(
    """#!lua flags=no-writes
local lives, trimmed = unpack(redis.call('HMGET', KEYS[2], 'born', 'trimmed'))
if not lives then return {'gone'} end
if #ARGV == 1 then return {'ok', trimmed, {}} end
return {'ok', trimmed, redis.call('HMGET', KEYS[4], unpack(ARGV, 2))}
"""
)

# The list of models has its own slot. KEYS: epoch, models, rewriting. A name is added before its model is created, and
# removed after its model is deleted. So a listed name may have no model, but every model is listed.
# rewriting is a hash from the `run_id` of a Redis server to its name. The entry exists while the server rewrites its
# files for us.

# ARGV: minimum epoch. The epoch is the time, so that an epoch that a failover lost is not used again. It is also higher
# than the last epoch, in case the clock is wrong.
OPEN = Script("""#!lua flags=allow-oom
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local epoch = string.format('%.0f', math.max(now[1] * 1000000 + now[2], last + 1, tonumber(ARGV[1])))
redis.call('SET', KEYS[1], epoch)
return {'ok', epoch, redis.call('SMEMBERS', KEYS[2])}
""")

# KEYS: epoch, workers. ARGV: number of processes to divide the namespace, 0 for no division. Returns the number of
# processes that divide the namespace. The first caller decides this number. A namespace that is not divided has an
# epoch, at first 0.
DIVISION = Script("""#!lua flags=allow-oom
local count = redis.call('GET', KEYS[2]) or (redis.call('EXISTS', KEYS[1]) == 1 and '0')
if not count then
    count = ARGV[1]
    if count == '0' then redis.call('SET', KEYS[1], '0') else redis.call('SET', KEYS[2], count) end
end

return {'ok', count}
""")

_LIST = """
local held = redis.call('GET', KEYS[1])
if held and tonumber(held) > tonumber(ARGV[1]) then return {'fenced', held} end
redis.call(ARGV[2], KEYS[tonumber(ARGV[3])], unpack(ARGV, 4))
return {'ok'}
"""

# ARGV: epoch, a command, the number of its key, its arguments.
LIST = Script("#!lua" + _LIST)
UNLIST = Script("#!lua flags=allow-oom" + _LIST)
