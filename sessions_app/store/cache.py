"""Caches the sessions that this process read or wrote last (docs/decisions/0020)."""

import os
import threading

from sessions_app.format.rewriting import SessionFile
from sessions_app.session import Session

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024


class RecentSessions:
    """A cache of files, validated by their bytes. Thread-safe.

    Stale entries are never used: the file is read each time, and the entry is valid only if the
    bytes are equal. This detects changes by any process, even within the resolution of timestamps.
    Reading is cheap compared to decoding.

    Entries are immutable and shared, and may be evicted at any time.
    """

    def __init__(self) -> None:
        self._begin()

    def recognise(self, session_id: str, data: bytes) -> SessionFile | None:
        """Return the cached file if it has these bytes."""
        file = self._recent.get(session_id)
        return file if file is not None and file.data == data else None

    def recall(self, session_id: str) -> Session | None:
        """Return a cached session, which may be stale."""
        file = self._recent.get(session_id)
        return None if file is None else file.session

    def keep(self, session_id: str, file: SessionFile) -> None:
        """Cache a session's file; evict the oldest entries beyond the limits."""
        if self._process != os.getpid():
            self._begin()
        size = len(file.data)
        with self._lock:
            self._drop(session_id)
            if size > MOST_BYTES:
                return  # it would evict all others
            self._recent[session_id] = file
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
        self._recent: dict[str, SessionFile] = {}
        self._sizes: dict[str, int] = {}

    def _drop(self, session_id: str) -> None:
        if self._recent.pop(session_id, None) is not None:
            del self._sizes[session_id]
