"""Caches the sessions that this process read or wrote last (docs/decisions/0020)."""

import os
import threading
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from sessions_app.format.rewriting import SessionFile
from sessions_app.session import Session

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024
MOST_BYTES_IN_ALL = 8 * MOST_BYTES
"""The limit of all caches of a process together: each owner of data has some."""

Entry = TypeVar("Entry")


class SessionCache(Generic[Entry]):
    """A cache of what belongs to the sessions of one directory. Thread-safe.

    Entries may be stale. They are immutable and shared, and may be evicted at any time.
    """

    def __init__(self) -> None:
        self._begin()

    def get(self, session_id: str) -> Entry | None:
        """Return the cached entry of a session."""
        return self._entries.get(session_id)

    def forget(self, session_id: str) -> None:
        """Remove the entry of a session."""
        with self._locked():
            self._drop(session_id)

    def clear(self) -> None:
        """Remove all entries."""
        with self._locked():
            self._begin()

    def keep_sized(self, session_id: str, entry: Entry, size: int) -> None:
        """Cache an entry; evict the oldest ones beyond the limits."""
        with self._locked():
            self._drop(session_id)
            if size > MOST_BYTES:
                return  # it would evict all others
            self._entries[session_id] = entry
            self._sizes[session_id] = size
            while len(self._entries) > MOST_SESSIONS or sum(self._sizes.values()) > MOST_BYTES:
                self._drop(next(iter(self._entries)))
            size = sum(self._sizes.values())
        _bound_all(self, size)

    def _locked(self) -> threading.Lock:
        """Return the lock; a forked child makes a new one, as its parent may hold the old."""
        if self._process != os.getpid():
            self._begin()
        return self._lock

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._sizes: dict[str, int] = {}

    def _drop(self, session_id: str) -> None:
        if self._entries.pop(session_id, None) is not None:
            del self._sizes[session_id]


class RecentSessions(SessionCache[SessionFile]):
    """A cache of files, validated by their bytes.

    Stale entries are never used: the file is read each time, and the entry is valid only if the
    bytes are equal. This detects changes by any process, even within the resolution of timestamps.
    Reading is cheap compared to decoding.
    """

    def recognise(self, session_id: str, data: bytes) -> SessionFile | None:
        """Return the cached file if it has these bytes."""
        file = self.get(session_id)
        return file if file is not None and file.data == data else None

    def recall(self, session_id: str) -> Session | None:
        """Return a cached session, which may be stale."""
        file = self.get(session_id)
        return None if file is None else file.session

    def keep(self, session_id: str, file: SessionFile) -> None:
        """Cache a session's file."""
        self.keep_sized(session_id, file, len(file.data))


_filled: WeakKeyDictionary[SessionCache[Any], int] = WeakKeyDictionary()
"""The bytes of each cache, that which was filled last at the end."""
_filling = threading.Lock()


def _bound_all(cache: SessionCache[Any], size: int) -> None:
    """Clear the caches that were filled longest ago if all together are too large."""
    with _filling:
        _filled.pop(cache, None)
        _filled[cache] = size
        if len(_filled) * MOST_BYTES <= MOST_BYTES_IN_ALL:
            return  # as those of one owner
        total = sum(_filled.values())
        for oldest in list(_filled):
            if total <= MOST_BYTES_IN_ALL:
                return
            total -= _filled.pop(oldest)
            oldest.clear()


def _begin_child() -> None:
    """Make the lock anew, which a thread of the parent may have held."""
    global _filling  # noqa: PLW0603 - one for the process
    _filling = threading.Lock()


os.register_at_fork(after_in_child=_begin_child)
