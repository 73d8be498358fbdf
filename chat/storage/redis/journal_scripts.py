"""Declares the atomic Redis scripts of journals, and the keys of a journal.

A journal is a stream whose entries have the ids ``<epoch>-<number>``. Its writer has the epoch 1;
who takes a journal over adds an entry of the next epoch, and Redis refuses whatever a writer of an
earlier one still sends.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from sessions_app.store.redis.connection import RedisConnection

FENCED = -1
CONDEMNED = -1

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
"""Let an ended journal go when its time is over. Keys: all four. Arguments: member, seconds."""

TOP = (
    _TOP
    + """
return top(KEYS[1]) or false
"""
)
"""Return the newest entry's id, nothing without a journal. Keys: the stream."""

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
"""Begin a journal. Keys: all four, the owner's tombstone. Arguments: owner, session, turn, member.

Returns -1 for a condemned owner, and 0 where there is a journal already, or shall be none.
"""

FORESTALL = """
redis.call('HSET', KEYS[2], 'left', 1)
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('EXPIRE', KEYS[2], ARGV[1])
end
return 1
"""
"""Note that nobody writes a journal that may have been begun, or be begun later.

Keys: stream, mark. Arguments: seconds.
"""

LEAVE = """
if redis.call('HGET', KEYS[1], 'worker') == ARGV[1] then
  redis.call('HSET', KEYS[1], 'left', 1)
end
return 1
"""
"""Note that a living owner writes no more. Keys: the mark. Arguments: owner."""

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
"""Fence off whoever writes. Keys: stream, mark. Arguments: who takes it. Returns the new epoch."""

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
"""Append lines. Keys: all four. Arguments: id, lines, whether they end it, member, seconds.

Returns -1 when the journal was taken over, 0 when it is gone.
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
"""Return ids and lines. Keys: stream. Arguments: the id before them, bytes at most."""

HAS_ENDED = (
    _FINISH
    + """
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
if not string.find(string.sub(tail, from), '^{"n":%d+,"event":"done",') then return 0 end
if redis.call('SISMEMBER', KEYS[4], ARGV[1]) == 1 then
  finish(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]))
end
return 1
"""
)
"""Return whether the last line is an end; its writer may have died before it said so.

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
"""Return the turns with a journal, oldest first. Keys: turns. Arguments: their keys' beginning."""

UNENDED = """
local turns = {}
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local session, turn = string.match(member, '^([^ ]*) (.*)$')
  local mark = redis.call('HMGET', ARGV[1] .. turn, 'worker', 'left')
  turns[#turns + 1] = {session, turn, mark[1] or '', mark[2] or ''}
end
return turns
"""
"""Return sessions, turns, owners and marks without an end. Keys: unended. Arguments: as TURNS."""

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
"""Forget a journal, but not that it was taken over: its writer may come back, and must fail.

Keys: all four. Arguments: turn, member, seconds.
"""


class TurnKeys(NamedTuple):
    """The keys of one turn.

    Attributes:
        stream: Its journal.
        mark: Who writes it, for senders of signals too, who know the turn alone.
        turns: The session's turns with a journal.
        unended: All turns whose journal has no end, as ``member`` names them.
        member: The session and the turn.
    """

    stream: str
    mark: str
    turns: str
    unended: str
    member: str

    @property
    def all(self) -> tuple[str, str, str, str]:
        """The keys in the order in which scripts take them."""
        return self.stream, self.mark, self.turns, self.unended


def keys_of(connection: RedisConnection, session_id: str, turn_id: str) -> TurnKeys:
    """Return the keys of a turn."""
    return TurnKeys(
        stream=connection.key("j", session_id, turn_id),
        mark=connection.root_key("m", turn_id),
        turns=connection.key("t", session_id),
        unended=connection.key("unended"),
        member=f"{session_id} {turn_id}",
    )


class Script:
    """Runs one script; its errors are ours. Blocks."""

    def __init__(self, connection: RedisConnection, lua: str) -> None:
        self._connection = connection
        self._lua = lua

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return self._connection.script(self._lua)

    def __call__(self, *keys: str, args: tuple[object, ...] = ()) -> Any:
        """Run it.

        Raises:
            StorageFull, StorageUnavailable: Redis does not do it now.
        """
        with self._connection.translated():
            return self._function(keys=keys, args=args)
