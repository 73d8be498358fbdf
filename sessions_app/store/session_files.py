"""Reads and writes the files of sessions, decoding and encoding only what is new in them."""

import os
from collections.abc import Callable

from sessions_app.errors import SessionCorrupt, SessionNotFound, ValidationFailed
from sessions_app.format.rewriting import Rewrite, SessionFile, rewrite
from sessions_app.session import Session, counted
from sessions_app.store.atomic import (
    UnreadableFileError,
    holds,
    read_regular,
    write_atomically,
)
from sessions_app.store.cache import MOST_BYTES, RecentSessions
from sessions_app.store.growing import LARGE, drop_spare, replace_grown
from sessions_app.store.repository import Change

SIZE_LIMIT = 64 * 1024 * 1024
RESERVE = 64
"""One in so many bytes of ``SIZE_LIMIT`` is kept for what dead turns left."""


class SessionFiles:
    """The session files of one directory. Ids were checked by the caller, who also locks.

    Args:
        directory: The directory.
        durable: Whether they shall survive a power cut.
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
        """Return whether anything stands at the file's path."""
        return os.path.lexists(self.path(session_id))

    def read(self, session_id: str, *, partly: bool = False) -> SessionFile:
        """Return the session and its file, decoded only if it is not in the cache.

        Args:
            session_id: The session.
            partly: Whether messages that models are not sent may be left to be read later.

        Raises:
            SessionNotFound: There is none.
            SessionCorrupt: It can't be read.
        """
        file = self._read(session_id, partly=partly)
        return file if partly else file.whole()

    def _read(self, session_id: str, *, partly: bool) -> SessionFile:
        known = self.recent.bytes_of(session_id)
        if known is not None and len(known) >= LARGE and holds(self.path(session_id), known):
            file = self.recent.recognise(session_id, known)
            if file is not None:
                return file
        try:
            data = read_regular(self.path(session_id), limit=SIZE_LIMIT)
        except FileNotFoundError as error:
            raise SessionNotFound(session_id) from error
        except UnreadableFileError as error:
            raise SessionCorrupt(session_id, error.reason) from error
        file = self.recent.recognise(session_id, data)
        if file is None:
            file = SessionFile.of(data, session_id, partly=partly)
            self.recent.keep(session_id, file)
        return file

    def change(self, file: SessionFile, change: Change, *, recovers: bool = False) -> Session:
        """Write what the session becomes, unless that is the session itself, and return it."""
        return self.replace(file, change(file.session), recovers=recovers)

    def replace(self, file: SessionFile, changed: Session, *, recovers: bool = False) -> Session:
        """Write what the session became, unless that is the session itself, and return it."""
        if changed is file.session:
            return changed
        changed = file.noting(counted(changed))
        self.write(changed, before=file, recovers=recovers)
        return changed

    def write(
        self, session: Session, *, before: SessionFile | None = None, recovers: bool = False
    ) -> None:
        """Write the session, in the place of the file ``before`` or of none.

        Args:
            session: The session.
            before: Its file so far.
            recovers: Whether it may use the room that is kept for recoveries.

        Raises:
            FileExistsError: Something is there, and ``before`` is not given.
            ValidationFailed: The session is too large, or can't be written as JSON.
            StorageFull, StorageReadOnly: By the disk.
        """
        session_id = session.session_id if before is None else before.session.session_id
        new = rewrite(session, before)
        size = new.size
        require_room(size, None if before is None else len(before.data), recovers=recovers)
        if size > MOST_BYTES:
            self._put(session_id, new, before)
            self.recent.forget(session_id)
            return
        data = b"".join(new.parts)
        self._put(session_id, new, before)
        if (written := new.written(data)) is not None:
            self.recent.keep(session_id, written)
        elif before is None and not session.messages:  # its first turn is near
            self.recent.keep(session_id, SessionFile.of(data, session_id))

    def _put(self, session_id: str, new: Rewrite, before: SessionFile | None) -> None:
        path = self.path(session_id)
        try:
            if before is not None and new.continues(before) and new.size >= LARGE:
                replace_grown(path, new.parts, durable=self._durable)
                return
            write_atomically(path, new.pieces(), exclusive=before is None, durable=self._durable)
            if before is not None and len(before.data) >= LARGE:
                drop_spare(path)  # what was taken out of a session shall be gone
        finally:  # it may be there although the directory could not be synced
            self._saved(session_id)

    def can_hold(self, session: Session) -> bool:
        """Return whether the session could be written by a recovery."""
        try:
            before = self.read(session.session_id)
            return rewrite(counted(session), before).size <= SIZE_LIMIT
        except ValidationFailed:
            return False


def require_room(size: int, size_before: int | None, *, recovers: bool = False) -> None:
    """Refuse a session that is too large, but for one that gets smaller.

    Args:
        size: The number of its bytes.
        size_before: How many it had so far; None for a new one.
        recovers: Whether it may use the room that is kept for recoveries.

    Raises:
        ValidationFailed: It is too large.
    """
    limit = SIZE_LIMIT if recovers else SIZE_LIMIT - SIZE_LIMIT // RESERVE
    if size > limit and (size_before is None or size > size_before or size > SIZE_LIMIT):
        raise ValidationFailed(
            f"The session would be larger than {limit >> 20} MiB, and could soon be read "
            "no more. Go on in a new one, or fork it from an earlier message."
        )
