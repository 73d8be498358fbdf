"""Reads and writes session files, decoding and encoding only new messages.

A file that was read carries all that its next write needs, so the cache may forget it meanwhile
(docs/decisions/0119).
"""

import os

from sessions_app.errors import (
    SessionCorrupt,
    SessionNotFound,
    StorageUnavailable,
    ValidationFailed,
)
from sessions_app.format.rewriting import SessionFile, rewrite
from sessions_app.session import Session, counted
from sessions_app.store.atomic import UnreadableFileError, read_regular, write_atomically
from sessions_app.store.cache import MOST_BYTES, RecentSessions
from sessions_app.store.repository import Change

SIZE_LIMIT = 64 * 1024 * 1024
RESERVE = 64
"""The fraction (1/64) of ``SIZE_LIMIT`` that is reserved for recoveries of dead turns."""


class SessionFiles:
    """Reads and writes the session files of one directory. The caller validates ids and locks.

    Args:
        directory: The directory.
        durable: Whether writes must survive a power cut.
    """

    def __init__(self, directory: str, *, durable: bool = True) -> None:
        self._directory = directory
        self._durable = durable
        self.recent = RecentSessions()

    def path(self, session_id: str) -> str:
        """Return the path of the session's file."""
        return f"{self._directory}/{session_id}.json"

    def exists(self, session_id: str) -> bool:
        """Return whether the file's path exists."""
        return os.path.lexists(self.path(session_id))

    def read(self, session_id: str) -> SessionFile:
        """Return the session's file, decoded only if it is not in the cache.

        Raises:
            SessionNotFound: There is no file.
            SessionCorrupt: The file can't be read.
        """
        data = self._bytes(session_id)
        file = self.recent.recognise(session_id, data)
        if file is None:
            file = SessionFile.of(data, session_id)
            self.recent.keep(session_id, file)
        return file

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
        changed = counted(changed)
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
            StorageFull, StorageReadOnly, StorageUnavailable: The file can't be written.
        """
        session_id = session.session_id if before is None else before.session.session_id
        new = rewrite(session, before)
        require_room(new.size, None if before is None else len(before.data), recovers=recovers)
        data = new.joined() if new.size <= MOST_BYTES else None
        try:
            write_atomically(
                self.path(session_id),
                new.pieces() if data is None else data,
                exclusive=before is None,
                durable=self._durable,
            )
        except FileNotFoundError as error:
            raise StorageUnavailable(
                "The directory of sessions was moved or unmounted meanwhile, nothing was changed. "
                "Put it back and try again."
            ) from error
        written = None if data is None else new.written(data, session_id)
        if written is not None:
            self.recent.keep(session_id, written)
        else:
            self.recent.forget(session_id)
            if data is not None and before is None and not session.messages:
                self.recent.keep(session_id, SessionFile.of(data, session_id))  # its turn follows

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
