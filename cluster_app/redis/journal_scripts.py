"""Defines the Lua scripts of journals in Redis, and a journal's keys.

A journal is a stream with entry ids ``<epoch>-<number>``. Its first writer has epoch 1. Taking a
journal over adds an entry with the next epoch, so that Redis rejects later entries of the earlier
writer, whose ids are smaller.
"""

from typing import NamedTuple

from chat.storage.journal import END_LINE
from cluster_app.redis.connection import RedisConnection

FENCED = -1
CONDEMNED = -1
OVERTAKEN = -2

_END_PATTERN = "^" + "%d+".join(END_LINE)

_FINISH = """
local function finish(stream, mark, turns, unended, member, seconds)
  redis.call('SREM', unended, member)
  redis.call('EXPIRE', stream, seconds)
  if redis.call('EXISTS', mark) == 1 then
    redis.call('HSET', mark, 'ended', 1)
    redis.call('EXPIRE', mark, seconds)
  end
  local session = string.match(member, '^[^ ]* ')
  for _, turn in ipairs(redis.call('ZRANGE', turns, 0, -1)) do
    if redis.call('SISMEMBER', unended, session .. turn) == 1 then
      redis.call('PERSIST', turns)
      return
    end
  end
  redis.call('EXPIRE', turns, 2 * seconds)
end
"""

_TOP = """
local function top(stream)
  local info = redis.pcall('XINFO', 'STREAM', stream)
  if info.err then return nil end
  for index = 1, #info, 2 do
    if info[index] == 'last-generated-id' then return info[index + 1] end
  end
end
"""

FINISH = (
    _FINISH
    + """
finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]))
return 1
"""
)
"""Set the TTL of an ended journal. Keys: all four. Arguments: member, seconds."""

TOP = (
    _TOP
    + """
return top(KEYS[1]) or false
"""
)
"""Return the newest entry's id, or nil without a journal. Keys: the stream."""

OPEN = """
if redis.call('EXISTS', KEYS[5]) == 1 then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('HEXISTS', KEYS[2], 'left') == 1 then return 0 end
redis.call('XADD', KEYS[1], '1-0', 'w', ARGV[1])
redis.call('HSET', KEYS[2], 'worker', ARGV[1], 'session', ARGV[2])
redis.call('ZADD', KEYS[3], 0, ARGV[3])
redis.call('PERSIST', KEYS[3])
redis.call('SADD', KEYS[4], ARGV[4])
return 1
"""
"""Create a journal. Keys: all four, the owner's tombstone. Arguments: owner, session, turn, member.

Returns -1 if the owner was declared dead, 0 if the journal exists or FORESTALL forbade it, else 1.
"""

FORESTALL = """
redis.call('HSET', KEYS[2], 'left', 1)
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('EXPIRE', KEYS[2], ARGV[1])
end
return 1
"""
"""Mark a journal as left whose OPEN failed: Redis may have executed it, or may do so later.

Keys: stream, mark. Arguments: seconds.
"""

LEAVE = """
if redis.call('HGET', KEYS[1], 'worker') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'left', 1)
end
return 1
"""
"""Mark that a living owner stopped writing. Keys: the mark. Arguments: owner."""

TAKE = (
    _TOP
    + """
local newest = top(KEYS[1])
if not newest then return 0 end
local epoch = tonumber(string.match(newest, '^%d+')) + 1
redis.call('XADD', KEYS[1], epoch .. '-0', 'w', ARGV[1])
redis.call('HDEL', KEYS[2], 'worker')
return epoch
"""
)
"""Fence off the writer. Keys: stream, mark. Arguments: the new owner. Returns the new epoch."""

REOPEN = (
    _TOP
    + """
if redis.call('EXISTS', KEYS[5]) == 1 then return -1 end
local newest = top(KEYS[1])
if not newest then return 0 end
local last = string.match(newest, '^%d+')
if last ~= ARGV[2] then return -2 end
local epoch = tonumber(last) + 1
redis.call('XADD', KEYS[1], epoch .. '-0', 'w', ARGV[1])
redis.call('HSET', KEYS[2], 'worker', ARGV[1], 'session', ARGV[3])
redis.call('HDEL', KEYS[2], 'left')
return epoch
"""
)
"""Go on with a journal. Keys: all four, the new owner's tombstone. Arguments: the new owner, the
epoch of the dead one, session.

Returns the new epoch, 0 without a journal, -1 if the new owner was declared dead, -2 if the journal
was taken over meanwhile, if only by the same owner.
"""

APPEND = (
    _TOP
    + _FINISH
    + """
local added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', ARGV[1], 'l', ARGV[2])
if not added then return 0 end
if type(added) == 'table' then
  if not string.find(added.err, 'equal or smaller', 1, true) then return added end
  if top(KEYS[1]) ~= ARGV[1] then return -1 end
end
if ARGV[3] == '1' then
  finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[4], tonumber(ARGV[5]))
end
return 1
"""
)
"""Append lines. Keys: all four. Arguments: id, lines, "1" if they end it, member, seconds.

Returns -1 if the journal was taken over, 0 if it does not exist, else 1.
"""

READ = """
local lines, size, from, most = {}, 0, '(' .. ARGV[1], tonumber(ARGV[2])
repeat
  local part = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 100)
  for _, entry in ipairs(part) do
    from = '(' .. entry[1]
    if entry[2][1] == 'l' then
      size = size + #entry[2][2]
      if size > most and #lines > 0 then return lines end
      lines[#lines + 1] = entry[1]
      lines[#lines + 1] = entry[2][2]
    end
  end
until #part < 100
return lines
"""
"""Return ids and lines by turns. Keys: stream. Arguments: the id before them, maximum bytes."""

HAS_ENDED = (
    _FINISH
    + f"""
if redis.call('HGET', KEYS[2], 'ended') == '1' then return 1 end
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest and newest[2][1] ~= 'l' then
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 10)) do
    newest = entry
    if entry[2][1] == 'l' then break end
  end
end
if not newest or newest[2][1] ~= 'l' then return 0 end
local tail = string.sub(newest[2][2], -4096)
if string.byte(tail, -1) ~= 10 then return 0 end
local from = #tail
while from > 1 and string.byte(tail, from - 1) ~= 10 do from = from - 1 end
if not string.find(string.sub(tail, from), '{_END_PATTERN}') then return 0 end
if redis.call('SISMEMBER', KEYS[4], ARGV[1]) == 1 then
  finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]))
end
return 1
"""
)
"""Return whether the last line is the end; set the TTL if the writer died before doing so.

Keys: all four. Arguments: member, seconds.
"""

TURNS = """
local there = {}
for _, turn in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if redis.call('EXISTS', ARGV[1] .. turn) == 1 then
    there[#there + 1] = turn
  else
    redis.call('ZREM', KEYS[1], turn)
  end
end
return there
"""
"""Return the turns with a journal, oldest first. Keys: turns. Arguments: prefix of streams."""

UNENDED = """
local turns = {}
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local session, turn = string.match(member, '^([^ ]*) (.*)$')
  if string.sub(session, 1, #ARGV[2]) == ARGV[2] then
    local mark = redis.call('HMGET', ARGV[1] .. turn, 'worker', 'left')
    turns[#turns + 1] = {string.sub(session, #ARGV[2] + 1), turn, mark[1] or '', mark[2] or ''}
  end
end
return turns
"""
"""Return (session, turn, owner, left) per unended journal. Keys: unended. Arguments: marks' prefix,
label.
"""

DISCARD = (
    _TOP
    + """
local newest = top(KEYS[1])
if newest and tonumber(string.match(newest, '^%d+')) > 1 then
  redis.call('XTRIM', KEYS[1], 'MAXLEN', 0)
  redis.call('EXPIRE', KEYS[1], ARGV[3])
else
  redis.call('DEL', KEYS[1])
end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[2])
return 1
"""
)
"""Delete a journal. One that was taken over stays as an empty stream, to fence its first writer.

Keys: all four. Arguments: turn, member, seconds.
"""


class TurnKeys(NamedTuple):
    """The Redis keys of one turn.

    Attributes:
        stream: The journal's stream.
        mark: A hash with the journal's owner and state; its name has the turn id only, so that
            senders of signals find it.
        turns: The sorted set of the session's turns with a journal.
        unended: The set of ``member`` of all journals without an end, one for all other owners
            than the default one.
        member: The session and turn ids, separated by a blank, after the connection's label.
    """

    stream: str
    mark: str
    turns: str
    unended: str
    member: str

    @property
    def all(self) -> tuple[str, str, str, str]:
        """The four keys in the order that scripts expect."""
        return self.stream, self.mark, self.turns, self.unended


def keys_of(connection: RedisConnection, session_id: str, turn_id: str) -> TurnKeys:
    """Return the keys of a turn."""
    return TurnKeys(
        stream=connection.key("j", session_id, turn_id),
        mark=connection.root_key("m", turn_id),
        turns=connection.key("t", session_id),
        unended=unended_key(connection),
        member=f"{connection.label}{session_id} {turn_id}",
    )


def unended_key(connection: RedisConnection) -> str:
    """Return the key of the set of all journals without an end."""
    if connection.label:
        return connection.root_key("owners", "unended")
    return connection.key("unended")
