"""Keeps journals as Redis streams, which any machine can read and which expire after their end.

Whether a journal is being written depends on the lease of the process that owns its turn, and on a
mark of the turn's own: a living process may have let go of it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from chat.storage.journal import PASSAGE_BYTES, Entry, JournalWriter, OwnerCondemned, Passage
from chat.storage.redis import journal_scripts as lua
from chat.storage.redis.hub import Hub
from chat.storage.redis.journal_scripts import Script, TurnKeys, keys_of
from chat.storage.redis.journal_writers import PumpedWriter, closing
from chat.storage.redis.pump import Pumps
from chat.storage.redis.sealing_writer import SealingWriter, WriterContext
from sessions_app.decoding import decoder_of
from sessions_app.errors import StorageError, StorageUnavailable
from sessions_app.store.owners import Owners
from sessions_app.store.redis.connection import RedisConnection

EPOCH_BITS = 40
SCAN_COUNT = 500
_decode = decoder_of(Entry).decode


class RedisTurnJournal:
    """Keeps the journals of one storage, shared by all its processes.

    What was appended at once is read at once: passages hold whole appends.

    Args:
        connection: Where they are, under the storage's prefix.
        owners: Which processes live.
        hub: Follows streams for this process.
        pumps: Send lines from event loops; of its own if None.
        retention_seconds: For how long a journal stays after its end.
        timeout_seconds: For how long a turn bears that nothing is kept.

    Attributes:
        connection: Where they are.
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
            pumps=pumps or Pumps(connection.address, replicas=connection.replicas),
            retention_seconds=self._seconds,
            timeout_seconds=timeout_seconds,
            unsaid=[],
        )
        self._open = Script(connection, lua.OPEN)
        self._forestall = Script(connection, lua.FORESTALL)
        self._take = Script(connection, lua.TAKE)
        self._read = Script(connection, lua.READ)
        self._has_ended = Script(connection, lua.HAS_ENDED)
        self._turns = Script(connection, lua.TURNS)
        self._unended = Script(connection, lua.UNENDED)
        self._discard = Script(connection, lua.DISCARD)

    def open(self, session_id: str, turn_id: str, *, owner: str) -> JournalWriter:
        """Begin the journal of a new turn, of the process that owns its claim.

        Raises:
            OwnerCondemned: Others took the owner for dead; it has a new id by now.
            FileExistsError: The turn has a journal.
            StorageFull, StorageUnavailable: Redis does not take it now.
        """
        keys = self._keys(session_id, turn_id)
        tombstone = self.connection.root_key("dead", owner)
        args = (owner, session_id, turn_id, keys.member)
        try:
            opened = self._open(*keys.all, tombstone, args=args)
        except StorageUnavailable:
            # Redis may have done it, or do it once it can: a journal that nobody would end.
            self._context.unsaid.append(partial(self._say_that_none_writes, keys))
            raise
        match opened:
            case lua.CONDEMNED:
                raise OwnerCondemned(owner)
            case 0:
                raise FileExistsError(turn_id)
        return PumpedWriter(self._context, turn_id, keys, owner)

    def take_over(self, session_id: str, turn_id: str) -> JournalWriter:
        """Go on with a journal whose writer died; Redis refuses that writer from now on."""
        keys = self._keys(session_id, turn_id)
        epoch = self._take(keys.stream, keys.mark, args=(self._owners.mine(),))
        return SealingWriter(self._context, keys, epoch)

    def read(self, session_id: str, turn_id: str, position: int = 0) -> Passage:
        """Return the next passage of whole entries; positions are ids of the stream."""
        keys, behind = self._keys(session_id, turn_id), position
        entries: list[Entry] = []
        while not entries:
            found = self._read(keys.stream, args=(_id_of(behind), PASSAGE_BYTES))
            if not found:
                return Passage([], position)
            behind = _position_of(found[-2])
            for lines in found[1::2]:
                entries += _entries_of(lines)
        return Passage(entries, behind)

    def watch(
        self, session_id: str, turn_id: str, changed: Callable[[], object]
    ) -> Callable[[], None]:
        """Call ``changed``, in another thread, now and after changes; return how to stop."""
        return self._hub.follow(self._keys(session_id, turn_id).stream, "$", lambda _: changed())

    def has_ended(self, session_id: str, turn_id: str) -> bool:
        """Return whether the journal's last entry is ``done``."""
        keys = self._keys(session_id, turn_id)
        return bool(self._has_ended(*keys.all, args=(keys.member, self._seconds)))

    def is_being_written(self, session_id: str, turn_id: str) -> bool:
        """Return whether its writer is open still, in a process that lives."""
        return self._state_of(session_id, turn_id)[1]

    def was_closed(self, session_id: str, turn_id: str) -> bool:
        """Return whether there is a journal whose writer is gone: nothing more comes of it."""
        exists, is_written = self._state_of(session_id, turn_id)
        return exists and not is_written

    def turns(self, session_id: str) -> Sequence[str]:
        """Return the session's turns that have a journal, oldest first."""
        beginning = self.connection.key("j", session_id, "")
        found = self._turns(self.connection.key("t", session_id), args=(beginning,))
        return [turn.decode() for turn in found]

    def all_turns(self) -> set[str]:
        """Return every turn that has a journal."""
        return {turn_id for _, turn_id in self._all()}

    def unended_sessions(self) -> Sequence[str]:
        """Return the sessions with a journal without an end, whose writer is gone."""
        self._say_what_is_unsaid()
        lives: dict[str, bool] = {}
        found: set[str] = set()
        beginning = self.connection.root_key("m", "")
        for each in self._unended(self.connection.key("unended"), args=(beginning,)):
            session_id, turn_id, owner, left = (text.decode() for text in each)
            if owner and not left and turn_id not in closing:
                if owner not in lives:
                    lives[owner] = self._owners.lives(owner)
                if lives[owner]:
                    continue
            found.add(session_id)
        return sorted(found)

    def discard(self, session_id: str, turn_id: str) -> None:
        """Forget one turn's journal, unless it is being written."""
        if not self.is_being_written(session_id, turn_id):
            keys = self._keys(session_id, turn_id)
            self._discard(*keys.all, args=(turn_id, keys.member, self._seconds))

    def discard_session(self, session_id: str) -> None:
        """Forget all journals of a session but those that are being written."""
        for turn_id in self.turns(session_id):
            self.discard(session_id, turn_id)

    def sweep(self, older_than_seconds: float) -> int:
        """Forget journals that ended longer ago than that; return how many.

        Redis itself does so when their time is over: only a shorter time is work.
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
        """End what the running event loop sends by; what is written on it now goes nowhere."""
        self._context.pumps.close()

    # What can't be read

    def adopt(self, session_id: str, turn_id: str) -> None:
        """Do nothing: a storage's journals have its prefix."""

    def set_aside(self, session_id: str, turn_id: str, is_sound: Callable[[Entry], bool]) -> bool:
        """Put appends with lines that can't be read where nothing reads them.

        Returns:
            Whether there were any.
        """
        stream, position, found = self._keys(session_id, turn_id).stream, 0, False
        aside = self.connection.key("broken", session_id, turn_id)
        while part := self._read(stream, args=(_id_of(position), PASSAGE_BYTES)):
            position = _position_of(part[-2])
            for entry_id, lines in zip(part[::2], part[1::2], strict=True):
                if not all(map(is_sound, each := _entries_of(lines))) or len(each) < _count(lines):
                    with self.connection.translated():
                        self.connection.client.rpush(aside, lines)
                        self.connection.client.xdel(stream, entry_id)
                    found = True
        return found

    def copy_aside(self, session_id: str, turn_id: str) -> None:
        """Keep a copy of a journal that nothing removes."""
        stream = self._keys(session_id, turn_id).stream
        aside = self.connection.key("broken", session_id, turn_id, "copy")
        with self.connection.translated():
            self.connection.client.copy(stream, aside, replace=True)
            self.connection.client.persist(aside)

    def move_aside(self, session_id: str, turn_id: str) -> None:
        """Put a whole journal where nothing reads or removes it."""
        self.copy_aside(session_id, turn_id)
        keys = self._keys(session_id, turn_id)
        self._discard(*keys.all, args=(turn_id, keys.member, self._seconds))

    def broken(self) -> Sequence[str]:
        """Return the keys of what was set aside."""
        pattern = self.connection.key("broken", "*")
        with self.connection.translated():
            keys = list(self.connection.client.scan_iter(match=pattern, count=SCAN_COUNT))
        return sorted(f"{key.decode()} in Redis" for key in keys)

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
        if not exists or owner is None or ended or left or turn_id in closing:
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

    def _say_that_none_writes(self, keys: TurnKeys) -> None:
        try:
            self._forestall(keys.stream, keys.mark, args=(self._seconds,))
        except StorageError:
            self._context.unsaid.append(partial(self._say_that_none_writes, keys))

    def _say_what_is_unsaid(self) -> None:
        """Mark journals as left that could not be marked because Redis was away."""
        unsaid = self._context.unsaid
        for _ in range(len(unsaid)):
            try:
                say = unsaid.pop(0)
            except IndexError:  # another chore, in its thread, says the rest
                return
            say()


def _id_of(position: int) -> str:
    return f"{position >> EPOCH_BITS}-{position & ((1 << EPOCH_BITS) - 1)}"


def _position_of(entry_id: bytes) -> int:
    epoch, _, number = entry_id.partition(b"-")
    return int(epoch) << EPOCH_BITS | int(number)


def _entries_of(lines: bytes) -> list[Entry]:
    """Return the lines that are entries."""
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
