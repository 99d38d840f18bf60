"""What the Redis store does in one step: Lua scripts, each all or nothing.

Redis runs a script alone and logs its effects as one transaction, but takes nothing back where one stops half way.
So a script looks first and writes then, and nothing that it writes can fail by what it was given.

The scripts of a model get the same keys, all in one slot, and their first two arguments are the same:

KEYS  fence, meta, log, ids, snapshots
ARGV  epoch of the server that asks; what the model's `born` must be, or '' for any

    fence      string  highest epoch that has written here. Outlives the model by a day: who was fenced off stays so
    meta       hash    born (unlike that of any other model of the name), owner (address of the server that claimed it;
                       none where one server has the whole store), end, trimmed, void (appends of this epoch with
                       a number up to here are given up: should they arrive, they are refused), clean (how far log was
                       trimmed when the one that it is now was begun), rebuilding ("name position": how far log:NAME
                       has come), from (where it begins)
    log        stream  the event at position n has id n-0
    log:NAME           what will stand in its place. A stream keeps the bytes of an entry that is taken out of it, and
                       none can be put in but at the end: to forget is to copy the others
    ids        hash    id of an example to the position of its newest event
    snapshots  hash    position to "name parts size digest"; "pending:name" to position while one is written
    snapshots:NAME     hash, part to chunk

They answer with a list: a word, then what belongs to it. `ok`; `fenced`: a newer server is there; `gone`: no such
model.

Where memory has run out (`maxmemory`), Redis runs none that writes, but those that say `allow-oom`: they free memory,
or write a few bytes once, without which what frees it could not begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any

Steps = Callable[..., tuple[str, list[Any]]]
"""Runs a script, with arguments, on one model as its writer: the word that it answers, and the rest. NoModel, Fenced.

`lasting`: what it writes is fsynced when it has answered.
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name under which Redis keeps it."""

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

# ARGV: number of this append, position behind which it goes, count of events; of each event kind, payload, checksum,
# count of ids, ids.
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

# ARGV: as above, then the owner, '' for none.
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

# ARGV: appends with a number up to this one are given up. Always writes, so whoever waits for it to last waits for all
# that came before.
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

# A new writer begins: what the last one did not end is taken away.
BEGIN = """
redis.call('HSET', meta, 'void', 0)
drop_rebuilt()
each_snapshot(function(field, record)
    if string.sub(field, 1, 8) == 'pending:' then drop(field, record) end
end)
"""

# What a server that has the whole store to itself does with every model when it starts.
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

# ARGV: name of the new snapshot, its position, names of those that are being written. `short` and the end of a log that
# does not reach that far.
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

# ARGV: name, record, how many to keep.
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

# ARGV: position through which to forget, events at most. Answers whether there is more, and the position meant.
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

# ARGV: position through which to forget, where to go on. Answers where to go on next, 0 at the end.
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

# ARGV: position through which to redact, name of the new stream. Answers from where on to copy, and the end.
# It drops snapshots first: that may leave the memory that the copy takes.
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

# Forgets ids. ARGV: position through which, then from number `first` to `final` the ids.
_FORGET = """
local function forget(first, final)
    for i = first, final do
        local position = redis.call('HGET', ids, ARGV[i])
        if position and tonumber(position) <= tonumber(ARGV[3]) then redis.call('HDEL', ids, ARGV[i]) end
    end
end
"""

FORGET_IDS = Script(FREEING + ALIVE + _FORGET + "forget(4, #ARGV) return {'ok'}")

# Copies events to the new stream. ARGV behind the first: name of the stream, how far it has come, position up to which
# to copy or '' for the end, most bytes, most events, count of other events; of each position, kind, payload, checksum.
_COPY = """
local name, at, bytes, most = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[7]), tonumber(ARGV[8])
-- An answer may have been lost, another rebuilding begun, a failover have forgotten a step.
if redis.call('HGET', meta, 'rebuilding') ~= name .. ' ' .. ARGV[5] then return {'overtaken'} end
local rebuilt, last = log .. ':' .. name, tonumber(redis.call('HGET', meta, 'end'))
local to, others, behind = tonumber(ARGV[6]) or last, {}, 10 + 4 * tonumber(ARGV[9])
for i = 10, behind - 1, 4 do others[ARGV[i] .. '-0'] = i end
while at < to and bytes > 0 and most > 0 do
    local entry = redis.call('XRANGE', log, string.format('%d-0', at + 1), string.format('%d-0', to), 'COUNT', 1)[1]
    if not entry then
        at = to
        break
    end
    local fields, other = entry[2], others[entry[1]]
    if other then fields = {'kind', ARGV[other + 1], 'payload', ARGV[other + 2], 'checksum', ARGV[other + 3]} end
    redis.call('XADD', rebuilt, entry[1], unpack(fields))
    for _, part in ipairs(fields) do bytes = bytes - #part end
    most = most - 1
    at = tonumber(string.match(entry[1], '^%d+'))
end
redis.call('HSET', meta, 'rebuilding', name .. ' ' .. string.format('%d', at))
"""

# ARGV: any, then as above. Answers how far the new stream has come.
COPY = Script(_NAMES + ALIVE + _COPY + "return {'ok', at, 0}")

# ARGV: position through which to redact, then as above, then ids. Copies the rest and, if that was all, forgets the ids
# and puts the new stream in the place of the log. Answers how far it has come, and whether it is done.
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

# ARGV: name of the new stream. Gives up a rebuilding, if it is that one.
END_REBUILDING = Script(
    FREEING
    + ALIVE
    + """
if string.match(redis.call('HGET', meta, 'rebuilding') or '', '^%S+') == ARGV[3] then drop_rebuilt() end
return {'ok'}
"""
)

# These two only read. ARGV: born; for READ the positions from and to, most bytes, most events; for FIND ids.
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

# The list of models lies in a slot of its own. KEYS: epoch, models, rewriting. A model is listed before it is made and
# until it is gone: a name in the list may have no model, a model always has its name there. rewriting is a hash: what a
# Redis that writes its files anew for us calls this run of it (its `run_id`), to its name, until it is through.

# ARGV: least epoch. By the clock, so that one that a failover forgot does not come again; higher than the last in any
# case, so that the clock may go wrong.
OPEN = Script("""#!lua flags=allow-oom
local now = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local epoch = string.format('%.0f', math.max(now[1] * 1000000 + now[2], last + 1, tonumber(ARGV[1])))
redis.call('SET', KEYS[1], epoch)
return {'ok', epoch, redis.call('SMEMBERS', KEYS[2])}
""")

# KEYS: epoch, workers. ARGV: how many workers are to divide the namespace, 0: none. Answers by how many it is divided,
# which the first who asks has settled. One that none divide has an epoch, the least at first.
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

# ARGV: epoch, a command, number of its key, its arguments.
LIST = Script("#!lua" + _LIST)
UNLIST = Script("#!lua flags=allow-oom" + _LIST)
