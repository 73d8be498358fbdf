"""Reads and writes session files, decoding and encoding only new messages."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from sessions_app.errors import SessionCorrupt, SessionNotFound, ValidationFailed
from sessions_app.format.ends import UnchangedRange
from sessions_app.format.rewriting import Rewrite, SessionFile, WrittenFile, rewrite
from sessions_app.partly_read import PartlyRead
from sessions_app.session import Session, counted
from sessions_app.store.atomic import (
    UnreadableFileError,
    holds,
    read_regular,
    write_atomically,
)
from sessions_app.store.cache import MOST_BYTES, Recent, RecentSessions
from sessions_app.store.growing import (
    LARGE,
    FileChangedError,
    Range,
    Replaced,
    Shared,
    drop_spare,
    grouped_by_size,
    replace_grown,
)
from sessions_app.store.repository import Change
from sessions_app.store.stamps import bears

SIZE_LIMIT = 64 * 1024 * 1024
RESERVE = 64
"""The fraction (1/64) of ``SIZE_LIMIT`` that is reserved for recoveries of dead turns."""


class SessionFiles:
    """Reads and writes the session files of one directory. The caller validates ids and locks.

    Args:
        directory: The directory.
        durable: Whether writes must survive a power cut.
        saved: Called with the id of each session whose file was replaced.
    """

    def __init__(
        self, directory: str, *, durable: bool = True, saved: Callable[[str], object]
    ) -> None:
        self._directory = directory
        self._durable = durable
        self._saved = saved
        self.recent = RecentSessions()

    def path(self, session_id: str) -> str:
        """Return the path of the session's file."""
        return f"{self._directory}/{session_id}.json"

    def exists(self, session_id: str) -> bool:
        """Return whether the file's path exists."""
        return os.path.lexists(self.path(session_id))

    def read(self, session_id: str, *, partly: bool = False) -> SessionFile:
        """Return the session's file, decoded only if it is not in the cache.

        Args:
            session_id: The session.
            partly: Whether messages that are not sent to models may be decoded lazily.

        Raises:
            SessionNotFound: There is no file.
            SessionCorrupt: The file can't be read.
        """
        if partly:
            return self._read_partly(session_id)
        recent = self._unchanged_recent(session_id)
        # A session too large for the cache is decoded completely from its file.
        if recent is not None and len(recent.file.data) <= MOST_BYTES:
            file = self.recent.recognise(session_id, recent.file.data)
            with suppress(SessionCorrupt, SessionNotFound):  # changed concurrently: read the file
                if file is not None:
                    return self._whole(session_id, file)
        data = self._bytes(session_id)
        file = self.recent.recognise(session_id, data)
        if file is not None:
            return file.whole()
        file = SessionFile.of(data, session_id)
        if recent is None:  # else the cached ends are worth more
            self.recent.keep(session_id, file)
        return file

    def _read_partly(self, session_id: str) -> SessionFile:
        recent = self._unchanged_recent(session_id)
        if recent is not None:
            file = self.recent.recognise(session_id, recent.file.data)
            if file is not None:
                return self._partly(session_id, file)
        data = self._bytes(session_id)
        file = self.recent.recognise(session_id, data)
        if file is None:
            file = SessionFile.of(data, session_id, partly=True)
            self.recent.keep(session_id, file)
        return file

    def _partly(self, session_id: str, file: SessionFile) -> SessionFile:
        """Return the file with lazy messages where turns do not need them, and cache it so."""
        partly, recent = file.partly(), self.recent.of(session_id)
        if partly is not file and recent is not None and recent.file is file:
            self.recent.keep(session_id, partly, stamp=recent.stamp, shared=recent.shared)
        return partly

    def _unchanged_recent(self, session_id: str) -> Recent | None:
        """Return the cached entry of a large file, if the file still has its stamp."""
        recent = self.recent.of(session_id)
        if recent is None or len(recent.file.data) < LARGE:
            return None
        path, data = self.path(session_id), recent.file.data
        if recent.stamp is not None and bears(path, recent.stamp):
            return recent
        return recent if isinstance(data, bytes) and holds(path, data) else None

    def _whole(self, session_id: str, file: SessionFile) -> SessionFile:
        """Return the file with all messages decoded, and cache it so."""
        whole = file.whole()
        recent = self.recent.of(session_id)
        if whole is not file and recent is not None and recent.file is file:
            self.recent.keep(session_id, file, stamp=recent.stamp, shared=recent.shared)
        return whole

    def _bytes(self, session_id: str) -> bytes:
        try:
            return read_regular(self.path(session_id), limit=SIZE_LIMIT)
        except FileNotFoundError as error:
            raise SessionNotFound(session_id) from error
        except UnreadableFileError as error:
            raise SessionCorrupt(session_id, error.reason) from error

    def change(self, file: SessionFile, change: Change, *, recovers: bool = False) -> Session:
        """Write ``change(session)``, unless it is the same object, and return it."""
        return self.replace(file, change(file.session), recovers=recovers)

    def replace(self, file: SessionFile, changed: Session, *, recovers: bool = False) -> Session:
        """Write the changed session, unless it is the same object, and return it."""
        if changed is file.session:
            return changed
        changed = file.noting(counted(changed))
        self.write(changed, before=file, recovers=recovers)
        return changed

    def write(
        self, session: Session, *, before: SessionFile | None = None, recovers: bool = False
    ) -> None:
        """Write the session, replacing the file ``before`` or creating a new one.

        Args:
            session: The session.
            before: The current file; None for a new session.
            recovers: Whether it may use the space reserved for recoveries.

        Raises:
            FileExistsError: The file exists, and ``before`` is None.
            ValidationFailed: The session is too large, or can't be encoded as JSON.
            StorageFull, StorageReadOnly: The file can't be written.
        """
        session_id = session.session_id if before is None else before.session.session_id
        new = rewrite(session, before)
        size = new.size
        require_room(size, None if before is None else len(before.data), recovers=recovers)
        recent = None if before is None else self._recent_of(session_id, before)
        new = _as_lazy_as_before(new, before, recent)
        done = self._put(session_id, new, before, recent)
        shared = _shared(new, before, recent)
        if done.stamp is not None and (ends := new.ends()) is not None:
            if _needs_note(session):
                self.recent.forget(session_id)
                return
            self._drop_text(session_id, ends)
            self.recent.keep(session_id, ends, stamp=done.stamp, shared=shared)
        elif size > MOST_BYTES or new.stays:
            self.recent.forget(session_id)
        else:
            data = new.joined()
            if (written := new.written(data)) is not None:
                self.recent.keep(session_id, written, stamp=done.stamp, shared=shared)
            elif before is None and not session.messages:  # its first turn follows soon
                self.recent.keep(session_id, SessionFile.of(data, session_id))

    def _put(
        self, session_id: str, new: Rewrite, before: SessionFile | None, recent: Recent | None
    ) -> Replaced:
        path = self.path(session_id)
        try:
            if before is not None and new.continues(before) and new.size >= LARGE:
                parts = [self._as_part(session_id, part, recent) for part in new.parts]
                shared = None if recent is None else recent.shared
                return replace_grown(path, parts, durable=self._durable, shared=shared)
            pieces = new.pieces()
            if new.stays:
                pieces = grouped_by_size(
                    [self._as_part(session_id, it, recent) for it in new.parts]
                )
            write_atomically(path, pieces, exclusive=before is None, durable=self._durable)
            if before is not None and len(before.data) >= LARGE:
                drop_spare(path)  # removed content must not remain on disk
            return Replaced(new.size, None)
        except FileChangedError as error:
            raise _changed(session_id) from error
        finally:  # the file may be replaced even if syncing the directory failed
            self._saved(session_id)

    def _as_part(
        self, session_id: str, part: bytes | memoryview | UnchangedRange, recent: Recent | None
    ) -> bytes | memoryview | Range:
        if not isinstance(part, UnchangedRange):
            return part
        if recent is None or recent.stamp is None:  # evicted, or written meanwhile
            raise _changed(session_id)
        return Range(self.path(session_id), recent.stamp, part.start, part.length)

    def _recent_of(self, session_id: str, file: SessionFile) -> Recent | None:
        """Return the cache entry of a file that was read, if it is still cached."""
        recent = self.recent.of(session_id)
        return recent if recent is not None and recent.file.data is file.data else None

    def _drop_text(self, session_id: str, file: WrittenFile) -> None:
        """Drop the text of lazy messages from the cache; it can be read from the file."""
        if isinstance(file.known, PartlyRead):
            file.known.unread.leave_to(partial(self._bytes, session_id))

    def can_hold(self, session: Session) -> bool:
        """Return whether the session fits the size limit of recoveries."""
        try:
            before = self.read(session.session_id)
            return rewrite(counted(session), before).size <= SIZE_LIMIT
        except ValidationFailed:
            return False


def require_room(size: int, size_before: int | None, *, recovers: bool = False) -> None:
    """Raise if a session is too large, unless it gets smaller.

    Args:
        size: The new size in bytes.
        size_before: The current size; None for a new session.
        recovers: Whether it may use the space reserved for recoveries.

    Raises:
        ValidationFailed: The session is too large.
    """
    limit = SIZE_LIMIT if recovers else SIZE_LIMIT - SIZE_LIMIT // RESERVE
    if size > limit and (size_before is None or size > size_before or size > SIZE_LIMIT):
        raise ValidationFailed(
            f"The session would be larger than {limit >> 20} MiB, which is too large to be read. "
            "Continue in a new session, or fork it from an earlier message."
        )


def _as_lazy_as_before(new: Rewrite, before: SessionFile | None, recent: Recent | None) -> Rewrite:
    """Return the file with the same lazy messages as before."""
    if before is None or recent is None or not new.continues(before):
        return new
    file = recent.file
    messages = file.known if isinstance(file, WrittenFile) else file.session.messages
    if not isinstance(messages, PartlyRead) or len(messages) != len(new.known):
        return new
    return msgspec.structs.replace(new, known=messages)


def _needs_note(session: Session) -> bool:
    """Return whether the context state should get a note of the text it leaves out.

    That needs all messages decoded.
    """
    state, messages = session.metadata.context_state, session.messages
    if state is None or state.text is not None or type(messages) is not PartlyRead:
        return False
    return messages.unread.is_read


def _shared(new: Rewrite, before: SessionFile | None, recent: Recent | None) -> Shared | None:
    """Return what the previous file, now the spare, shares with files that continue it."""
    if before is None or recent is None or recent.stamp is None or before.messages_at is None:
        return None
    if not new.continues(before):
        return None
    start, end = before.messages_at
    return Shared(recent.stamp, head=start, until=end)


def _changed(session_id: str) -> SessionCorrupt:
    return SessionCorrupt(session_id, "another program changed it meanwhile")
