"""Lua scripts for servers that share a Redis. Each script is atomic. A server uses them to claim a model, to hand it
over, or to send a heartbeat.

The first three scripts work on a model; scripts.py describes their KEYS and first two ARGV.
"""

from __future__ import annotations

from hinged.service.store.redis.scripts import ALIVE, BEGIN, FREEING, KEYS_OF_A_MODEL, Script

KEPT_S = 600
"""Seconds for which changes of owners are kept. A server that asks less often gets all owners instead."""

# A server that shares the store claims a model. ARGV: the epoch that the caller found, '' if there is no epoch; ''; the
# address of the caller. If two servers found the same epoch, only one of them can claim the model. The new epoch is the
# time, as in OPEN, and higher than the last. A name without a model is claimed before the model is created. Returns the
# new epoch.
CLAIM = Script(
    KEYS_OF_A_MODEL.replace("#!lua", "#!lua flags=allow-oom", 1)
    + """
if (held or '') ~= epoch then return {'changed', held or ''} end
local now = redis.call('TIME')
local mine = string.format('%.0f', math.max(now[1] * 1000000 + now[2], (tonumber(held) or 0) + 1))

if not lives then
    redis.call('SET', fence, mine, 'EX', 86400)
    return {'ok', mine}
end
redis.call('SET', fence, mine)
redis.call('HSET', meta, 'owner', ARGV[3])
"""
    + BEGIN
    + "return {'ok', mine}"
)

# Further ARGV: address of the server that will claim the model. Afterwards the caller may no longer write.
RELEASE = Script(
    FREEING
    + ALIVE
    + """
redis.call('SET', fence, string.format('%.0f', tonumber(epoch) + 1))
redis.call('HSET', meta, 'owner', ARGV[3])
return {'ok'}
"""
)

# This script only reads. Returns the epoch, the owner, whether the model exists, and the end of its log.
OWNER = Script(
    """#!lua flags=no-writes
local born, owner, last = unpack(redis.call('HMGET', KEYS[2], 'born', 'owner', 'end'))
return {'ok', redis.call('GET', KEYS[1]) or '', owner or '', born and 1 or 0, last or '0'}
"""
)

# The next scripts are for all servers on one store. KEYS: epoch, models, nodes, owners, joined, changes.
# nodes is a hash from a server's address to "expires run figures", in milliseconds by Redis's clock.
# owners is a hash from a model to "epoch address", as last reported; the binding owner is stored with the model.
# joined is the epoch of the servers that share the store. While epoch has the same value, no server has taken over the
# whole store.
# changes is a sorted set of models by the time of their last reported change of owner, in microseconds, kept for
# KEPT_S. A server gets the changes since its last question, or all owners.

_BEAT = """
redis.call('HSET', KEYS[3], ARGV[2], string.format('%.0f', now + tonumber(ARGV[4])) .. ' ' .. ARGV[3] .. ' ' .. ARGV[5])
"""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# ARGV: minimum epoch, address, run, milliseconds for which this heartbeat is valid, figures (JSON).
JOIN = Script(
    "#!lua flags=allow-oom"
    + _NOW
    + """
local held = redis.call('GET', KEYS[1])

if not held or redis.call('GET', KEYS[5]) ~= held or tonumber(held) < tonumber(ARGV[1]) then
    held = string.format('%.0f', math.max(now * 1000, (tonumber(held) or 0) + 1, tonumber(ARGV[1])))
    redis.call('MSET', KEYS[1], held, KEYS[5], held)
    redis.call('DEL', KEYS[4], KEYS[6])
end
"""
    + _BEAT
    + "return {'ok', held}"
)

_JOINED = """
local held = redis.call('GET', KEYS[1])
if held and tonumber(held) > tonumber(ARGV[1]) then return {'fenced', held} end
"""

# ARGV: epoch, then as in JOIN, the mark (a time) of the last answer, and when the last answered heartbeat expires. The
# mark 0 asks for everything. If Redis has lost that heartbeat, it may also have lost changes that the server knows, so
# the answer has everything. Returns the time, the new mark, whether the rest is complete, the nodes, the owners and the
# models. If the rest is not complete, the script also returns the names of the changed models. Nodes that have been
# gone for an hour are removed.
BEAT = Script(
    "#!lua flags=allow-oom"
    + _NOW
    + _JOINED
    + """
local known = redis.call('HGET', KEYS[3], ARGV[2])
if known and string.match(known, '^%d+ (%S+)') ~= ARGV[3] then return {'replaced'} end
"""
    + _BEAT
    + """
local nodes = redis.call('HGETALL', KEYS[3])
for i = 1, #nodes, 2 do
    if tonumber(string.match(nodes[i + 1], '^%d+')) + 3600000 < now then redis.call('HDEL', KEYS[3], nodes[i]) end
end
local last = redis.call('ZREVRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2]

local at, since = time[1] * 1000000 + time[2], tonumber(ARGV[6])
if not known or tonumber(string.match(known, '^%d+')) < tonumber(ARGV[7]) then since = 0 end
local mark = string.format('%.0f', math.max(at - 1, tonumber(last or 0)))

if since < at - KEPT_S * 1000000 then
    local owners, models = redis.call('HGETALL', KEYS[4]), redis.call('SMEMBERS', KEYS[2])
    return {'ok', string.format('%.0f', now), mark, 1, nodes, owners, models}
end
local owners, models = {}, {}

local changed = redis.call('ZRANGEBYSCORE', KEYS[6], '(' .. ARGV[6], '+inf')

for _, name in ipairs(changed) do
    local said = redis.call('HGET', KEYS[4], name)
    if said then
        owners[#owners + 1] = name
        owners[#owners + 1] = said
    end

    if redis.call('SISMEMBER', KEYS[2], name) == 1 then models[#models + 1] = name end
end
return {'ok', string.format('%.0f', now), mark, 0, nodes, owners, models, changed}
""".replace("KEPT_S", str(KEPT_S))
)

# ARGV: epoch, address, run.
LEAVE = Script(
    "#!lua flags=allow-oom"
    """
local known = redis.call('HGET', KEYS[3], ARGV[2])
if known and string.match(known, '^%d+ (%S+)') == ARGV[3] then redis.call('HDEL', KEYS[3], ARGV[2]) end
return {'ok'}
"""
)

# ARGV: epoch, model, the model's epoch, the model's owner; the owner is '' if the model is gone.
SAY = Script(
    "#!lua flags=allow-oom"
    + _JOINED
    + """
local said = redis.call('HGET', KEYS[4], ARGV[2])
if said and tonumber(string.match(said, '^%d+')) > tonumber(ARGV[3]) then return {'ok'} end
if ARGV[4] == '' then redis.call('HDEL', KEYS[4], ARGV[2])
else redis.call('HSET', KEYS[4], ARGV[2], ARGV[3] .. ' ' .. ARGV[4]) end
local time = redis.call('TIME')
local at = time[1] * 1000000 + time[2]
local last = redis.call('ZREVRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2]
redis.call('ZADD', KEYS[6], string.format('%.0f', math.max(at, tonumber(last or 0) + 1)), ARGV[2])

redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', string.format('%.0f', at - KEPT_S * 1000000))
return {'ok'}
""".replace("KEPT_S", str(KEPT_S))
)

# KEYS: secret, a string that all servers on the store know. ARGV: the secret to set if there is no secret yet.
SECRET = Script(
    """#!lua flags=allow-oom
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return {'ok', redis.call('GET', KEYS[1])}
"""
)
