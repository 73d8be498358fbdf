"""Finds the turns of dead processes of all owners with one call, whether they are loaded or not.

::

    owners:unended   set: "{owner}:{prefix}{session} {turn}" of each journal without an end
    owners:claimed   hash: "{owner}:{prefix}{session}" -> the process of its claim; "@" and a time
                     in ms while it is written, and while messages wait in it for a turn

The default owner is in neither; its sessions are found as before there were others
(docs/decisions/0213). Both are hints: the objects and journals decide, and a hint that Redis lost
is written again when its owner is loaded.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster_app.redis.connection import RedisConnection

WRITING_MS = 10_000
"""The age at which a write without an outcome is one of a dead process."""

_ALL = """
local time = redis.call('TIME')
local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[2]
local found = {}
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local session, turn = string.match(member, '^([^ ]*) (.*)$')
  local mark = redis.call('HMGET', ARGV[1] .. turn, 'worker', 'left')
  found[#found + 1] = {session, mark[2] and '' or mark[1] or '', ''}
end
local claimed = redis.call('HGETALL', KEYS[2])
for i = 1, #claimed, 2 do
  local value = claimed[i + 1]
  local since = string.match(value, '^@(%d+)$')
  if not since then found[#found + 1] = {claimed[i], value, value}
  elseif tonumber(since) <= oldest then found[#found + 1] = {claimed[i], '', value} end
end
return found
"""
"""Return (session, process, hint) each. Keys: both. Arguments: marks' prefix, ms."""

_FORGET = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
"""


class HintedSession(NamedTuple):
    """A session, by its owner and the key prefix of its kind."""

    owner: str
    prefix: str
    session_id: str


class OwnerHints:
    """Reads the hints of all owners but the default one. Calls block; all raise ``StorageError``.

    Args:
        connection: The Redis connection.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._keys = (
            connection.root_key("owners", "unended"),
            connection.root_key("owners", "claimed"),
        )
        self._marks = connection.root_key("m", "")

    def due(self, lives: Callable[[str], bool]) -> Mapping[HintedSession, str]:
        """Return the sessions without a living process, with their hints of claims, if any.

        Args:
            lives: Tells whether a process is alive; called once for each.
        """
        verdicts: dict[str, bool] = {"": False}
        due: dict[HintedSession, str] = {}
        for found in self._connection.run(_ALL, *self._keys, args=(self._marks, WRITING_MS)):
            member, process, hint = (text.decode() for text in found)
            if process not in verdicts:
                verdicts[process] = lives(process)
            if not verdicts[process]:
                owner, _, rest = member.partition(":")
                prefix, colon, session_id = rest.rpartition(":")
                session = HintedSession(owner, prefix + colon, session_id)
                due[session] = hint or due.get(session, "")
        return due

    def forget(self, settled: Mapping[HintedSession, str]) -> None:
        """Remove hints of claims that there are no more, unless they changed meanwhile."""
        for (owner, prefix, session_id), hint in settled.items():
            self._connection.run(
                _FORGET, self._keys[1], args=(f"{owner}:{prefix}{session_id}", hint)
            )
