"""Caches the sessions that this process read or wrote last (docs/decisions/0020)."""

import os
import threading
from typing import NamedTuple

from sessions_app.format.ends import Ends
from sessions_app.format.rewriting import SessionFile, WrittenFile
from sessions_app.partly_read import PartlyRead
from sessions_app.session import Session
from sessions_app.store.growing import Shared
from sessions_app.store.stamps import Stamp

MOST_SESSIONS = 64
MOST_BYTES = 8 * 1024 * 1024


class Recent(NamedTuple):
    """A session's file as this process read or wrote it last.

    Attributes:
        file: The file; one that was only written is decoded when it is needed.
        stamp: What the file bears, if it is one of ours that can be known by that.
        shared: What its spare has in common with a file that continues it, if that is known.
    """

    file: SessionFile | WrittenFile
    stamp: Stamp | None = None
    shared: Shared | None = None


class RecentSessions:
    """A cache of decoded files, keyed by their bytes, so that no session is decoded twice.

    An entry can't be out of date: the file is read each time, and the entry counts only if the file
    still holds exactly these bytes, or bears the stamp that nobody's write leaves as it is. So it
    does not matter how a file was changed, by which process, or within which tick of the clock.
    Reading costs little of what decoding costs.

    Entries are shared: they are values, which never change. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._begin()

    def recognise(self, session_id: str, data: bytes | Ends) -> SessionFile | None:
        """Return the session of these bytes, if they are in the cache.

        Args:
            session_id: The session.
            data: The bytes of its file; for ``Ends``, those that were kept.
        """
        recent = self._recent.get(session_id)
        if recent is None:
            return None
        file = recent.file
        # Ends are the same only as an object.
        if file.data is not data and file.data != data:
            return None
        return file if isinstance(file, SessionFile) else self._read(session_id, recent, file)

    def of(self, session_id: str) -> Recent | None:
        """Return what was kept of a session's file, whatever it holds by now."""
        return self._recent.get(session_id)

    def recall(self, session_id: str) -> Session | None:
        """Return a session that was kept, whatever its file holds by now."""
        recent = self._recent.get(session_id)
        if recent is None or not isinstance(recent.file, SessionFile):
            return None
        return recent.file.session

    def read_ahead(self, session_id: str) -> None:
        """Decode what was kept undecoded, so that the next reader need not."""
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
        """Keep a session's file, and drop those that were kept first beyond the limits.

        Args:
            session_id: The session.
            file: As in ``Recent``, as are the others.
            stamp: What the file bears.
            shared: What is known of its spare.
        """
        if self._process != os.getpid():
            self._begin()
        size = _size_of(file)
        with self._lock:
            self._drop(session_id)
            if size > MOST_BYTES:
                return  # or all others would have to go
            self._recent[session_id] = Recent(file, stamp, shared)
            self._sizes[session_id] = size
            while len(self._recent) > MOST_SESSIONS or sum(self._sizes.values()) > MOST_BYTES:
                self._drop(next(iter(self._recent)))

    def forget(self, session_id: str) -> None:
        """Keep nothing of this session."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            self._drop(session_id)

    def _begin(self) -> None:
        """Begin with nothing; again in a forked child, whose parent may have held the lock."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._recent: dict[str, Recent] = {}
        self._sizes: dict[str, int] = {}

    def _read(self, session_id: str, recent: Recent, written: WrittenFile) -> SessionFile | None:
        """Return the session of a file, and keep it, unless another one was kept meanwhile."""
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
    """Return what a file counts: its bytes, as far as they, or their messages, are in memory."""
    messages = file.known if isinstance(file, WrittenFile) else file.session.messages
    if isinstance(file.data, bytes):
        return len(file.data)
    waits = isinstance(messages, PartlyRead) and not messages.unread.is_read
    return file.data.held if waits else len(file.data)
