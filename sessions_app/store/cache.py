"""Caches the sessions that this process read or wrote last (docs/decisions/0020)."""

import os
import threading
from typing import NamedTuple

from sessions_app.format.ends import FileEnds
from sessions_app.format.rewriting import SessionFile, WrittenFile
from sessions_app.partly_read import PartlyRead
from sessions_app.session import Session
from sessions_app.store.growing import Shared
from sessions_app.store.stamps import Stamp

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024


class Recent(NamedTuple):
    """A cached session file, as this process read or wrote it last.

    Attributes:
        file: The file; one that was only written is decoded on demand.
        stamp: The file's stamp, if this process wrote the file and can recognize it.
        shared: What the spare has in common with a file that continues it, if known.
    """

    file: SessionFile | WrittenFile
    stamp: Stamp | None = None
    shared: Shared | None = None


class RecentSessions:
    """A cache of decoded files, validated by their bytes. Thread-safe.

    Stale entries are never used: the file is read each time, and the entry is valid only if the
    bytes are equal, or the file has the stamp that any write would change. This detects changes by
    any process, even within the resolution of timestamps. Reading is cheap compared to decoding.

    Entries are immutable and shared.
    """

    def __init__(self) -> None:
        self._begin()

    def recognise(self, session_id: str, data: bytes | FileEnds) -> SessionFile | None:
        """Return the cached file if it has these bytes.

        Args:
            session_id: The session.
            data: The bytes of the file; for ``FileEnds``, the cached object.
        """
        recent = self._recent.get(session_id)
        if recent is None:
            return None
        file = recent.file
        # Ends are compared by identity.
        if file.data is not data and file.data != data:
            return None
        return file if isinstance(file, SessionFile) else self._read(session_id, recent, file)

    def of(self, session_id: str) -> Recent | None:
        """Return the entry of a session, which may be stale."""
        return self._recent.get(session_id)

    def recall(self, session_id: str) -> Session | None:
        """Return a cached session, which may be stale."""
        recent = self._recent.get(session_id)
        if recent is None or not isinstance(recent.file, SessionFile):
            return None
        return recent.file.session

    def read_ahead(self, session_id: str) -> None:
        """Decode the entry of a session in advance, if it is not decoded yet."""
        recent = self._recent.get(session_id)
        if recent is not None and isinstance(recent.file, WrittenFile):
            self._read(session_id, recent, recent.file)

    def keep(
        self,
        session_id: str,
        file: SessionFile | WrittenFile,
        *,
        stamp: Stamp | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Cache a session's file; evict the oldest entries beyond the limits.

        Args:
            session_id: The session.
            file: The file.
            stamp: The stamp, as in ``Recent``.
            shared: The shared part of the spare, as in ``Recent``.
        """
        if self._process != os.getpid():
            self._begin()
        size = _size_of(file)
        with self._lock:
            self._drop(session_id)
            if size > MOST_BYTES:
                return  # it would evict all others
            self._recent[session_id] = Recent(file, stamp, shared)
            self._sizes[session_id] = size
            while len(self._recent) > MOST_SESSIONS or sum(self._sizes.values()) > MOST_BYTES:
                self._drop(next(iter(self._recent)))

    def forget(self, session_id: str) -> None:
        """Remove the entry of a session."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            self._drop(session_id)

    def _begin(self) -> None:
        """Start empty; again in a forked child, whose parent may have held the lock."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._recent: dict[str, Recent] = {}
        self._sizes: dict[str, int] = {}

    def _read(self, session_id: str, recent: Recent, written: WrittenFile) -> SessionFile | None:
        """Decode a file and cache it, unless another one was cached meanwhile."""
        file = written.read(session_id)
        if file is not None and self._process == os.getpid():
            with self._lock:
                if self._recent.get(session_id) is recent:
                    self._recent[session_id] = Recent(file, recent.stamp, recent.shared)
        return file

    def _drop(self, session_id: str) -> None:
        if self._recent.pop(session_id, None) is not None:
            del self._sizes[session_id]


def _size_of(file: SessionFile | WrittenFile) -> int:
    """Return a file's size for the cache limit: bytes in memory, also as decoded messages."""
    messages = file.known if isinstance(file, WrittenFile) else file.session.messages
    if isinstance(file.data, bytes):
        return len(file.data)
    waits = isinstance(messages, PartlyRead) and not messages.unread.is_read
    return file.data.held if waits else len(file.data)
