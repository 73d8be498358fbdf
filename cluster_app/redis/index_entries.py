"""Stores the entries of a session index in Redis, with atomic changes.

::

    idx:{store}:meta         hash: session -> the entry of its object
    idx:{store}:log          stream: the sessions whose entries changed, about the last 20,000
    idx:{store}:state        hash: "build" is the id of the index's build, "checked" the time of
                             the last comparison, "history" the data set that it was made in
    idx:{store}:dirty        sorted set: sessions being written, by the time of the first mark
    idx:{store}:marks:{id}   set: the marks of these writes
    idx:{store}:rebuilding   the token of the process comparing the index with the objects
    owners:claimed           hash, see ``owner_hints.py``: sessions of others than the default owner

Overlapping writes may be reported in another order than they were made. Each then finds the other's
mark and leaves its own, so that the session is read again. The same happens to a write whose mark
was cleared meanwhile.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from cluster_app.redis.connection import RedisConnection

LOGGED = 20_000
PASSAGE = 2_000
"""The maximum number of changes read from the log; with more, all entries are read."""
FIRST = b"0-0"

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

_HISTORY = """
local info = redis.call('INFO', 'replication')
local history = string.match(info, 'master_replid:(%w+)') or ''
"""
"""Get the id of Redis's data set. Each start and each promotion of a replica makes a new one."""

_MARK = (
    _NOW
    + """
local marks = redis.call('SMEMBERS', KEYS[2])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], 'NX', now, ARGV[1])
if ARGV[3] ~= '' then redis.call('HSETNX', KEYS[3], ARGV[3], '@' .. now) end
return marks
"""
)

_HINT = """
local function hint(is_settled)
    local member, worker = ARGV[4], ARGV[5]
    if member == '' then return end
    if worker == '@' then worker = worker .. now end
    if worker ~= '' then redis.call('HSET', KEYS[5], member, worker)
    elseif is_settled then redis.call('HDEL', KEYS[5], member)
    else redis.call('HSETNX', KEYS[5], member, '@' .. now) end
end
"""

_KEEP = """
local function keep(entry)
    if (redis.call('HGET', KEYS[3], ARGV[1]) or '') == entry then return end
    if entry == '' then redis.call('HDEL', KEYS[3], ARGV[1])
    else redis.call('HSET', KEYS[3], ARGV[1], entry) end
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', LOGGED, '*', 's', ARGV[1])
end
""".replace("LOGGED", str(LOGGED))

_WROTE = (
    _NOW
    + _KEEP
    + _HINT
    + """
if redis.call('SREM', KEYS[2], ARGV[2]) == 1 then
    keep(ARGV[3])
    if redis.call('SCARD', KEYS[2]) == 0 then
        redis.call('ZREM', KEYS[1], ARGV[1])
        hint(true)
        return 1
    end
end
hint(false)
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[1], 'NX', now, ARGV[1])
return 0
"""
)

_UNMARK = """
redis.call('SREM', KEYS[2], ARGV[2])
if redis.call('SCARD', KEYS[2]) == 0 then redis.call('ZREM', KEYS[1], ARGV[1]) end
"""

_READ = (
    _NOW
    + _KEEP
    + _HINT
    + """
if redis.call('SREM', KEYS[2], ARGV[2]) == 0 then return 0 end
for i = 6, #ARGV do redis.call('SREM', KEYS[2], ARGV[i]) end
if redis.call('SCARD', KEYS[2]) > 0 then
    redis.call('ZADD', KEYS[1], now, ARGV[1])
    return 0
end
keep(ARGV[3])
redis.call('ZREM', KEYS[1], ARGV[1])
hint(true)
return 1
"""
)

_LOOK = (
    _NOW
    + _HISTORY
    + """
local log, last = KEYS[2], ARGV[1]
local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)
local there = redis.call('XRANGE', log, last, last)
local entries = redis.call('XRANGE', log, '(' .. last, '+', 'COUNT', ARGV[2])
local changed = {}
for _, entry in ipairs(entries) do changed[#changed + 1] = entry[2][2] end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3], 'LIMIT', 0, 32)
for _, session in ipairs(due) do redis.call('ZADD', KEYS[1], now, session) end
local state = redis.call('HMGET', KEYS[3], 'build', 'checked', 'history')
local unchecked = now - (state[2] or 0)
local is_sure = state[2] and state[3] == history
return {state[1] or '', unchecked, history, is_sure and 1 or 0, redis.call('XLEN', log),
        oldest[1] and oldest[1][1] or '', #there, changed,
        #entries > 0 and entries[#entries][1] or last, due}
"""
)

_BEGIN = (
    _HISTORY
    + """
local token = ARGV[1] .. '.' .. history
if redis.call('SET', KEYS[1], token, 'NX', 'PX', ARGV[2]) then return token end
return false
"""
)
"""Take the lease of a comparison. Its token names the data set that is compared: a replica that
is promoted meanwhile may lack what was compared before."""

_GO_ON = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

_END = (
    _NOW
    + """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] == '1' then
    redis.call('HSETNX', KEYS[2], 'build', ARGV[1])
    redis.call('HSET', KEYS[2], 'checked', now, 'history', string.match(ARGV[1], '%.(.*)$') or '')
end
return 1
"""
)


class IndexChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the index since a position in its log.

    Attributes:
        build: The id of the index's build; empty before it is complete.
        unchecked_ms: The time since the last comparison with the objects.
        history: The id of Redis's data set, new with each start and promotion of a replica.
        is_doubted: Whether the last comparison was made in another data set, or another one was
            requested: entries may be missing.
        is_continued: Whether the log still has the position, so that ``changed`` is complete.
        is_lost: Whether the log lacks the position without having been trimmed: Redis has lost
            data.
        changed: The sessions whose entries changed, possibly with duplicates.
        last: The end of the log.
        due: Sessions that have been dirty for too long; other callers don't get them for a while.
    """

    build: str
    unchecked_ms: int
    history: str
    is_doubted: bool
    is_continued: bool
    is_lost: bool
    changed: Sequence[str]
    last: bytes
    due: Sequence[str]


class IndexEntries:
    """Stores the entries of one index. Calls block briefly; all raise ``StorageError``.

    Args:
        connection: The Redis connection.
        store: The name of the indexed store; each store has its own index.
    """

    def __init__(self, connection: RedisConnection, store: str) -> None:
        self._connection = connection
        self._claimed = connection.root_key("owners", "claimed")
        self._store = sha256(store.encode()).hexdigest()[:8]
        self._dirty, self._meta, self._log = map(self.key, ("dirty", "meta", "log"))
        self._state, self._rebuilding = map(self.key, ("state", "rebuilding"))

    def key(self, *parts: str) -> str:
        """Return the key of a part of the index."""
        return self._connection.key("idx", self._store, *parts)

    def mark(self, session_id: str, mark: str, *, writes: bool = False) -> Sequence[str]:
        """Mark a session as being written or read again; return its earlier marks."""
        keys = [*self._marked(session_id), self._claimed]
        args = [session_id, mark, self._member(session_id) if writes else ""]
        marks = self._connection.run(_MARK, *keys, args=args)
        return [each.decode() for each in marks]

    def wrote(self, session_id: str, mark: str, entry: bytes, worker: str = "") -> None:
        """Store the entry of a write, and clear its mark unless the order of writes is unknown.

        Args:
            session_id: The session.
            mark: The mark of the write.
            entry: The entry; empty if the session was deleted.
            worker: The process of its claim; "@" if it has none but messages that wait.
        """
        args = [session_id, mark, entry, self._member(session_id), worker]
        self._connection.run(_WROTE, *self._all_of(session_id), args=args)

    def unmark(self, session_id: str, mark: str) -> None:
        """Clear the mark of a failed write."""
        self._connection.run(_UNMARK, *self._marked(session_id), args=[session_id, mark])

    def read_again(
        self, session_id: str, mark: str, entry: bytes, worker: str, settled: Sequence[str]
    ) -> None:
        """Store the entry of a session that was read, unless it is being written.

        Args:
            session_id: The session.
            mark: The reader's mark, set before reading.
            entry: The entry; empty if the session does not exist.
            worker: As for ``wrote``.
            settled: Marks of finished writes, to be cleared.
        """
        args = [session_id, mark, entry, self._member(session_id), worker, *settled]
        self._connection.run(_READ, *self._all_of(session_id), args=args)

    def look(self, last: bytes, *, due_after_ms: int) -> IndexChanges:
        """Return the changes since a position in the log."""
        keys = [self._dirty, self._log, self._state]
        found = self._connection.run(_LOOK, *keys, args=[last, PASSAGE + 1, due_after_ms])
        build, unchecked, history, is_sure, length, oldest, there, changed, end, due = found
        is_continued = there or last == FIRST
        # A log that is full may have been trimmed, but only at its beginning.
        is_lost = not is_continued and (length < LOGGED or _place(oldest) < _place(last))
        return IndexChanges(
            build=build.decode(),
            unchecked_ms=int(unchecked),
            history=history.decode(),
            is_doubted=not is_sure,
            is_continued=is_continued and len(changed) <= PASSAGE,
            is_lost=is_lost,
            changed=[each.decode() for each in changed],
            last=end,
            due=[each.decode() for each in due],
        )

    def place(self) -> bytes:
        """Return the end of the log."""
        with self._connection.translated():
            newest: Any = self._connection.client.xrevrange(self._log, count=1)
        return bytes(newest[0][0]) if newest else FIRST

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Yield all entries; concurrent changes may be missing, but are in the log."""
        with self._connection.translated():
            for session_id, entry in self._connection.client.hscan_iter(self._meta, count=1000):
                yield session_id.decode(), entry

    def some(self, session_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return the entries of some sessions."""
        if not session_ids:
            return {}
        with self._connection.translated():
            entries: Any = self._connection.client.hmget(self._meta, session_ids)
        return dict(zip(session_ids, entries, strict=True))

    def doubt(self) -> None:
        """Request a comparison of the index with the objects."""
        with self._connection.translated():
            self._connection.client.hdel(self._state, "checked")

    def begin_rebuild(self, *, lease_ms: int) -> str | None:
        """Take the lease for a comparison; return its token, or None if another process has it."""
        token = secrets.token_hex(8)
        taken = self._connection.run(_BEGIN, self._rebuilding, args=[token, lease_ms])
        return taken.decode() if taken else None

    def go_on(self, token: str, *, lease_ms: int) -> bool:
        """Renew the lease of a comparison; return False if it was lost."""
        return bool(self._connection.run(_GO_ON, self._rebuilding, args=[token, lease_ms]))

    def end_rebuild(self, token: str, *, complete: bool) -> bool:
        """End the lease and record whether all was compared; return False if it was lost."""
        keys = [self._rebuilding, self._state]
        return bool(self._connection.run(_END, *keys, args=[token, int(complete)]))

    def _member(self, session_id: str) -> str:
        """Return the session's name among those of all owners; empty for the default one."""
        label = self._connection.label
        return f"{label}{session_id}" if label else ""

    def _marked(self, session_id: str) -> list[str]:
        return [self._dirty, self.key("marks", session_id)]

    def _all_of(self, session_id: str) -> list[str]:
        return [*self._marked(session_id), self._meta, self._log, self._claimed]


def _place(entry: bytes) -> tuple[int, int]:
    """Return the id of a log entry as a sort key."""
    time, _, number = (entry or FIRST).partition(b"-")
    return int(time), int(number)
