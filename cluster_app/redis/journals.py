"""Stores journals as Redis streams, which any machine can read and which expire after their end.

A journal is being written if the process that owns its turn has a lease and has not marked the
journal as left: a living process may have stopped writing it.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from chat.storage.journal import (
    PASSAGE_BYTES,
    Entry,
    Fenced,
    JournalSlice,
    JournalWriter,
    OwnerExpired,
)
from cluster_app.redis import journal_scripts as lua
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub
from cluster_app.redis.journal_scripts import TurnKeys, keys_of, unended_key
from cluster_app.redis.journal_writers import PumpedWriter
from cluster_app.redis.pump import Pumps
from cluster_app.redis.quarantine import Quarantine
from cluster_app.redis.sealing_writer import SealingWriter, WriterContext
from sessions_app.decoding import decoder_of
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.owners import Owners

EPOCH_BITS = 40
SCAN_COUNT = 500
_decode = decoder_of(Entry).decode


class RedisTurnJournal:
    """Stores journals in Redis, shared by all processes of a storage.

    Lines of one append are never split: a passage holds whole appends.

    Args:
        connection: The Redis connection, with the storage's key prefix.
        owners: Tells which processes are alive.
        hub: Follows streams for this process.
        pumps: Send lines from event loops; created if None.
        retention_seconds: The TTL of a journal after its end.
        timeout_seconds: How long appended lines may stay unacknowledged before the turn fails.

    Attributes:
        connection: The Redis connection.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        owners: Owners,
        hub: Hub,
        pumps: Pumps | None = None,
        retention_seconds: float,
        timeout_seconds: float = 15.0,
    ) -> None:
        self.connection = connection
        self._owners = owners
        self._hub = hub
        self._seconds = max(1, round(retention_seconds))
        self._context = WriterContext(
            connection=connection,
            pumps=pumps or Pumps(connection.address),
            retention_seconds=self._seconds,
            timeout_seconds=timeout_seconds,
            deferred=[],
            unreported_ends=set(),
        )
        self._quarantine = Quarantine(connection)

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Create the journal of a new turn for the process that owns its claim.

        Raises:
            OwnerExpired: Other processes declared the owner dead; it has a new id by now.
            FileExistsError: The turn has a journal already.
            StorageFull, StorageUnavailable: Redis could not create it.
        """
        keys = self._keys(session_id, turn_id)
        tombstone = self.connection.root_key("dead", owner)
        args = (owner, session_id, turn_id, keys.member)
        try:
            opened = self.connection.run(lua.OPEN, *keys.all, tombstone, args=args)
        except StorageUnavailable:
            # Redis may have created it, or may do so later: a journal that nothing would end.
            self._context.deferred.append(partial(self._mark_as_left, keys))
            raise
        match opened:
            case lua.CONDEMNED:
                raise OwnerExpired(owner)
            case 0:
                raise FileExistsError(turn_id)
        return PumpedWriter(self._context, turn_id, keys, owner)

    def take_over(self, session_id: str, turn_id: str) -> JournalWriter:
        """Continue a journal whose writer died; Redis rejects that writer's appends from now on."""
        keys = self._keys(session_id, turn_id)
        epoch = self.connection.run(lua.TAKE, keys.stream, keys.mark, args=(self._owners.mine(),))
        return SealingWriter(self._context, keys, epoch)

    def reopen(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Go on with a dead writer's journal; Redis rejects that writer's appends from now on."""
        # By its epoch, not by its owner: who let go of a turn may be the one who takes it again.
        keys = self._keys(session_id, turn_id)
        with self.connection.translated():
            newest: Any = self.connection.client.xrevrange(keys.stream, count=1)
        epoch = newest[0][0].partition(b"-")[0] if newest else b""
        if self.is_being_written(session_id, turn_id):
            raise Fenced(errno.EWOULDBLOCK, "a living process writes the journal")
        tombstone = self.connection.root_key("dead", owner)
        reopened = self.connection.run(
            lua.REOPEN, *keys.all, tombstone, args=(owner, epoch, session_id)
        )
        match reopened:
            case lua.CONDEMNED:
                raise OwnerExpired(owner)
            case lua.OVERTAKEN:
                raise Fenced(errno.EWOULDBLOCK, "another process goes on with the journal")
            case 0:
                raise FileNotFoundError(turn_id)
        return PumpedWriter(self._context, turn_id, keys, owner, reopened)

    def read(self, session_id: str, turn_id: str, position: int = 0) -> JournalSlice:
        """Return the next passage of whole entries; a position is a packed stream id."""
        keys, behind = self._keys(session_id, turn_id), position
        entries: list[Entry] = []
        while not entries:
            found = self.connection.run(lua.READ, keys.stream, args=(_id_of(behind), PASSAGE_BYTES))
            if not found:
                return JournalSlice([], position)
            behind = _position_of(found[-2])
            for lines in found[1::2]:
                entries += _entries_of(lines)
        return JournalSlice(entries, behind)

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, now and after changes; return a stop function."""
        return self._hub.follow(self._keys(session_id, turn_id).stream, "$", lambda _: changed())

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's last entry is ``done``."""
        keys = self._keys(session_id, turn_id)
        return bool(
            self.connection.run(lua.HAS_ENDED, *keys.all, args=(keys.member, self._seconds))
        )

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's writer is open in a living process."""
        return self._state_of(session_id, turn_id)[1]

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal exists and nothing writes it any more."""
        exists, is_written = self._state_of(session_id, turn_id)
        return exists and not is_written

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""
        beginning = self.connection.key("j", session_id, "")
        found = self.connection.run(
            lua.TURNS, self.connection.key("t", session_id), args=(beginning,)
        )
        return [turn.decode() for turn in found]

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal."""
        return {turn_id for _, turn_id in self._all()}

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal that has neither an end nor a writer."""
        self._run_deferred()
        lives: dict[str, bool] = {}
        found: set[str] = set()
        beginning = self.connection.root_key("m", "")
        unended, label = unended_key(self.connection), self.connection.label
        for each in self.connection.run(lua.UNENDED, unended, args=(beginning, label)):
            session_id, turn_id, owner, left = (text.decode() for text in each)
            if owner and not left and turn_id not in self._context.unreported_ends:
                if owner not in lives:
                    lives[owner] = self._owners.lives(owner)
                if lives[owner]:
                    continue
            found.add(session_id)
        return sorted(found)

    def discard(self, session_id: str, turn_id: str) -> None:
        """Delete one turn's journal, unless it is being written."""
        if not self.is_being_written(session_id, turn_id):
            keys = self._keys(session_id, turn_id)
            self.connection.run(lua.DISCARD, *keys.all, args=(turn_id, keys.member, self._seconds))

    def discard_session(self, session_id: str) -> None:
        """Delete a session's journals except those being written, and what was set aside."""
        self._quarantine.discard(session_id)
        for turn_id in self.turns(session_id):
            self.discard(session_id, turn_id)

    def sweep(self, older_than_seconds: float) -> int:
        """Delete journals that ended longer ago than that; return how many.

        Redis expires journals after the retention itself; only a shorter age needs work.
        """
        if older_than_seconds >= self._seconds:
            return 0
        swept = 0
        for session_id, turn_id in self._all():
            if self.has_ended(session_id, turn_id):
                with self.connection.translated():
                    key = self._keys(session_id, turn_id).stream
                    left = self.connection.client.ttl(key)
                if self._seconds - left >= older_than_seconds:
                    self.discard(session_id, turn_id)
                    swept += 1
        return swept

    def close(self) -> None:
        """Close the pump of the running event loop; lines appended later are dropped."""
        self._context.pumps.close()

    # Unreadable journals

    def adopt(self, session_id: str, turn_id: str) -> None:
        """Do nothing: the key prefix tells which journals belong to the storage."""

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        """Move appends with unreadable lines to a key that nothing reads.

        Returns:
            Whether there were any.
        """
        stream, position, found = self._keys(session_id, turn_id).stream, 0, False
        while part := self.connection.run(lua.READ, stream, args=(_id_of(position), PASSAGE_BYTES)):
            position = _position_of(part[-2])
            for entry_id, lines in zip(part[::2], part[1::2], strict=True):
                if not all(map(is_sound, each := _entries_of(lines))) or len(each) < _count(lines):
                    self._quarantine.move_lines(session_id, turn_id, stream, entry_id, lines)
                    found = True
        return found

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        """Copy a journal to a key without a TTL, deleted with its session only."""
        stream = self._keys(session_id, turn_id).stream
        self._quarantine.copy(session_id, turn_id, stream)

    def move_aside(self, session_id: str, turn_id: str) -> None:
        """Move a whole journal to a key that nothing reads, deleted with its session only."""
        self.copy_aside(session_id, turn_id)
        keys = self._keys(session_id, turn_id)
        self.connection.run(lua.DISCARD, *keys.all, args=(turn_id, keys.member, self._seconds))

    def broken(self) -> Sequence[str]:
        """Return the keys of journals and lines that were set aside."""
        return sorted(f"{key} in Redis" for key in self._quarantine.all())

    def _keys(self, session_id: str, turn_id: str) -> TurnKeys:
        return keys_of(self.connection, session_id, turn_id)

    def _state_of(self, session_id: str, turn_id: str) -> tuple[bool, bool]:
        """Return whether there is a journal, and whether it is being written."""
        keys = self._keys(session_id, turn_id)
        with (
            self.connection.translated(),
            self.connection.client.pipeline(transaction=False) as pipeline,
        ):
            pipeline.exists(keys.stream)
            pipeline.hmget(keys.mark, "worker", "ended", "left")
            exists, (owner, ended, left) = pipeline.execute()
        left = left or turn_id in self._context.unreported_ends
        if not exists or owner is None or ended or left:
            return bool(exists), False
        return True, self._owners.lives(owner.decode())

    def _all(self) -> Iterator[tuple[str, str]]:
        """Yield the session and the turn of every journal."""
        beginning = self.connection.key("j", "")
        with self.connection.translated():
            client = self.connection.client
            for key in client.scan_iter(match=f"{beginning}*", count=SCAN_COUNT):
                session_id, _, turn_id = key.decode().removeprefix(beginning).partition(":")
                yield session_id, turn_id

    def _mark_as_left(self, keys: TurnKeys) -> None:
        try:
            self.connection.run(lua.FORESTALL, keys.stream, keys.mark, args=(self._seconds,))
        except StorageError:
            self._context.deferred.append(partial(self._mark_as_left, keys))

    def _run_deferred(self) -> None:
        """Mark journals as left that could not be marked while Redis was unreachable."""
        deferred = self._context.deferred
        for _ in range(len(deferred)):
            try:
                call = deferred.pop(0)
            except IndexError:  # another thread ran the rest
                return
            call()


def _id_of(position: int) -> str:
    return f"{position >> EPOCH_BITS}-{position & ((1 << EPOCH_BITS) - 1)}"


def _position_of(entry_id: bytes) -> int:
    epoch, _, number = entry_id.partition(b"-")
    return int(epoch) << EPOCH_BITS | int(number)


def _entries_of(lines: bytes) -> list[Entry]:
    """Return the entries among the lines, without invalid ones."""
    entries: list[Entry] = []
    for line in lines.split(b"\n"):
        try:
            entry = _decode(line)
        except msgspec.MsgspecError:
            continue
        if bytes(entry.data).startswith(b"{"):
            entries.append(entry)
    return entries


def _count(lines: bytes) -> int:
    return lines.count(b"\n") or 1
